//go:build check

package users_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"connect-svc/internal/testing/pgtest"
)

// TestStoredTimezone on a machine whose time zone database lacks former names, as Debian 13's does without tzdata-legacy: bubblewrap hides
// them from a PostgreSQL and a service that run there.
func TestStoredTimezoneWithoutFormerNames(t *testing.T) {
	t.Parallel()
	const inside = "CONNECT_TEST_WITHOUT_FORMER_NAMES"
	if os.Getenv(inside) != "" {
		if known := pgtest.Value[int](t, pgtest.New(t),
			"select count(*)::int from pg_timezone_names where name in ('Asia/Calcutta', 'US/Pacific')"); known > 0 {
			t.Errorf("PostgreSQL knows %d former names", known)
		}
		return
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--dev-bind", "/", "/"}
	for _, name := range []string{"Asia/Calcutta", "US/Pacific"} {
		if file := "/usr/share/zoneinfo/" + name; exists(file) {
			args = append(args, "--ro-bind", "/dev/null", file)
		}
	}
	run := exec.CommandContext(t.Context(), "bwrap", append(args, program, "-test.run", "^TestStoredTimezone", "-test.v")...)
	run.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
		return strings.HasPrefix(variable, "CONNECT_TEST_") // a server that runs elsewhere
	}), inside+"=1")
	out, err := run.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestStoredTimezone/Asia/Calcutta") {
		t.Errorf("%v:\n%s", err, out)
	}
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}
