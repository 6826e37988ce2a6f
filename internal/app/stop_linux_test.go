package app

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"connect-svc/internal/app/listener"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/wait"
)

// Of a thousand callers that connect at the very moment of a stop, none loses a request that was sent: each is answered, or is refused
// before it could send anything.
func TestStopResetsNobody(t *testing.T) {
	t.Parallel()
	const callers = 1_000
	now := time.Now()
	pair := edgetest.Certificate(t, "connect.example.com", now.Add(-time.Hour), now.Add(time.Hour))
	for name, change := range map[string]func(*Config){
		"without a drain delay": func(*Config) {},
		"with one":              func(c *Config) { c.DrainDelay = time.Millisecond },
		"with TLS":              func(c *Config) { c.Certificate = listener.FixedCertificate(pair) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, _, _ := openWith(t, change)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx) }()
			if status, _ := edgetest.GetAnew(t, "http://"+a.PrivateAddr().String()+"/readyz"); status != http.StatusOK {
				t.Fatalf("/readyz: %d", status)
			}
			var connected, answered, refused, lost atomic.Int64
			var all sync.WaitGroup
			for range callers {
				all.Go(func() {
					conn, err := net.Dial("tcp", a.PublicAddr().String())
					if errors.Is(err, syscall.ECONNREFUSED) {
						refused.Add(1)
						return
					}
					if connected.Add(1) == callers/4 {
						stop()
					}
					if err == nil {
						_ = conn.SetDeadline(time.Now().Add(wait.Limit))
						err = ask(conn, a.public.Certificate != nil)
					}
					if err != nil {
						lost.Add(1)
						t.Log(err)
						return
					}
					answered.Add(1)
				})
			}
			all.Wait()
			t.Logf("%d answered, %d refused", answered.Load(), refused.Load())
			if lost.Load() > 0 || answered.Load() == 0 {
				t.Errorf("%d answered, %d refused, %d lost", answered.Load(), refused.Load(), lost.Load())
			}
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// ask sends one request and reads its answer.
func ask(conn net.Conn, secure bool) error {
	defer conn.Close()
	if secure {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext: func(context.Context, string, string) (net.Conn, error) { return conn, nil },
	}}
	answer, err := client.Get("http://connect.example.com" + discovery)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}
