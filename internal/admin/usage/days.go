package usage

import (
	"context"
	"reflect"
	"time"

	"github.com/google/uuid"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/foundation/work"
)

// DaysKept is how many days before today are kept.
const DaysKept = 400

const oneDay = 24 * time.Hour

// everyone is the client of the sums over all clients, and of what concerns no client.
var everyone = uuid.Nil

// Day is what happened on a day (UTC) to one client, or in all. The tags of its fields name the metrics of the table, and where they are from:
// servers count what they see, connections are counted by state, and a fold reads all others in other tables.
type Day struct {
	ClientID uuid.UUID
	Day      time.Time // its beginning

	Refreshed         int64 `metric:"refreshed" from:"servers"`
	ActiveUsers       int64 `metric:"active_users" from:"servers"` // in all, a user of several clients counts once
	CodesSent         int64 `metric:"codes_sent" from:"servers"`
	CodesTried        int64 `metric:"codes_tried" from:"servers"`
	WebhooksDelivered int64 `metric:"webhooks_delivered" from:"servers"`
	WebhooksFailed    int64 `metric:"webhooks_failed" from:"servers"` // given up
	Lapsed            int64 `metric:"lapsed" from:"servers"`          // each counted by the server that folds

	Requests      int64     `metric:"requests"`
	RateLimited   int64     `metric:"rate_limited"` // status 429
	Refused       int64     `metric:"refused"`      // another 4xx
	Failed        int64     `metric:"failed"`       // 5xx
	Durations     durations // a metric for each bucket: within_1ms and so on
	BusiestMinute int64     `metric:"busiest_minute"` // requests charged to the budget
	ActiveClients int64     `metric:"active_clients"` // that got an answer other than an error

	Authorized              int64 `metric:"authorized"`
	Revoked                 int64 `metric:"revoked"`  // by the client
	Replayed                int64 `metric:"replayed"` // revoked because a used refresh token came again
	RevokedByOperator       int64 `metric:"revoked_by_operator"`
	DisconnectedByUser      int64 `metric:"disconnected_by_user"`
	DisconnectedByClient    int64 `metric:"disconnected_by_client"`
	DisconnectedByOperator  int64 `metric:"disconnected_by_operator"`
	DisconnectedWithAccount int64 `metric:"disconnected_with_account"` // the user was deleted
	DisconnectedWithClient  int64 `metric:"disconnected_with_client"`  // the client was offboarded

	// Connections in each state when they were last counted on that day.
	NowAuthorized   int64 `metric:"now_authorized" from:"connections"`
	NowLapsed       int64 `metric:"now_lapsed" from:"connections"`
	NowRevoked      int64 `metric:"now_revoked" from:"connections"`
	NowDisconnected int64 `metric:"now_disconnected" from:"connections"`
}

// metric is where the number of a metric is from, and its place in a day.
type metric struct {
	from string
	of   func(*Day) *int64
}

// metrics are all figures of a day, by their names in the table.
var metrics = func() map[string]metric {
	all := map[string]metric{}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[Day]()) {
		if name := field.Tag.Get("metric"); name != "" {
			all[name] = metric{field.Tag.Get("from"), func(d *Day) *int64 {
				return reflect.ValueOf(d).Elem().FieldByIndex(field.Index).Addr().Interface().(*int64) //nolint:forcetypeassert // all are
			}}
		}
	}
	for i := range len(durations{}) {
		name := "longer"
		if i < len(bounds) {
			name = "within_" + bounds[i].String()
		}
		all[name] = metric{of: func(d *Day) *int64 { return &d.Durations[i] }}
	}
	return all
}()

// add adds all figures of another client or time. The busiest minute is the busier one.
func (d *Day) add(other Day) {
	busiest := max(d.BusiestMinute, other.BusiestMinute)
	for _, m := range metrics {
		*m.of(d) += *m.of(&other)
	}
	d.BusiestMinute = busiest
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
		all[key] = &Day{ClientID: clientID, Day: day}
	}
	return all[key]
}

// daysOf returns the days of rows, without metrics that only a newer server knows.
func daysOf(rows []usagedb.UsageDay) days {
	all := days{}
	for _, row := range rows {
		if m, known := metrics[row.Metric]; known {
			*m.of(all.of(row.ClientID, row.Day)) = row.N
		}
	}
	return all
}

// rows returns the rows to add.
func (all days) rows() (rows usagedb.AddToDaysParams) {
	for key, day := range all {
		for name, m := range metrics {
			if n := *m.of(day); n != 0 {
				rows.ClientIds, rows.Days = append(rows.ClientIds, key.clientID), append(rows.Days, key.day)
				rows.Metrics, rows.Numbers = append(rows.Metrics, name), append(rows.Numbers, n)
			}
		}
	}
	return rows
}

// Happened counts what happened now, to a client and in all; uuid.Nil: to no client. count adds to fields of [Day] that servers count. It
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
		ctx, cancel := context.WithTimeout(ctx, u.flushLimit)
		defer cancel()
		return u.queries.AddToDays(ctx, waiting.rows())
	})
	if err == nil {
		return
	}
	u.logger.ErrorContext(ctx, "the counts of days wait", "rows", len(waiting), "cause", err)
	u.mu.Lock()
	defer u.mu.Unlock()
	for key, counted := range waiting {
		u.days.of(key.clientID, key.day).add(*counted)
	}
}
