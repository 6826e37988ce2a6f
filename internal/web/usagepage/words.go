package usagepage

import (
	"math"
	"strconv"
	"time"
)

func day(t time.Time) string { return t.Format("Mon 2 Jan 15:04") }

// thousands writes 12345 as 12,345.
func thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}

// percent writes a share so that something is never 0 %.
func percent(share float64) string {
	switch p := 100 * share; {
	case p == 0:
		return "0 %"
	case p < .1:
		return "< 0.1 %"
	case p < 9.95:
		return strconv.FormatFloat(p, 'f', 1, 64) + " %"
	default:
		return thousands(int64(math.Round(p))) + " %"
	}
}

// took writes a time to answer; those of ten seconds and more are not told apart.
func took(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case d == 0:
		return "–"
	case d >= 10*time.Second:
		return "10 s or more"
	case ms >= 999.5:
		return strconv.FormatFloat(ms/1000, 'f', 1, 64) + " s"
	case ms >= 9.95:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	default:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	}
}
