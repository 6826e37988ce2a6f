package client_test

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

var rideClub = client.Registration{
	Name:         "Ride Club",
	CallbackURL:  "https://ride.example/callback",
	Scopes:       scope.DailySteps | scope.CyclingActivities,
	Policy:       client.Policy{RequestsPerMinute: 60, Burst: 5, ConcurrentReads: 2},
	ContactEmail: "it@ride.example",
	HomepageURL:  "https://ride.example/",

	WebhookParallel: 64,
}

func create(t *testing.T, registry *client.Registry, registration client.Registration) (client.Client, string) {
	t.Helper()
	created, secret, err := registry.Create(t.Context(), registration)
	if err != nil {
		t.Fatal(err)
	}
	return created, secret
}

// ending ends the context of each statement after a commit, as where the time of a request is over then.
type ending struct{ committed atomic.Bool }

func (e *ending) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	if !e.committed.Load() {
		e.committed.Store(query.SQL == "commit")
		return ctx
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return ended
}

func (*ending) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// Once a client is registered nothing can fail any more: nobody would have its secret, and a repetition would register another one.
func TestCreatedWithItsSecret(t *testing.T) {
	t.Parallel()
	pool, err := postgres.Open(t.Context(), pgtest.New(t).URL, postgres.WithTracer(new(ending)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	created, secret := create(t, client.NewRegistry(pool, oauth.EndConnectionsOfClient), rideClub)
	if diff := cmp.Diff(rideClub, created.Registration); diff != "" || secret == "" || created.Status != client.Active {
		t.Errorf("created %+v with the secret %q (-want +got):\n%s", created, secret, diff)
	}
}

func TestCreateGetList(t *testing.T) {
	t.Parallel()
	registry := client.NewRegistry(pgtest.New(t).Pool, oauth.EndConnectionsOfClient)
	plain := client.Registration{
		Name: "Zwölf Räder", CallbackURL: "https://a.example/b?x=1", Scopes: scope.All, Policy: client.DefaultPolicy,
		WebhookParallel: client.DefaultWebhookParallel,
	}
	one, _ := create(t, registry, rideClub)
	two, _ := create(t, registry, plain)
	if diff := cmp.Diff(rideClub, one.Registration); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(plain, two.Registration); diff != "" {
		t.Errorf("created (-want +got):\n%s", diff)
	}
	if one.Status != client.Active || one.CreatedAt.IsZero() {
		t.Errorf("status %s, created at %v", one.Status, one.CreatedAt)
	}
	got, err := registry.Get(t.Context(), one.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(one, got); diff != "" {
		t.Errorf("Get (-want +got):\n%s", diff)
	}
	list, err := registry.List(t.Context(), client.Filter{}, page.Key{}, 10)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]client.Client{one, two}, list); diff != "" {
		t.Errorf("List (-want +got):\n%s", diff)
	}
	if second, err := registry.List(t.Context(), client.Filter{}, one.Key(), 1); err != nil || !cmp.Equal(second, []client.Client{two}) {
		t.Errorf("a page: %v, %v", second, err)
	}
	if _, err := registry.Get(t.Context(), uuid.New()); !errors.Is(err, refusal.ErrClientNotFound) {
		t.Errorf("Get of an unknown client: %v", err)
	}
}

// Two registrations with one id create one client, with the first secret.
func TestRegisterIsOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	registry := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	id := uuid.New()
	_, secret, err := registry.Register(t.Context(), id, rideClub)
	if err != nil || secret == "" {
		t.Fatal(err)
	}
	if _, again, err := registry.Register(t.Context(), id, rideClub); !errors.Is(err, client.ErrExists) || again != "" {
		t.Errorf("again: %v", err)
	}
	if n := pgtest.Value[int](t, db, "select count(*) from audit_log where action = 'client.created'"); n != 1 {
		t.Errorf("%d entries in the audit log", n)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	one, two := db.Client(t, func(c *pgtest.Client) { c.Name = "Ride & Club" }), db.Client(t)
	names, err := client.NewRegistry(db.Pool, nil).Names(t.Context(), []uuid.UUID{one.ID, uuid.New(), uuid.Nil, one.ID})
	if err != nil || len(names) != 1 || names[one.ID] != "Ride & Club" {
		t.Errorf("the names are %v, %v; there is also %s", names, err, two.ID)
	}
}

func TestCreateRefusesBadFields(t *testing.T) {
	t.Parallel()
	registry := client.NewRegistry(pgtest.New(t).Pool, oauth.EndConnectionsOfClient)
	for _, test := range []struct {
		field  string
		change func(*client.Registration)
	}{
		{"name", func(r *client.Registration) { r.Name = "" }},
		{"name", func(r *client.Registration) { r.Name = strings.Repeat("ü", 101) }},
		{"name", func(r *client.Registration) { r.Name = "Ride\x00Club" }},
		{"name", func(r *client.Registration) { r.Name = " Ride Club" }},
		{"name", func(r *client.Registration) { r.Name = "Ride\xffClub" }},
		{"name", func(r *client.Registration) { r.Name = "Ride \u202ebulC" }}, // shows as another name
		{"contact-email", func(r *client.Registration) { r.ContactEmail = "it@ride.example?bcc=eve@evil.example" }},
		{"contact-email", func(r *client.Registration) { r.ContactEmail = "it\u202e@ride.example" }},
		{"name", func(r *client.Registration) { r.Name = "Ride\u2028Club" }},
		{"name", func(r *client.Registration) { r.Name = "\u200d" }}, // shows as nothing
		{"name", func(r *client.Registration) { r.Name = "\u3164" }}, // so does a letter that fills a syllable
		{"name", func(r *client.Registration) { r.Name = "Ride\uffa0Club" }},
		{"name", func(r *client.Registration) { r.Name = "\u2800\u2800" }}, // Braille without a dot
		{"callback", func(r *client.Registration) { r.CallbackURL = "http://localhost/callback" }},
		{"scope", func(r *client.Registration) { r.Scopes = 0 }},
		{"scope", func(r *client.Registration) { r.Scopes = 8 }},
		{"requests-per-minute", func(r *client.Registration) { r.Policy.RequestsPerMinute = 0 }},
		{"burst", func(r *client.Registration) { r.Policy.Burst = -1 }},
		{"burst", func(r *client.Registration) { r.Policy.Burst = 1_000_001 }},
		{"concurrent-reads", func(r *client.Registration) { r.Policy.ConcurrentReads = 10_001 }},
		{"contact-email", func(r *client.Registration) { r.ContactEmail = "Ride <it@ride.example>" }},
		{"homepage", func(r *client.Registration) { r.HomepageURL = "javascript:alert(1)" }},
		{"homepage", func(r *client.Registration) { r.HomepageURL = "http://ride.example" }},
		{"homepage", func(r *client.Registration) { r.HomepageURL = "https://:443/" }},
	} {
		registration := rideClub
		test.change(&registration)
		_, _, err := registry.Create(t.Context(), registration)
		var wrong refusal.Field
		if !errors.As(err, &wrong) || wrong.Path != test.field {
			t.Errorf("%+v: %v, want an error of %s", registration, err, test.field)
		}
	}
	registration := rideClub
	registration.Name = strings.Repeat("ü", 100)
	create(t, registry, registration)
}

// Specification section 1 and 4.2: what a callback may be.
func TestValidateCallback(t *testing.T) {
	for _, good := range []string{
		"https://partner.example/callback",
		"https://partner.example:8443/callback",
		"https://localhost:9443/callback",
		"https://127.0.0.1:9443/cb",
		"https://[::1]/cb",
		"https://partner.example/cb?tenant=7&kind=a%20b",
		"https://partner.example/a/b/",
		"https://partner.example/" + strings.Repeat("x", 2024),
	} {
		if err := client.ValidateCallback(good); err != nil {
			t.Errorf("%.60s: %v", good, err)
		}
	}
	for name, bad := range map[string]string{
		"empty":                  "",
		"plain HTTP":             "http://partner.example/callback",
		"plain HTTP localhost":   "http://localhost/callback",
		"custom scheme":          "myapp://callback/x",
		"upper-case scheme":      "HTTPS://partner.example/callback",
		"no scheme":              "partner.example/callback",
		"no host":                "https:///callback",
		"port alone":             "https://:443/callback",
		"no path":                "https://partner.example",
		"path /":                 "https://partner.example/",
		"path / with a query":    "https://partner.example/?x=1",
		"fragment":               "https://partner.example/callback#x",
		"empty fragment":         "https://partner.example/callback#",
		"wildcard":               "https://*.partner.example/callback",
		"wildcard in the path":   "https://partner.example/*",
		"credentials":            "https://user:pass@partner.example/callback",
		"user alone":             "https://user@partner.example/callback",
		"space":                  "https://partner.example/call back",
		"space at the end":       "https://partner.example/callback ",
		"line break":             "https://partner.example/callback\n",
		"tab":                    "https://partner.example/\tcallback",
		"NUL":                    "https://partner.example/callback\x00",
		"backslash":              `https://partner.example\callback/x`,
		"beyond ASCII":           "https://partner.example/café",
		"bad escape":             "https://partner.example/%zz",
		"bad query":              "https://partner.example/cb?x=%zz",
		"semicolon":              "https://partner.example/cb?a=1;b=2",
		"code":                   "https://partner.example/cb?code=1",
		"state":                  "https://partner.example/cb?state",
		"error":                  "https://partner.example/cb?x=1&error=",
		"error_description":      "https://partner.example/cb?error_description=x",
		"escaped code":           "https://partner.example/cb?%63ode=1",
		"longer than 2048":       "https://partner.example/" + strings.Repeat("x", 2025),
		"port that is no port":   "https://partner.example:x/cb",
		"port 0":                 "https://partner.example:0/cb",
		"port of 17 bits":        "https://partner.example:65536/cb",
		"host with a bad escape": "https://partner%zz.example/cb",
		"host that is no text":   "https://partner%ff.example/cb",
	} {
		if err := client.ValidateCallback(bad); err == nil {
			t.Errorf("%s: accepted %.60q", name, bad)
		}
	}
}

func FuzzValidateCallback(f *testing.F) {
	f.Add("https://partner.example/callback?x=1")
	f.Add("https://partner.example/cb#")
	f.Fuzz(func(t *testing.T, callback string) {
		if client.ValidateCallback(callback) != nil {
			return
		}
		parsed, err := url.Parse(callback)
		if err != nil || parsed.Scheme != "https" || parsed.Host == "" || parsed.User != nil || parsed.Fragment != "" ||
			strings.Trim(parsed.Path, "/") == "" && len(parsed.Path) < 2 || len(callback) > 2048 {
			t.Errorf("accepted %q", callback)
		}
		for _, char := range callback {
			if char <= ' ' || char > '~' || char == '*' || char == '\\' {
				t.Errorf("accepted %q", callback)
			}
		}
	})
}

// Specification 5.1: only the hash of a secret is stored, each client has its own, and a rotation replaces it.
func TestSecret_5_1(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	registry := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	registered, secret := create(t, registry, rideClub)
	other, otherSecret := create(t, registry, rideClub)
	holds := func(when string, id uuid.UUID, secret string, status client.Status) {
		t.Helper()
		if hash := pgtest.Value[[]byte](t, db, "select secret_hash from clients where client_id = $1", id); !credential.MatchesHash(secret, hash) {
			t.Errorf("%s: the hash is not that of the secret", when)
		}
		if got, err := registry.Get(t.Context(), id); err != nil || got.Status != status {
			t.Errorf("%s: status %s, %v, want %s", when, got.Status, err, status)
		}
	}
	if secret == otherSecret {
		t.Error("two clients have one secret")
	}
	holds("registered", registered.ID, secret, client.Active)
	holds("another", other.ID, otherSecret, client.Active)

	rotated, err := registry.RotateSecret(t.Context(), registered.ID, 0)
	if err != nil {
		t.Fatal(err)
	}
	replacement := rotated.Secret
	if replacement == secret {
		t.Error("the secret is the one before")
	}
	holds("rotated", registered.ID, replacement, client.Active)
	for range 2 { // it changes nothing the second time
		if err := registry.Disable(t.Context(), registered.ID); err != nil {
			t.Fatal(err)
		}
	}
	holds("disabled", registered.ID, replacement, client.Disabled)
	holds("another", other.ID, otherSecret, client.Active)
	if err := registry.Enable(t.Context(), registered.ID); err != nil {
		t.Fatal(err)
	}
	holds("enabled again", registered.ID, replacement, client.Active)
}

// The bounds of an overlap, and how it is shown. Package oauth tests what each of the secrets can do.
func TestOverlap(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	db.StartAt(t, time.Now())
	registry := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	registered, _ := create(t, registry, rideClub)
	const maxOverlap = 720 * time.Hour
	for _, overlap := range []time.Duration{-time.Second, time.Millisecond, maxOverlap + time.Second} {
		_, err := registry.RotateSecret(t.Context(), registered.ID, overlap)
		if wrong := (refusal.Field{}); !errors.As(err, &wrong) || wrong.Path != "overlap" {
			t.Errorf("overlap %s: %v", overlap, err)
		}
	}
	rotate := func(overlap time.Duration) time.Time {
		t.Helper()
		rotated, err := registry.RotateSecret(t.Context(), registered.ID, overlap)
		if err != nil {
			t.Fatal(err)
		}
		got, err := registry.Get(t.Context(), registered.ID)
		if err != nil || !got.OverlapUntil.Equal(rotated.OverlapUntil) {
			t.Errorf("overlap %s: %s, %v, want %s", overlap, got.OverlapUntil, err, rotated.OverlapUntil)
		}
		return rotated.OverlapUntil
	}
	if until := rotate(0); !until.IsZero() {
		t.Errorf("without an overlap: until %s", until)
	}
	before := db.Now()
	if until := rotate(maxOverlap); until.Sub(before) < maxOverlap-time.Minute || until.Sub(before) > maxOverlap+time.Minute {
		t.Errorf("30 days: until %s", until)
	}
	rotate(time.Second)
	db.Clock.Advance(2 * time.Second)
	if got, err := registry.Get(t.Context(), registered.ID); err != nil || !got.OverlapUntil.IsZero() {
		t.Errorf("when it is over: %s, %v", got.OverlapUntil, err)
	}
	if list, err := registry.List(t.Context(), client.Filter{}, page.Key{}, 10); err != nil || !list[0].OverlapUntil.IsZero() {
		t.Errorf("the list, when it is over: %v, %v", list, err)
	}
	audited := pgtest.Value[string](t, db, "select string_agg(detail::text, ' ' order by id) from audit_log where action = 'client.secret_replaced'")
	if want := `{} {"overlap_seconds": 2592000} {"overlap_seconds": 1}`; audited != want {
		t.Errorf("the audit log says %s, want %s", audited, want)
	}

	// Two concurrent rotations return different secrets, and both work: one as the previous one.
	var group sync.WaitGroup
	secrets := make([]string, 2)
	for i := range secrets {
		group.Go(func() {
			rotated, err := registry.RotateSecret(t.Context(), registered.ID, time.Hour)
			if err != nil {
				t.Error(err)
			}
			secrets[i] = rotated.Secret
		})
	}
	group.Wait()
	for _, secret := range secrets {
		if n := pgtest.Value[int](t, db, "select count(*)::int from clients where $1 in (secret_hash, previous_secret_hash)", credential.Hash(secret)); n != 1 {
			t.Error("a secret that was given out does not work")
		}
	}
}

func TestOffboardedAndUnknownClientsStay(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	registry := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	registered, _ := create(t, registry, rideClub)
	if n, err := registry.Offboard(t.Context(), registered.ID); err != nil || n != 0 {
		t.Fatalf("offboard: %d connections, %v", n, err)
	}
	if got, err := registry.Get(t.Context(), registered.ID); err != nil || got.Status != client.Offboarded {
		t.Errorf("an offboarded client: %s, %v", got.Status, err)
	}
	for name, act := range map[string]func(uuid.UUID) error{
		"enable":  func(id uuid.UUID) error { return registry.Enable(t.Context(), id) },
		"disable": func(id uuid.UUID) error { return registry.Disable(t.Context(), id) },
		"rotate":  func(id uuid.UUID) error { _, err := registry.RotateSecret(t.Context(), id, time.Hour); return err },
		"update": func(id uuid.UUID) error {
			_, err := registry.Update(t.Context(), id, func(r *client.Registration) { r.Name = "Other" })
			return err
		},
		"offboard": func(id uuid.UUID) error { _, err := registry.Offboard(t.Context(), id); return err },
	} {
		if err := act(registered.ID); !errors.Is(err, refusal.ErrClientOffboarded) {
			t.Errorf("%s an offboarded client: %v", name, err)
		}
		if err := act(uuid.New()); !errors.Is(err, refusal.ErrClientNotFound) {
			t.Errorf("%s an unknown client: %v", name, err)
		}
	}
}

func TestUpdate(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	registry := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	registered, secret := create(t, registry, rideClub)
	want := registered
	want.CallbackURL = "https://ride.example/new"
	want.Scopes = scope.All
	want.Policy.Burst = 50
	want.ContactEmail, want.HomepageURL = "", ""
	change := func(r *client.Registration) { *r = want.Registration }
	for range 2 { // it changes nothing the second time
		got, err := registry.Update(t.Context(), registered.ID, change)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Update (-want +got):\n%s", diff)
		}
	}
	if got, err := registry.Get(t.Context(), registered.ID); err != nil || !cmp.Equal(want, got) {
		t.Errorf("afterwards: %+v, %v", got, err)
	}
	if hash := pgtest.Value[[]byte](t, db, "select secret_hash from clients"); !credential.MatchesHash(secret, hash) {
		t.Error("the update changed the secret")
	}

	_, err := registry.Update(t.Context(), registered.ID, func(r *client.Registration) { r.Policy.Burst, r.Name = 7, "" })
	if wrong := (refusal.Field{}); !errors.As(err, &wrong) || wrong.Path != "name" {
		t.Errorf("a wrong field: %v", err)
	}
	if got, err := registry.Get(t.Context(), registered.ID); err != nil || !cmp.Equal(want, got) {
		t.Errorf("a wrong field changed %s: %v", cmp.Diff(want, got), err)
	}

	detail := pgtest.Value[string](t, db, "select string_agg(detail::text, ' ') from audit_log where action = 'client.updated'")
	const audited = `{"burst": {"to": 50, "from": 5}, "scopes": ` +
		`{"to": "daily_steps:read cycling_daily:read cycling_activities:read", "from": "daily_steps:read cycling_activities:read"}, ` +
		`"callback_url": {"to": "https://ride.example/new", "from": "https://ride.example/callback"}, ` +
		`"homepage_url": {"to": "", "from": "https://ride.example/"}, "contact_email": {}}`
	if detail != audited {
		t.Errorf("the audit log says %s\nwant %s", detail, audited)
	}
}

