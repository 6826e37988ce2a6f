package main

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/pgtest"
)

var walkRewards = []string{"client", "create", "--name", "Walk Rewards", "--callback", "https://partner.example/cb?a=1",
	"--scope", "cycling_daily:read", "--scope", "daily_steps:read"}

// The largest policy is shown in the digits that were given.
func TestShowsTheLargestPolicy(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	created := succeedJSON[operatorapi.CreatedClient](t, env(db), "", append(slices.Clone(walkRewards), "--requests-per-minute", "1000000", "--burst", "1000000")...)
	if text := succeed(t, env(db), "", "client", "show", created.ClientId.String()); strings.Count(text, " 1000000\n") != 2 {
		t.Errorf("show, for people:\n%s", text)
	}
}

func TestClient(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	server := oauth.New(db.Pool, credential.NewTestKeyring(), oauth.DefaultSettings)
	var id string
	works := func(secret string) bool {
		credentials, err := oauth.NewCredentials(id, secret)
		if err != nil {
			t.Fatal(err)
		}
		err = server.AuthenticateClient(t.Context(), credentials)
		if err != nil && !errors.Is(err, oauth.ErrInvalidClient) {
			t.Fatal(err)
		}
		return err == nil
	}

	created := succeedJSON[operatorapi.CreatedClient](t, env(db), "", walkRewards...)
	if id = created.ClientId.String(); !works(created.ClientSecret) {
		t.Fatal("the new client's secret does not work")
	}

	got := succeedJSON[operatorapi.Client](t, env(db), "", "client", "show", id)
	want := operatorapi.Client{
		ClientId:          created.ClientId,
		Name:              "Walk Rewards",
		Status:            operatorapi.ClientStatusActive,
		CallbackUrl:       "https://partner.example/cb?a=1",
		Scopes:            []operatorapi.Scope{"daily_steps:read", "cycling_daily:read"},
		RequestsPerMinute: 600,
		Burst:             60,
		ConcurrentReads:   10,
		WebhookParallel:   8,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(operatorapi.Client{}, "CreatedAt")); diff != "" {
		t.Error(diff)
	}
	if text := succeed(t, env(db), "", "client", "show", id); !strings.Contains(text, "status               active") {
		t.Errorf("show, for people:\n%s", text)
	}

	if got := succeedJSON[operatorapi.Client](t, env(db), "", "client", "disable", id); got.Status != operatorapi.ClientStatusDisabled || works(created.ClientSecret) {
		t.Errorf("disabled: status %s, secret works: %t", got.Status, works(created.ClientSecret))
	}
	if got := succeedJSON[operatorapi.Client](t, env(db), "", "client", "enable", id); got.Status != operatorapi.ClientStatusActive || !works(created.ClientSecret) {
		t.Errorf("enabled: status %s, secret works: %t", got.Status, works(created.ClientSecret))
	}
	rotated := succeedJSON[operatorapi.RotatedClientSecret](t, env(db), "", "client", "rotate-secret", id)
	if works(created.ClientSecret) || !works(rotated.ClientSecret) {
		t.Errorf("after the rotation the old secret works: %t, the new one: %t", works(created.ClientSecret), works(rotated.ClientSecret))
	}
	overlapping := succeedJSON[operatorapi.RotatedClientSecret](t, env(db), "", "client", "rotate-secret", id, "--overlap", "24h")
	if until := instantOf(t, overlapping.OldSecretUntil); until.Sub(db.Clock.Now()).Round(time.Hour) != 24*time.Hour {
		t.Errorf("both secrets work until %v", until)
	}
	if !works(rotated.ClientSecret) || !works(overlapping.ClientSecret) {
		t.Errorf("meanwhile the old secret works: %t, the new one: %t", works(rotated.ClientSecret), works(overlapping.ClientSecret))
	}
	if text := succeed(t, env(db), "", "client", "show", id); !strings.Contains(text, "old secret until") {
		t.Errorf("the overlap is not shown:\n%s", text)
	}

	second := succeedJSON[operatorapi.CreatedClient](t, env(db), "", "client", "create", "--name", "B", "--callback", "https://b.example/cb",
		"--scope", "daily_steps:read", "--requests-per-minute", "7", "--burst", "8", "--concurrent-reads", "9",
		"--contact-email", "it@b.example", "--homepage", "https://b.example/", "--webhook-parallel", "64")
	list := succeedJSON[[]operatorapi.Client](t, env(db), "", "client", "list")
	if len(list) != 2 || list[0].ClientId != created.ClientId || list[1].ClientId != second.ClientId {
		t.Fatalf("list: %+v", list)
	}
	want = operatorapi.Client{
		ClientId: second.ClientId, Name: "B", Status: operatorapi.ClientStatusActive, CallbackUrl: "https://b.example/cb",
		Scopes: []operatorapi.Scope{"daily_steps:read"}, RequestsPerMinute: 7, Burst: 8, ConcurrentReads: 9,
		ContactEmail: "it@b.example", HomepageUrl: "https://b.example/", WebhookParallel: 64,
	}
	if diff := cmp.Diff(want, list[1], cmpopts.IgnoreFields(operatorapi.Client{}, "CreatedAt")); diff != "" {
		t.Error(diff)
	}
	if text := succeed(t, env(db), "", "client", "list"); strings.Count(text, "\n") != 3 || !strings.HasPrefix(text, "CLIENT ID") {
		t.Errorf("not a table of two clients:\n%s", text)
	}
}

