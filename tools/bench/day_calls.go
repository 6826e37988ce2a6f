package main

import (
	"fmt"
	"net/url"
	"time"
)

// everyPage is not a call, but all pages and lists that operators see.
const everyPage = "every page"

// calls are what people ask an operator in a day. Acts come last, so that what they ask about is still there.
func (d *operatorDesk) calls() []call {
	email := func(n int) string { return userEmail(firstCaller + n) }
	user := func(n int) string { return userID(firstCaller + n).String() }
	partner := func(n int) string { return clientID(firstAsking + n).String() }
	query := func(n int) string { return url.QueryEscape(email(n)) }
	of := func(path string) func(int) string { return func(int) string { return path } }
	about := func(format string, of ...func(int) string) func(int) string {
		return func(n int) string {
			var values []any
			for _, value := range of {
				values = append(values, value(n))
			}
			return fmt.Sprintf(format, values...)
		}
	}
	// The partner that a user is connected with.
	connected := func(n int) string { return clientID(1 + (firstCaller+n)*7919%(d.size.Partners-1)).String() }
	// Acts are about others each time, so that none has been done before.
	later := func(text func(int) string, place int) func(int) string {
		return func(n int) string { return text(n + place*d.size.Times) }
	}
	month := "from=" + time.Now().AddDate(0, 0, -30).Format(time.DateOnly) + "&to=" + time.Now().Format(time.DateOnly)
	return []call{
		{everyPage, nil, []step{
			d.ask(of("GET clients")), d.ask(of("GET clients?query=partner+77")), d.ask(of("GET users")), d.ask(of("GET audit-log")), d.ask(of("GET webhook-events")),
			d.ask(about("GET connections?client_id=%s", func(int) string { return clientID(0).String() })),
		}, []step{
			d.look(of("")), d.look(of("users")), d.look(of("partners")), d.look(of("partners?q=partner+77")), d.look(of("audit")), d.look(of("service")),
			d.look(of("partners/" + clientID(0).String())), d.look(of("partners/" + clientID(0).String() + "/usage")),
			d.look(of("partners/" + clientID(0).String() + "/refused")), d.look(of("partners/" + clientID(0).String() + "/webhooks")),
			d.look(about("users/%s/connections/%s", user, connected)),
		}},
		{"the code never came", []step{d.run(about("user sign-ins %s", email))},
			[]step{d.ask(about("GET users?email=%s", query)), d.ask(about("GET users/%s/sign-ins", user))},
			[]step{d.look(about("find?q=%s", query)), d.look(about("users/%s", user))}},
		{"the steps are wrong", []step{d.run(about("user activity %s --from "+month[5:15]+" --to "+month[19:], email))},
			[]step{d.ask(about("GET users?email=%s", query)), d.ask(about("GET users/%s/activity?"+month, user))},
			[]step{d.look(about("find?q=%s", query)), d.look(about("users/%s", user))}},
		{"the partner gets 401", []step{d.run(about("client errors %s", partner))},
			[]step{d.ask(about("GET clients/%s/errors", partner))}, []step{d.look(about("partners/%s/refused", partner))}},
		{"webhooks do not come", []step{d.run(about("webhook list --client %s --state failed", partner))},
			[]step{d.ask(about("GET webhook-events?client_id=%s&state=failed", partner))}, []step{d.look(about("partners/%s/webhooks?state=failed", partner))}},
		{"who changed what", []step{d.run(about("audit list --client %s", partner))},
			[]step{d.ask(about("GET audit-log?client_id=%s", partner))}, []step{d.look(about("audit?partner=%s", partner))}},
		{"how many this month", []step{d.run(of("report --since 30d"))},
			[]step{d.ask(of("GET report?since=" + month[5:15] + "T00:00:00Z"))}, []step{d.look(of(""))}},
		{"is it slow", []step{d.run(about("usage --client %s", partner))},
			[]step{d.ask(about("GET clients/%s/usage", partner))}, []step{d.look(about("partners/%s/usage", partner))}},
		{"more budget", []step{d.run(about("client update %s --requests-per-minute 1200", partner))},
			[]step{d.ask(about(`PATCH clients/%s {"requests_per_minute":1300}`, partner))},
			[]step{d.fill(about("partners/%s/change", partner), "requests-per-minute=1400")}},
		{"a new secret", []step{d.run(about("client rotate-secret %s --overlap 24h", partner))},
			[]step{d.ask(about(`POST clients/%s/secret {"overlap_seconds":86400}`, partner))}, []step{d.fill(about("partners/%s/secret", partner), "overlap=86400")}},
		{"tokens leaked", []step{d.run(about("client revoke-tokens %s --yes", partner))},
			[]step{d.ask(about("POST clients/%s/revoke-tokens", partner))}, []step{d.fill(about("partners/%s/revoke", partner))}},
		{"disconnect", []step{d.run(about("connection disconnect --user %s --client %s --yes", email, connected))},
			[]step{d.ask(later(about("DELETE users/%s/connections/%s", user, connected), 1))},
			[]step{d.fill(later(about("users/%s/connections/%s/disconnect", user, connected), 2))}},
		{"delete me", []step{d.run(later(about("user delete %s --yes", email), 3))}, []step{d.ask(later(about("DELETE users/%s", user), 4))},
			[]step{d.fill(later(about("users/%s/delete", user), 5))}},
	}
}
