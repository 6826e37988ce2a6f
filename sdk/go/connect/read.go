package connect

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/google/uuid"

	connectsdk "connect.invalid/connect-go"
)

// Day is a calendar date.
func Day(year int, month time.Month, day int) connectsdk.CalendarDate {
	return connectsdk.CalendarDate{Time: time.Date(year, month, day, 0, 0, 0, 0, time.UTC)}
}

// DailySteps reads the step totals of the days from the first to the last, both included, 31 at most. A day without a
// record is absent, which is not zero.
func (c *Client) DailySteps(ctx context.Context, key string, from, to connectsdk.CalendarDate) (connectsdk.DailyActivity, error) {
	return read[connectsdk.DailyActivity](ctx, c, key, "readDailyActivity",
		func(ctx context.Context, grant uuid.UUID, bearer connectsdk.RequestEditorFn) (*http.Response, error) {
			return c.api.ReadDailyActivity(ctx, grant, &connectsdk.ReadDailyActivityParams{From: from, To: to}, bearer)
		})
}

// CyclingDaily reads the distances of the days from the first to the last, both included, 31 at most.
func (c *Client) CyclingDaily(ctx context.Context, key string, from, to connectsdk.CalendarDate) (connectsdk.CyclingDaily, error) {
	return read[connectsdk.CyclingDaily](ctx, c, key, "readCyclingDaily",
		func(ctx context.Context, grant uuid.UUID, bearer connectsdk.RequestEditorFn) (*http.Response, error) {
			return c.api.ReadCyclingDaily(ctx, grant, &connectsdk.ReadCyclingDailyParams{From: from, To: to}, bearer)
		})
}

// CyclingActivities reads the rides of the days from the first to the last, both included, 31 at most, oldest first. It
// asks for the next page when the loop comes there; pageSize is 1 to 500, or 0 for the service's default of 100.
//
// A ride that changes meanwhile may be missed or come twice: store by Id. The last element has the error, if there is
// one. After invalid_cursor, which is the answer when a traversal takes more than 15 minutes or the user connects anew
// meanwhile, begin again from the first page.
func (c *Client) CyclingActivities(
	ctx context.Context, key string, from, to connectsdk.CalendarDate, pageSize int,
) iter.Seq2[connectsdk.CyclingActivity, error] {
	return func(yield func(connectsdk.CyclingActivity, error) bool) {
		for page, err := range c.CyclingPages(ctx, key, from, to, pageSize) {
			if err != nil {
				yield(connectsdk.CyclingActivity{}, err)
				return
			}
			for _, ride := range page.Data {
				if !yield(ride, nil) {
					return
				}
			}
		}
	}
}

// CyclingPages is CyclingActivities by whole pages, for those who store a page at a time.
func (c *Client) CyclingPages(
	ctx context.Context, key string, from, to connectsdk.CalendarDate, pageSize int,
) iter.Seq2[connectsdk.CyclingActivities, error] {
	return func(yield func(connectsdk.CyclingActivities, error) bool) {
		params := connectsdk.ReadCyclingActivitiesParams{From: from, To: to}
		if pageSize != 0 {
			params.Limit = &pageSize
		}
		for {
			page, err := read[connectsdk.CyclingActivities](ctx, c, key, "readCyclingActivities",
				func(ctx context.Context, grant uuid.UUID, bearer connectsdk.RequestEditorFn) (*http.Response, error) {
					return c.api.ReadCyclingActivities(ctx, grant, &params, bearer)
				})
			if !yield(page, err) || err != nil {
				return
			}
			if params.Cursor = page.Meta.NextCursor; params.Cursor == nil {
				return
			}
		}
	}
}

// read makes one read with an access token that works, and makes it a second time with a new one if the service does not
// accept that.
func read[T any](
	ctx context.Context, c *Client, key, operation string,
	send func(ctx context.Context, grant uuid.UUID, bearer connectsdk.RequestEditorFn) (*http.Response, error),
) (result T, err error) {
	for rejected := ""; ; {
		held, err := c.fresh(ctx, key, rejected)
		if err != nil {
			return result, err
		}
		a, err := c.persist(ctx, readCall, func(ctx context.Context) (*http.Response, error) {
			return send(ctx, held.GrantID, func(_ context.Context, r *http.Request) error {
				r.Header.Set("Authorization", "Bearer "+held.AccessToken)
				return nil
			})
		})
		switch {
		case err != nil:
			return result, err
		case a.status == http.StatusUnauthorized && rejected == "":
			rejected = held.AccessToken
		case a.status != http.StatusOK:
			return result, refusal(operation, a)
		default:
			if err := json.Unmarshal(a.body, &result); err != nil {
				return result, fmt.Errorf("connect: %s: the answer cannot be read: %w", operation, err)
			}
			return result, nil
		}
	}
}
