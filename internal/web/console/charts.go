package console

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// A chart has slot units of width for each hour, or whatever its slots are, and 100 of height. The page stretches it.
const (
	slot   = 10.0
	gap    = 1.5 // between bars
	height = 100.0
)

// chart is a drawing of bars, which the template "chart" shows. The page has the same figures as a table.
type chart struct {
	Title, Unit       string
	Summary           string // for those who do not see it
	Width             int
	Series            []series
	Scale             []string // from the top to the ground
	Line              string   // the height of a line across, empty for none
	Marks             []mark
	Keys              []chartKey
	First, Half, Last string // below its slots
}

// series is a path of one class of the style.
type series struct{ Class, Path string }

// mark is a slot under the pointer.
type mark struct {
	X     float64
	Title string
}

type chartKey struct{ Class, Text string }

// newChart makes a chart without series. describe puts a slot into words.
func newChart(title, unit string, slots int, describe func(i int) string) chart {
	c := chart{Title: title, Unit: unit, Width: slots * slot}
	for i := range slots {
		c.Marks = append(c.Marks, mark{float64(i) * slot, describe(i)})
	}
	return c
}

// stacked adds a series of one bar for each value, which stands on those of the series before it, and its key. Values are in units
// of top. floor is where the bars stand; it grows by them.
func (c *chart) stacked(class, text string, values, floor []float64, top float64) {
	c.Series = append(c.Series, series{class, bars(values, floor, top, 1.5)})
	c.Keys = append(c.Keys, chartKey{class, text})
	for i, value := range values {
		floor[i] += value
	}
}

// lineAt draws a line across at a value.
func (c *chart) lineAt(value, top float64) { c.Line = fmt.Sprintf("%.2f", height-height*value/top) }

// onTimeAxis is the height of a duration on a logarithmic axis of four decades, from 1 ms to 10 s.
func onTimeAxis(d time.Duration) float64 {
	ms := float64(d) / float64(time.Millisecond)
	return min(max(math.Log10(max(ms, 1e-6)), 0), 4) / 4 * height
}

// valuesOf are numbers of a list's elements.
func valuesOf[E any](list []E, of func(E) int64) []float64 {
	values := make([]float64, len(list))
	for i, one := range list {
		values[i] = float64(of(one))
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

// bar adds the rectangle of a slot, whose lower edge is bottom above the ground.
func bar(path *strings.Builder, i int, bottom, tall float64) {
	round := func(n float64) float64 { return math.Round(n*100) / 100 }
	width := slot - gap
	fmt.Fprintf(path, "M%v %vh%vv%vh%vz",
		round(float64(i)*slot+gap/2), round(max(height-bottom-tall, 0)), width, round(tall), -width)
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
