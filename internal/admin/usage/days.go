package usage

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	usagedb "connect-svc/gen/db/usage"
	"connect-svc/internal/foundation/postgres"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// daysKept is how many days before today are kept.
const daysKept = 400

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
func (u *Usage) Happened(clientID uuid.UUID, count func(*Day)) { u.happened(clientID, u.now(), count) }

func (u *Usage) happened(clientID uuid.UUID, at time.Time, count func(*Day)) {
	for _, id := range slices.Compact([]uuid.UUID{everyone, clientID}) {
		day := Day{ClientID: id, Day: at.UTC().Truncate(oneDay)}
		count(&day)
		u.days.Add(day)
	}
}

// Active counts a user whose activity a client read at that time, for the first time on that day; first: before any other client.
func (u *Usage) Active(clientID uuid.UUID, at time.Time, first bool) {
	u.happened(clientID, at, func(day *Day) {
		if day.ClientID != everyone || first {
			day.ActiveUsers++
		}
	})
}

func (u *Usage) writeDays(ctx context.Context, batch []Day) (int, error) {
	report := days{}
	for i, day := range batch {
		report[dayKey{day.ClientID, day.Day}] = &batch[i]
	}
	// On a cluster, servers that write the same rows can meet in a deadlock.
	return 0, postgres.InTxAgain(ctx, u.pool, func(tx pgx.Tx) error { return u.queries.WithTx(tx).AddToDays(ctx, report.rows()) })
}

// A day is final when it has been over for so long: servers write their counts some seconds late, or minutes if the database was away.
const finalAfter = time.Hour

// Fold brings the days up to date. It reads the requests, the acts and the connections of today and of each earlier day that is not
// final, and adds how much they differ from what an earlier fold found. Each day is a transaction, so a server that dies leaves nothing half
// counted. If another server folds, it does nothing.
func (u *Usage) Fold(ctx context.Context) error {
	var next time.Time // the day to fold; zero: the first one that is not final
	for again := true; again; {
		err := postgres.InTx(ctx, u.pool, func(tx pgx.Tx) (err error) {
			// The statements read whole tables.
			if _, err = tx.Exec(ctx, "set local statement_timeout = '10min'"); err != nil {
				return err
			}
			f := folding{queries: u.queries.WithTx(tx), day: next, found: days{}}
			if f.LockFoldsRow, err = f.queries.LockFolds(ctx); err != nil {
				return err
			}
			next, again, err = f.fold(ctx)
			return err
		})
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err != nil {
			return postgres.Wrap("usage: fold", err)
		}
	}
	return nil
}

// folding is the transaction of a day.
type folding struct {
	queries *usagedb.Queries
	usagedb.LockFoldsRow
	day   time.Time
	found days // the day, and what is to be added to earlier days

	connectionsCounted bool
}

// fold folds the day. It returns the next one; again is false after today.
func (f *folding) fold(ctx context.Context) (next time.Time, again bool, err error) {
	today := f.Now.UTC().Truncate(oneDay)
	if f.NextDay == nil {
		first, err := f.queries.FirstDay(ctx)
		if err != nil {
			return next, false, err
		}
		f.NextDay = &first
	}
	if f.NextDay.After(today) { // the clock was ahead
		f.NextDay = &today
	}
	if f.day.IsZero() {
		f.day = *f.NextDay
	}
	if earliest := today.AddDate(0, 0, -daysKept); f.day.Before(earliest) {
		f.day = earliest
	}
	next = f.day.Add(oneDay)
	if next.Add(finalAfter).Before(f.Now) {
		f.NextDay = &next
	}
	f.found.of(everyone, f.day)
	steps := []func(context.Context) error{f.countRequests, f.countActs}
	if again = f.day.Before(today); !again {
		steps = append(steps, f.countConnections)
	}
	for _, step := range append(steps, f.put) {
		if err := step(ctx); err != nil {
			return next, false, err
		}
	}
	return next, again, f.queries.SetFolds(ctx, usagedb.SetFoldsParams{NextDay: *f.NextDay, CountedUntil: f.CountedUntil})
}

