package account

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/google/uuid"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
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
	Browser                   string // in which the user allowed it, in words, or empty if unknown
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
	of   Connected // of a connection
	link string    // of the page where the user can act
}

// receipt composes a receipt. The latest of a kind about a connection is sent, if that is still as the receipt tells: a connection that has
// ended or has begun since has a receipt of its own.
func (a *Accounts) receipt(ctx context.Context, notice Notice) (Letter, error) {
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
	r.in = a.design.Load().texts.Locale(r.user.Language)
	if r.Kind != newBrowser {
		if r.of, err = a.connected(ctx, r); err == nil && r.of.Live != (r.Kind == connectionBegun) {
			err = ErrNoLetter
		}
		if err != nil {
			return Letter{}, err
		}
	}
	path := "/account"
	if r.Kind != connectionEnded {
		path, err = a.SealReceipt(Receipt{
			UserID: r.user.ID, ClientID: r.ClientID, Version: r.of.Version, BrowserID: r.BrowserID, ExpiresAt: r.PutAt.Add(ReceiptLifetime),
		})
	}
	r.link = a.settings.BaseURL + path
	return r.letter(), err
}

// connected returns the connection of a receipt. Of several receipts of a kind that wait, only the latest is sent. Error: ErrNoLetter.
func (a *Accounts) connected(ctx context.Context, r receipt) (Connected, error) {
	key := accountdb.DeleteEarlierNoticesParams{Recipient: r.Recipient, Kind: r.Kind, ClientID: r.ClientID.String(), PutAt: r.PutAt}
	if err := a.queries.DeleteEarlierNotices(ctx, key); err != nil {
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

// letter returns the texts of a receipt.
func (r receipt) letter() Letter {
	in, partner, zone := r.in, r.of.Partner, r.user.Zone()
	l := Letter{To: r.user.Email, In: in, Link: r.link, Closing: in.Text("receipt.valid")}
	switch r.Kind {
	case connectionBegun:
		l.Subject, l.Why = in.Text("receipt.begun", "Partner", partner), in.Text("receipt.begun_undo")
		l.Says = l.Subject
		l.Facts = []Fact{
			{in.Text("account.can_see"), scopesIn(in, r.of.Scopes)},
			{in.Text("account.from"), in.Day(r.of.HistoryFrom)},
			{in.Text("account.since"), in.Moment(r.of.AuthorizedAt.In(zone))},
			{in.Text("receipt.browser"), browserIn(in, r.of.Browser)},
		}
	case connectionEnded:
		l.Subject, l.Says = in.Text("receipt.ended", "Partner", partner), in.Text("receipt.ended_"+r.By, "Partner", partner)
		l.Facts = []Fact{
			{in.Text("account.had_access"), scopesIn(in, r.of.Scopes)},
			{in.Text("account.since"), in.Day(r.of.AuthorizedAt.In(zone))},
			{in.Text("receipt.ended_at"), in.Moment(r.PutAt.In(zone))},
		}
		l.Why, l.Closing = in.Text("receipt.ended_again", "Partner", partner), in.Text("disconnect.stays_there", "Partner", partner)
	case newBrowser:
		l.Subject, l.Why = in.Text("receipt.signed_in"), in.Text("receipt.signed_in_undo")
		l.Says = l.Subject
		l.Facts = []Fact{{in.Text("receipt.browser"), browserIn(in, r.Browser)}, {in.Text("receipt.when"), in.Moment(r.PutAt.In(zone))}}
	}
	return l
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
