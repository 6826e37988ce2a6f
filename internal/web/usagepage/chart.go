package usagepage

import (
	"math"
	"strconv"
	"strings"
	"time"
)

// Charts are drawn in a plane of slot units for each hour by 100, which the page stretches. A series is one path.
const (
	slot   = 10.0
	gap    = 1.5 // between bars
	height = 100.0
)

// bars draws a bar for each value from the ground, or from where the bars below it end. Values and floor are in units of
// top. A value that is not zero can be seen: it is least high.
func bars(values, floor []float64, top, least float64) string {
	var path strings.Builder
	for i, value := range values {
		if value <= 0 {
			continue
		}
		from := 0.0
		if floor != nil {
			from = floor[i] / top * height
		}
		box(&path, float64(i)*slot+gap/2, from, slot-gap, max(value/top*height, least))
	}
	return path.String()
}

// box adds a rectangle whose lower edge is bottom above the ground.
func box(path *strings.Builder, x, bottom, width, tall float64) {
	y := max(height-bottom-tall, 0)
	for _, part := range []struct {
		command string
		numbers []float64
	}{{"M", []float64{x, y}}, {"h", []float64{width}}, {"v", []float64{tall}}, {"h", []float64{-width}}} {
		path.WriteString(part.command)
		for i, n := range part.numbers {
			if i > 0 {
				path.WriteByte(' ')
			}
			path.WriteString(strconv.FormatFloat(math.Round(n*100)/100, 'f', -1, 64))
		}
	}
	path.WriteByte('z')
}

// The axis of times is logarithmic, from 1 ms to 10 s: four decades.
const decades = 4

func onTimeAxis(d time.Duration) float64 {
	ms := float64(d) / float64(time.Millisecond)
	return min(max(math.Log10(max(ms, 1e-6)), 0), decades) / decades * height
}

// spans draws for each hour the span from the median to the 99th percentile, and a tick at the median.
func spans(p50, p99 []time.Duration) (span, tick string) {
	var spanPath, tickPath strings.Builder
	for i := range p50 {
		if p99[i] == 0 {
			continue
		}
		x, low, high := float64(i)*slot+gap/2, onTimeAxis(p50[i]), onTimeAxis(p99[i])
		box(&spanPath, x, low, slot-gap, max(high-low, 1))
		box(&tickPath, x, max(low-1.5, 0), slot-gap, 3)
	}
	return spanPath.String(), tickPath.String()
}

// niceAbove is a round number that is not below n, of 4 or more.
func niceAbove(n int64) int64 {
	for power := int64(1); ; power *= 10 {
		for _, factor := range []int64{4, 6, 8, 10, 20} {
			if power*factor >= n {
				return power * factor
			}
		}
	}
}

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
