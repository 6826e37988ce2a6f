package audit

import (
	"context"
	"encoding/json"
	"regexp"
	"sync"
	"time"

	"github.com/google/uuid"

	auditdb "connect-svc/gen/db/audit"
	"connect-svc/internal/actor"
	"connect-svc/internal/postgres"
)

// What is noted of operators beside their acts. The others are written by the statements of what they tell of.
const (
	signInFailed = "console.sign_in_failed"
	exported     = "audit.exported"
)

// rarely is how often an entry is written at most that somebody could cause again and again.
const rarely = time.Minute

// maxRare bounds what is remembered of those who caused such entries.
const maxRare = 1000

// NoteFailedSignIn notes that somebody of a network tried to sign in to the console in vain, at most once a minute for each network.
// There is no address in the entry: the log holds none.
func (l *Log) NoteFailedSignIn(ctx context.Context, now time.Time, network string) error {
	return l.failed.once(network, now, func() error {
		return l.note(ctx, "system", signInFailed, nil)
	})
}

// NoteExport notes that the operator of ctx takes what fits a filter out of the log. by is the way.
func (l *Log) NoteExport(ctx context.Context, by string, filter Filter) error {
	return l.note(ctx, actor.Of(ctx), exported, filter.detail(by))
}

// NoteListing is NoteExport for one of the many pages of a list, at most once a minute for each operator.
func (l *Log) NoteListing(ctx context.Context, now time.Time, by string) error {
	return l.listed.once(actor.Of(ctx), now, func() error {
		return l.NoteExport(ctx, by, Filter{})
	})
}

func (l *Log) note(ctx context.Context, actor, action string, detail map[string]string) error {
	if detail == nil {
		detail = map[string]string{}
	}
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	return postgres.Wrap("audit log: note", l.queries.Note(ctx, auditdb.NoteParams{Actor: actor, Action: action, Detail: text}))
}

// word is what actors and actions are made of. Another text that was searched for may be an address.
var word = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// detail says what fits a filter.
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

// rare remembers what was done within the last minute, by key. Its zero value remembers nothing.
type rare struct {
	mu   sync.Mutex
	done map[string]time.Time
}

// once acts unless it did for the key within a minute. Where too many keys came within a minute, the others are one. What failed was
// not done.
func (r *rare) once(key string, now time.Time, act func() error) error {
	key, first := r.claim(key, now)
	if !first {
		return nil
	}
	err := act()
	if err != nil {
		r.mu.Lock()
		delete(r.done, key)
		r.mu.Unlock()
	}
	return err
}

func (r *rare) claim(key string, now time.Time) (claimed string, first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.done) >= maxRare {
		for key, at := range r.done {
			if now.Sub(at).Abs() >= rarely {
				delete(r.done, key)
			}
		}
	}
	if _, known := r.done[key]; !known && len(r.done) >= maxRare {
		key = ""
	}
	if at, known := r.done[key]; known && now.Sub(at).Abs() < rarely { // the clock may have been set back
		return key, false
	}
	if r.done == nil {
		r.done = map[string]time.Time{}
	}
	r.done[key] = now
	return key, true
}
