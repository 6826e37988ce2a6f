package app

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// A connection is read on only after a pause for each request that was given up on it, and at once where there was none.
func TestPacedConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		conn := &pacedConn{Conn: here}
		var _ interface{ CloseWrite() error } = conn // or net/http would not close it gently
		go func() { _, _ = there.Write([]byte("abc")) }()
		handler := paced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for _, test := range []struct {
			givenUp, answered int
			want              time.Duration
		}{{0, 5, 0}, {3, 2, 3 * pauseEach}, {10_000, 0, pauseMost}} {
			for i := range test.givenUp + test.answered {
				ctx, cancel := context.WithCancel(withConn(t.Context(), conn))
				if i < test.givenUp {
					cancel()
				}
				handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
				cancel()
			}
			began := time.Now()
			if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took != test.want {
				t.Errorf("%d given up: a pause of %v, want %v", test.givenUp, took, test.want)
			}
		}
	})
}
