package partner

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDraw(t *testing.T) {
	t.Parallel()
	day := func(n int) time.Time { return time.Date(2026, time.March, n, 0, 0, 0, 0, time.UTC) }
	got := draw(stepsUnit, day(1), day(3), day(6), map[time.Time]int64{day(3): 2500, day(4): 0, day(6): 12345})
	want := chart{
		Summary: "Daily steps: a bar for each day, 3 with a record and 1 without; the highest is 12,345 steps.",
		Width:   60, Closed: 20, Top: "20,000", Half: "10,000",
		Absent: 1,
		Days: []chartDay{
			{X: 21, Height: 125, Date: "Tue 3 Mar", Value: "2,500 steps"},
			{X: 31, Height: 10, Date: "Wed 4 Mar", Value: "0 steps"}, // a zero is drawn, on the ground
			{X: 41, Date: "Thu 5 Mar"},
			{X: 51, Height: 617, Date: "Fri 6 Mar", Value: "12,345 steps"},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0.0", 49: "0.0", 50: "0.1", 7449: "7.4", 7450: "7.5", 1234567: "1,234.6"} {
		if got := kilometers(n); got != want {
			t.Errorf("kilometers(%d) = %s, want %s", n, got, want)
		}
	}
	for n, want := range map[int64]int64{0: 1000, 1000: 1000, 1001: 2000, 27000: 30000, 81000: 100000} {
		if got := niceAbove(n); got != want {
			t.Errorf("niceAbove(%d) = %d, want %d", n, got, want)
		}
	}
}
