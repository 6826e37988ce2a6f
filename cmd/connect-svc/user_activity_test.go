package main

import (
	"strings"
	"testing"
)

// People get a table of days, with what partners see, and who has corrected what.
func TestUserActivity(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	succeed(t, env(db), "user_id,date,steps\n"+walker+",2026-01-02,8000\n", "import", "daily-steps", "-")
	succeed(t, env(db), "", "adjust", "steps", "--user", walker, "--date", "2026-01-02", "--delta", "-500", "--note", "swing\nof a hand")
	adjust := func(delta string) string {
		return succeedJSON[map[string]any](t, env(db), "", "adjust", "cycling", "--user", walker, "--date", "2026-01-03", "--delta", delta, "--note", "n")["adjustment_id"].(string)
	}
	succeed(t, env(db), "", "remove", "adjustment", "--user", walker, "--id", adjust("7"), "--yes")
	table := succeed(t, env(db), "", "user", "activity", "ada@example.com", "--from", "2026-01-01", "--to", "2026-01-31")
	if !strings.Contains(table, "  swing of a hand\n") { // a note of two lines is one cell
		t.Errorf("a row is broken:\n%s", table)
	}
	text := strings.Join(strings.Fields(table), " ")
	for _, want := range []string{"2026-01-02 8000 -500 7500 - +0 -", "2026-01-02 daily_steps -500", "swing", "REMOVED OF DATASET AT BY", "2026-01-03 cycling_daily"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q: %s", want, text)
		}
	}
	for name, to := range map[string]string{"backwards": "2025-12-31", "too long": "2027-01-02"} {
		t.Run(name, func(t *testing.T) {
			refuse(t, env(db), statusUsage, []string{"--to: must"}, "user", "activity", walker, "--from", "2026-01-01", "--to", to)
		})
	}
}
