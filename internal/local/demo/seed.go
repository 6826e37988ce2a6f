package demo

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/account"
	"connect-svc/internal/client"
	"connect-svc/internal/local/demo/partner"
	"connect-svc/internal/local/mailcatcher"
	"connect-svc/internal/oauth"
	"connect-svc/internal/postgres"
	"connect-svc/internal/scope"
	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

// connectedDays is how many days ago the first sample user agreed: as far back as one read reaches.
const connectedDays = 30

// sinceConnected is how long ago noon of that day was, on the user's own calendar: where the clocks were changed
// meanwhile, so many times 24 hours may be another day.
func sinceConnected(now time.Time, location *time.Location) time.Duration {
	year, month, day := now.In(location).Date()
	return now.Sub(time.Date(year, month, day-connectedDays, 12, 0, 0, 0, location))
}

// person is a sample user.
type person struct {
	key, name, email, timezone string
	seed                       uint64 // of the sample data

	id       uuid.UUID
	location *time.Location
}

// samplePeople are the users; the first one is connected from the start.
func samplePeople() []person {
	return []person{
		{key: "alex", name: "Alex", email: "alex@example.com", timezone: "Europe/Berlin", seed: 11},
		{key: "robin", name: "Robin", email: "robin@example.com", timezone: "Europe/Lisbon", seed: 3},
	}
}

// seed makes what is missing: users, their year of activity, the client, the first connection.
func (d *demo) seed(ctx context.Context) error {
	d.people = samplePeople()
	for i := range d.people {
		if err := d.seedPerson(ctx, &d.people[i]); err != nil {
			return err
		}
	}
	registration, fresh, err := d.ensureClient(ctx)
	if err != nil {
		return err
	}
	if err := d.ensureWebhook(ctx, &registration, fresh); err != nil {
		return err
	}
	if err := d.openPartner(registration); err != nil {
		return err
	}
	if !fresh {
		return nil
	}
	connection, at, err := d.connectInThePast(ctx, registration, d.people[0])
	if err != nil {
		return fmt.Errorf("connect %s: %w", d.people[0].name, err)
	}
	if err := d.partner.Keep(ctx, d.people[0].key, connection, at); err != nil {
		return err
	}
	return d.keepRegistration(registration) // last: a start that is cut off before this begins it again
}

// seedPerson finds or makes the user, and fills the days since the last one that has steps, a year at first.
func (d *demo) seedPerson(ctx context.Context, p *person) (err error) {
	if p.location, err = time.LoadLocation(p.timezone); err != nil {
		return err
	}
	today := dateOf(time.Now().In(p.location))
	users, err := d.service.Accounts.ListUsers(ctx, uuid.Nil, 1000)
	if err != nil {
		return err
	}
	for _, user := range users {
		if user.Email == p.email {
			p.id = user.ID
		}
	}
	if p.id == uuid.Nil {
		user, err := d.service.Accounts.CreateUser(ctx, account.NewUser{
			Email: p.email, Timezone: p.timezone, RegisteredOn: today.AddDate(-1, 0, 0),
		})
		if err != nil {
			return err
		}
		p.id = user.ID
	}
	var last *time.Time
	if err := d.service.Pool.QueryRow(ctx, "select max(date) from daily_steps where user_id = $1", p.id).Scan(&last); err != nil {
		return err
	}
	days := 365
	if last != nil {
		days = min(days, int(today.Sub(*last)/(24*time.Hour)))
	}
	if days < 1 {
		return nil
	}
	if _, err := d.service.Activity.SampleData(ctx, p.id, days, p.seed); err != nil || last != nil {
		return err
	}
	// Two days on which the tracker stayed at home: no record is not zero steps, and the chart is to show that.
	_, err = d.service.Pool.Exec(ctx, "delete from daily_steps where user_id = $1 and date = any($2)",
		p.id, []time.Time{today.AddDate(0, 0, -9), today.AddDate(0, 0, -20)})
	return err
}

// registration is what the operator gives a partner. It lies in a file of the partner's.
type registration struct {
	ID          uuid.UUID `json:"client_id"`
	Secret      string    `json:"client_secret"`
	CallbackURL string    `json:"callback_url"`
	// WebhookSecret signs the events; empty until there is a webhook.
	WebhookSecret string `json:"webhook_secret"`
}

