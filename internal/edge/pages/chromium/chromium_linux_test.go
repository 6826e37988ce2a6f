package chromium

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/testing/wait"
)

// TestShowLeavesNoBrowser: all processes of the browser end with the context, although a script started it.
func TestShowLeavesNoBrowser(t *testing.T) {
	shown := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		select {
		case shown <- struct{}{}:
		default:
		}
	}))
	defer server.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- Show(ctx, server.URL) }()
	select {
	case <-shown:
	case err := <-ended:
		t.Fatal(err)
	}
	if len(processesWith(t, server.URL)) == 0 {
		t.Fatal("no process has the address")
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	wait.Until(t, "the browser ends", func() bool { return len(processesWith(t, server.URL)) == 0 })
}

// TestShowTellsWhyTheBrowserEnded: a browser that ends by itself is an error, also if it says that all is well.
func TestShowTellsWhyTheBrowserEnded(t *testing.T) {
	for script, want := range map[string]string{"exit 0": " ended by itself: exit status 0", "exit 3": " ended by itself: exit status 3"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "chromium-headless-shell")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil { //nolint:gosec // it is run
			t.Fatal(err)
		}
		t.Setenv("PATH", dir)
		if err := Show(t.Context(), "http://127.0.0.1:9/"); err == nil || err.Error() != path+want {
			t.Errorf("%s: %v", script, err)
		}
	}
}

// processesWith returns the processes that were started with an address.
func processesWith(t *testing.T, address string) (found []string) {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if line, err := os.ReadFile(file); err == nil && strings.Contains(string(line), address) {
			found = append(found, file)
		}
	}
	return found
}
