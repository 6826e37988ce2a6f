package partner

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// chart is a bar for each of the last 31 days, drawn in a plane of slot by 100 units that the page stretches.
type chart struct {
	Summary   string // for those who do not see it
	Width     int
	Bars      []bar
	Absent    []bar // days without a record, which is not the same as zero
	Closed    int   // width of the days before the first readable one
	Top, Half string
	Days      []chartDay // only those that may be read
}

type bar struct {
	X     int
	Y, H  string
	Title string
}

// chartDay is the same as text.
type chartDay struct {
	Date  string
	Value string // empty: no record
}

const (
	slot   = 10
	height = 100.0
)

// unit is what a chart counts.
type unit struct {
	name  string
	write func(int64) string // with the unit
	axis  func(int64) string // without
}

var (
	stepsUnit  = unit{"Daily steps", func(n int64) string { return thousands(n) + " steps" }, thousands}
	metersUnit = unit{"Daily cycling distance", kilometers, func(n int64) string {
		return strings.TrimSuffix(kilometers(n), ".0 km")
	}}
)

// draw makes a chart of the days from first to last, of which those before readable are closed.
func draw(u unit, first, readable, last time.Time, values map[time.Time]int64) chart {
	most := int64(0)
	for _, value := range values {
		most = max(most, value)
	}
	top := niceAbove(most)
	c := chart{Top: u.axis(top), Half: u.axis(top / 2)}
	recorded := 0
	for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
		x := c.Width
		c.Width += slot
		if day.Before(readable) {
			c.Closed = c.Width
			continue
		}
		value, known := values[day]
		text := day.Format("Mon 2 Jan")
		if !known {
			c.Absent = append(c.Absent, bar{X: x + 1, Title: text + ": no record"}) // hollow, and never of a height that counts
			c.Days = append(c.Days, chartDay{Date: text})
			continue
		}
		recorded++
		h := max(float64(value)/float64(top)*height, 1) // a zero is a line on the ground
		c.Bars = append(c.Bars, bar{X: x + 1, Y: decimal(height - h), H: decimal(h), Title: text + ": " + u.write(value)})
		c.Days = append(c.Days, chartDay{Date: text, Value: u.write(value)})
	}
	c.Summary = fmt.Sprintf("%s: a bar for each day, %d with a record and %d without; the highest is %s.",
		u.name, recorded, len(c.Absent), u.write(most))
	return c
}

// niceAbove is a round number that is not below n, of 1000 or more.
func niceAbove(n int64) int64 {
	for power := int64(1000); ; power *= 10 {
		for _, factor := range []int64{1, 2, 3, 4, 6, 8} {
			if power*factor >= n {
				return power * factor
			}
		}
	}
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 2, 64) }

// thousands writes 12345 as 12,345.
func thousands(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

// kilometers writes metres with one decimal.
func kilometers(meters int64) string {
	return thousands((meters+50)/1000) + "." + strconv.FormatInt((meters+50)%1000/100, 10) + " km"
}
