package connect

import (
	"context"
	"encoding/json"
	"fmt"
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
