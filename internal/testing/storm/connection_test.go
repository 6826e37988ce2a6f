//go:build faults

package storm

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"connect-svc/internal/testing/history"
)

// connection is one of a user with a partner, as all who act on it see it, and what they noted.
type connection struct {
	*storm
	user    *user
	partner *partner

	mu     sync.Mutex
	ops    []history.Op
	grant  string
	day    string // the first that can be read
	from   string // and to are the days to read, if they are not this one
	to     string
	tokens []tokens
	codes  []code
	number int  // of the last code or access token
	doubt  bool // the last request got no answer
	stale  bool
	asking bool // somebody is in the browser

	revocations map[int]func() // of access tokens, by number
}

type tokens struct {
	access, refresh     string
	number              int
	version, generation int64
	at                  time.Time
}

type code struct {
	value  string
	number int
	at     time.Time
}

// How long credentials are used for. They live longer, even where an answer takes its time.
const (
	codeAge  = time.Minute
	tokenAge = 3 * time.Minute
)

func (s *storm) now() int64 { return time.Since(s.began).Nanoseconds() }

// note has the act between its call and its answer. If do returns false, nothing is recorded.
func (c *connection) note(caller int, op history.Op, do func(*history.Op) bool) {
	op.Caller, op.Call = caller, c.now()
	noted := do(&op)
	op.Return = c.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if noted {
		c.ops = append(c.ops, op)
	}
	c.doubt = !noted || op.Answer == history.Unknown
}

// pause is how long a backend waits before it does something again: longer after an answer that tells nothing.
func (c *connection) pause(chance *rand.Rand) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.doubt {
		return between(chance, 0.5, 2)
	}
	return between(chance, 0.02, 0.3)
}

// answerOf is what a status of the acts of a client means.
func (c *connection) answerOf(what string, got reply, done, refused int) history.Answer {
	switch {
	case got.unknown():
		return history.Unknown
	case got.status == done:
		return history.Done
	case got.status == refused:
		return history.Refused
	case got.status == http.StatusUnauthorized:
		return history.Stranger
	}
	c.Errorf("%s is answered %d", what, got.status)
	return history.Unknown
}

