package partner

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/google/uuid"
	openapi "github.com/oapi-codegen/runtime/types"

	sdk "connect-svc/gen/sdk/go"
)

const (
	mostDates = 31 // of one read (specification section 8)
	pageSize  = 5  // rides: small, so that a month of them takes three pages and more
)

// reading is all that the partner read of one member.
type reading struct {
	From, To time.Time // dates: midnight UTC
	Steps    []sdk.DailySteps
	Cycling  []sdk.CyclingDay
	Rides    []sdk.CyclingActivity
	Pages    int
	At       time.Time
}

// read reads the last 31 days, or what of them the connection reaches.
func (p *Partner) read(ctx context.Context, member Member) (reading, error) {
	c, _ := p.store.get(member.Key)
	result := reading{At: p.now().In(member.Timezone)}
	result.To = date(result.At)
	result.From = result.To.AddDate(0, 0, 1-mostDates)
	if c.HistoryFrom.After(result.From) {
		result.From = c.HistoryFrom
	}
	if result.From.After(result.To) {
		result.To = result.From // the service's calendar may be ahead of ours by a moment at midnight
	}
	from, to := openapi.Date{Time: result.From}, openapi.Date{Time: result.To}

	steps, err := authorized(ctx, p, member, func(grant uuid.UUID, bearer sdk.RequestEditorFn) (*sdk.ReadDailyActivityResponse, error) {
		return p.api.ReadDailyActivityWithResponse(ctx, grant, &sdk.ReadDailyActivityParams{From: from, To: to}, bearer)
	})
	if err != nil {
		return result, err
	}
	if steps.JSON200 == nil {
		return result, refused("steps", steps.HTTPResponse)
	}
	result.Steps = steps.JSON200.Data

	cycling, err := authorized(ctx, p, member, func(grant uuid.UUID, bearer sdk.RequestEditorFn) (*sdk.ReadCyclingDailyResponse, error) {
		return p.api.ReadCyclingDailyWithResponse(ctx, grant, &sdk.ReadCyclingDailyParams{From: from, To: to}, bearer)
	})
	if err != nil {
		return result, err
	}
	if cycling.JSON200 == nil {
		return result, refused("distances", cycling.HTTPResponse)
	}
	result.Cycling = cycling.JSON200.Data

	limit := pageSize
	params := sdk.ReadCyclingActivitiesParams{From: from, To: to, Limit: &limit}
	seen := map[string]bool{} // rows may come twice while data change: the id tells (specification 4.9)
	for {
		page, err := authorized(ctx, p, member, func(grant uuid.UUID, bearer sdk.RequestEditorFn) (*sdk.ReadCyclingActivitiesResponse, error) {
			return p.api.ReadCyclingActivitiesWithResponse(ctx, grant, &params, bearer)
		})
		if err != nil {
			return result, err
		}
		if page.JSON200 == nil {
			return result, refused("rides", page.HTTPResponse)
		}
		for _, ride := range page.JSON200.Data {
			if !seen[ride.Id] {
				seen[ride.Id] = true
				result.Rides = append(result.Rides, ride)
			}
		}
		result.Pages++
		if params.Cursor = page.JSON200.Meta.NextCursor; params.Cursor == nil {
			return result, nil
		}
	}
}

// authorized makes one read with an access token that works, and makes it a second time with a new one if the service
// does not accept that (specification 7.4).
func authorized[R interface{ StatusCode() int }](
	ctx context.Context, p *Partner, member Member, call func(grant uuid.UUID, bearer sdk.RequestEditorFn) (R, error),
) (answer R, err error) {
	rejected := ""
	for range 2 {
		before, _ := p.store.get(member.Key)
		c, err := p.fresh(ctx, member.Key, rejected)
		if err != nil {
			return answer, err
		}
		if c.AccessToken != before.AccessToken {
			p.tell(member.Key, "The token to read with had run out. Both tokens were renewed first, and then the data were read.")
		}
		grant, err := uuid.Parse(c.GrantID)
		if err != nil {
			return answer, err
		}
		answer, err = call(grant, func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+c.AccessToken)
			return nil
		})
		if err != nil {
			return answer, fmt.Errorf("the service cannot be reached: %w", err)
		}
		if answer.StatusCode() != http.StatusUnauthorized {
			return answer, nil
		}
		rejected = c.AccessToken
	}
	return answer, nil
}

// refused names an error answer of a read by what the service asks to be told: its status and request id.
func refused(what string, answer *http.Response) error {
	return fmt.Errorf("the %s could not be read: the answer was %d (request %s)", what, answer.StatusCode, answer.Header.Get("X-Request-ID"))
}

// date is the calendar day of t, in t's own location, as midnight UTC.
func date(t time.Time) time.Time {
	year, month, day := t.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}
