package account

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
	Over                      bool // nobody can connect with the partner again
	Scopes                    scope.Set
	HistoryFrom, AuthorizedAt time.Time
	Browser                   string // in which the user allowed it, in words, or empty if unknown
}

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
			UserID: r.user.ID, ClientID: r.ClientID, Version: r.of.Version, BrowserID: r.BrowserID, ExpiresAt: r.PutAt.Add(receiptLifetime),
		})
	}
	r.link = a.settings.BaseURL + path
	return r.letter(), err
}

// connected returns the connection of a receipt. Of several receipts of a kind that wait, only the latest is sent. Error: ErrNoLetter.
func (a *Accounts) connected(ctx context.Context, r receipt) (Connected, error) {
	key := accountdb.DeleteEarlierNoticesParams{Recipient: r.Recipient, Kind: r.Kind, ClientID: r.ClientID.String(), PutAt: r.PutAt}
	deleted := a.queries.DeleteEarlierNotices(ctx, key)
	latest, err := a.queries.IsLatestNotice(ctx, accountdb.IsLatestNoticeParams{
		Recipient: key.Recipient, Kind: key.Kind, ClientID: key.ClientID, PutAt: key.PutAt,
	})
	if err = cmp.Or(deleted, err); err != nil {
		return Connected{}, postgres.Wrap("account: receipt", err)
	}
	if !latest {
		return Connected{}, ErrNoLetter
	}
	return a.settings.FindConnection(ctx, r.user.ID, r.ClientID)
}

// letter returns the texts of a receipt.
func (r receipt) letter() Letter {
	language, partner, zone := r.in, r.of.Partner, r.user.Zone()
	l := Letter{To: r.user.Email, In: language, Link: r.link, Closing: language.Text("receipt.valid")}
	switch r.Kind {
	case connectionBegun:
		l.Subject, l.Why = language.Text("receipt.begun", "Partner", partner), language.Text("receipt.begun_undo")
		l.Says, l.Act = l.Subject, language.Text("account.disconnect_whom", "Partner", partner)
		l.Facts = []Fact{
			{language.Text("account.can_see"), scopesIn(language, r.of.Scopes)},
			{language.Text("account.from"), language.Day(r.of.HistoryFrom)},
			{language.Text("account.since"), language.Moment(r.of.AuthorizedAt.In(zone))},
			{language.Text("receipt.browser"), browserIn(language, r.of.Browser)},
		}
	case connectionEnded:
		l.Subject, l.Says = language.Text("receipt.ended", "Partner", partner), language.Text("receipt.ended_"+r.By, "Partner", partner)
		l.Facts = []Fact{
			{language.Text("account.had_access"), scopesIn(language, r.of.Scopes)},
			{language.Text("account.since"), language.Day(r.of.AuthorizedAt.In(zone))},
			{language.Text("receipt.ended_at"), language.Moment(r.PutAt.In(zone))},
		}
		l.Why, l.Act = language.Text("receipt.ended_again", "Partner", partner), language.Text("account.name")
		if r.of.Over {
			l.Why = language.Text("receipt.ended_all")
		}
		l.Closing = language.Text("disconnect.stays_there", "Partner", partner)
	case newBrowser:
		l.Subject, l.Why = language.Text("receipt.signed_in"), language.Text("receipt.signed_in_undo")
		l.Says, l.Act = l.Subject, language.Text("account.sign_out")
		l.Facts = []Fact{{language.Text("receipt.browser"), browserIn(language, r.Browser)}, {language.Text("receipt.when"), language.Moment(r.PutAt.In(zone))}}
	}
	return l
}

// scopesIn names scopes in a language.
func scopesIn(language *locale.Locale, scopes scope.Set) string {
	names := scopes.Names()
	for i, name := range names {
		names[i] = language.Text(map[string]string{
			"daily_steps:read": "scope.steps", "cycling_daily:read": "scope.distance", "cycling_activities:read": "scope.rides",
		}[name])
	}
	return strings.Join(names, " · ") // in any language, as each begins with a capital letter
}

func browserIn(language *locale.Locale, name string) string {
	return cmp.Or(name, language.Text("browsers.unknown"))
}

const (
	// receiptLifetime is how long the link of a receipt works.
	receiptLifetime = 30 * day
	// ReceiptPath is that of the pages of the links. The sealed receipt follows.
	ReceiptPath = "/account/receipt/"
)