// instantOf is an instant of the operator API.
func instantOf(t *testing.T, text *string) time.Time {
	t.Helper()
	if text == nil {
		t.Fatal("no instant")
	}
	at, err := time.Parse(time.RFC3339, *text)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func TestEmptyListsAreArrays(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	for _, args := range [][]string{{"client", "list"}, {"user", "list"}} {
		if text := succeed(t, env(db), "", append(args, "--output", "json")...); text != "[]\n" {
			t.Errorf("%v: %q", args, text)
		}
	}
}

// After a registration by hand the command prints the next steps where a script does not read them, without the secret.
func TestClientCreateSaysWhatComesNext(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	got := call(t, append(env(db), "CONNECT_BASE_URL=https://connect.example.com"), "", walkRewards...)
	fields := strings.Fields(got.stdout)
	if got.status != statusDone || len(fields) < 6 || fields[0] != "client" || fields[1] != "id" || strings.Contains(got.stdout, "Next") {
		t.Fatalf("status %d, stdout:\n%s", got.status, got.stdout)
	}
	id := fields[2]
	for _, line := range []string{
		"CONNECT_BASE_URL=https://connect.example.com",
		"CONNECT_CLIENT_ID=" + id,
		"CONNECT_CLIENT_SECRET=<the client secret>",
		"CONNECT_CALLBACK_URL='https://partner.example/cb?a=1'",
		"connect-svc client rotate-secret " + id,
		"connect-svc client webhook set " + id + " <url>",
		"connect-svc webhook test --client " + id,
		"https://connect.example.com/developers/",
	} {
		if !strings.Contains(got.stderr, "\n     "+line+"\n") {
			t.Errorf("no line %q in:\n%s", line, got.stderr)
		}
	}
	if strings.Contains(got.stderr, "svci_") || strings.Contains(got.stderr, "WEBHOOK_SECRET") {
		t.Errorf("a secret, or one that there is not:\n%s", got.stderr)
	}
	refuse(t, append(env(db), "CONNECT_BASE_URL=http://x"), statusUsage, []string{"CONNECT_BASE_URL"}, walkRewards...)
}

// A name that users could take for another client's is allowed, with a warning where a script does not read it.
func TestClientLookAlike(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	walk := succeedJSON[operatorapi.CreatedClient](t, env(db), "", walkRewards...).ClientId.String()
	named := func(name string) []string { return append(slices.Clone(walkRewards), "--name", name) }
	warned := func(args []string, names ...string) {
		t.Helper()
		got := call(t, env(db), "", args...)
		if got.status != statusDone || strings.Count(got.stderr, "\n") != 1 || !strings.HasPrefix(got.stderr, "connect-svc: warning: ") {
			t.Fatalf("status %d, stderr %q", got.status, got.stderr)
		}
		for _, name := range names {
			if !strings.Contains(got.stderr, name) {
				t.Errorf("stderr %q does not say %s", got.stderr, name)
			}
		}
	}
	warned(append(named("W\u0430lk-rewards"), "--output", "json"), walk, `"Walk Rewards"`) // with a Cyrillic a
	id := succeedJSON[operatorapi.CreatedClient](t, env(db), "", named("Ride Club")...).ClientId.String()
	succeed(t, env(db), "", "client", "update", id, "--name", "Ride-Club")
	succeed(t, env(db), "", "client", "update", id, "--burst", "7")
	warned([]string{"client", "update", walk, "--name", "RIDE CLUB"}, id, `"Ride-Club"`)

	// A partner may ask for such a name, too.
	db.Exec(t, `insert into change_requests (client_id, request_id, state, wanted, requested_by, requested_at)
		values ($1, gen_random_uuid(), 'open', '{"Name": "Ride-CIub"}', 'partner:kim', connect_now())`, walk)
	if shown := succeed(t, env(db), "", "client", "change-request", walk); !strings.Contains(shown, "\nconnect-svc: warning: the name is easily mistaken for that of client "+id+`, "Ride-Club"`) {
		t.Errorf("an operator who may approve the name reads:\n%s", shown)
	}
}

func TestClientRefusals(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	unknown := "0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"
	with := func(flag, value string) []string { return append(append([]string{}, walkRewards...), flag, value) }
	tests := map[string]struct {
		args   []string
		status int
		says   string
	}{
		"callback":       {with("--callback", "http://partner.example/cb"), statusUsage, "--callback: must"},
		"scope unknown":  {with("--scope", "sleep:read"), statusUsage, "--scope: must"},
		"scope twice":    {with("--scope", "daily_steps:read"), statusUsage, "--scope: must"},
		"scope empty":    {[]string{"client", "update", unknown, "--burst", "5", "--scope", ""}, statusUsage, "--scope: must"},
		"name":           {with("--name", " "), statusUsage, "--name: must"},
		"burst":          {with("--burst", "0"), statusUsage, "--burst: must"},
		"burst text":     {with("--burst", "many"), statusUsage, "--burst"},
		"homepage":       {with("--homepage", "ftp://x"), statusUsage, "--homepage: must"},
		"contact":        {with("--contact-email", "nobody"), statusUsage, "--contact-email: must"},
		"id shape":       {[]string{"client", "show", "seven"}, statusFailed, "no client"},
		"show unknown":   {[]string{"client", "show", unknown}, statusFailed, "no such client"},
		"overlap":        {[]string{"client", "rotate-secret", unknown, "--overlap", "721h"}, statusUsage, "--overlap: must be 0 or whole seconds, at most 720h"},
		"rotate unknown": {[]string{"client", "rotate-secret", unknown}, statusFailed, "no such client"},
		"disable":        {[]string{"client", "disable", unknown}, statusFailed, "no such client"},
		"enable":         {[]string{"client", "enable", unknown}, statusFailed, "no such client"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refuse(t, env(db), tt.status, []string{tt.says}, tt.args...)
		})
	}
	t.Cleanup(func() {
		if n := pgtest.Value[int64](t, db, "select count(*) from clients"); n != 0 {
			t.Errorf("%d clients were made", n)
		}
	})
}

