package locale

import (
	"math"
	"time"

	"golang.org/x/text/language"
	"golang.org/x/text/message"
	"golang.org/x/text/number"
)

// Number writes 4312 as 4,312.
func (l *Locale) Number(n any) string { return l.decimal(n) }

func (l *Locale) decimal(x any, options ...number.Option) string {
	return message.NewPrinter(language.Make(l.Tag)).Sprint(number.Decimal(x, options...))
}

// Distance writes meters as 850 m or, from a kilometer on, as 7.4 km.
func (l *Locale) Distance(meters int64) string {
	const space = "\u00a0"
	if meters < 1000 {
		return l.decimal(meters) + space + "m"
	}
	return l.decimal(float64(meters)/1000, number.MinFractionDigits(1), number.MaxFractionDigits(1)) + space + "km"
}

// Span writes a duration in minutes or, from two hours on, in hours. It rounds up, and is at least a minute.
func (l *Locale) Span(d time.Duration) string {
	if minutes := max(1, int(math.Ceil(d.Minutes()))); minutes < 120 {
		return l.Text("span.minutes", "Count", minutes)
	}
	return l.Text("span.hours", "Count", int(math.Ceil(d.Hours())))
}

// Moment writes a day and a time of it, such as 21 November 2026, 13:05.
func (l *Locale) Moment(at time.Time) string {
	return l.Text("date.moment", "Day", l.Day(at), "Time", at.Format("15:04"))
}
