package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/citus"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
)

// Reconciled counts what a reconciliation has read and changed.
type Reconciled struct {
	Entries      int64 `json:"entries"`
	Users        int64 `json:"users_deleted"`
	Clients      int64 `json:"clients_offboarded"`
	Revoked      int64 `json:"connections_revoked"`
	Disconnected int64 `json:"connections_disconnected"`
	Authorized   int64 `json:"connections_authorized"`
}

// Reconcile brings a database that a restore or a failover has set back to where the events of a later audit log left it, in any order. It
// deletes users, offboards clients and replays the last act on each connection. It skips what has changed since, and may be repeated.
func Reconcile(ctx context.Context, pool *postgres.Pool, accounts *account.Accounts, events iter.Seq2[audit.Event, error]) (Reconciled, error) {
	if half, err := citus.IsHalfDone(ctx, pool); half || err != nil {
		return Reconciled{}, cmp.Or(err, errors.New("the tables are being distributed: run connect-svc migrate distribute to its end first"))
	}
	lost, err := readLost(events)
	if err != nil {
		return Reconciled{}, err
	}
	done, err := lost.replay(ctx, pool, accounts)
	if err != nil {
		return done, err
	}
	return done, postgres.RecordReconciliation(ctx, pool)
}

// lost is what an audit log says last about each user, client and connection.
type lost struct {
	entries     int64
	users       map[uuid.UUID]time.Time // when they were deleted
	clients     map[uuid.UUID]bool      // that were offboarded
	connections map[[2]uuid.UUID][]oauth.Act
}

func readLost(events iter.Seq2[audit.Event, error]) (lost, error) {
	l := lost{users: map[uuid.UUID]time.Time{}, clients: map[uuid.UUID]bool{}, connections: map[[2]uuid.UUID][]oauth.Act{}}
	for event, err := range events {
		if err != nil {
			return l, err
		}
		l.entries++
		switch event.Action {
		case "user.deleted":
			if event.At.After(l.users[event.UserID]) {
				l.users[event.UserID] = event.At
			}
		case "client.offboarded":
			l.clients[event.ClientID] = true
		case "connection.authorized", "connection.recovered", "connection.revoked", "connection.disconnected":
			act, err := actOf(event)
			if err != nil {
				return l, fmt.Errorf("audit log: %s at %s: %w", event.Action, event.At.UTC().Format(time.RFC3339Nano), err)
			}
			// It counts unless an act of a later version is dated later, too. Then the versions began anew, because the user was deleted,
			// or the clock was wrong: see [lost.acts].
			key := [2]uuid.UUID{event.UserID, event.ClientID}
			follows := func(a, b oauth.Act) bool { return later(a, b) >= 0 && !a.At.Before(b.At) }
			if acts := l.connections[key]; !slices.ContainsFunc(acts, func(a oauth.Act) bool { return follows(a, act) }) {
				l.connections[key] = append(slices.DeleteFunc(acts, func(a oauth.Act) bool { return follows(act, a) }), act)
			}
		}
	}
	return l, nil
}

// later orders the acts on a connection by version. An act may be dated ahead, if the clock was. Of one version, the revocation comes
// last, also in the alphabet.
func later(a, b oauth.Act) int {
	return cmp.Or(cmp.Compare(a.Version, b.Version), cmp.Compare(a.Action, b.Action))
}

// acts returns the last act on each connection, of those since the user was deleted.
func (l lost) acts() (last []oauth.Act) {
	for key, acts := range l.connections {
		acts = slices.DeleteFunc(acts, func(a oauth.Act) bool { return !a.At.After(l.users[key[0]]) })
		if len(acts) == 0 {
			continue
		}
		act := slices.MaxFunc(acts, later)
		act.Until = act.At
		for _, a := range acts {
			if a.Action == "connection.authorized" && a.At.After(act.Until) {
				act.Until = a.At
			}
		}
		last = append(last, act)
	}
	return last
}

func actOf(event audit.Event) (oauth.Act, error) {
	detail := struct {
		Scopes, Reason, By string
		Replayed           time.Time // of an entry that an earlier reconciliation has made: when By did it
	}{By: event.Actor, Replayed: event.At}
	err := json.Unmarshal(event.Detail, &detail)
	act := oauth.Act{
		UserID: event.UserID, ClientID: event.ClientID, Version: event.ConnectionVersion, Action: event.Action, Actor: detail.By,
		Reason: detail.Reason, At: detail.Replayed,
	}
	if act.Action == "connection.recovered" {
		act.Action = "connection.authorized"
	}
	if err == nil && act.Action == "connection.authorized" {
		act.Scopes, err = scope.Parse(detail.Scopes)
	}
	return act, err
}

// replay deletes users first, because their connections end with them. It offboards clients last, because that sends each user whose connection it
// ends a receipt: those whose end is in the log have had theirs.
func (l lost) replay(ctx context.Context, pool *postgres.Pool, accounts *account.Accounts) (done Reconciled, err error) {
	done.Entries = l.entries
	for id, at := range l.users {
		user, err := accounts.GetUser(ctx, id)
		if errors.Is(err, refusal.ErrUserNotFound) || err == nil && user.CreatedAt.After(at) { // or created again
			continue
		}
		if err == nil {
			_, err = accounts.DeleteUser(ctx, id)
		}
		if err != nil {
			return done, err
		}
		done.Users++
	}
	changed, err := oauth.Replay(ctx, pool, l.acts())
	done.Revoked, done.Disconnected, done.Authorized =
		changed["connection.revoked"], changed["connection.disconnected"], changed["connection.authorized"]
	if err != nil {
		return done, err
	}
	clients := client.NewRegistry(pool, oauth.EndConnectionsOfClient)
	for id := range l.clients {
		switch _, err := clients.Offboard(ctx, id); {
		case err == nil:
			done.Clients++
		case !errors.Is(err, refusal.ErrClientNotFound) && !errors.Is(err, refusal.ErrClientOffboarded):
			return done, err
		}
	}
	return done, nil
}