// Every command on a database of another schema says what to do.
func TestCommandsOnAnEmptyDatabase(t *testing.T) {
	t.Parallel()
	refuse(t, env(pgtest.NewEmpty(t)), statusFailed, []string{"connect-svc migrate up"}, "client", "list")
}

// People read who changed what in a line of text, and both secrets once.
func TestSuspendForPeople(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	env := allSettings(t, db)
	made := succeedJSON[operatorapi.CreatedClient](t, env, "", "client", "create", "--name", "Walk", "--callback", "https://walk.example/cb",
		"--scope", "daily_steps:read", "--webhook-url", "https://walk.example/hook")
	id := made.ClientId.String()
	succeed(t, with(env, "CONNECT_OPERATOR=eve"), "", "client", "update", id, "--callback", "https://eve.example/cb")
	suspended := succeed(t, env, "", "client", "suspend", id, "--yes")
	for _, want := range []string{`status +disabled`, `AT +ACTOR +CHANGE +DETAIL`, `cli:eve +client\.updated +\{.*https://eve\.example/cb.*\}`} {
		if !regexp.MustCompile(want).MatchString(suspended) {
			t.Errorf("it does not say %s:\n%s", want, suspended)
		}
	}
	resumed := succeed(t, env, "", "client", "resume", "Walk", "--yes")
	for _, want := range []string{`client id +` + id, `status +active`, `client secret +svci_`, `webhook secret +whsec_`, `Save the secrets now`} {
		if !regexp.MustCompile(want).MatchString(resumed) {
			t.Errorf("it does not say %s", want)
		}
	}
	if strings.Contains(resumed, made.ClientSecret) || strings.Contains(resumed, *made.WebhookSecret) {
		t.Error("a former secret is kept")
	}
}
