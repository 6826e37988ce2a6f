package pages

import (
	"net/http"
	"strings"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/work"
)

// caller decides in whose queue a request waits for the database. After a sign-in, to the account pages or to a request, it is the
// user's: the cookies that say so are sealed, and nobody else has one. The same is true of the link of a receipt. All other
// browsers of a network share a queue.
func (p *pages) caller(r *http.Request) work.Caller {
	if key, ok := p.sessionKey(r); ok {
		return work.Caller{Kind: work.Users, Name: key.UserID.String()}
	}
	if session, ok := p.requestSession(r); ok {
		return work.Caller{Kind: work.Users, Name: session.UserID.String()}
	}
	if sealed, ok := strings.CutPrefix(r.URL.Path, account.ReceiptPath); ok {
		if userID, ok := p.Accounts.UserOfReceipt(sealed); ok {
			return work.Caller{Kind: work.Users, Name: userID.String()}
		}
	}
	kind := work.Strangers
	if r.Method == http.MethodPost && (strings.HasSuffix(r.URL.Path, "/sign-in") || strings.HasSuffix(r.URL.Path, "/new-code")) {
		kind = work.Codes
	}
	return work.Caller{Kind: kind, Name: p.TrustedProxies.Of(r).String()}
}
