package demo

import (
	"cmp"
	"context"
	cryptorand "crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/postgres/clock"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/timezone"
	"connect-svc/internal/foundation/work"
	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
	"connect.invalid/connect-go/connect/pgstore"
	"connect.invalid/examples/partner"
	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib"
)

// connectedDays is the age in days of the first sample user's consent: the range of one read.
const connectedDays = 30

// registration holds the values that the operator gives a partner. The demo keeps them in partner.json.
type registration struct {
	ID            uuid.UUID `json:"client_id"`
	Secret        string    `json:"client_secret"`
	CallbackURL   string    `json:"callback_url"`
	WebhookSecret string    `json:"webhook_secret"`
	TokensKey     []byte    `json:"tokens_key"` // the partner's own
}

// seed creates the missing parts: users, their year of activity, the client, the first connection.
func (d *demo) seed(ctx context.Context) error {
	// The partner uses the database postgres, and the service one of its own.
	own, err := url.Parse(d.database.URL())
	if err != nil {
		return err
	}
	own.Path = "/postgres"
	if d.partnerDB, err = sql.Open("pgx", own.String()); err != nil {
		return err
	}
	if _, err := d.partnerDB.ExecContext(ctx, pgstore.Schema); err != nil {
		return err
	}
	d.people = samplePeople(time.Now())
	for i := range d.people {
		if err := d.seedPerson(ctx, &d.people[i]); err != nil {
			return err
		}
	}
	r, ok, err := d.findRegistration(ctx)
	if err != nil {
		return fmt.Errorf("partner.json: %w", err)
	}
	if ok {
		return d.openPartner(ctx, r)
	}
	if r, err = d.register(ctx); err != nil {
		return err
	}
	if err := d.openPartner(ctx, r); err != nil {
		return err
	}
	if err := d.connectInThePast(ctx, r, d.people[0]); err != nil {
		return fmt.Errorf("connect %s: %w", d.people[0].name, err)
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(d.path("partner.json"), append(text, '\n'), 0o600) // last, so that the start after an interrupted one registers again
}

// findRegistration returns the partner's registration if it is usable: the address of the partner and the database are unchanged, and
// the partner was not offboarded.
func (d *demo) findRegistration(ctx context.Context) (r registration, ok bool, err error) {
	text, err := os.ReadFile(d.path("partner.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	}
	if err != nil {
		return r, false, err
	}
	cutOff := json.Unmarshal(text, &r) != nil // a start was killed
	if cutOff || len(r.TokensKey) == 0 || r.CallbackURL != d.addresses.Partner+partner.CallbackPath {
		return r, false, nil
	}
	known, err := d.service.Clients.Get(ctx, r.ID)
	if errors.Is(err, refusal.ErrClientNotFound) {
		return r, false, nil
	}
	return r, err == nil && known.Status != client.Offboarded, err // the console offboards for good
}

// register creates a client without connections.
func (d *demo) register(ctx context.Context) (r registration, err error) {
	if _, err := d.partnerDB.ExecContext(ctx, "delete from connect_connections"); err != nil {
		return r, err
	}
	r.CallbackURL = d.addresses.Partner + partner.CallbackPath
	logo, err := brand.ReadLogo(partner.Logo)
	if err != nil {
		return r, err
	}
	created, secret, err := d.service.Clients.Create(ctx, client.Registration{
		Name: "Stride Club", CallbackURL: r.CallbackURL, Scopes: scope.All, HomepageURL: d.addresses.Partner + "/",
		Logo:   logo,
		Policy: client.Policy{RequestsPerMinute: 600, Burst: 60, ConcurrentReads: 10},
	})
	if err != nil {
		return r, err
	}
	r.ID, r.Secret, r.TokensKey = created.ID, secret, make([]byte, pgstore.KeyBytes)
	_, _ = cryptorand.Read(r.TokensKey)
	r.WebhookSecret, err = d.service.Webhooks.SetEndpoint(ctx, r.ID, d.addresses.Partner+partner.WebhookPath)
	return r, err
}

func (d *demo) openPartner(ctx context.Context, r registration) error {
	d.partnerID = r.ID
	store, err := pgstore.New(d.partnerDB, r.TokensKey)
	if err != nil {
		return err
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: d.authority.Roots}
	transport.Proxy = nil // all addresses are on this machine
	config := partner.Config{
		Issuer:        d.addresses.Service,
		ClientID:      r.ID.String(),
		ClientSecret:  r.Secret,
		WebhookSecret: r.WebhookSecret,
		BaseURL:       d.addresses.Partner,
		Transport:     transport,
		Store:         store,
		MailPage:      d.addresses.Mail + "/",
		Service:       d.config.Brand.Name,
		Timeout:       d.config.Limits.OrDefault().Partner,
	}
	for _, p := range d.people {
		config.Members = append(config.Members, partner.Member{Key: p.key, Name: p.name, Email: p.email, Timezone: p.location})
	}
	d.partner, err = partner.New(ctx, config)
	return err
}

// connectInThePast makes the user consent 30 days ago: the authorization server is the real one, on a database connection whose clock
// is set back. This is necessary because a connection can read only from the day of consent on.
func (d *demo) connectInThePast(ctx context.Context, r registration, p person) error {
	clock := new(clock.Clock)
	clock.Set(-sinceConnected(time.Now(), p.location))
	pool, err := postgres.Open(ctx, d.database.URL(), postgres.WithClock(clock), postgres.WithMaxConns(1))
	if err != nil {
		return err
	}
	defer pool.Close()
	lifetimes := oauth.DefaultSettings
	lifetimes.Now = clock.Now
	server := oauth.New(pool, d.keys, lifetimes)

	begun := d.partner.Begin()
	_, query, _ := strings.Cut(begun.URL, "?")
	browser := sha256.Sum256([]byte(cryptorand.Text()))
	request, err := server.Authorize(ctx, query, len(query), browser)
	if err != nil {
		return err
	}
	if err := server.SignIn(ctx, request, browser, browser, p.id); err != nil {
		return err
	}
	if _, err := server.Consent(ctx, request.ID, browser); err != nil {
		return err
	}
	location, err := server.Allow(ctx, request.ID, browser, "")
	if err != nil {
		return err
	}
	callback, err := url.Parse(location)
	if err != nil {
		return err
	}
	credentials, err := oauth.NewCredentials(r.ID.String(), r.Secret)
	if err != nil {
		return err
	}
	granted, err := server.Exchange(ctx, credentials, oauth.ExchangeParams{
		Code: callback.Query().Get("code"), RedirectURI: r.CallbackURL, CodeVerifier: begun.Verifier,
	})
	if err != nil {
		return err
	}
	return d.partner.Keep(ctx, p.key, connect.Connection{
		GrantID: granted.GrantID, HistoryFrom: connectsdk.CalendarDate{Time: granted.HistoryFrom},
		Version: fmt.Sprint(granted.ConnectionVersion), Scope: granted.Scopes.String(), State: connect.StateActive,
		RefreshToken: granted.RefreshToken, // the access token expired 30 days ago
	})
}

// sinceConnected returns the time since noon of that day on the user's calendar. Counting 24 hours a day could hit another day after
// a change of daylight saving time.
func sinceConnected(now time.Time, location *time.Location) time.Duration {
	year, month, day := now.In(location).Date()
	return now.Sub(time.Date(year, month, day-connectedDays, 12, 0, 0, 0, location))
}

type person struct {
	key, name, email, timezone string
	seed                       uint64 // of the sample data

	id       uuid.UUID
	location *time.Location
	rode     time.Time // when the last ride ended that was added while the demo ran; at first, when the demo began
}

// samplePeople are the users. The first one is connected from the start. The other one's day is half over when the demo first begins: the day of
// consent is all that the partner sees at first.
func samplePeople(now time.Time) []person {
	zones := []string{"Europe/Lisbon", "America/New_York", "America/Los_Angeles", "Asia/Kolkata", "Asia/Tokyo", "Pacific/Auckland"}
	half := slices.IndexFunc(zones, func(zone string) bool {
		hour := now.In(timezone.Location(zone)).Hour()
		return 13 <= hour && hour < 19
	})
	return []person{
		{key: "alex", name: "Alex", email: "alex@example.com", timezone: "Europe/Berlin", seed: 11, rode: now},
		{key: "robin", name: "Robin", email: "robin@example.com", timezone: zones[half], seed: 3, rode: now},
	}
}

// seedPerson finds or creates the user, and adds activity since the last day that has steps, at first for a year.
func (d *demo) seedPerson(ctx context.Context, p *person) (err error) {
	today := timezone.Day(time.Now().In(timezone.Location(p.timezone)))
	user, err := d.service.Accounts.FindUser(ctx, p.email)
	if errors.Is(err, refusal.ErrUserNotFound) {
		user, err = d.service.Accounts.CreateUser(ctx, account.NewUser{
			Email: p.email, Timezone: p.timezone, RegisteredOn: today.AddDate(-1, 0, 0),
		})
	}
	if err != nil {
		return err
	}
	p.id, p.location = user.ID, user.Zone()
	today = timezone.Day(time.Now().In(p.location)) // which may be that of an earlier start
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
	// On two days the tracker stayed at home: no record differs from zero steps, and the chart shows that.
	_, err = d.service.Pool.Exec(ctx, "delete from daily_steps where user_id = $1 and date = any($2)",
		p.id, []time.Time{today.AddDate(0, 0, -9), today.AddDate(0, 0, -20)})
	return err
}

const (
	growEvery = 4 * time.Second
	rideEvery = 15 * time.Minute // after the one before, on average
)

func (d *demo) growRegularly(ctx context.Context) {
	every := cmp.Or(d.config.Every, growEvery)
	work.Every(ctx, every, func() {
		for i := range d.people {
			if err := d.grow(ctx, &d.people[i], time.Now(), rand.N(rideEvery) < every); err != nil && ctx.Err() == nil {
				d.logger.Error("sample activity", "cause", err)
			}
		}
	})
}

// grow adds some steps to the user's today and, if they ride, a short ride that has just ended, unless it would overlap the one before.
func (d *demo) grow(ctx context.Context, p *person, now time.Time, rides bool) error {
	local := now.In(p.location)
	today := timezone.Day(local)
	var recorded int // without corrections, which partners see added to it
	err := d.service.Pool.QueryRow(ctx, "select coalesce(sum(steps), 0) from daily_steps where user_id = $1 and date = $2", p.id, today).Scan(&recorded)
	if err != nil {
		return err
	}
	steps := 0
	if rand.IntN(4) == 0 { // some 800 an hour: a day of the demo looks like the days before it
		steps = 2 + rand.IntN(4)
	}
	minutes := 6 + rand.IntN(20)
	rides = rides && now.Sub(p.rode) > time.Duration(minutes+1)*time.Minute
	if steps == 0 && !rides {
		return nil
	}
	batch := activity.Batch{DailySteps: []activity.StepsRecord{{UserID: p.id, Date: today, Steps: recorded + steps}}}
	if rides {
		// A device records the local time, without a zone.
		end := today.Add(time.Duration(local.Hour())*time.Hour + time.Duration(local.Minute())*time.Minute)
		batch.CyclingActivities = []activity.RideRecord{{
			UserID: p.id, SourceID: fmt.Sprint("demo-", now.Unix()),
			Start: end.Add(-time.Duration(minutes) * time.Minute), End: end,
			DistanceMeters: minutes * (220 + rand.IntN(120)),
		}}
	}
	if _, err = d.service.Activity.Put(ctx, batch); err == nil && rides {
		p.rode = now
	}
	return err
}
