package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// profileVariable names the listener for profiles of a connect-svc that was built with -tags profile. No other has one.
const profileVariable = "CONNECT_PROFILE_LISTEN"

// profile takes a CPU profile of a service while it works, where profiles are asked for. The function that it returns
// waits for it.
func (s *stage) profile(ctx context.Context, target *service, work load, name string) func() error {
	if s.settings.profiles == "" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() { done <- s.takeProfile(ctx, target, work, name) }()
	return func() error { return <-done }
}

func (s *stage) takeProfile(ctx context.Context, target *service, work load, name string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", target.profiles, max(1, int(work.Duration.Seconds())))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("profile (was the program built with -tags profile?): %w", err)
	}
	defer response.Body.Close()
	instance := strings.TrimSuffix(filepath.Base(target.log), ".log")
	file, err := os.Create(filepath.Join(s.settings.profiles, fmt.Sprintf("%s-%s-%d.pprof", name, instance, work.Connections)))
	if err != nil {
		return err
	}
	if _, err := io.Copy(file, response.Body); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
