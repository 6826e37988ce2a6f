package listener

import (
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/wait"
	"connect-svc/internal/testing/wiretest"
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

// A connection that waits to be accepted when a stop begins is served, however long that takes.
func TestDrainServesWhatWaits(t *testing.T) {
	t.Parallel()
	var config net.ListenConfig
	config.SetMultipathTCP(false) // as the service's own
	open, err := config.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	late := lateListener{open.(*net.TCPListener), make(chan struct{})}
	s, err := Open(t.Context(), Config{
		Name: "test", Listener: late, Places: 9, Limits: wait.Patient, Handler: http.NotFoundHandler(), Logger: telemetry.NewLogger(io.Discard, nil),
	})
	if err != nil {
		t.Fatal(err)
	}
	ended, drained := make(chan error, 1), make(chan struct{})
	go func() { ended <- s.Run() }()
	conn, err := net.Dial("tcp", s.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	wait.Until(t, "it waits", func() bool { return waiting(open) == 1 })
	go func() {
		s.Drain(t.Context())
		close(drained)
	}()
	<-time.After(2 * roundTrip)
	close(late.accept)
	if status, _ := wiretest.Keep1(conn).Ask(t, "/"); status != http.StatusNotFound {
		t.Errorf("%d", status)
	}
	<-drained
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
