package usagepage

import (
	"fmt"
	"math"
	"strings"
	"time"

	"connect-svc/internal/usage"
)

// A chart has slot units of width for each hour, and 100 of height. The page stretches it.
const (
	slot   = 10.0
	gap    = 1.5 // between bars
	height = 100.0
)

type chart struct {
	Title, Unit string
	Summary     string // for those who do not see it
	Width       int
	Series      []series
	Scale       []string // from the top to the ground
	Line        string   // the height of a line across, empty for none
	Marks       []mark
	Keys        []key
	First, Half time.Time
}

// series is a path of one class of the style.
type series struct{ Class, Path string }

// mark is an hour under the pointer.
type mark struct {
	X     float64
	Title string
}

type key struct{ Class, Text string }

// newChart makes a chart without series. describe puts an hour into words.
func newChart(report usage.Report, title, unit string, describe func(usage.Hour) string) chart {
	c := chart{Title: title, Unit: unit, Width: len(report.Hours) * slot,
		First: report.Hours[0].Start, Half: report.Hours[len(report.Hours)/2].Start}
	for i, hour := range report.Hours {
		c.Marks = append(c.Marks, mark{float64(i) * slot, day(hour.Start) + " UTC: " + describe(hour)})
	}
	return c
}

// drawRequests stacks the requests of each hour by how they ended.
func drawRequests(report usage.Report) chart {
	c := newChart(report, "Requests", "an hour", func(hour usage.Hour) string {
		return fmt.Sprintf("%s requests, %s of them 429, %s other 4xx, %s 5xx",
			thousands(hour.Requests), thousands(hour.RateLimited), thousands(hour.Refused), thousands(hour.Failed))
	})
	busiest := report.Hours[0]
	for _, hour := range report.Hours {
		if hour.Requests > busiest.Requests {
			busiest = hour
		}
	}
	top := niceAbove(busiest.Requests)
	floor := make([]float64, len(report.Hours))
	for _, part := range []struct {
		class, text string
		of          func(usage.Hour) int64
	}{
		{"answered", "answered", func(h usage.Hour) int64 { return h.Requests - h.RateLimited - h.Refused - h.Failed }},
		{"refused", "other 4xx", func(h usage.Hour) int64 { return h.Refused }},
		{"limited", "429", func(h usage.Hour) int64 { return h.RateLimited }},
		{"failed", "5xx", func(h usage.Hour) int64 { return h.Failed }},
	} {
		values := valuesOf(report.Hours, part.of)
		c.Series = append(c.Series, series{part.class, bars(values, floor, float64(top), 1.5)})
		c.Keys = append(c.Keys, key{part.class, part.text})
		for i, value := range values {
			floor[i] += value
		}
	}
	c.Scale = []string{thousands(top), thousands(top / 2), "0"}
	c.Summary = fmt.Sprintf("Requests by hour: %s in all, the most in one hour %s, from %s UTC.",
		thousands(report.Total.Requests), thousands(busiest.Requests), day(busiest.Start))
	return c
}

// drawBudget draws the busiest minute of each hour against the rate policy, which is a line.
func drawBudget(report usage.Report) chart {
	policy := int64(report.RequestsPerMinute)
	c := newChart(report, "Budget", "in each hour's busiest minute", func(hour usage.Hour) string {
		return fmt.Sprintf("%s requests in the busiest minute, %s of %s",
			thousands(hour.BusiestMinute), percent(float64(hour.BusiestMinute)/float64(policy)), thousands(policy))
	})
	top, scale := 1.25, []string{"125 %", "", "0"}
	if peak := report.PeakBudgetUsed(); peak > top { // a burst comes on top of a minute's rate
		top = float64(niceAbove(int64(100*peak))) / 100
		scale[0] = percent(top)
	}
	values := valuesOf(report.Hours, func(h usage.Hour) int64 { return h.BusiestMinute })
	c.Scale, c.Line = scale, fmt.Sprintf("%.2f", height-height/top)
	c.Series = []series{{"budget", bars(values, nil, top*float64(policy), 1.5)}}
	c.Keys = []key{{"budget", "used"}, {"policy", thousands(policy) + " a minute"}}
	c.Summary = fmt.Sprintf("Budget used by hour: the busiest minute took %s of %s requests a minute.",
		percent(report.PeakBudgetUsed()), thousands(policy))
	return c
}

// drawTimes draws the median of each hour, and the span from there to the 99th percentile, on a logarithmic axis.
func drawTimes(report usage.Report) chart {
	c := newChart(report, "Time to answer", "logarithmic", func(hour usage.Hour) string {
		return fmt.Sprintf("half within %s, 99 %% within %s", took(hour.Quantile(.5)), took(hour.Quantile(.99)))
	})
	var span, median strings.Builder
	for i, hour := range report.Hours {
		if hour.Requests > 0 {
			low, high := onTimeAxis(hour.Quantile(.5)), onTimeAxis(hour.Quantile(.99))
			bar(&span, i, low, max(high-low, 1))
			bar(&median, i, max(low-1.5, 0), 3)
		}
	}
	c.Series = []series{{"span", span.String()}, {"median", median.String()}}
	c.Scale = []string{"10 s", "1 s", "100 ms", "10 ms", "1 ms"}
	c.Keys = []key{{"median", "p50"}, {"span", "to p99"}}
	c.Summary = fmt.Sprintf("Time to answer by hour: in all, half of the requests within %s and 99 %% within %s.",
		took(report.Total.Quantile(.5)), took(report.Total.Quantile(.99)))
	return c
}

// onTimeAxis is the height of a duration on an axis of four decades, from 1 ms to 10 s.
func onTimeAxis(d time.Duration) float64 {
	ms := float64(d) / float64(time.Millisecond)
	return min(max(math.Log10(max(ms, 1e-6)), 0), 4) / 4 * height
}

func valuesOf[H any](hours []H, of func(H) int64) []float64 {
	values := make([]float64, len(hours))
	for i, hour := range hours {
		values[i] = float64(of(hour))
	}
	return values
}

// bars draws a bar for each value from the ground, or from the floor. Values and floor are in units of top. A value that is
// not zero can be seen: its bar is at least so high.
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
		bar(&path, i, from, max(value/top*height, least))
	}
	return path.String()
}

// bar adds the rectangle of an hour, whose lower edge is bottom above the ground.
func bar(path *strings.Builder, hour int, bottom, tall float64) {
	round := func(n float64) float64 { return math.Round(n*100) / 100 }
	width := slot - gap
	fmt.Fprintf(path, "M%v %vh%vv%vh%vz",
		round(float64(hour)*slot+gap/2), round(max(height-bottom-tall, 0)), width, round(tall), -width)
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
