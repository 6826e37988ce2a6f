package clock_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/testing/wait"
)

// The uptime counts while the machine is suspended, as /proc/uptime does (proc(5)). Go's monotonic clock does not. In a time namespace that
// began a thousand days ago only the first two have an offset.
func TestUptimeCountsSuspension(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("/proc/uptime")
	if err != nil {
		t.Fatal(err)
	}
	since, _, _ := strings.Cut(string(text), " ")
	want, err := time.ParseDuration(since + "s")
	if got := clock.Uptime(); err != nil || (got-want).Abs() > wait.Limit {
		t.Errorf("uptime is %s, and /proc/uptime %s, %v", got, want, err)
	}
	namespace := []string{"--time", "--boottime", "86400000"}
	if want > 86400000*time.Second || exec.CommandContext(t.Context(), "unshare", append(namespace, "true")...).Run() != nil {
		return // this is the test in the namespace, or there can be none here
	}
	inside := append(namespace, os.Args[0], "-test.run", "^"+t.Name()+"$")
	if out, err := exec.CommandContext(t.Context(), "unshare", inside...).CombinedOutput(); err != nil {
		t.Errorf("in a time namespace: %v: %s", err, out)
	}
}