// TestSecretReplacedAtOnce: of many who have seen the same secret, one replaces it, and that secret works on.
func TestSecretReplacedAtOnce(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	registry := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	registered, secret := create(t, registry, rideClub)
	var seen time.Time
	for round := range 3 {
		rotated := make(chan client.Secret, 8)
		var presses sync.WaitGroup
		for range cap(rotated) {
			presses.Go(func() {
				replacement, err := registry.RotateSeenSecret(t.Context(), registered.ID, time.Hour, seen)
				if err == nil {
					rotated <- replacement
				} else if !errors.Is(err, client.ErrReplacedSince) {
					t.Error(err)
				}
			})
		}
		presses.Wait()
		if len(rotated) != 1 {
			t.Fatalf("round %d: it was replaced %d times", round, len(rotated))
		}
		if hash := pgtest.Value[[]byte](t, db, "select previous_secret_hash from clients where client_id = $1", registered.ID); !credential.MatchesHash(secret, hash) {
			t.Errorf("round %d: the secret that was seen has ended", round)
		}
		replacement := <-rotated
		secret, seen = replacement.Secret, replacement.OverlapUntil
		db.Clock.Advance(time.Minute)
	}
	db.Clock.Advance(time.Hour)
	if _, err := registry.RotateSeenSecret(t.Context(), registered.ID, time.Hour, seen); err != nil {
		t.Errorf("after the overlap: %v", err)
	}
	if _, err := registry.RotateSeenSecret(t.Context(), uuid.New(), 0, seen); !errors.Is(err, refusal.ErrClientNotFound) {
		t.Errorf("an unknown client: %v", err)
	}
}

// The console shows logos while the database's clock is not believed, whoever asks with it: no logo depends on a clock.
func TestLogoByAnyClock(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	id := db.Client(t).ID
	db.Pool.Clock().Doubt("of a test")
	if _, err := client.NewRegistry(db.Pool, nil).Logo(t.Context(), id, "logo.png"); !errors.Is(err, refusal.ErrClientNotFound) {
		t.Error(err)
	}
}

// Anyone may request a logo by any name. No name causes a failure, neither for its request nor for concurrent ones.
func TestLogoOfAnyName(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	r := client.NewRegistry(db.Pool, nil)
	for _, name := range []string{"", "\x00", "\xff", "logo.png\x00", strings.Repeat("x", 5000), "../logo.png", "logo.png"} {
		if _, err := r.Logo(t.Context(), db.Client(t).ID, name); !errors.Is(err, refusal.ErrClientNotFound) {
			t.Errorf("%.20q: %v", name, err)
		}
	}
}
