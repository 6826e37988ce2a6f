package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/audit"
	"connect-svc/internal/client"
	"connect-svc/internal/oauth"
	"connect-svc/internal/postgres"
	"connect-svc/internal/refusal"
	"connect-svc/internal/scope"
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
	connections map[[2]uuid.UUID]oauth.Act
}

func readLost(events iter.Seq2[audit.Event, error]) (lost, error) {
	l := lost{users: map[uuid.UUID]time.Time{}, clients: map[uuid.UUID]bool{}, connections: map[[2]uuid.UUID]oauth.Act{}}
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
			key := [2]uuid.UUID{event.UserID, event.ClientID}
			// In JSON, times are accurate to a millisecond. Of one version, the revocation comes last, also in the alphabet.
			if known := l.connections[key]; cmp.Or(known.At.Compare(event.At), cmp.Compare(known.Version, event.ConnectionVersion),
				cmp.Compare(known.Action, event.Action)) > 0 {
				continue
			}
			if l.connections[key], err = actOf(event); err != nil {
				return l, fmt.Errorf("audit log: %s at %s: %w", event.Action, event.At.UTC().Format(time.RFC3339Nano), err)
			}
		}
	}
	return l, nil
}

func actOf(event audit.Event) (oauth.Act, error) {
	var detail struct{ Scopes, Reason string }
	err := json.Unmarshal(event.Detail, &detail)
	act := oauth.Act{
		UserID: event.UserID, ClientID: event.ClientID, Version: event.ConnectionVersion, Action: event.Action, Actor: event.Actor,
		Reason: detail.Reason, At: event.At,
	}
	if act.Action == "connection.recovered" {
		act.Action = "connection.authorized"
	}
	if err == nil && act.Action == "connection.authorized" {
		act.Scopes, err = scope.Parse(detail.Scopes)
	}
	return act, err
}

// replay ends users and clients first, because their connections end with them.
func (l lost) replay(ctx context.Context, pool *postgres.Pool, accounts *account.Accounts) (done Reconciled, err error) {
	done.Entries = l.entries
	clients := client.NewRegistry(pool, oauth.EndConnectionsOfClient)
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
	for id := range l.clients {
		switch _, err := clients.Offboard(ctx, id); {
		case err == nil:
			done.Clients++
		case !errors.Is(err, refusal.ErrClientNotFound) && !errors.Is(err, refusal.ErrClientOffboarded):
			return done, err
		}
	}
	changed, err := oauth.Replay(ctx, pool, slices.Collect(maps.Values(l.connections)))
	done.Revoked, done.Disconnected, done.Authorized =
		changed["connection.revoked"], changed["connection.disconnected"], changed["connection.authorized"]
	return done, err
}
