package app

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/logtest"
)

// Probes that go well are not logged by default; those that do not are.
func TestProbesAreNotLogged(t *testing.T) {
	t.Parallel()
	for level, logged := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		log := new(logtest.Buffer)
		a, _, _ := openWith(t, func(c *Config) { c.Logger, c.ReadyListen = telemetry.NewLogger(log, level), "127.0.0.1:0" })
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- a.Run(ctx) }()
		private := "http://" + a.PrivateAddr().String()
		for _, url := range []string{private + "/healthz", private + "/readyz", private + "/metrics", "http://" + a.probing.Addr().String() + "/readyz"} {
			if status, _ := edgetest.GetAnew(t, url); status != http.StatusOK {
				t.Errorf("%s: %d", url, status)
			}
		}
		if got := strings.Contains(log.String(), `"msg":"request"`); got != logged {
			t.Errorf("at %s probes are logged: %t", level, got)
		}
		a.stopping.Store(true)
		if status, _ := edgetest.GetAnew(t, private+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(log.String(), `"code":"not_ready"`) {
			t.Errorf("at %s: %d, and the log does not say it", level, status)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}