// connect goes through the browser and exchanges the code.
func (c *connection) connect(caller int) {
	page, err := c.consent(c.user, c.partner)
	if err != nil {
		return
	}
	c.note(caller, history.Op{Act: history.Consent, Answer: history.Done}, func(op *history.Op) bool {
		value, err := page.allow()
		if err != nil { // without a code, whatever happened, nothing follows
			return false
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.number++
		op.Code = c.number
		c.codes = append(c.codes, code{value, c.number, time.Now()})
		return true
	})
	if got, ok := c.code(0); ok {
		c.exchange(caller, got)
	}
}

// code is the last one, or one of before.
func (c *connection) code(back int) (code, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if back >= len(c.codes) || time.Since(c.codes[len(c.codes)-1-back].at) > codeAge {
		return code{}, false
	}
	return c.codes[len(c.codes)-1-back], true
}

// token is the last one, or one of before.
func (c *connection) token(back int) (tokens, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if back >= len(c.tokens) {
		return tokens{}, false
	}
	return c.tokens[len(c.tokens)-1-back], true
}

func (c *connection) exchange(caller int, with code) {
	c.note(caller, history.Op{Act: history.Exchange, Code: with.number}, func(op *history.Op) bool {
		got := c.act("exchange", c.partner, http.MethodPost, "/oauth/token", url.Values{
			"grant_type": {"authorization_code"}, "code": {with.value}, "redirect_uri": {callback}, "code_verifier": {verifier},
		})
		if op.Answer = c.answerOf("an exchange", got, http.StatusOK, http.StatusBadRequest); op.Answer == history.Done {
			op.Version = c.issued(got, 1)
		}
		return true
	})
}

// issued keeps what an answer gave.
func (c *connection) issued(got reply, generation int64) (version int64) {
	var answer struct {
		GrantID      string `json:"grant_id"`
		HistoryFrom  string `json:"history_from"`
		Version      string `json:"connection_version"`
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	if err := got.json(&answer); err != nil {
		c.Error("tokens cannot be read")
		return 0
	}
	version, err := strconv.ParseInt(answer.Version, 10, 64)
	if err != nil {
		c.Error(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.grant != "" && c.grant != answer.GrantID {
		c.Errorf("the grant of a connection changed")
	}
	c.number++
	c.grant, c.day, c.stale = answer.GrantID, answer.HistoryFrom, false
	c.tokens = append(c.tokens, tokens{answer.AccessToken, answer.RefreshToken, c.number, version, generation, time.Now()})
	return version
}

func (c *connection) refresh(caller int, with tokens) {
	c.note(caller, history.Op{Act: history.Refresh, Version: with.version, Generation: with.generation}, func(op *history.Op) bool {
		got := c.act("refresh", c.partner, http.MethodPost, "/oauth/token", url.Values{"grant_type": {"refresh_token"}, "refresh_token": {with.refresh}})
		op.Answer = c.answerOf("a refresh", got, http.StatusOK, http.StatusBadRequest)
		switch op.Answer {
		case history.Done:
			if version := c.issued(got, with.generation+1); version != with.version {
				c.Errorf("a refresh of version %d gave version %d", with.version, version)
			}
		case history.Refused, history.Unknown: // the partner asks its user again (specification 5.4)
			c.mu.Lock()
			c.stale = c.stale || with.number == c.tokens[len(c.tokens)-1].number
			c.mu.Unlock()
		}
		return true
	})
}

func (c *connection) revoke(caller int, op history.Op, token string) (noted history.Op) {
	c.note(caller, op, func(op *history.Op) bool {
		got := c.act(string(op.Act), c.partner, http.MethodPost, "/oauth/revoke", url.Values{"token": {token}})
		op.Answer = c.answerOf("a revocation", got, http.StatusOK, -1)
		noted = *op
		return true
	})
	return noted
}

// revokeOne revokes an access token. It has one entry in the audit log, however often, unless its user is deleted meanwhile.
func (c *connection) revokeOne(caller int, with tokens) {
	c.mu.Lock()
	if c.revocations == nil {
		c.revocations = map[int]func(){}
	}
	if c.revocations[with.number] == nil {
		c.revocations[with.number] = c.audit.ask("access_token.revoked", c.user.id, c.partner.id)
	}
	acknowledged := c.revocations[with.number]
	c.mu.Unlock()
	op := c.revoke(caller, history.Op{Act: history.RevokeAccess, Token: with.number, Version: with.version}, with.access)
	if op.Answer == history.Done && !c.user.isLeaving() {
		acknowledged()
	}
}

func (c *connection) disconnectByClient(caller int) {
	c.mu.Lock()
	grant := c.grant
	c.mu.Unlock()
	if grant == "" {
		return
	}
	c.note(caller, history.Op{Act: history.DisconnectByClient}, func(op *history.Op) bool {
		got := c.act(string(op.Act), c.partner, http.MethodDelete, "/connect-svc/v1/customer/grants/"+grant, nil)
		op.Answer = c.answerOf("a disconnect", got, http.StatusNoContent, -1)
		return true
	})
}

func (c *connection) disconnectByUser(caller int) {
	c.note(caller, history.Op{Act: history.DisconnectByUser}, func(op *history.Op) bool {
		got := c.operate(string(op.Act), http.MethodDelete, fmt.Sprintf("/users/%s/connections/%s", c.user.id, c.partner.id), nil)
		op.Answer = c.answerOf("a disconnect by the user", got, http.StatusNoContent, http.StatusNotFound)
		return true
	})
}

// read asks for one of the datasets, and follows the pages of the third. It returns the body of the last answer.
func (c *connection) read(caller int, with tokens, dataset string) []byte {
	c.mu.Lock()
	path, query := "/connect-svc/v1/grants/"+c.grant+"/"+dataset, "?from="+c.day+"&to="+c.day
	if c.from != "" {
		query = "?from=" + c.from + "&to=" + c.to
	}
	c.mu.Unlock()
	if dataset == "cycling-activities" {
		query += "&limit=1"
	}
	cursor := ""
	for pages := 0; pages < 3; pages++ {
		var got reply
		c.note(caller, history.Op{Act: history.Read, Token: with.number, Version: with.version}, func(op *history.Op) bool {
			request := c.request(http.MethodGet, path+query+cursor, nil)
			request.Header.Set("Authorization", "Bearer "+with.access)
			got = c.send("read "+dataset, c.api, request)
			switch got.status {
			case http.StatusOK, http.StatusTooManyRequests: // who is asked to wait was let in
				op.Answer = history.Done
			case http.StatusUnauthorized:
				op.Answer = history.Refused
				c.mu.Lock()
				c.stale = c.stale || c.from != "" // nobody else ends it: its token is too old
				c.mu.Unlock()
			case 0, http.StatusServiceUnavailable:
				return false
			default:
				c.Errorf("a read is answered %d", got.status)
				return false
			}
			return true
		})
		var page struct {
			Meta struct {
				Next *string `json:"next_cursor"`
			} `json:"meta"`
		}
		if got.status != http.StatusOK || got.json(&page) != nil || page.Meta.Next == nil {
			return got.body
		}
		cursor = "&cursor=" + url.QueryEscape(*page.Meta.Next)
	}
	return nil
}

var datasets = []string{"daily-activity", "cycling-daily", "cycling-activities"}

// connects connects anew where that is needed, or what there is has become stale, unless another caller is at it.
func (c *connection) connects(caller int, needed bool) bool {
	c.mu.Lock()
	first := (needed || c.stale) && !c.asking
	c.asking = c.asking || first
	c.mu.Unlock()
	if first {
		c.connect(caller)
		c.mu.Lock()
		c.asking = false
		c.mu.Unlock()
	}
	return first
}

// step does something that a partner's backend may do, rightly or wrongly.
func (c *connection) step(caller int, chance *rand.Rand) {
	last, some := c.token(0)
	if c.connects(caller, !some) {
		return
	}
	if !some {
		return
	}
	old, _ := c.token(chance.IntN(3))
	if old.access == "" || chance.IntN(4) > 0 {
		old = last
	}
	switch draw := chance.IntN(100); {
	case draw < 55:
		if time.Since(old.at) < tokenAge {
			c.read(caller, old, datasets[chance.IntN(3)])
		}
	case draw < 80:
		c.refresh(caller, last)
	case draw < 82:
		c.refresh(caller, old)
	case draw < 87:
		c.revokeOne(caller, old)
	case draw < 90:
		c.revoke(caller, history.Op{Act: history.RevokeRefresh, Version: old.version, Generation: old.generation}, old.refresh)
	case draw < 92:
		c.disconnectByClient(caller)
	case draw < 94:
		c.disconnectByUser(caller)
	case draw < 97:
		if used, ok := c.code(chance.IntN(2)); ok {
			c.exchange(caller, used)
		}
	default:
		c.connect(caller)
	}
}
