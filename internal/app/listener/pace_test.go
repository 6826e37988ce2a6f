package listener

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

// A connection is read on at once while its requests are waited for. Abandoned ones cost it a pause, more each time, until they
// are forgiven.
func TestPacedConnection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		conn := &connection{Conn: here, pace: new(pace)}
		var _ interface{ CloseWrite() error } = conn // or net/http would not close it gently
		go func() { _, _ = there.Write([]byte("abcdef")) }()
		handler := paced(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		for _, test := range []struct {
			after               time.Duration
			abandoned, answered int
			want                time.Duration
		}{
			{0, 0, 5, 0},
			{0, 3, 2, 3 * debtEach},
			{0, 0, 5, 0},
			{0, 3, 0, 6*debtEach - 3*debtEach/forgiving}, // the first pause has forgiven a part
			{time.Hour, 1, 0, debtEach},
			{time.Hour, 10_000, 0, maxPause},
		} {
			<-time.After(test.after)
			for i := range test.abandoned + test.answered {
				ctx, cancel := context.WithCancel(withConnection(t.Context(), conn))
				if i < test.abandoned {
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
				t.Errorf("%d abandoned: a pause of %v, want %v", test.abandoned, took, test.want)
			}
		}
	})
}
