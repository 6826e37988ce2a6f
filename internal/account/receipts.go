package account

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/brand"
	"connect-svc/internal/locale"
	"connect-svc/internal/postgres"
	"connect-svc/internal/refusal"
	"connect-svc/internal/scope"
)

// The kinds of receipts: notices that tell users what happened to their connections and their account. The statements of connections add
// those about connections.
const (
	connectionBegun = "connection_begun"
	connectionEnded = "connection_ended"
	newBrowser      = "new_browser"
)

// ReceiptKinds are all kinds of receipts.
var ReceiptKinds = []string{connectionBegun, connectionEnded, newBrowser}

// Connected is what receipts say about a connection, which belongs to another domain.
type Connected struct {
	Partner                   string
	Version                   int64
	Live                      bool // the partner can read
	Scopes                    scope.Set
	HistoryFrom, AuthorizedAt time.Time
	Browser                   string // in which the user allowed it, in words; empty: unknown
}

// ErrNotConnected means that the user has never been connected with the client.
var ErrNotConnected = errors.New("not connected")

// receiptData is the data of a receipt.
type receiptData struct {
	ClientID uuid.UUID `json:"client_id"`
	By       string    `json:"by"` // who ended the connection: partner, replay, operator or lapse

	BrowserID uuid.UUID `json:"browser_id"`
	Browser   string    `json:"browser"`
}

// receipt is a receipt that is being composed.
type receipt struct {
	Notice
	receiptData
	user User
	in   *locale.Locale
	zone *time.Location
}

// composing returns the composer of receipts that compose fills.
func (a *Accounts) composing(compose func(context.Context, receipt) (Letter, error)) Compose {
	return func(ctx context.Context, notice Notice) (Letter, error) {
		r := receipt{Notice: notice}
		if err := json.Unmarshal(notice.Data, &r.receiptData); err != nil {
			return Letter{}, postgres.Wrap("account: receipt", err)
		}
		var err error
		if r.user, err = a.GetUser(ctx, notice.Recipient); errors.Is(err, refusal.ErrUserNotFound) {
			return Letter{}, ErrNoLetter
		} else if err != nil {
			return Letter{}, err
		}
		r.in, r.zone = a.design.Load().texts.Locale(r.user.Language), r.user.Zone()
		letter, err := compose(ctx, r)
		letter.To, letter.In = r.user.Email, r.in
		return letter, err
	}
}

// connected returns the connection of a receipt. Of several receipts of a kind that wait, only the latest is sent. Error: ErrNoLetter.
func (a *Accounts) connected(ctx context.Context, r receipt) (Connected, error) {
	key := accountdb.DeleteEarlierNoticesParams{Recipient: r.Recipient, Kind: r.Kind, ClientID: r.ClientID.String(), PutAt: r.PutAt}
	err := a.queries.DeleteEarlierNotices(ctx, key)
	if err != nil {
		return Connected{}, postgres.Wrap("account: receipt", err)
	}
	latest, err := a.queries.IsLatestNotice(ctx, accountdb.IsLatestNoticeParams{
		Recipient: key.Recipient, Kind: key.Kind, ClientID: key.ClientID, PutAt: key.PutAt,
	})
	if err != nil {
		return Connected{}, postgres.Wrap("account: receipt", err)
	}
	if !latest {
		return Connected{}, ErrNoLetter
	}
	of, err := a.settings.FindConnection(ctx, r.user.ID, r.ClientID)
	if errors.Is(err, ErrNotConnected) {
		err = ErrNoLetter
	}
	return of, err
}

// begun tells of a new connection. A connection that has ended since has a receipt of its own.
func (a *Accounts) begun(ctx context.Context, r receipt) (Letter, error) {
	of, err := a.connected(ctx, r)
	if err == nil && !of.Live {
		err = ErrNoLetter
	}
	if err != nil {
		return Letter{}, err
	}
	link, err := a.SealReceipt(Receipt{UserID: r.user.ID, ClientID: r.ClientID, Version: of.Version, ExpiresAt: r.PutAt.Add(ReceiptLifetime)})
	return begunLetter(of, a.settings.BaseURL+link, r.in, r.zone), err
}

