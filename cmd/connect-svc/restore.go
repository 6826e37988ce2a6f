package main

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

	"connect-svc/internal/audit"
	"connect-svc/internal/client"
	"connect-svc/internal/oauth"
	"connect-svc/internal/page"
	"connect-svc/internal/postgres"
	"connect-svc/internal/refusal"
	"connect-svc/internal/scope"
	"connect-svc/internal/settings"
	"connect-svc/internal/timelimit"
)

type restoreCommands struct {
	output
	databaseSetting
	Reconcile restoreReconcileCommand `cmd:"" unhurried:"" help:"Replay ends of connections that were lost." detail:"Run it before the servers start. It deletes users, offboards clients, and revokes and disconnects connections, as an audit log with later entries says; and it lets the refresh tokens of later authorizations work. It may be repeated: acts on what has changed since are skipped." example:"connect-svc restore reconcile --audit audit.json"`
}

type restoreReconcileCommand struct {
	settings.Replicas
	Audit string  `placeholder:"FILE" xor:"from" required:"" help:"The audit log: from audit list --output json, or as CSV from the console. - is standard input."`
	Since instant `placeholder:"TIME" xor:"from" required:"" help:"Read the audit log of the server at CONNECT_DATABASE_READ_URL, which has the lost commits, since this time: YYYY-MM-DD (UTC) or RFC 3339."`
}

type reconciledJSON struct {
	Entries      int64 `json:"entries"`
	Users        int64 `json:"users_deleted"`
	Clients      int64 `json:"clients_offboarded"`
	Revoked      int64 `json:"connections_revoked"`
	Disconnected int64 `json:"connections_disconnected"`
	Authorized   int64 `json:"connections_authorized"`
}

func (c restoreReconcileCommand) Run(p *program, group *restoreCommands, api *operatorAPI) error {
	events, err := c.events(p)
	if err != nil {
		return err
	}
	lost, err := readLost(events)
	if err != nil {
		return err
	}
	done, err := lost.replay(p.ctx, api)
	if err != nil {
		return err
	}
	if err := postgres.RecordReconciliation(p.ctx, api.pool); err != nil {
		return err
	}
	return group.say(p, done, "read %d entries: deleted %d users, offboarded %d clients, revoked %d and disconnected %d connections, restored %d authorizations",
		done.Entries, done.Users, done.Clients, done.Revoked, done.Disconnected, done.Authorized)
}

// events reads the audit log that has the lost commits.
func (c restoreReconcileCommand) events(p *program) (iter.Seq2[audit.Event, error], error) {
	if c.Audit != "" {
		file, _, err := p.input(c.Audit)
		if err != nil {
			return nil, fmt.Errorf("--audit: %w", err)
		}
		p.atEnd = append(p.atEnd, func() { _ = file.Close() })
		return audit.ReadExport(file), nil
	}
	if c.DatabaseReadURL == "" {
		return nil, usagef("--since: CONNECT_DATABASE_READ_URL must name the server whose audit log is read")
	}
	pool, err := postgres.Open(p.ctx, c.DatabaseReadURL, postgres.WithoutStatementTimeout())
	if err != nil {
		return nil, err
	}
	p.atEnd = append(p.atEnd, pool.Close)
	log := audit.New(pool, timelimit.Default, 0)
	return func(yield func(audit.Event, error) bool) {
		for before := (page.Key{}); ; {
			found, err := log.Search(p.ctx, audit.Filter{Since: c.Since.Time}, before, pageRows)
			for _, event := range found.Events {
				if !yield(event, nil) {
					return
				}
			}
			if err != nil {
				yield(audit.Event{}, err)
			}
			if before = found.Next; err != nil || before == (page.Key{}) {
				return
			}
		}
	}, nil
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
func (l lost) replay(ctx context.Context, api *operatorAPI) (done reconciledJSON, err error) {
	done.Entries = l.entries
	clients := client.NewRegistry(api.pool, oauth.EndConnectionsOfClient)
	for id, at := range l.users {
		user, err := api.accounts.GetUser(ctx, id)
		if errors.Is(err, refusal.ErrUserNotFound) || err == nil && user.CreatedAt.After(at) { // or created again
			continue
		}
		if err == nil {
			_, err = api.accounts.DeleteUser(ctx, id)
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
	changed, err := oauth.Replay(ctx, api.pool, slices.Collect(maps.Values(l.connections)))
	done.Revoked, done.Disconnected, done.Authorized =
		changed["connection.revoked"], changed["connection.disconnected"], changed["connection.authorized"]
	return done, err
}