// ErrNoReceipt means that a link is not one of a receipt, or is too old, or that its user was deleted. Callers must not tell these apart.
var ErrNoReceipt = errors.New("no such receipt")

// Receipt is what the link of a receipt may end, without a session: a version of a connection, or what a browser is known for.
type Receipt struct {
	UserID    uuid.UUID
	ClientID  uuid.UUID // of the connection, or uuid.Nil if the receipt is about a browser
	Version   int64     // of the connection
	BrowserID uuid.UUID
	ExpiresAt time.Time
}

// receiptPayload is the sealed form of a [Receipt]. A changed payload needs a new credential.Kind.
type receiptPayload struct {
	UserID, ClientID, BrowserID uuid.UUID
	Version, ExpiresAt          int64
}

// SealReceipt returns the path of the link.
func (a *Accounts) SealReceipt(receipt Receipt) (path string, err error) {
	sealed, err := a.keys.Seal(credential.ReceiptLink,
		receiptPayload{receipt.UserID, receipt.ClientID, receipt.BrowserID, receipt.Version, receipt.ExpiresAt.UnixMicro()})
	return ReceiptPath + sealed, err
}

// UserOfReceipt returns the user of a sealed receipt. That it opens proves that its link was in an email to the user.
func (a *Accounts) UserOfReceipt(sealed string) (userID uuid.UUID, ok bool) {
	payload, err := credential.OpenAs[receiptPayload](a.keys, credential.ReceiptLink, sealed)
	return payload.UserID, err == nil
}

// OpenReceipt returns the receipt of a link, and its user. It changes nothing. Error: ErrNoReceipt.
func (a *Accounts) OpenReceipt(ctx context.Context, sealed string) (receipt Receipt, user User, err error) {
	payload, err := credential.OpenAs[receiptPayload](a.keys, credential.ReceiptLink, sealed)
	if err != nil {
		return receipt, user, ErrNoReceipt
	}
	receipt = Receipt{payload.UserID, payload.ClientID, payload.Version, payload.BrowserID, time.UnixMicro(payload.ExpiresAt)}
	now, err := a.queries.Now(ctx)
	if err != nil {
		return receipt, user, postgres.Wrap("account: open a receipt", err)
	}
	if !receipt.ExpiresAt.After(now) {
		return receipt, user, ErrNoReceipt
	}
	if user, err = a.GetUser(ctx, receipt.UserID); errors.Is(err, refusal.ErrUserNotFound) {
		err = ErrNoReceipt
	}
	return receipt, user, err
}

// BrowserOfReceipt returns the browser of a receipt, and whether there is something to end: it is known, or may have a session. Somebody who
// signs in can make the browser unknown at once, which keeps its session, also that of a later sign-in.
func (a *Accounts) BrowserOfReceipt(ctx context.Context, receipt Receipt) (browser Browser, signedIn bool, err error) {
	list, err := a.Browsers(ctx, receipt.UserID)
	if err != nil {
		return browser, false, err
	}
	browser.SignedInAt = receipt.ExpiresAt.Add(-receiptLifetime)
	if i := slices.IndexFunc(list, func(b Browser) bool { // a further sign-in has given it another id, and left the first, which had the receipt
		return b.ID == receipt.BrowserID || b.FirstAt != nil && b.FirstAt.Sub(browser.SignedInAt).Abs() < time.Minute
	}); i >= 0 {
		return list[i], true, nil
	}
	signedIn, err = a.queries.HasHiddenSession(ctx, accountdb.HasHiddenSessionParams{
		UserID: receipt.UserID, Until: browser.SignedInAt.Add(SessionLifetime + time.Minute),
	})
	return browser, signedIn, postgres.Wrap("account: browser of a receipt", err)
}

// EndBrowser makes the browser of a receipt unknown, and ends all sessions of its user and the requests in which the user has signed in: they
// may be in that browser.
func (a *Accounts) EndBrowser(ctx context.Context, receipt Receipt) error {
	users := []uuid.UUID{receipt.UserID}
	err := postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		_, gone := queries.LockUser(ctx, receipt.UserID) // first, as a deletion and a change of the address do
		return cmp.Or(
			gone,
			queries.ForgetBrowser(ctx, accountdb.ForgetBrowserParams{UserID: receipt.UserID, BrowserID: receipt.BrowserID}),
			queries.DeleteSessionsOf(ctx, users),
			a.settings.EndRequests(ctx, tx, users),
		)
	})
	return postgres.WrapNoRows("account: end a browser", err, nil)
}