func begunLetter(of Connected, link string, in *locale.Locale, zone *time.Location) Letter {
	says := in.Text("receipt.begun", "Partner", of.Partner)
	return Letter{
		Subject: says, Says: says,
		Facts: []Fact{
			{in.Text("account.can_see"), scopesIn(in, of.Scopes)},
			{in.Text("account.from"), in.Day(of.HistoryFrom)},
			{in.Text("account.since"), momentIn(in, of.AuthorizedAt, zone)},
			{in.Text("receipt.browser"), browserIn(in, of.Browser)},
		},
		Why: in.Text("receipt.begun_undo"), Link: link, Closing: in.Text("receipt.valid"),
	}
}

// ended tells of the end of a connection that the user has not ended. One that is allowed again has a receipt of its own.
func (a *Accounts) ended(ctx context.Context, r receipt) (Letter, error) {
	of, err := a.connected(ctx, r)
	if err == nil && of.Live {
		err = ErrNoLetter
	}
	if err != nil {
		return Letter{}, err
	}
	return endedLetter(of, r.By, r.PutAt, a.settings.BaseURL+"/account", r.in, r.zone), nil
}

func endedLetter(of Connected, by string, at time.Time, link string, in *locale.Locale, zone *time.Location) Letter {
	return Letter{
		Subject: in.Text("receipt.ended", "Partner", of.Partner), Says: in.Text("receipt.ended_"+by, "Partner", of.Partner),
		Facts: []Fact{
			{in.Text("account.had_access"), scopesIn(in, of.Scopes)},
			{in.Text("account.since"), in.Day(of.AuthorizedAt.In(zone))},
			{in.Text("receipt.ended_at"), momentIn(in, at, zone)},
		},
		Why: in.Text("receipt.ended_again", "Partner", of.Partner), Link: link, Closing: in.Text("disconnect.stays_there", "Partner", of.Partner),
	}
}

// signedIn tells of a sign-in from a browser that was not known.
func (a *Accounts) signedIn(_ context.Context, r receipt) (Letter, error) {
	link, err := a.SealReceipt(Receipt{UserID: r.user.ID, BrowserID: r.BrowserID, ExpiresAt: r.PutAt.Add(ReceiptLifetime)})
	return signedInLetter(r.Browser, r.PutAt, a.settings.BaseURL+link, r.in, r.zone), err
}

func signedInLetter(browser string, at time.Time, link string, in *locale.Locale, zone *time.Location) Letter {
	says := in.Text("receipt.signed_in")
	return Letter{
		Subject: says, Says: says,
		Facts: []Fact{{in.Text("receipt.browser"), browserIn(in, browser)}, {in.Text("receipt.when"), momentIn(in, at, zone)}},
		Why:   in.Text("receipt.signed_in_undo"), Link: link, Closing: in.Text("receipt.valid"),
	}
}

// scopesIn names scopes in a language.
func scopesIn(in *locale.Locale, scopes scope.Set) string {
	names := scopes.Names()
	for i, name := range names {
		names[i] = in.Text(map[string]string{
			"daily_steps:read": "scope.steps", "cycling_daily:read": "scope.distance", "cycling_activities:read": "scope.rides",
		}[name])
	}
	return strings.Join(names, "; ")
}

func browserIn(in *locale.Locale, name string) string {
	if name == "" {
		return in.Text("browsers.unknown")
	}
	return name
}

// momentIn writes a time of the user's day in words.
func momentIn(in *locale.Locale, at time.Time, zone *time.Location) string {
	at = at.In(zone)
	return in.Text("receipt.moment", "Day", in.Day(at), "Time", at.Format("15:04"))
}

// SampleReceipt returns a receipt of a kind about a partner with all scopes, as a preview. The address of a logo is cid:logo.
func SampleReceipt(of brand.Brand, host, kind, partner string, in *locale.Locale) (text, html string, err error) {
	const browser = "Firefox (Linux)"
	at := time.Date(2026, 5, 18, 15, 4, 0, 0, time.UTC)
	link := "https://" + host + ReceiptPath + "svcl_" + strings.Repeat("a", 150)
	connected := Connected{
		Partner: partner, Scopes: scope.All, HistoryFrom: at, AuthorizedAt: at, Browser: browser,
	}
	letter := map[string]Letter{
		connectionBegun: begunLetter(connected, link, in, time.UTC),
		connectionEnded: endedLetter(connected, "partner", at, "https://"+host+"/account", in, time.UTC),
		newBrowser:      signedInLetter(browser, at, link, in, time.UTC),
	}[kind]
	letter.In = in
	sample, err := letter.email(of)
	return sample.text, sample.html, err
}
