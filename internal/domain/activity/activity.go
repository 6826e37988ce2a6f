// Package activity owns the users' recorded activity: daily steps and cycling activities, and the corrections by support on top of
// them. It has the three reads of the partner API and every way in which data comes in.
//
// A read calls [ParseRange], which holds the date rules of specification 4.6, and then one of [Store.DailySteps],
// [Store.CyclingDaily] and [Store.CyclingPage] (4.7 to 4.9). The caller decides who may read, and passes a [Reader]: this package
// knows nothing about tokens.
//
// Data comes in through [Store.Put] or an import. Put takes a [Batch] in memory: the operator API, sample data and single
// corrections use it. An import reads a CSV file of any size.
//
// # Terms
//
//   - A ride is a cycling activity. Its source id is the name that its source gave it; partners see its id.
//   - A correction adds to the recorded steps of a date, an adjustment to its cycling distance.
//   - A merge writes rows by their key: it inserts, updates, or leaves unchanged.
//
// # Invariants
//
//   - A date without a record is absent, never zero. A correction or adjustment alone makes no date. No total is below zero
//     (TestDailySteps).
//   - A read is one statement that uses primary keys that begin with the user (TestReadsUsePrimaryKeysAlone).
//   - Rides are ordered by (start, source id), which no two rides of a user share, so that pages neither skip nor repeat rides of
//     equal start (TestPagesAreTheWholeList).
//   - A cursor works only for the query, connection version and lifetime that it was sealed for (TestCursorIsBound).
//   - A file or a batch is written whole or not at all, and its error names all bad rows, up to a hundred (TestImportBadRows).
//   - A batch that waits for an import keeps no other batch waiting (TestImportLeavesOtherBatches).
//   - Rows that are sent again change nothing, because the key of a row comes from its source (TestImportLeavesUnchangedRows).
//   - Nothing is recorded of dates more than two days after the user's today, and nothing of dates before the history that the operator takes (TestDates).
//   - An observation never replaces a later one of the same total or ride, in whichever order they arrive (TestObservations).
//   - A source id never leaves the service: partners see a keyed function of ride, user and client (TestRideID).
//   - A view by support has the totals of partners' reads, from the same statements, and is in the audit log before it is shown
//     (TestViewIsWhatPartnersRead, TestViewsAreAudited).
//
// Recorded clocks have no zone. They are held as times in UTC, because Go has no unzoned time, and never converted.
package activity

import (
	"context"
	"time"

	activitydb "connect-svc/gen/db/activity"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/replica"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
)

// Settings of the reads, and of what is recorded.
type Settings struct {
	History

	CursorLifetime time.Duration `setting:"" type:"1s to 15m" default:"15m" help:"Time allowed for reading all pages of one query, 1s to 15m."`

	// Replicas may answer the three reads, up to five seconds late. Permissions are never read from them. Nil: none.
	Replicas *replica.Set `kong:"-"`
}

// History is how long before a user registered activity may be recorded, in whole days. Zero: any time.
type History struct {
	History time.Duration `setting:"" type:"0 or 1s or more" default:"0" name:"activity-history" help:"How many days before the user registered activity may be recorded, such as 720h; 0: any time."`
}

// Store is the recorded activity in a database. It is safe for concurrent use.
type Store struct {
	pool     *postgres.Pool
	batches  *work.Queue
	keys     *credential.Keyring
	settings Settings
}

// A batch holds a database connection until it is written. Running only a few at a time leaves the others to reads.
const (
	batchesAtOnce  = 4
	batchesWaiting = 64
)

// New returns the activity in the database of pool. Cursors and the ids of rides are made with keys.
func New(pool *postgres.Pool, keys *credential.Keyring, settings Settings) *Store {
	return &Store{pool, work.NewQueue(batchesAtOnce, batchesWaiting), keys, settings}
}

// Day holds the figures of a date of a user: steps, or metres.
type Day struct {
	IsRecorded bool  // without a record the date has no total, whatever the adjustments
	Recorded   int64 // without adjustments
	Adjusted   int64 // the sum of all adjustments
}

// Total returns the total that partners read of a recorded date.
func (d Day) Total() int64 { return max(0, d.Recorded+d.Adjusted) }

// With returns the day with one more adjustment.
func (d Day) With(delta int) Day {
	d.Adjusted += int64(delta)
	return d
}

// Amount counts the stored rows of a user.
type Amount struct{ Days, Rides, Adjustments int } // days of steps

