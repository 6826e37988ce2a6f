package lookup_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/admin/lookup"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// Names and addresses are found in any case, on every kind of database.
func TestFindFolds(t *testing.T) {
	t.Parallel()
	for kind := range pgtest.Locales {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			db := pgtest.NewIn(t, kind)
			ines := db.User(t, func(u *pgtest.User) { u.Email = "ines1@Users.example" })
			ren := db.User(t, func(u *pgtest.User) { u.Email = "ren@bücher.example" })
			club := db.Client(t, func(c *pgtest.Client) { c.Name = "Fitness SÜD" })
			finder := lookup.New(db.Pool)
			for text, want := range map[string]uuid.UUID{
				"INES1@USERS.EXAMPLE": ines.ID, "REN@xn--bcher-kva.example": ren.ID, "REN@BÜCHER.EXAMPLE": ren.ID,
				"FITNESS SÜD": club.ID, "fitness su\u0308d": club.ID, "ITNES": club.ID, "FITNESS SUD": uuid.Nil, "ınes1@users.example": uuid.Nil,
			} {
				found, err := finder.Find(t.Context(), text)
				if want == uuid.Nil && len(found) == 0 && err == nil {
					continue
				}
				if err != nil || len(found) != 1 || found[0].UserID != want && found[0].ClientID != want {
					t.Errorf("%q: %+v, %v", text, found, err)
				}
			}
			if id, err := finder.ClientNamed(t.Context(), "FITNESS süd"); err != nil || id != club.ID {
				t.Errorf("the client: %v, %v", id, err)
			}
		})
	}
}

// hashInLog is what the log of a request has of a grant id.
func hashInLog(t *testing.T, grantID uuid.UUID) string {
	t.Helper()
	var log bytes.Buffer
	telemetry.Requests(telemetry.NewLogger(&log, slog.LevelInfo), http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		telemetry.EventOf(r.Context()).GrantID = grantID
	})).ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
	var event struct{ Grant string }
	if err := json.Unmarshal(log.Bytes(), &event); err != nil || event.Grant == "" || strings.Contains(log.String(), grantID.String()) {
		t.Fatalf("%v: %s", err, &log)
	}
	return event.Grant
}

func TestFind(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	user, other := db.User(t), db.User(t)
	named := func(name string) pgtest.Client {
		return db.Client(t, func(c *pgtest.Client) { c.Name = name })
	}
	ride, walk, again := named("Ride Club"), named("Walk 100%_Club"), named("ride CLUB")
	grant, event, request := uuid.New(), uuid.New(), uuid.New()
	db.Exec(t, "insert into grant_directory (grant_id, user_id, client_id) values ($1, $2, $3)", grant, user.ID, walk.ID)
	db.Exec(t, `insert into webhook_events (event_id, user_id, client_id, type, grant_id, connection_version, reason, state, queued, created_at)
		values ($1, $2, $3, 'connection.revoked', $4, 1, 'user_disconnected', 'failed', true, '2026-03-09Z')`, event, user.ID, walk.ID, grant)
	db.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests, request_ids)
		values ($1, true, '2026-03-09Z', 'exchangeToken', 400, 'invalid_grant', 'code has expired', 2, $2)`, walk.ID, []uuid.UUID{uuid.New(), request})
	at := time.Date(2026, 3, 9, 0, 0, 0, 0, time.UTC)
	theUser := lookup.Found{Kind: lookup.User, UserID: user.ID, Name: user.Email}
	theWalk := lookup.Found{Kind: lookup.Client, ClientID: walk.ID, Name: walk.Name}
	theEvent := lookup.Found{Kind: lookup.Event, UserID: user.ID, ClientID: walk.ID, EventID: event, Name: walk.Name, At: at, Detail: "connection.revoked, failed"}
	clubs := []lookup.Found{{Kind: lookup.Client, ClientID: ride.ID, Name: ride.Name}, {Kind: lookup.Client, ClientID: again.ID, Name: again.Name}}
	finder := lookup.New(db.Pool)
	for text, want := range map[string][]lookup.Found{
		" " + user.ID.String() + " ": {theUser},
		strings.ToUpper(user.Email):  {theUser},
		grant.String():               {{Kind: lookup.Connection, UserID: user.ID, ClientID: walk.ID, Name: walk.Name}},
		hashInLog(t, grant):          {{Kind: lookup.Connection, UserID: user.ID, ClientID: walk.ID, Name: walk.Name}},
		hashInLog(t, event):          nil,
		walk.ID.String():             {theWalk},
		"walk 100%_club":             {theWalk},
		"100%_":                      {theWalk},
		"%":                          {theWalk},
		"RIDE CLUB":                  clubs,
		event.String():               {theEvent},
		"msg_" + strings.ReplaceAll(event.String(), "-", ""): {theEvent},
		request.String():             {{Kind: lookup.Request, ClientID: walk.ID, Name: walk.Name, At: at, Detail: "exchangeToken: 400 invalid_grant, code has expired"}},
		other.ID.String()[:35] + "x": nil,
		uuid.NewString():             nil,
		"nobody@example.com":         nil,
		"a'; drop table users --":    nil,
		"":                           nil,
	} {
		found, err := finder.Find(t.Context(), text)
		if diff := cmp.Diff(want, found); diff != "" || err != nil {
			t.Errorf("%q: %v (-want +got):\n%s", text, err, diff)
		}
	}
	if found, err := finder.Find(t.Context(), "club"); err != nil || len(found) != 3 {
		t.Errorf("a part of a name finds %+v, %v", found, err)
	}
	if id, err := finder.ClientNamed(t.Context(), "WALK 100%_club "); err != nil || id != walk.ID {
		t.Errorf("the client: %v, %v", id, err)
	}
	for name, want := range map[string]error{"Ride Club": lookup.ErrSeveral, "Walk": refusal.ErrClientNotFound, "": refusal.ErrClientNotFound} {
		if _, err := finder.ClientNamed(t.Context(), name); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
}
