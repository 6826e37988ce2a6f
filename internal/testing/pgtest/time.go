package pgtest

import (
	"fmt"
	"testing"
	"time"
)

// slowness is by how much the time of a test passes slower than the real time.
const slowness = 100

// StartAt has the time of the database be start. From then on it passes a hundred times slower than the real time, and beyond that
// as [DB.Clock] is told to advance: a test that takes a minute on a busy machine does not meet the end of a minute, or of a token.
// It does not stand still, so that what happens later has a later time.
//
// On a cluster, whose nodes have a clock of their own, time passes as fast as everywhere.
func (db *DB) StartAt(t testing.TB, start time.Time) {
	t.Helper()
	if db.spread {
		db.Clock.Set(time.Until(start))
		return
	}
	db.began, db.start = time.Now(), start
	const instant = "2006-01-02 15:04:05.999999Z07:00"
	db.Exec(t, fmt.Sprintf(`create or replace function connect_now() returns timestamptz language plpgsql stable parallel safe as
		$$ begin return '%s'::timestamptz + (statement_timestamp() - '%s'::timestamptz) / %d
			+ coalesce(nullif(current_setting('connect.clock_offset', true), ''), '0')::interval; end $$`,
		start.Format(instant), db.began.Format(instant), slowness))
}

// Jump has the clock of the database be ahead of the real time, or behind it if by is negative, without telling [DB.Clock] or any server.
func (db *DB) Jump(t testing.TB, by time.Duration) {
	t.Helper()
	db.Exec(t, fmt.Sprintf(`create or replace function connect_now() returns timestamptz language plpgsql stable parallel safe as
		$$ begin return statement_timestamp() + interval '%d microseconds'
			+ coalesce(nullif(current_setting('connect.clock_offset', true), ''), '0')::interval; end $$`, by.Microseconds()))
}

// Now is the time of the database.
func (db *DB) Now() time.Time {
	if db.began.IsZero() {
		return db.Clock.Now()
	}
	return db.start.Add(time.Since(db.began)/slowness + db.Clock.Offset())
}

// SetTime moves the time of the database to at.
func (db *DB) SetTime(at time.Time) { db.Clock.Advance(at.Sub(db.Now())) }
