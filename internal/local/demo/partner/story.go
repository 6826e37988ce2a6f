package partner

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	connectsdk "connect.invalid/connect-go"
	"connect.invalid/connect-go/connect"
)

// step is one thing that happened, in words for a person who never read the specification, with what was sent for it.
type step struct {
	At          time.Time
	Title, Text string
	Next        string // what to do now, where it went wrong
	Failed      bool
	Exchanges   []exchange

	begins  bool // a chapter: what came before is another story
	reading bool // for the page, that is
	Times   int  // that the page was read in a row
}

const storyLength = 16 // steps

// tell adds a step to the story of a member. Reading again and again is one step, of which the last one is shown.
func (p *Partner) tell(member string, s step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s.At, s.Times = time.Now(), 1
	story := p.stories[member]
	if s.reading && len(story) > 0 && story[0].reading && story[0].Title == s.Title {
		s.Times = story[0].Times + 1
		story = story[1:]
	}
	story = slices.Insert(slices.Clone(story), 0, s)
	p.stories[member] = story[:min(len(story), storyLength)]
}

// story is in chapters, the newest first; the steps of each are in the order in which they happened.
func (p *Partner) story(member Member) (chapters [][]step) {
	p.mu.Lock()
	defer p.mu.Unlock()
	begun := true
	for _, s := range p.stories[member.Key] {
		if begun {
			chapters = append(chapters, nil)
		}
		s.At, begun = s.At.In(member.Timezone), s.begins
		last := &chapters[len(chapters)-1]
		*last = slices.Insert(*last, 0, s)
	}
	return chapters
}

func sentAway(address string) step {
	return step{
		begins: true,
		Title:  "You were sent to Activity Connect with a one-time question",
		Text: "Your browser carried our name, what we would like to read, and two values made for this one attempt: the state, by which " +
			"we know our own question again when you come back, and the challenge, which seals a secret that stayed with us.",
		Exchanges: []exchange{navigation(address, "The answer went to your browser alone: the pages on which you sign in and decide.")},
	}
}

// navigation is what the browser asked for, without a query that tells anything.
func navigation(address, answer string) exchange {
	u, err := url.Parse(address)
	if err != nil {
		u = new(url.URL)
	}
	return exchange{Summary: "Your browser: " + summary(http.MethodGet, u), Request: requestText(http.MethodGet, u, nil), Answer: answer}
}

// codeCame and what follows are the steps that go well.
func codeCame(back exchange) step {
	return step{
		Title: "It sent you back with a code that works once",
		Text: "You agreed there. The code came through your browser, where others might see it; so it is worth nothing alone. It works once, " +
			"within two minutes, together with our password and the secret behind the seal.",
		Exchanges: []exchange{back},
	}
}

func exchanged(sent []exchange) step {
	return step{
		Title: "We exchanged the code for two keys",
		Text: "From our server to theirs, past your browser. The first key, the access token, reads your data for five minutes at most. " +
			"The second, the refresh token, works once, to get the next two. Your browser never gets either.",
		Exchanges: sent,
	}
}

func renewed(sent []exchange, asked bool) step {
	s := step{
		begins: true,
		Title:  "The first key had run out, so we traded the second for two new ones",
		Text: "We hold two keys. The first, the access token, reads your data for five minutes at most. The second, the refresh token, works " +
			"once, to get the next two: so nobody had to ask you. Were it ever sent again, Activity Connect would take it for stolen and end everything.",
		Exchanges: sent,
	}
	if asked {
		s.Title = "We traded the second key for two new ones"
		s.Text = "The old ones are not used any more. Were the old second key ever sent again, Activity Connect would take it for stolen and end everything."
	}
	return s
}

func readAll(sent []exchange, a Activity) step {
	return step{
		reading: true,
		Title:   "We read your steps and rides",
		Text: fmt.Sprintf("With the first key, each list by itself; the rides in %s of %d at most. A day without a record is missing in the "+
			"answer: that is not the same as zero.", count(a.Pages, "page"), pageSize),
		Exchanges: sent,
	}
}

func revoked(sent []exchange) step {
	return step{
		begins: true,
		Title:  "We gave the keys back",
		Text: "Neither works any more, from now on. Activity Connect still remembers that you agreed: connect again, and we may read from " +
			"the same first day on.",
		Exchanges: sent,
	}
}

func disconnected(sent []exchange) step {
	return step{
		begins: true,
		Title:  "We ended the connection",
		Text: "Activity Connect forgot that you had agreed, and we threw the keys away. A new connection begins with the day on which you " +
			"agree to it.",
		Exchanges: sent,
	}
}

// told is the step of an event that ended a connection.
func told(reason connectsdk.ConnectionRevokedDataReason, call exchange) step {
	return step{
		begins:    true,
		Title:     "Activity Connect told us that the connection is over",
		Text:      "It called our webhook: " + because(reason) + ". We made sure that the call is genuine by its signature, and threw the keys away.",
		Exchanges: []exchange{call},
	}
}