func (f *folding) countRequests(ctx context.Context) error {
	until := f.day.Add(oneDay)
	requests, err := f.queries.SumRequests(ctx, usagedb.SumRequestsParams{Since: f.day, Until: until})
	if err != nil {
		return err
	}
	for _, row := range requests {
		day := f.found.of(row.ClientID, f.day)
		day.Requests, day.RateLimited, day.Refused, day.Failed = row.Requests, row.RateLimited, row.Refused, row.Failed
		copy(day.Durations[:], row.Durations)
		if day.Requests > day.RateLimited+day.Refused+day.Failed {
			day.ActiveClients = 1
		}
	}
	since := f.day
	// The counts of minutes may be written ten minutes late.
	if recent := f.CountedUntil.Add(-10 * time.Minute); recent.After(f.day) && recent.Before(until.Add(finalAfter)) {
		since = recent
	}
	minutes, err := f.queries.BusiestMinutes(ctx, usagedb.BusiestMinutesParams{Since: since, Until: until})
	for _, row := range minutes {
		f.found.of(row.ClientID, f.day).BusiestMinute = row.Charged
	}
	return err
}

func (f *folding) countActs(ctx context.Context) error {
	rows, err := f.queries.CountActs(ctx, usagedb.CountActsParams{Since: f.day, Until: f.day.Add(oneDay)})
	for _, row := range rows {
		day := f.found.of(row.ClientID, f.day)
		*map[string]*int64{ // by the reason of an end (audit.Ends); "": an authorization
			"": &day.Authorized, "refresh_token_revoked": &day.Revoked, "refresh_token_replayed": &day.Replayed, "operator_revoked": &day.RevokedByOperator,
			"user_disconnected": &day.DisconnectedByUser, "client_disconnected": &day.DisconnectedByClient, "operator_disconnected": &day.DisconnectedByOperator,
			"account_deleted": &day.DisconnectedWithAccount, "client_offboarded": &day.DisconnectedWithClient,
		}[row.Ended] += row.Acts
	}
	return err
}

// countConnections counts the connections by state, and those that have lapsed since the last count. The count of states is a snapshot, but
// each lapse is counted once, so a connection that lapses and is authorized again on the same day still counts.
func (f *folding) countConnections(ctx context.Context) error {
	since := f.CountedUntil
	if since.After(f.Now) { // the clock was ahead
		since = f.Now
	}
	counted, err := f.queries.CountStates(ctx, usagedb.CountStatesParams{Since: since, Until: f.Now, Today: f.day})
	if err != nil {
		return err
	}
	var before int64
	for _, row := range counted {
		day := f.found.of(row.ClientID, f.day)
		day.NowAuthorized, day.NowLapsed, day.NowRevoked, day.NowDisconnected = row.Authorized, row.Lapsed, row.Revoked, row.Disconnected
		day.Lapsed = row.LapsedToday
		before += row.LapsedEarlier
	}
	f.CountedUntil, f.connectionsCounted = f.Now, true
	if before == 0 {
		return nil
	}
	lapses, err := f.queries.ListLapses(ctx, usagedb.ListLapsesParams{Since: since, Today: f.day})
	for _, row := range lapses {
		if row.Day.After(f.day.AddDate(0, 0, -daysKept)) {
			f.found.of(row.ClientID, row.Day).Lapsed += row.Connections
			f.found.of(everyone, row.Day).Lapsed += row.Connections
		}
	}
	return err
}

// put sums over the clients, and adds to each metric how much it has changed since an earlier fold.
func (f *folding) put(ctx context.Context) error {
	all := f.found.of(everyone, f.day)
	for key, day := range f.found {
		if key.clientID != everyone && key.day.Equal(f.day) {
			all.add(*day)
		}
	}
	rows, err := f.queries.ListDay(ctx, f.day)
	if err != nil {
		return err
	}
	for key, before := range daysOf(rows) {
		day := f.found.of(key.clientID, f.day) // new if all users of the client were deleted since
		for _, m := range metrics {
			if m.from == "" || m.from == "connections" && f.connectionsCounted {
				*m.of(day) -= *m.of(before)
			}
		}
		day.BusiestMinute = max(0, day.BusiestMinute) // this fold read the last minutes only
	}
	return f.queries.AddToDays(ctx, f.found.rows())
}
