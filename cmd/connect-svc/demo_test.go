package main

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// cancelAt stops the program once its output holds a text.
type cancelAt struct {
	bytes.Buffer
	text   string
	cancel context.CancelFunc
}

func (c *cancelAt) Write(p []byte) (int, error) {
	defer func() {
		if strings.Contains(c.String(), c.text) {
			c.cancel()
		}
	}()
	return c.Buffer.Write(p)
}

func TestDemoStartsAndStops(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	stdout := &cancelAt{text: "https://localhost:"}
	var metrics string
	stdout.cancel = sync.OnceFunc(func() {
		address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/readyz`).FindString(stdout.String())
		go func() { // it serves while it prints
			defer cancel()
			response, err := http.Get(strings.Replace(address, "/readyz", "/metrics", 1))
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = response.Body.Close() }()
			body, err := io.ReadAll(response.Body)
			if err != nil {
				t.Error(err)
			}
			metrics = string(body)
		}()
	})
	var stderr bytes.Buffer
	status := run(ctx, []string{"demo", "--ephemeral", "--port", "0", "--mail-port", "0", "--console-port", "0", "--brand-name", "Acme Move"}, nil, strings.NewReader(""), stdout, &stderr)
	if status != statusDone || stderr.Len() != 0 || !strings.Contains(stdout.String(), stdout.text) {
		t.Errorf("status %d, stderr %q, stdout:\n%s", status, &stderr, stdout)
	}
	if is := `connect_build_info{commit="` + built().Commit; !strings.Contains(metrics, is) || !strings.Contains(metrics, `version="`+built().Version) {
		t.Errorf("the demo does not know its own version: no %s", is)
	}
}

func TestDemoRefusals(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	port := strconv.Itoa(taken.Addr().(*net.TCPAddr).Port)
	got := call(t, nil, "", "demo", "--ephemeral", "--port", port, "--mail-port", "0", "--console-port", "0")
	got.stdout = "" // it says that it starts
	checkRefusal(t, got, statusFailed, []string{port, "--port"})
	refuse(t, nil, statusUsage, []string{"--port: must"}, "demo", "--ephemeral", "--port", "70000")
}
