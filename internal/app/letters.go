package app

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/refusal"
)

// partnerLetters composes emails to the contact addresses of partners, by kind. They are in English, like the partners' own pages, with the
// texts of the last reload.
func (a *App) partnerLetters(config Config) map[string]account.Compose {
	link := config.BaseURL + portal.Path
	if config.DevelopersSite {
		link = config.BaseURL + "/developers/going-live.html#your-own-pages"
	}
	compose := func(ctx context.Context, notice account.Notice) (account.Letter, error) {
		var data struct {
			By            string
			What          string // of a change
			Times         int    // of a change; 0: once
			State, Answer string // of an answer
		}
		if err := json.Unmarshal(notice.Data, &data); err != nil {
			return account.Letter{}, err
		}
		partner, err := a.Clients.Get(ctx, notice.Recipient)
		if errors.Is(err, refusal.ErrClientNotFound) || err == nil && (partner.ContactEmail == "" || partner.Status != client.Active) {
			err = account.ErrNoLetter
		}
		if err != nil {
			return account.Letter{}, err
		}
		texts := a.edges.Load().texts
		language, key := texts.Console().Locale("en"), "console.mail."+cmp.Or(data.What, data.State)
		facts := []account.Fact{
			{Name: language.Text("console.mail.who"), Value: data.By}, {Name: language.Text("console.mail.when"), Value: notice.PutAt.UTC().Format(time.DateTime) + " UTC"},
		}
		if data.Times > 1 {
			facts = append(facts, account.Fact{Name: language.Text("console.mail.times"), Value: strconv.Itoa(data.Times)})
		}
		if data.Answer != "" {
			facts = append(facts, account.Fact{Name: language.Text("console.change.answer"), Value: data.Answer})
		}
		return account.Letter{
			To: partner.ContactEmail, In: texts.Locale("en"), Subject: language.Text(key, "Partner", partner.Name), Says: language.Text(key, "Partner", partner.Name) + ".",
			Facts: facts, Why: language.Text(key + "_then"), Link: link, Closing: language.Text("console.mail.closing"),
		}, nil
	}
	return map[string]account.Compose{"partner_change": compose, "partner_answer": compose}
}
