package connect

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/google/uuid"

	connectsdk "connect.invalid/connect-go"
)

// mostDays is how many days one request may ask for.
const mostDays = 31

// StepDays reads the step totals of the days from the first to the last, both included, however many they are, oldest first. It asks
// for the next 31 days when the loop comes there, waits for each 429 as all reads do, and ends with the context. The last element has
// the error, if there is one.
func (c *Client) StepDays(ctx context.Context, key string, from, to connectsdk.CalendarDate) iter.Seq2[connectsdk.DailySteps, error] {
	return rows(ctx, days(ctx, c.DailySteps, key, from, to), func(a connectsdk.DailyActivity) []connectsdk.DailySteps { return a.Data })
}

// CyclingDays is StepDays for the distances of [Client.CyclingDaily].
func (c *Client) CyclingDays(ctx context.Context, key string, from, to connectsdk.CalendarDate) iter.Seq2[connectsdk.CyclingDay, error] {
	return rows(ctx, days(ctx, c.CyclingDaily, key, from, to), func(a connectsdk.CyclingDaily) []connectsdk.CyclingDay { return a.Data })
}

// CyclingActivities reads the rides of the days from the first to the last, both included, however many they are, oldest first. It
// asks for the next page, or the next 31 days, when the loop comes there, and ends with the context; pageSize is 1 to 500, or 0 for the
// service's default of 100.
//
// A ride that changes meanwhile may be missed or come twice: store by Id. The last element has the error, if there is
// one. After invalid_cursor, which is the answer when the pages of 31 days take more than 15 minutes or the user connects anew
// meanwhile, begin again.
func (c *Client) CyclingActivities(
	ctx context.Context, key string, from, to connectsdk.CalendarDate, pageSize int,
) iter.Seq2[connectsdk.CyclingActivity, error] {
	return rows(ctx, c.CyclingPages(ctx, key, from, to, pageSize), func(p connectsdk.CyclingActivities) []connectsdk.CyclingActivity { return p.Data })
}

// CyclingPages is CyclingActivities by whole pages, for those who store a page at a time.
func (c *Client) CyclingPages(
	ctx context.Context, key string, from, to connectsdk.CalendarDate, pageSize int,
) iter.Seq2[connectsdk.CyclingActivities, error] {
	return func(yield func(connectsdk.CyclingActivities, error) bool) {
		for from, to := range parts(from, to) {
			params := connectsdk.ReadCyclingActivitiesParams{From: from, To: to}
			if pageSize != 0 {
				params.Limit = &pageSize
			}
			for more := true; more; more = params.Cursor != nil {
				page, err := read[connectsdk.CyclingActivities](ctx, c, key, "readCyclingActivities",
					func(ctx context.Context, grant uuid.UUID, bearer connectsdk.RequestEditorFn) (*http.Response, error) {
						return c.api.ReadCyclingActivities(ctx, grant, &params, bearer)
					})
				if !yield(page, err) || err != nil {
					return
				}
				params.Cursor = page.Meta.NextCursor
			}
		}
	}
}

// days reads a range in as many parts as it needs.
func days[T any](
	ctx context.Context, read func(context.Context, string, connectsdk.CalendarDate, connectsdk.CalendarDate) (T, error),
	key string, from, to connectsdk.CalendarDate,
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for from, to := range parts(from, to) {
			if part, err := read(ctx, key, from, to); !yield(part, err) || err != nil {
				return
			}
		}
	}
}

// rows are those of all pages. They end with the context, also in the middle of a page.
func rows[Page, Row any](ctx context.Context, pages iter.Seq2[Page, error], of func(Page) []Row) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		var none Row
		for page, err := range pages {
			if err != nil {
				yield(none, err)
				return
			}
			for _, row := range of(page) {
				if err := ctx.Err(); err != nil {
					yield(none, err)
					return
				}
				if !yield(row, nil) {
					return
				}
			}
		}
	}
}

// parts are the ranges of 31 days at most that make up a range. One that ends before it begins stays as it is: the service refuses it.
func parts(from, to connectsdk.CalendarDate) iter.Seq2[connectsdk.CalendarDate, connectsdk.CalendarDate] {
	first, last := dayOf(from), dayOf(to)
	return func(yield func(connectsdk.CalendarDate, connectsdk.CalendarDate) bool) {
		for {
			end := first.AddDate(0, 0, mostDays-1)
			if !end.Before(last) {
				yield(connectsdk.CalendarDate{Time: first}, connectsdk.CalendarDate{Time: last})
				return
			}
			if !yield(connectsdk.CalendarDate{Time: first}, connectsdk.CalendarDate{Time: end}) {
				return
			}
			first = end.AddDate(0, 0, 1)
		}
	}
}

// dayOf is the date, whatever the hour and the zone of the value that names it.
func dayOf(date connectsdk.CalendarDate) time.Time { return Day(date.Date()).Time }
