package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/wait"
)

// lateListener is slow to accept, as on a machine that is busy: connections wait for a signal.
type lateListener struct {
	*net.TCPListener
	accept chan struct{}
}

func (l lateListener) Accept() (net.Conn, error) {
	<-l.accept
	return l.TCPListener.Accept()
}

// A connection that waits to be accepted when the drain delay is over is served, however long that takes.
func TestDrainServesWhatWaits(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	config.SetMultipathTCP(false) // as the service's own
	open, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	late := lateListener{open.(*net.TCPListener), make(chan struct{})}
	log := &logtest.Buffer{}
	a, _, _ := openWith(t, func(c *Config) {
		c.Listener, c.DrainDelay, c.Logger = late, time.Millisecond, telemetry.NewLogger(log, slog.LevelInfo)
	})
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	conn, err := net.Dial("tcp", a.PublicAddr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	wait.Until(t, "it waits", func() bool { return waiting(open) == 1 })
	stop()
	wait.Until(t, "the service drains", func() bool { return strings.Contains(log.String(), "draining") })
	<-time.After(2 * roundTrip)
	close(late.accept)
	if status, closes := openHTTP1(conn).ask(t); status != http.StatusOK || !closes {
		t.Errorf("%d, closes %t", status, closes)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
