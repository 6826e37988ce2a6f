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
		Bars: []bar{
			{X: 21, Y: "87.50", H: "12.50", Title: "Tue 3 Mar: 2,500 steps"},
			{X: 31, Y: "99.00", H: "1.00", Title: "Wed 4 Mar: 0 steps"}, // a zero is drawn, on the ground
			{X: 51, Y: "38.28", H: "61.72", Title: "Fri 6 Mar: 12,345 steps"},
		},
		Absent: []bar{{X: 41, Title: "Thu 5 Mar: no record"}},
		Days:   []chartDay{{"Tue 3 Mar", "2,500 steps"}, {"Wed 4 Mar", "0 steps"}, {"Thu 5 Mar", ""}, {"Fri 6 Mar", "12,345 steps"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNumbers(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{0: "0.0 km", 49: "0.0 km", 50: "0.1 km", 7449: "7.4 km", 7450: "7.5 km", 1234567: "1,234.6 km"} {
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
