package audit

import (
	"context"
	"encoding/json"
	"maps"
	"regexp"
	"sync"
	"time"

	"github.com/google/uuid"

	auditdb "connect-svc/gen/db/audit"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

// rarely is the shortest time between two equal entries of kinds that could otherwise flood the log.
const rarely = time.Minute

// maxRare bounds the networks and operators that are remembered for it.
const maxRare = 1000

// RecordFailedSignIn records that a sign-in to the console from a network failed, at most once a minute for each network. The entry has
// no address.
func (l *Log) RecordFailedSignIn(ctx context.Context, now time.Time, network string) error {
	return l.failedSignIns.once(network, now, func() error {
		return l.record(ctx, "system", "console.sign_in_failed", map[string]string{})
	})
}

// RecordExport records that the operator of ctx exports the events that match a filter. by names the interface.
func (l *Log) RecordExport(ctx context.Context, by string, filter Filter) error {
	return l.record(ctx, work.Actor(ctx), "audit.exported", filter.detail(by))
}

// RecordDismissal records that the operator of ctx dismisses a server that is lost.
func (l *Log) RecordDismissal(ctx context.Context, server uuid.UUID) error {
	return l.record(ctx, work.Actor(ctx), "server.dismissed", map[string]string{"server": server.String()})
}

// RecordListing is RecordExport for the pages of a list, at most once a minute for each operator.
func (l *Log) RecordListing(ctx context.Context, now time.Time, by string) error {
	return l.listings.once(work.Actor(ctx), now, func() error {
		return l.RecordExport(ctx, by, Filter{})
	})
}

func (l *Log) record(ctx context.Context, actor, action string, detail map[string]string) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	return postgres.Wrap("audit log: record", l.queries.InsertEntry(ctx, auditdb.InsertEntryParams{Actor: actor, Action: action, Detail: text}))
}

// word matches actors and actions. Another text in a filter may be an address.
var word = regexp.MustCompile(`^([a-z]+:)?[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

func (f Filter) detail(by string) map[string]string {
	detail := map[string]string{"by": by}
	add := func(name, value string, given bool) {
		if given {
			detail[name] = value
		}
	}
	add("since", f.Since.UTC().Format(time.RFC3339Nano), !f.Since.IsZero())
	add("until", f.Until.UTC().Format(time.RFC3339Nano), !f.Until.IsZero())
	add("user_id", f.UserID.String(), f.UserID != uuid.Nil)
	add("client_id", f.ClientID.String(), f.ClientID != uuid.Nil)
	add("actor", f.Actor, word.MatchString(f.Actor))
	add("action", f.Action, word.MatchString(f.Action))
	return detail
}

// rare remembers, by key, what was done within the last minute. Its zero value is empty.
type rare struct {
	mu   sync.Mutex
	done map[string]time.Time
}

// once calls act unless it did so for the key within a minute. If there are too many keys within a minute, the rest share one. A failed
// act does not count.
func (r *rare) once(key string, now time.Time, act func() error) error {
	key, first := r.claim(key, now)
	if !first {
		return nil
	}
	err := act()
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.done, key)
	}
	return err
}

func (r *rare) claim(key string, now time.Time) (claimed string, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.done == nil {
		r.done = map[string]time.Time{}
	}
	maps.DeleteFunc(r.done, func(_ string, at time.Time) bool { return now.Sub(at).Abs() >= rarely }) // the clock may have been set back
	_, known := r.done[key]
	if !known && len(r.done) >= maxRare {
		key = ""
		_, known = r.done[key]
	}
	if !known {
		r.done[key] = now
	}
	return key, !known
}
