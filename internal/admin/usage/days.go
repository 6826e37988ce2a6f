package usage

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/work"
)

// DaysKept is how many days before today are kept.
const DaysKept = 400

const oneDay = 24 * time.Hour

// everyone is the client of the sums over all clients, and of what concerns no client.
var everyone = uuid.Nil

// Day is what happened on a day (UTC) to one client, or in all. Its fields are the columns of the table.
type Day struct {
	ClientID uuid.UUID `json:"client_id"`
	Day      time.Time `json:"day"` // its beginning

	Refreshed         int64 `json:"refreshed"`
	ActiveUsers       int64 `json:"active_users"` // in all, a user of several clients counts once
	CodesSent         int64 `json:"codes_sent"`
	CodesTried        int64 `json:"codes_tried"`
	WebhooksDelivered int64 `json:"webhooks_delivered"`
	WebhooksFailed    int64 `json:"webhooks_failed"` // given up
	Lapsed            int64 `json:"lapsed"`

	Requests      int64   `json:"requests"`
	RateLimited   int64   `json:"rate_limited"`
	Refused       int64   `json:"refused"`
	Failed        int64   `json:"failed"`
	Durations     []int64 `json:"durations"`
	BusiestMinute int64   `json:"busiest_minute"` // requests charged to the budget
	ActiveClients int64   `json:"active_clients"` // that got an answer other than an error

	Authorized              int64 `json:"authorized"`
	Revoked                 int64 `json:"revoked"` // by the client
	Replayed                int64 `json:"replayed"`
	RevokedByOperator       int64 `json:"revoked_by_operator"`
	DisconnectedByUser      int64 `json:"disconnected_by_user"`
	DisconnectedByClient    int64 `json:"disconnected_by_client"`
	DisconnectedByOperator  int64 `json:"disconnected_by_operator"`
	DisconnectedWithAccount int64 `json:"disconnected_with_account"`
	DisconnectedWithClient  int64 `json:"disconnected_with_client"`

	// Connections in each state when they were last counted on that day.
	NowAuthorized   int64 `json:"now_authorized"`
	NowLapsed       int64 `json:"now_lapsed"`
	NowRevoked      int64 `json:"now_revoked"`
	NowDisconnected int64 `json:"now_disconnected"`
}

// sums are the fields that add up, over clients and over days.
func (d *Day) sums() []*int64 {
	return []*int64{
		&d.Refreshed, &d.CodesSent, &d.CodesTried, &d.WebhooksDelivered, &d.WebhooksFailed, &d.Lapsed, &d.Requests, &d.RateLimited,
		&d.Refused, &d.Failed, &d.Authorized, &d.Revoked, &d.Replayed, &d.RevokedByOperator, &d.DisconnectedByUser,
		&d.DisconnectedByClient, &d.DisconnectedByOperator, &d.DisconnectedWithAccount, &d.DisconnectedWithClient,
	}
}

// add adds what adds up. The busiest minute is the busier one.
func (d *Day) add(other Day) {
	from := other.sums()
	for i, sum := range d.sums() {
		*sum += *from[i]
	}
	for i, n := range other.Durations {
		if i == len(d.Durations) {
			d.Durations = append(d.Durations, 0)
		}
		d.Durations[i] += n
	}
	d.BusiestMinute = max(d.BusiestMinute, other.BusiestMinute)
}

// days are rows of the table by client and day.
type days map[dayKey]*Day

type dayKey struct {
	clientID uuid.UUID
	day      time.Time
}

func (all days) of(clientID uuid.UUID, day time.Time) *Day {
	key := dayKey{clientID, day}
	if all[key] == nil {
		all[key] = &Day{ClientID: clientID, Day: day, Durations: []int64{}}
	}
	return all[key]
}

// rows returns the rows for a statement, in the order in which it locks them.
func (all days) rows() ([]byte, error) {
	return json.Marshal(slices.SortedFunc(maps.Values(all), func(a, b *Day) int {
		return cmp.Or(a.Day.Compare(b.Day), bytes.Compare(a.ClientID[:], b.ClientID[:]))
	}))
}

// Happened counts what happened now, to a client and in all; uuid.Nil: to no client. count adds to one of the first fields of [Day]. It
// never waits for the database.
func (u *Usage) Happened(clientID uuid.UUID, count func(*Day)) {
	today := u.now().UTC().Truncate(oneDay)
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.days) >= maxRows {
		u.dropped++
		return
	}
	count(u.days.of(everyone, today))
	if clientID != everyone {
		count(u.days.of(clientID, today))
	}
}

// Active counts a user whose activity a client asked for, for the first time on this day; first: before any other client.
func (u *Usage) Active(clientID uuid.UUID, first bool) {
	u.Happened(clientID, func(day *Day) {
		if day.ClientID != everyone || first {
			day.ActiveUsers++
		}
	})
}

// flushDays writes the waiting counts of days. If that fails they wait for the next flush.
func (u *Usage) flushDays(ctx context.Context) {
	u.mu.Lock()
	waiting := u.days
	u.days = days{}
	u.mu.Unlock()
	if len(waiting) == 0 {
		return
	}
	err := work.Try(func() error {
		rows, err := waiting.rows()
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, u.flushLimit)
		defer cancel()
		return u.queries.AddToDays(ctx, rows)
	})
	if err == nil {
		return
	}
	u.logger.ErrorContext(ctx, "the counts of days wait", "rows", len(waiting), "cause", err)
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, counted := range waiting {
		since := u.days.of(key.clientID, key.day)
		since.add(*counted)
		since.ActiveUsers += counted.ActiveUsers
	}
}
