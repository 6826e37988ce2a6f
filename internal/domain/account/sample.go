package account

import (
	"slices"
	"strings"
	"time"

	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/scope"
)

// Samples are the kinds of emails to users, by the names that [SampleEmail] takes, and what they are.
var Samples = []struct{ Name, Says string }{
	{"email", "Email of a connection"},
	{"email-account", "Email of the account"},
	{"email-link", "Email without a code"},
	{"email-" + connectionBegun, "Receipt of a connection"},
	{"email-" + connectionEnded, "Receipt of an end"},
	{"email-" + newBrowser, "Receipt of a sign-in"},
}

// SampleEmail returns an email with made-up contents, as a preview. The address of a logo is cid:logo.
func SampleEmail(of brand.Brand, host, name string, in *locale.Locale) (text, html string, err error) {
	const browser = "Firefox (Linux)"
	at, page := time.Date(2026, 5, 18, 15, 4, 0, 0, time.UTC), "https://"+host+"/account"
	code := codeEmail{
		code: "012345", link: page + "/link/" + strings.Repeat("a", 43), partner: "Stride Club", brand: of, in: in, sent: at,
		valid: CodeLifetime, zone: time.UTC,
	}
	told := receipt{
		Notice: Notice{Kind: strings.TrimPrefix(name, "email-"), PutAt: at}, receiptData: receiptData{By: "partner", Browser: browser},
		in: in, link: "https://" + host + ReceiptPath + "svcl_" + strings.Repeat("a", 150),
		of: Connected{Partner: code.partner, Scopes: scope.All, HistoryFrom: at, AuthorizedAt: at, Browser: browser},
	}
	switch name {
	case "email-account":
		code.partner = ""
	case "email-link":
		code.code = ""
	case "email-" + connectionEnded:
		told.link = page
	}
	var sample email
	if slices.Contains(ReceiptKinds, told.Kind) {
		sample, err = told.letter().email(of)
	} else {
		sample, err = code.email()
	}
	return sample.text, sample.html, err
}
