package account

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	accountdb "connect-svc/gen/db/account"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
)

const (
	// ReceiptLifetime is how long the link of a receipt works.
	ReceiptLifetime = 30 * day
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
func (a *Accounts) SealReceipt(of Receipt) (path string, err error) {
	text, err := binary.Append(nil, binary.BigEndian, receiptPayload{of.UserID, of.ClientID, of.BrowserID, of.Version, of.ExpiresAt.UnixMicro()})
	if err != nil {
		return "", err
	}
	sealed, err := a.keys.Seal(credential.ReceiptLink, text)
	return ReceiptPath + sealed, err
}

// UserOfReceipt returns the user of a sealed receipt. That it opens proves that its link was in an email to the user.
func (a *Accounts) UserOfReceipt(sealed string) (userID uuid.UUID, ok bool) {
	found, err := a.openReceipt(sealed)
	return found.UserID, err == nil
}

func (a *Accounts) openReceipt(sealed string) (payload receiptPayload, err error) {
	text, err := a.keys.Open(credential.ReceiptLink, sealed)
	if err != nil {
		return payload, ErrNoReceipt
	}
	_, err = binary.Decode(text, binary.BigEndian, &payload)
	return payload, err
}

// OpenReceipt returns the receipt of a link, and its user. It changes nothing. Error: ErrNoReceipt.
func (a *Accounts) OpenReceipt(ctx context.Context, sealed string) (of Receipt, user User, err error) {
	payload, err := a.openReceipt(sealed)
	if err != nil {
		return of, user, err
	}
	of = Receipt{payload.UserID, payload.ClientID, payload.Version, payload.BrowserID, time.UnixMicro(payload.ExpiresAt)}
	now, err := a.queries.Now(ctx)
	if err != nil {
		return of, user, postgres.Wrap("account: open a receipt", err)
	}
	if !of.ExpiresAt.After(now) {
		return of, user, ErrNoReceipt
	}
	if user, err = a.GetUser(ctx, of.UserID); errors.Is(err, refusal.ErrUserNotFound) {
		err = ErrNoReceipt
	}
	return of, user, err
}

// BrowserOfReceipt returns the browser of a receipt, and whether there is something to end: it is known, or has a session. Somebody who signs
// in can make the browser unknown at once, which keeps its session.
func (a *Accounts) BrowserOfReceipt(ctx context.Context, of Receipt) (found Browser, signedIn bool, err error) {
	list, err := a.Browsers(ctx, of.UserID)
	if err != nil {
		return found, false, err
	}
	if i := slices.IndexFunc(list, func(b Browser) bool { return b.ID == of.BrowserID }); i >= 0 {
		return list[i], true, nil
	}
	found.SignedInAt = of.ExpiresAt.Add(-ReceiptLifetime)
	// The session began just before the receipt.
	signedIn, err = a.queries.HasSessionsUntil(ctx, accountdb.HasSessionsUntilParams{
		UserID: of.UserID, Until: found.SignedInAt.Add(SessionLifetime + time.Minute),
	})
	return found, signedIn, postgres.Wrap("account: browser of a receipt", err)
}

// EndBrowser makes the browser of a receipt unknown, and ends all sessions of its user and the requests in which the user has signed in: they
// may be in that browser.
func (a *Accounts) EndBrowser(ctx context.Context, of Receipt) error {
	users := []uuid.UUID{of.UserID}
	err := postgres.InTx(ctx, a.pool, func(tx pgx.Tx) error {
		queries := a.queries.WithTx(tx)
		return cmp.Or(
			queries.ForgetBrowser(ctx, accountdb.ForgetBrowserParams{UserID: of.UserID, BrowserID: of.BrowserID}),
			queries.DeleteSessionsOf(ctx, users),
			a.settings.EndRequests(ctx, tx, users),
		)
	})
	return postgres.Wrap("account: end a browser", err)
}