// ensureClient finds the partner's registration, or makes one: also when the partner's address is not that of the
// earlier start any more, or the database is a new one. A fresh one has no connections.
func (d *demo) ensureClient(ctx context.Context) (r registration, fresh bool, err error) {
	callback := d.addresses.Partner + partner.CallbackPath
	text, err := os.ReadFile(d.path("partner.json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	_, there := os.Stat(d.path("partner-connections.json"))
	if err == nil && there == nil && r.CallbackURL == callback {
		_, err = d.service.Clients.Get(ctx, r.ID)
		if err == nil || !errors.Is(err, client.ErrNotFound) {
			return r, false, err
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, client.ErrNotFound) {
		return r, false, fmt.Errorf("partner.json: %w", err)
	}
	if err := os.Remove(d.path("partner-connections.json")); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return r, false, err
	}
	created, secret, err := d.service.Clients.Create(ctx, client.Registration{
		Name: "Stride Club", CallbackURL: callback, Scopes: scope.All, HomepageURL: d.addresses.Partner + "/",
		Policy: client.Policy{RequestsPerMinute: 600, Burst: 60, ConcurrentReads: 10},
	})
	return registration{ID: created.ID, Secret: secret, CallbackURL: callback}, true, err
}

// ensureWebhook has the partner's events sent to it. Where the secret is not in the file, which an earlier program may
// have written, there is a new one.
func (d *demo) ensureWebhook(ctx context.Context, r *registration, fresh bool) error {
	secret, err := d.service.Webhooks.SetEndpoint(ctx, r.ID, d.addresses.Partner+partner.WebhookPath)
	if err == nil && secret == "" && r.WebhookSecret == "" {
		secret, err = d.service.Webhooks.RotateSecret(ctx, r.ID)
	}
	if err != nil || secret == "" {
		return err
	}
	r.WebhookSecret = secret
	if fresh {
		return nil // the file is written when everything is there
	}
	return d.keepRegistration(*r)
}

func (d *demo) keepRegistration(r registration) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(d.path("partner.json"), append(text, '\n'), 0o600)
}

func (d *demo) openPartner(r registration) (err error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: d.authority.Roots}
	transport.Proxy = nil // it is all on this machine
	config := partner.Config{
		Issuer:          d.addresses.Service,
		ClientID:        r.ID.String(),
		ClientSecret:    r.Secret,
		WebhookSecret:   r.WebhookSecret,
		BaseURL:         d.addresses.Partner,
		Transport:       transport,
		ConnectionsFile: d.path("partner-connections.json"),
		MailPage:        d.addresses.Mail + "/",
	}
	for _, p := range d.people {
		config.Members = append(config.Members, partner.Member{Key: p.key, Name: p.name, Email: p.email, Timezone: p.location})
	}
	d.mail = new(mailcatcher.Catcher)
	d.partner, err = partner.New(config)
	return err
}

// connectInThePast has the user agree 30 days ago: the authorization server as it is, on connections whose clock is
// set back. There is no other way to a connection that reaches back, since it can read only from the day of consent on.
func (d *demo) connectInThePast(ctx context.Context, r registration, p person) (c connect.Connection, at time.Time, err error) {
	clock := new(postgres.Clock)
	clock.Set(-sinceConnected(time.Now(), p.location))
	pool, err := postgres.Open(ctx, d.database.URL(), postgres.WithClock(clock), postgres.WithMaxConns(1))
	if err != nil {
		return c, at, err
	}
	defer pool.Close()
	server := oauth.New(pool, d.keys, oauth.DefaultSettings)

	browser := sha256.Sum256([]byte(rand.Text()))
	verifier := rand.Text() + rand.Text()
	challenge := sha256.Sum256([]byte(verifier))
	callback := d.addresses.Partner + partner.CallbackPath
	query := url.Values{
		"client_id": {r.ID.String()}, "redirect_uri": {callback}, "response_type": {"code"},
		"scope": {scope.All.String()}, "state": {rand.Text()},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode()
	request, err := server.Authorize(ctx, query, len(query), browser)
	if err != nil {
		return c, at, err
	}
	if err := server.SignedIn(ctx, request, browser, p.id); err != nil {
		return c, at, err
	}
	if _, err := server.Consent(ctx, request, browser); err != nil {
		return c, at, err
	}
	location, err := server.Allow(ctx, request, browser)
	if err != nil {
		return c, at, err
	}
	answer, err := url.Parse(location)
	if err != nil {
		return c, at, err
	}
	credentials, err := oauth.NewCredentials(r.ID.String(), r.Secret)
	if err != nil {
		return c, at, err
	}
	granted, err := server.Exchange(ctx, credentials, oauth.ExchangeParams{
		Code: answer.Query().Get("code"), RedirectURI: callback, CodeVerifier: verifier,
	})
	if err != nil {
		return c, at, err
	}
	return connect.Connection{
		GrantID: granted.GrantID, HistoryFrom: connectsdk.Date{Time: granted.HistoryFrom},
		Version: fmt.Sprint(granted.ConnectionVersion), Scope: granted.Scopes.String(), State: connect.StateActive,
		RefreshToken: granted.RefreshToken, // the access token ran out 30 days ago, too
	}, clock.Now(), nil
}

// dateOf is the calendar day of t, in t's own location, as midnight UTC.
func dateOf(t time.Time) time.Time {
	year, month, day := t.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}
