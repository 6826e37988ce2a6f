package sandbox

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/gen/sandboxapi"
	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
	"connect.invalid/connect-go/webhook"
)

// key is the partner's own name for its user.
const key = "member-7"

// backend is a partner's backend on the Go SDK, with one user of the sandbox.
type backend struct {
	*running
	user   uuid.UUID
	store  connect.Store
	client *connect.Client
	now    func() time.Time
	slept  []time.Duration
}

func (r *running) newPartner(t *testing.T, kind sandboxapi.Kind) *backend {
	t.Helper()
	p := &backend{running: r, user: r.newUser(t, kind), store: connect.NewMemoryStore(), now: r.clock.Now}
	client, err := connect.New(connect.Config{
		BaseURL: r.described.BaseUrl, ClientID: r.described.Client.ClientId.String(), ClientSecret: r.described.Client.ClientSecret,
		CallbackURL: r.described.Client.CallbackUrl,
		Scopes:      []connectsdk.Scope{connectsdk.ScopeDailyStepsRead, connectsdk.ScopeCyclingDailyRead, connectsdk.ScopeCyclingActivitiesRead},
		Store:       p.store, HTTPClient: &http.Client{Transport: r.partner},
		Now: func() time.Time { return p.now() }, Jitter: func(time.Duration) time.Duration { return 0 },
		Sleep: func(ctx context.Context, d time.Duration) error {
			p.slept = append(p.slept, d)
			r.clock.Advance(d)
			return ctx.Err()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Wait)
	p.client = client
	return p
}

// callback is the query with which the browser comes back.
func (p *backend) callback(t *testing.T, begun connect.Authorization, decision sandboxapi.AuthorizationDecisionDecision) url.Values {
	t.Helper()
	location, err := url.Parse(p.decides(t, p.user, begun.URL, decision))
	if err != nil || !strings.HasPrefix(location.String(), p.described.Client.CallbackUrl+"?") {
		t.Fatalf("the browser is sent to %v, %v", location, err)
	}
	return location.Query()
}

func (p *backend) connect(t *testing.T) connect.Connection {
	t.Helper()
	begun := p.client.Begin()
	connection, err := p.client.Finish(t.Context(), key, begun, p.callback(t, begun, sandboxapi.AuthorizationDecisionDecisionAllow))
	if err != nil {
		t.Fatal(err)
	}
	return connection
}

// steps reads the first days of a connection.
func (p *backend) steps(t *testing.T, days int) ([]connectsdk.DailySteps, error) {
	t.Helper()
	held, err := p.store.Load(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	read, err := p.client.DailySteps(t.Context(), key, held.HistoryFrom, connectsdk.CalendarDate{Time: held.HistoryFrom.AddDate(0, 0, days-1)})
	return read.Data, err
}

// refresh sends a refresh token as it is, and returns the status and the code of an error.
func (p *backend) refresh(t *testing.T, token string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), "POST", p.described.BaseUrl+"/oauth/token",
		strings.NewReader(url.Values{"grant_type": {"refresh_token"}, "refresh_token": {token}}.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.SetBasicAuth(p.described.Client.ClientId.String(), url.QueryEscape(p.described.Client.ClientSecret))
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return p.answered(t, request)
}

func (p *backend) reconnect(t *testing.T, err error, state connect.State) {
	t.Helper()
	var reconnect *connect.ReconnectError
	if !errors.As(err, &reconnect) || reconnect.State != state {
		t.Errorf("the error is %v, want that the user must connect again (%s)", err, state)
	}
}

// verify reads a webhook of the list as its receiver does.
func (p *backend) verify(t *testing.T, sent sandboxapi.Webhook) webhook.Event {
	t.Helper()
	header := http.Header{}
	for name, value := range sent.Headers {
		header.Set(name, value)
	}
	event, err := webhook.VerifyAt(p.described.Client.WebhookSecret, header, []byte(sent.Body), p.clock.Now())
	if err != nil {
		t.Fatal(err)
	}
	if event.WebhookID() != sent.Id {
		t.Errorf("webhook-id is %q, the list says %q", event.WebhookID(), sent.Id)
	}
	return event
}

func ofType(name sandboxapi.WebhookType) func(sandboxapi.Webhook) bool {
	return func(sent sandboxapi.Webhook) bool { return sent.Type == name }
}

// A partner's CI with the Go SDK. The scenarios come one after the other: they share the clock.
var partnerScenarios = []struct {
	name string
	play func(*testing.T, *running)
}{
	{"connect and read", partnerReads},
	{"the user says no", partnerDenied},
	{"a code expires", partnerLateCode},
	{"an access token expires", partnerLateAccessToken},
	{"a cursor expires", partnerLateCursor},
	{"a connection lapses", partnerLapses},
	{"a used refresh token is replayed", partnerReplays},
	{"429 and 503", partnerHeldBack},
	{"the budget is used up and filled", partnerBudget},
	{"a refresh of uncertain outcome", partnerUncertain},
	{"the partner revokes and disconnects", partnerEnds},
	{"the user disconnects", partnerDisconnected},
	{"activity changes", partnerActivity},
}

func TestPartner(t *testing.T) {
	t.Parallel()
	r := start(t)
	for _, scenario := range partnerScenarios {
		t.Run(scenario.name, func(t *testing.T) { scenario.play(t, r) })
	}
}

func partnerReads(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	connection := p.connect(t)
	if days, err := p.steps(t, 1); err != nil || len(days) != 1 {
		t.Errorf("steps of today: %v, %v", days, err)
	}
	r.advanceBy(t, 13*24*time.Hour)
	if days, err := p.steps(t, 14); err != nil || len(days) != 14 {
		t.Errorf("steps of two weeks: %v, %v", days, err)
	}
	last := connectsdk.CalendarDate{Time: connection.HistoryFrom.AddDate(0, 0, 13)}
	var seen []string
	for ride, err := range p.client.CyclingActivities(t.Context(), key, connection.HistoryFrom, last, 5) {
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, ride.Id)
	}
	if len(seen) != 22 || len(slices.Compact(seen)) != 22 { // ten working days and two Sundays
		t.Errorf("%d rides", len(seen))
	}
	before := connectsdk.CalendarDate{Time: connection.HistoryFrom.AddDate(0, 0, -1)}
	var refused *connect.Error
	if _, err := p.client.DailySteps(t.Context(), key, before, before); !errors.As(err, &refused) || refused.Code != "invalid_date_range" {
		t.Errorf("a day before the consent: %v", err)
	}
}

func partnerDenied(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	begun := p.client.Begin()
	_, err := p.client.Finish(t.Context(), key, begun, p.callback(t, begun, sandboxapi.AuthorizationDecisionDecisionDeny))
	if !errors.Is(err, connect.ErrDenied) {
		t.Errorf("the error is %v", err)
	}
}

func partnerLateCode(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	begun := p.client.Begin()
	query := p.callback(t, begun, sandboxapi.AuthorizationDecisionDecisionAllow)
	r.advanceBy(t, 121*time.Second)
	var refused *connect.Error
	if _, err := p.client.Finish(t.Context(), key, begun, query); !errors.As(err, &refused) || refused.Code != "invalid_grant" {
		t.Errorf("the error is %v", err)
	}
}

func partnerLateAccessToken(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	held := p.connect(t)
	read := p.readRequest(t, held)
	if status, _ := p.answered(t, read); status != 200 {
		t.Errorf("at once: %d", status)
	}
	r.advanceBy(t, 301*time.Second)
	if status, code := p.answered(t, read); status != 401 || code != "invalid_access_token" {
		t.Errorf("after 301 s: %d %s", status, code)
	}
	if _, err := p.steps(t, 1); err != nil { // the SDK refreshes
		t.Error(err)
	}
}

func partnerLateCursor(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	from := p.connect(t).HistoryFrom
	r.advanceBy(t, 7*24*time.Hour)
	var refused *connect.Error
	pages := 0
	for _, err := range p.client.CyclingPages(t.Context(), key, from, connectsdk.CalendarDate{Time: from.AddDate(0, 0, 6)}, 1) {
		if err != nil && !errors.As(err, &refused) {
			t.Fatal(err)
		}
		if pages++; pages == 1 {
			r.advanceBy(t, 901*time.Second)
		}
	}
	if pages != 2 || refused == nil || refused.Code != "invalid_cursor" {
		t.Errorf("%d pages, then %v", pages, refused)
	}
}

func partnerLapses(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	token := p.connect(t).RefreshToken
	r.advanceBy(t, 90*24*time.Hour+time.Second)
	_, err := p.steps(t, 1)
	p.reconnect(t, err, connect.StateEnded)
	if status, code := p.refresh(t, token); status != 400 || code != "invalid_grant" {
		t.Errorf("refresh: %d %s", status, code)
	}
	if p.connect(t); len(p.slept) > 0 {
		t.Errorf("the client waited: %v", p.slept)
	}
}

func partnerReplays(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	held := p.connect(t)
	if _, err := p.client.Refresh(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	if status, code := p.refresh(t, held.RefreshToken); status != 400 || code != "invalid_grant" {
		t.Errorf("the used token: %d %s", status, code)
	}
	_, err := p.steps(t, 1)
	p.reconnect(t, err, connect.StateEnded)
	event := p.verify(t, r.webhook(t, held.GrantID, ofType(sandboxapi.WebhookTypeConnectionRevoked)))
	if revoked, is := event.(webhook.ConnectionRevoked); !is || revoked.Data.Reason != connectsdk.ConnectionRevokedDataReasonRefreshTokenReplayed {
		t.Errorf("the event is %+v", event)
	}
}

func partnerHeldBack(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	p.connect(t)
	r.force(t, "readDailyActivity", 429, "rate_limited")
	r.force(t, "readDailyActivity", 503, "data_unavailable")
	stands := r.clock.Now()
	p.now = func() time.Time { // but for what the client waits
		now := stands
		for _, d := range p.slept {
			now = now.Add(d)
		}
		return now
	}
	if days, err := p.steps(t, 1); err != nil || len(days) != 1 {
		t.Errorf("steps: %v, %v", days, err)
	}
	if len(p.slept) != 2 || p.slept[0] != time.Second {
		t.Errorf("the client waited %v, want a second first", p.slept)
	}
}

func partnerBudget(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	r.advanceBy(t, time.Minute) // whatever came before, the budget is full
	read := p.readRequest(t, p.connect(t))
	offset, began := r.clock.Offset(), time.Now()
	for admitted, longest := 0, time.Duration(0); ; admitted++ {
		asked := time.Now()
		r.clock.Set(offset - asked.Sub(began)) // it stands still but for the time that a request takes
		status, code := p.answered(t, read)
		longest = max(longest, time.Since(asked))
		most := policy.Burst + int(longest*time.Duration(policy.RequestsPerMinute)/time.Minute)
		if status == 429 && code == "rate_limited" && admitted >= policy.Burst && admitted <= most {
			break
		}
		if status != 200 || admitted >= most {
			t.Fatalf("after %d of at most %d: %d %s", admitted, most, status, code)
		}
	}
	r.clock.Set(offset)
	r.advanceBy(t, 10*time.Second)
	if status, _ := p.answered(t, read); status != 200 {
		t.Errorf("ten seconds later: %d", status)
	}
}

func partnerUncertain(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	token := p.connect(t).RefreshToken
	r.force(t, "requestToken", 500, "server_error")
	_, err := p.client.Refresh(t.Context(), key)
	p.reconnect(t, err, connect.StateUncertain)
	if status, _ := p.refresh(t, token); status != 200 { // the document says so: it was not reached
		t.Errorf("the token was consumed: %d", status)
	}
}

func partnerEnds(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	day := p.connect(t).HistoryFrom
	if _, err := p.client.CyclingDaily(t.Context(), key, day, day); err != nil {
		t.Error(err)
	}
	if err := p.client.Revoke(t.Context(), key); err != nil {
		t.Error(err)
	}
	_, err := p.client.CyclingDaily(t.Context(), key, day, day)
	p.reconnect(t, err, connect.StateEnded)
	if err := p.client.Disconnect(t.Context(), key); err != nil {
		t.Error(err)
	}
	if _, err := p.client.CyclingDaily(t.Context(), key, day, day); !errors.Is(err, connect.ErrNotConnected) {
		t.Errorf("the error is %v", err)
	}
}

func partnerDisconnected(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindActive)
	held := p.connect(t)
	path := "/sandbox/users/" + p.user.String() + "/connections/" + p.described.Client.ClientId.String()
	want[nothing](t, r, 204, "DELETE", path, "")
	event := p.verify(t, r.webhook(t, held.GrantID, ofType(sandboxapi.WebhookTypeConnectionRevoked)))
	if revoked, is := event.(webhook.ConnectionRevoked); !is || revoked.Data.Reason != connectsdk.ConnectionRevokedDataReasonUserDisconnected {
		t.Errorf("the event is %+v", event)
	}
	_, err := p.steps(t, 1)
	p.reconnect(t, err, connect.StateEnded)
	want[nothing](t, r, 204, "DELETE", path, "")
}

func partnerActivity(t *testing.T, r *running) {
	p := r.newPartner(t, sandboxapi.KindNew)
	held := p.connect(t)
	if days, err := p.steps(t, 1); err != nil || len(days) != 0 {
		t.Errorf("a new user has %v, %v", days, err)
	}
	today := held.HistoryFrom
	want[sandboxapi.ActivityBatchResult](t, r, 200, "POST", "/sandbox/users/"+p.user.String()+"/activity", encode(t, sandboxapi.ActivityBatch{
		DailySteps:      []sandboxapi.StepsRow{{Date: today, Steps: 4321}},
		StepCorrections: []sandboxapi.StepCorrectionRow{{CorrectionId: uuid.New(), Date: today, Delta: -321}},
	}))
	if days, err := p.steps(t, 1); err != nil || len(days) != 1 || days[0].Steps != 4000 {
		t.Errorf("steps: %v, %v", days, err)
	}
	event := p.verify(t, r.webhook(t, held.GrantID, ofType(sandboxapi.WebhookTypeActivityUpdated)))
	if updated, is := event.(webhook.ActivityUpdated); !is || !updated.Data.From.Equal(today.Time) {
		t.Errorf("the event is %+v", event)
	}
}

// readRequest reads the first day with the access token that a connection has now.
func (p *backend) readRequest(t *testing.T, held connect.Connection) *http.Request {
	t.Helper()
	day := held.HistoryFrom.Format(time.DateOnly)
	request, err := http.NewRequestWithContext(t.Context(), "GET",
		p.described.BaseUrl+"/connect-svc/v1/grants/"+held.GrantID.String()+"/daily-activity?from="+day+"&to="+day, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+held.AccessToken)
	return request
}
