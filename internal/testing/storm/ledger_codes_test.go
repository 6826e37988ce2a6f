//go:build faults

package storm

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// codeLedger counts the emails by address, and what codes were asked with: a request has one code, however often its email is sent, a code
// leads to one decision at most, which has its result again if it is repeated, in the browser that asked for it and in its time, and an address without an account gets no
// email.
type codeLedger struct {
	mu        sync.Mutex
	addresses map[string]*mailed
	strangers []string // addresses without an account
	used      int
	refused   map[string]int
}

type mailed struct {
	asked, emails, receipts int
	codes                   map[string]bool // of the emails
	subjects                map[string]int  // of the receipts
}

func newCodeLedger() *codeLedger {
	return &codeLedger{addresses: map[string]*mailed{}, refused: map[string]int{}}
}

// of needs the lock.
func (l *codeLedger) of(address string) *mailed {
	if l.addresses[address] == nil {
		l.addresses[address] = &mailed{codes: map[string]bool{}, subjects: map[string]int{}}
	}
	return l.addresses[address]
}

func (l *codeLedger) ask(address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of(address).asked++
}

func (l *codeLedger) arrived(address, code, subject string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of(address)
	if code == "" {
		of.receipts++
		of.subjects[subject]++
		return
	}
	of.emails++
	of.codes[code] = true
}

func (l *codeLedger) refuse(why string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused[why]++
}

// misuse is somebody who asks for a code and does with it what must not work, and then what must, twice.
func (s *storm) misuse(u *user, chance *rand.Rand) {
	defer await(s.stop, between(chance, 0.2, 1))
	b, code, err := s.signIn(u, s.steady)
	if err != nil {
		return
	}
	try := func(why string, other *browser) {
		if in, err := other.enter(code); err == nil {
			if in {
				s.Errorf("a one-time code works %s", why)
			}
			s.codes.refuse(why)
		}
	}
	switch chance.IntN(3) {
	case 0: // another browser, which asked for a code of the same address
		if thief, err := s.open(s.steady); err == nil && thief.ask(u.email) == nil {
			try("in another browser", thief)
		}
	case 1:
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err := s.database.exec(ctx, "update sign_ins set expires_at = connect_now() - interval '1 second' where lower(email) = lower($1)", u.email)
		if err == nil {
			try("after its time", b)
		}
	default:
		s.useTwice(b, code)
	}
	s.askAsStranger()
}

// useTwice enters the code again after consent, and presses the button at once in two windows.
func (s *storm) useTwice(b *browser, code string) {
	given := 0
	for range 2 {
		if in, err := b.enter(code); err != nil || !in {
			break
		}
		var windows sync.WaitGroup
		var codes [2]string
		for n := range codes {
			windows.Go(func() { codes[n], _ = b.allow() })
		}
		windows.Wait()
		if codes[0]+codes[1] != "" { // two are those of one decision
			given++
		}
	}
	if given > 1 {
		s.Errorf("one sign-in led to %d decisions", given)
	}
	s.codes.mu.Lock()
	defer s.codes.mu.Unlock()
	s.codes.used += given
}

// askAsStranger asks for a code with an address that has no account.
func (s *storm) askAsStranger() {
	b, err := s.open(s.steady)
	if err != nil {
		return
	}
	address := newEmail()
	_ = b.ask(address)
	s.codes.mu.Lock()
	defer s.codes.mu.Unlock()
	s.codes.strangers = append(s.codes.strangers, address)
}

// mostEmails of a request: its tries.
const mostEmails = 5

func (s *storm) checkCodes() {
	s.codes.mu.Lock()
	defer s.codes.mu.Unlock()
	asked, emails, receipts := 0, 0, 0
	for _, of := range s.codes.addresses {
		asked += of.asked
		emails += of.emails
		receipts += of.receipts
		if len(of.codes) > of.asked {
			s.Errorf("%d codes were sent for %d requests", len(of.codes), of.asked)
		}
		if of.emails > mostEmails*of.asked {
			s.Errorf("%d emails were sent for %d requests", of.emails, of.asked)
		}
	}
	for _, address := range s.codes.strangers {
		if of := s.codes.of(address); of.emails+of.receipts > 0 {
			s.Error("an address without an account got an email")
		}
	}
	s.sum.fact("%d codes asked for, %d emails with codes, %d receipts, none to %d addresses without an account; codes refused: %d in another browser, %d after their time; %d pressed twice gave one",
		asked, emails, receipts, len(s.codes.strangers), s.codes.refused["in another browser"], s.codes.refused["after its time"], s.codes.used)
}

// browser of somebody who authorizes a partner.
type browser struct {
	*storm
	client *http.Client
	base   string // of the request's pages

	user         *user // who has signed in
	partner      *partner
	once         sync.Once
	acknowledged func() // the consent, which has one entry in the audit log
}

func (b *browser) visit(kind, method, path string, form url.Values, want int) (location string, err error) {
	request := b.request(method, path, form)
	request.Header.Set("Origin", baseURL)
	request.Header.Set("Sec-Fetch-Site", "same-origin")
	got := b.send(kind, b.client, request)
	if got.status != want {
		return "", errNoCode
	}
	return got.header.Get("Location"), nil
}

func (b *browser) ask(email string) error {
	b.codes.ask(email)
	_, err := b.visit("sign in", http.MethodPost, b.base+"/sign-in", url.Values{"email": {email}}, http.StatusSeeOther)
	return err
}

// enter reports whether the code was right.
func (b *browser) enter(code string) (in bool, err error) {
	location, err := b.visit("sign in", http.MethodPost, b.base+"/code", url.Values{"code": {code}}, http.StatusSeeOther)
	return strings.HasSuffix(location, "/consent"), err
}

// allow presses the button.
func (b *browser) allow() (code string, err error) {
	b.once.Do(func() { b.acknowledged = sync.OnceFunc(b.audit.ask("consent.allowed", b.user.id, b.partner.id)) })
	location, err := b.visit("consent", http.MethodPost, b.base+"/consent", url.Values{"decision": {"allow"}}, http.StatusSeeOther)
	if err != nil {
		return "", err
	}
	at, err := url.Parse(location)
	if err != nil || at.Query().Get("code") == "" {
		return "", errNoCode
	}
	b.acknowledged()
	return at.Query().Get("code"), nil
}

// signIn opens a request, and returns the code that was mailed.
func (s *storm) signIn(u *user, p *partner) (b *browser, code string, err error) {
	if b, err = s.open(p); err != nil {
		return nil, "", err
	}
	b.user = u
	email := u.address()
	emails := s.mail.of(email)
	for old := true; old; { // of a server that died with the email: another one has sent it since
		select {
		case <-emails:
		default:
			old = false
		}
	}
	if err := b.ask(email); err != nil {
		return nil, "", err
	}
	select {
	case code = <-emails:
		return b, code, nil
	case <-time.After(10 * time.Second):
		return nil, "", errNoCode
	}
}