// because says why a member must connect again.
func because(reason connectsdk.ConnectionRevokedDataReason) string {
	switch reason {
	case connectsdk.ConnectionRevokedDataReasonUserDisconnected:
		return "you disconnected this partner at Activity Connect"
	case connectsdk.ConnectionRevokedDataReasonAccountDeleted:
		return "your account at Activity Connect was deleted"
	case connectsdk.ConnectionRevokedDataReasonRefreshTokenReplayed:
		return "a used key was presented again, and everything was revoked"
	default:
		return fmt.Sprintf("Activity Connect says %s", reason)
	}
}

// trouble is the step of what went wrong: what happened, and what to do next. doing is such as "read your data".
func trouble(err error, doing string, sent []exchange) step {
	s := step{Failed: true, Exchanges: sent}
	var refused *connect.Error
	var over *connect.ReconnectError
	switch {
	case errors.Is(err, connect.ErrDenied):
		s.Title = "You said no"
		s.Text = "Activity Connect sent you back without a code. Nothing was connected, and we can read nothing of you."
		s.Next = "If you change your mind, choose Connect."
	case errors.Is(err, connect.ErrState):
		s.Title = "This answer belongs to no question of ours"
		s.Text = "Either this browser did not ask, or the answer was used before or came too late. Nothing was connected: whoever sent you here cannot " +
			"put another's connection in your name."
		s.Next = "Choose Connect to begin anew."
	case errors.Is(err, connect.ErrNotConnected):
		s.Title, s.Text, s.Next = "There is no connection", "So there was nothing to do.", "Choose Connect to make one."
	case errors.As(err, &over) && over.State == connect.StateUncertain:
		s.Title = "We do not know whether the second key was used up"
		s.Text = "We sent it and heard no answer that can be trusted. It works only once, and sent twice it would count as stolen: so we do not " +
			"send it again, and threw it away."
		s.Next = "Choose Connect again. Your consent is remembered; what may be read begins with the same day."
	case errors.As(err, &over):
		s.Title = "Activity Connect does not accept our keys any more"
		s.Text = "Either you disconnected us there, or they were revoked, or nobody used the connection for 90 days. Nothing of what we read before is wrong."
		s.Next = "Choose Connect again."
	case errors.As(err, &refused) && refused.Code == "invalid_grant":
		s.Title = "The code was not accepted"
		s.Text = "It works once and for two minutes at most. It was used, or is too old. Nothing was connected by it."
		s.Next = "Choose Connect to begin anew."
	case errors.As(err, &refused) && refused.Code == "invalid_client":
		s.Title = "Activity Connect does not accept this company"
		s.Text = "Our password was replaced, or the company was disabled. No key was used up by that: your connection is as it was."
		s.Next = "Nothing that you could do. The company asks the operator of Activity Connect."
	case len(sent) > 0 && sent[len(sent)-1].Status == http.StatusTooManyRequests: // also where a page does not wait so long
		s.Title = "We have asked too often"
		s.Text = "Activity Connect allows this company so many requests a minute, for all its users together. Your connection is as it was."
		s.Next = "Wait a minute, then load the page again."
	case errors.As(err, &refused) && refused.Status < http.StatusInternalServerError:
		s.Title = "Activity Connect refused to " + doing
		s.Text = fmt.Sprintf("Its answer was %d %s. To try again would not help. Your connection is as it was.", refused.Status, cmp.Or(refused.Code, "without a reason"))
		s.Next = "The company looks it up" + inLog(refused) + "."
	default:
		s.Title = "Activity Connect is away just now"
		s.Text = "We tried to " + doing + " and got no useful answer. That says nothing about your data, and your connection is as it was."
		s.Next = "Try again in a minute."
		if refused != nil {
			s.Text += fmt.Sprintf(" Its answer was %d.", refused.Status)
		}
	}
	return s
}

func inLog(refused *connect.Error) string {
	if refused.RequestID == "" {
		return ""
	}
	return " by the request id " + refused.RequestID
}

// dialed reports that a connection could not be made.
func dialed(err error) bool {
	dial := (*net.OpError)(nil)
	return errors.As(err, &dial) && dial.Op == "dial"
}

// count is such as "1 page" and "3 pages".
func count(n int, what string) string {
	text := thousands(int64(n)) + " " + what
	if n != 1 {
		text += "s"
	}
	return text
}

// renewals takes the exchanges with the token endpoint out of what was sent for something else.
func renewals(sent []exchange) (renewal, rest []exchange) {
	for _, e := range sent {
		if strings.Contains(e.Summary, "/oauth/token") {
			renewal = append(renewal, e)
		} else {
			rest = append(rest, e)
		}
	}
	return renewal, rest
}
