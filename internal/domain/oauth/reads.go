package oauth

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	oauthdb "connect-svc/gen/db/oauth"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/work"
	"github.com/jackc/pgx/v5"
)

// Read is the last recorded read of what a scope grants. Of the reads of an hour (UTC) only one is recorded.
type Read struct {
	Of scope.Set // one scope; 0: unknown. until 1.3.0: a server of 1.0.0 has recorded it
	At time.Time
}

// Hour is the beginning of the hour (UTC) in which the client last read. Nobody knows more exactly when.
func (r Read) Hour() time.Time { return r.At.UTC().Truncate(time.Hour) }

// readsOf returns the last reads of a connection, newest first.
func readsOf(row oauthdb.ListConnectionsRow) (reads []Read) {
	if row.LastReadAt == nil { // the others are those of a connection that has ended
		return nil
	}
	for bit, at := range []*time.Time{row.StepsReadAt, row.CyclingReadAt, row.RidesReadAt} {
		if at != nil {
			reads = append(reads, Read{1 << bit, *at})
		}
	}
	slices.SortStableFunc(reads, func(a, b Read) int { return b.At.Compare(a.At) })
	if len(reads) == 0 || reads[0].At.Before(*row.LastReadAt) {
		reads = slices.Insert(reads, 0, Read{0, *row.LastReadAt})
	}
	return reads
}

// reading is what a client read of a connection in an hour. It waits to be recorded.
type reading struct {
	readingKey
	scopes scope.Set
	at     time.Time // the last of these reads
}

type readingKey struct {
	connectionKey
	version int64
	hour    int64 // Unix time
}

// RecordRead records that the bearer of an access token has read what a scope grants, unless that is recorded for this hour: so most reads
// write nothing. It never waits for the database, and [Server.Run] writes. A server that dies loses the records of some seconds.
func (s *Server) RecordRead(access *Access, used scope.Set) {
	if !scope.Set(access.Recorded).Contains(used) {
		hour := access.Now.Truncate(time.Hour).Unix()
		key := readingKey{connectionKey{access.UserID, access.ClientID}, access.ConnectionVersion, hour}
		s.reads.Add(reading{key, used, access.Now})
	}
}

// recordEvery is the pause in which reads of several datasets come together, so that one statement records them.
const recordEvery = 5 * time.Second

func (s *Server) newReads() *work.Buffer[readingKey, reading] {
	return &work.Buffer[readingKey, reading]{
		Name: "the times of reads", Logger: s.settings.Logger, Most: 20_000, Batch: 100, Every: recordEvery, Limit: s.settings.Limits.Flush,
		Key: func(r reading) readingKey { return r.readingKey },
		Merge: func(r *reading, more reading) {
			r.scopes |= more.scopes
			if more.at.After(r.at) {
				r.at = more.at
			}
		},
		Write: s.writeReads,
	}
}

// Run records reads every few seconds until ctx ends, and then once more.
func (s *Server) Run(ctx context.Context) { s.reads.Run(ctx) }

// writeReads records each reading by itself, so that none waits for another one's row. Those that fail go to the end, the first of them
// last: the others are tried before it when it has taken the time.
func (s *Server) writeReads(ctx context.Context, readings []reading) (recorded int, failure error) {
	var failed []reading
	for _, r := range readings {
		first, err := s.queries.RecordRead(ctx, oauthdb.RecordReadParams{
			UserID: r.userID, ClientID: r.clientID, Version: r.version, Scopes: int16(r.scopes), At: r.at,
		})
		switch {
		case errors.Is(err, pgx.ErrNoRows): // it is recorded, another act has the row, or the connection has ended or begun anew
		case err != nil:
			failed, failure = append(failed, r), cmp.Or(failure, err)
			continue
		case first.FirstOfClient && s.settings.Active != nil:
			s.settings.Active(r.clientID, r.at, first.FirstOfUser)
		}
		readings[recorded] = r
		recorded++
	}
	slices.Reverse(failed)
	copy(readings[recorded:], failed)
	return recorded, failure
}
