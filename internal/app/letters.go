package app

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/refusal"
)

// partnerLetters composes emails to the contact addresses of partners, by kind. They are in English, like the partners' own pages.
func (a *App) partnerLetters(config Config) map[string]account.Compose {
	texts := config.Texts
	if texts == nil {
		texts = locale.Default()
	}
	language, link := texts.Console().Locale("en"), config.BaseURL+portal.Path
	if config.DevelopersSite {
		link = config.BaseURL + "/developers/going-live.html#your-own-pages"
	}
	// about composes what the texts of a key say about a partner.
	about := func(ctx context.Context, notice account.Notice, key, operator string, more ...account.Fact) (account.Letter, error) {
		partner, err := a.Clients.Get(ctx, notice.Recipient)
		if errors.Is(err, refusal.ErrClientNotFound) || err == nil && (partner.ContactEmail == "" || partner.Status != client.Active) {
			err = account.ErrNoLetter
		}
		if err != nil {
			return account.Letter{}, err
		}
		return account.Letter{
			To: partner.ContactEmail, In: texts.Locale("en"), Subject: language.Text(key, "Partner", partner.Name), Says: language.Text(key, "Partner", partner.Name) + ".",
			Facts: append([]account.Fact{
				{Name: language.Text("console.mail.who"), Value: operator}, {Name: language.Text("console.mail.when"), Value: notice.PutAt.UTC().Format(time.DateTime) + " UTC"},
			}, more...),
			Why: language.Text(key + "_then"), Link: link, Closing: language.Text("console.mail.closing"),
		}, nil
	}
	return map[string]account.Compose{
		"partner_change": func(ctx context.Context, notice account.Notice) (account.Letter, error) {
			var data struct {
				By, What string
				Times    int // 0: once
			}
			if err := json.Unmarshal(notice.Data, &data); err != nil {
				return account.Letter{}, err
			}
			var times []account.Fact
			if data.Times > 1 {
				times = []account.Fact{{Name: language.Text("console.mail.times"), Value: strconv.Itoa(data.Times)}}
			}
			return about(ctx, notice, "console.mail."+data.What, data.By, times...)
		},
		"partner_answer": func(ctx context.Context, notice account.Notice) (account.Letter, error) {
			var data struct{ By, State, Answer string }
			if err := json.Unmarshal(notice.Data, &data); err != nil {
				return account.Letter{}, err
			}
			var answer []account.Fact
			if data.Answer != "" {
				answer = []account.Fact{{Name: language.Text("console.change.answer"), Value: data.Answer}}
			}
			return about(ctx, notice, "console.mail."+data.State, data.By, answer...)
		},
	}
}