// Count counts the stored rows of a user, each kind up to most. Errors: refusal.ErrUserNotFound.
func (s *Store) Count(ctx context.Context, userID uuid.UUID, most int) (Amount, error) {
	row, err := activitydb.New(s.pool).CountActivity(ctx, activitydb.CountActivityParams{UserID: userID, Most: int32(most)})
	return Amount{int(row.Days), int(row.Rides), int(min(row.Adjustments, int64(most)))}, postgres.WrapNoRows("activity: count", err, refusal.ErrUserNotFound)
}

// maxDates bounds the dates of one request (specification section 8).
const maxDates = 31

// Dataset is one of the three reads.
type Dataset int

// The datasets.
const (
	DatasetDailySteps Dataset = iota + 1
	DatasetCyclingDaily
	DatasetCyclingActivities
)

// Range is 1 to 31 dates, all of which a reader may read: midnights in UTC, both inclusive.
type Range struct {
	From, To time.Time
}

// until returns the first midnight after the range.
func (r Range) until() time.Time { return r.To.AddDate(0, 0, 1) }

// ParseRange reads the query parameters from and to, empty when missing, under the rules of specification 4.6: both
// are dates YYYY-MM-DD, to is at most 30 days after from and not later than tomorrow in UTC, and from is not before
// the reader's history, nor, for steps, before the user's registration day. Otherwise the error is [ErrDateRange]: a range
// is never trimmed.
func ParseRange(reader Reader, from, to string, dataset Dataset) (Range, error) {
	first, errFrom := parseDate(from)
	last, errTo := parseDate(to)
	refuse := func(reason string) (Range, error) { return Range{}, refusal.Because(ErrDateRange, reason) }
	earliest := reader.FirstDate(dataset)
	switch tomorrow := reader.Now.UTC().Truncate(24*time.Hour).AddDate(0, 0, 1); {
	case errFrom != nil || first.IsZero(): // the binding of a request makes the year 1 of an empty date
		return refuse("from is missing or not a date")
	case errTo != nil || last.IsZero():
		return refuse("to is missing or not a date")
	case last.Before(first):
		return refuse("to is before from")
	case !last.Before(first.AddDate(0, 0, maxDates)):
		return refuse("from and to are more than 30 days apart")
	case last.After(tomorrow):
		return refuse("to is later than tomorrow in UTC")
	case first.Before(earliest) && earliest.Equal(reader.HistoryFrom):
		return refuse("from is before history_from of the connection")
	case first.Before(earliest):
		return refuse("from is before the user registered")
	}
	return Range{From: first, To: last}, nil
}

// FirstDate returns the first date of a dataset that the reader may read.
func (r Reader) FirstDate(dataset Dataset) time.Time {
	if dataset == DatasetDailySteps && r.RegisteredOn.After(r.HistoryFrom) {
		return r.RegisteredOn
	}
	return r.HistoryFrom
}

// parseDate parses YYYY-MM-DD, a day that exists: [time.Parse] accepts nothing else for this layout.
func parseDate(text string) (time.Time, error) { return time.Parse(time.DateOnly, text) }

// Today is what the three reads return of one date. It has only what was recorded and is in the scopes.
type Today struct {
	Steps      *int64
	Meters     *int64 // with adjustments
	Rides      int
	RideMeters int64 // without them
}

// maxRides bounds the rides of [Today]: with more of them in a day it has none.
const maxRides = 500

// Today returns what the reader would read of a date in some scopes, by one read for each. It leaves out what the reader may not read.
func (s *Store) Today(ctx context.Context, reader Reader, scopes scope.Set, date time.Time) (today Today, err error) {
	day := date.Format(time.DateOnly)
	for _, read := range []struct {
		scope   scope.Set
		dataset Dataset
		read    func(Range) error
	}{
		{scope.DailySteps, DatasetDailySteps, func(dates Range) error {
			rows, err := s.DailySteps(ctx, reader.UserID, dates)
			for _, row := range rows {
				today.Steps = &row.Steps
			}
			return err
		}},
		{scope.CyclingDaily, DatasetCyclingDaily, func(dates Range) error {
			rows, err := s.CyclingDaily(ctx, reader.UserID, dates)
			for _, row := range rows {
				today.Meters = &row.DistanceMeters
			}
			return err
		}},
		{scope.CyclingActivities, DatasetCyclingActivities, func(dates Range) error {
			page, err := s.CyclingPage(ctx, reader, dates, maxRides, "")
			if page.NextCursor != "" {
				return err
			}
			for ride := range page.Rides() {
				today.Rides++
				today.RideMeters += ride.DistanceMeters
			}
			return err
		}},
	} {
		dates, failure := ParseRange(reader, day, day, read.dataset)
		if !scopes.Contains(read.scope) || failure != nil {
			continue
		}
		if err := read.read(dates); err != nil {
			return Today{}, err
		}
	}
	return today, nil
}
