package partner

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// chart has a bar for each of the last 31 days, in a plane of slot by 1000 units that the page stretches.
type chart struct {
	Summary   string // for screen readers
	Width     int
	Days      []chartDay // readable days
	Closed    int        // width of the days before the first of them
	Absent    int        // days without a record, which differ from days of zero
	Top, Half string
}

type chartDay struct {
	Date, Value string // no value: no record
	X, Height   int
}

const (
	slot   = 10
	height = 1000
)

type unit struct {
	name, suffix string
	number       func(int64) string
}

var (
	stepsUnit  = unit{"Daily steps", " steps", thousands}
	metersUnit = unit{"Daily cycling distance", " km", kilometers}
)

// draw draws a chart of the days from first to last. The days before readable are closed.
func draw(u unit, first, readable, last time.Time, values map[time.Time]int64) chart {
	most := int64(0)
	for _, value := range values {
		most = max(most, value)
	}
	top := niceAbove(most)
	c := chart{Top: strings.TrimSuffix(u.number(top), ".0"), Half: strings.TrimSuffix(u.number(top/2), ".0")}
	for day := first; !day.After(last); day = day.AddDate(0, 0, 1) {
		x := c.Width
		c.Width += slot
		if day.Before(readable) {
			c.Closed = c.Width
			continue
		}
		drawn := chartDay{Date: day.Format("Mon 2 Jan"), X: x + 1}
		if value, recorded := values[day]; recorded {
			drawn.Value = u.number(value) + u.suffix
			drawn.Height = max(int(value*height/top), height/100) // zero is a line on the axis
		} else {
			c.Absent++
		}
		c.Days = append(c.Days, drawn)
	}
	c.Summary = fmt.Sprintf("%s: a bar for each day, %d with a record and %d without; the highest is %s.",
		u.name, len(c.Days)-c.Absent, c.Absent, u.number(most)+u.suffix)
	return c
}

// niceAbove returns a round number of at least n and at least 1000.
func niceAbove(n int64) int64 {
	for power := int64(1000); ; power *= 10 {
		for _, factor := range []int64{1, 2, 3, 4, 6, 8} {
			if power*factor >= n {
				return power * factor
			}
		}
	}
}

// thousands formats 12345 as 12,345.
func thousands(n int64) string {
	if n < 1000 {
		return strconv.FormatInt(n, 10)
	}
	return thousands(n/1000) + fmt.Sprintf(",%03d", n%1000)
}

// kilometers formats metres as kilometres with one decimal.
func kilometers(meters int64) string {
	tenths := (meters + 50) / 100
	return thousands(tenths/10) + "." + strconv.FormatInt(tenths%10, 10)
}

// count returns a number with its noun: "1 page", "3 pages".
func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return thousands(int64(n)) + " " + what
}
