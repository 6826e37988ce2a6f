package sdk_test

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/oasdiff/yaml"
)

// scenarios is sdk/scenarios.yaml, which says what each field means.
type scenarios struct {
	Faults    []fault    `json:"faults"`
	Scenarios []scenario `json:"scenarios"`
	Webhooks  struct {
		Secret string `json:"secret"`
		Calls  []call `json:"calls"`
	} `json:"webhooks"`
}

type fault struct {
	Name      string `json:"name"`
	Fault     string `json:"fault"`
	Expect    string `json:"expect"`
	Via       string `json:"via"`
	HTTP      int    `json:"http"`
	TimeoutMS int    `json:"timeout_ms"`
	Cause     string `json:"cause"`
}

// reuses says that the fault is one of a connection that was used before.
func (f fault) reuses() bool { return f.Fault == "reset-reused" || f.Fault == "idle-closed" }

type scenario struct {
	Name   string `json:"name"`
	ByHand bool   `json:"by_hand"`
	Steps  []step `json:"steps"`
}

type step struct {
	Connect  string          `json:"connect"`
	Account  string          `json:"account"`
	Do       message         `json:"do"`
	Outcome  string          `json:"outcome"`
	Want     message         `json:"want"`
	Times    int             `json:"times"`
	Together []step          `json:"together"`
	Answer   *planned        `json:"answer"`
	Pages    []int           `json:"pages"`
	Seen     *map[string]int `json:"seen"`
	Slept    float64         `json:"slept"`
	Open     *[]string       `json:"open"`
}

type call struct {
	Name      string  `json:"name"`
	Signature string  `json:"signature"`
	Event     string  `json:"event"`
	Body      string  `json:"body"`
	Type      string  `json:"type"`
	Changed   bool    `json:"changed"`
	Age       float64 `json:"age"`
	Outcome   string  `json:"outcome"`
}

func readScenarios(t *testing.T) (all scenarios) {
	t.Helper()
	text, err := os.ReadFile("../../../../sdk/scenarios.yaml")
	if err != nil {
		t.Fatal(err)
	}
	strict := func(d *json.Decoder) *json.Decoder { d.DisallowUnknownFields(); return d }
	if _, err := yaml.Unmarshal(text, &all, yaml.DecodeOpts{DisableTimestamps: true}, strict); err != nil {
		t.Fatal(err)
	}
	return all
}

// playAll runs all scenarios that a driver can play, each against a service and a process of its own.
func playAll(t *testing.T, l language) {
	all := readScenarios(t)
	certificates := newCertificates(t)
	for _, f := range all.Faults {
		if f.HTTP == 2 && !l.http2 || f.reuses() && !l.pools {
			continue
		}
		if f.Fault == "goaway" && !l.goaway {
			f.Expect = "lost"
		}
		t.Run("fault/"+f.Name, func(t *testing.T) {
			t.Parallel()
			newPlay(t, l, certificates, f.HTTP).fault(f)
		})
	}
	for _, s := range all.Scenarios {
		if l.byHand && !s.ByHand {
			continue
		}
		t.Run("scenario/"+s.Name, func(t *testing.T) {
			t.Parallel()
			p := newPlay(t, l, certificates, 1)
			p.open("", fault{})
			for i, one := range s.Steps {
				if p.step(one); t.Failed() {
					t.Fatalf("at step %d: %s", i+1, marshal(one))
				}
			}
		})
	}
	if l.byHand {
		return
	}
	t.Run("webhooks", func(t *testing.T) {
		t.Parallel()
		p := newPlay(t, l, certificates, 1)
		for _, c := range all.Webhooks.Calls {
			p.verify(all.Webhooks.Secret, c)
		}
	})
}

// play is one scenario under way.
type play struct {
	t        *testing.T
	language language
	network  *network
	service  *scripted
	driver   *driver
	state    string // of the last begin
	slept    float64
}

func newPlay(t *testing.T, l language, c serverCertificates, protocol int) *play {
	n := newNetwork(t, c, protocol)
	p := &play{t: t, language: l, network: n, service: newScripted(t, n)}
	if l.byHand { // the guides leave the encoding of credentials out, which those of the service do not need
		p.service.partner.secret = "svci_secret"
	}
	p.driver = startDriver(t, l, n.environment())
	return p
}

// ask has the driver carry out a command, which must have that outcome.
func (p *play) ask(command message, outcome string) message {
	p.t.Helper()
	answer := p.driver.ask(p.t, command)
	slept, _ := answer["slept"].(float64)
	p.slept += slept
	p.check(command, answer, outcome)
	return answer
}

func (p *play) check(command, answer message, outcome string) {
	p.t.Helper()
	want := cmp.Or(outcome, "ok")
	if p.language.byHand { // see want
		want = regexp.MustCompile("^reconnect-.*").ReplaceAllString(want, "reconnect")
	}
	if got := answer["outcome"]; got != want {
		p.t.Errorf("%s: %s, want %s", command["do"], marshal(answer), want)
	}
}

// open makes a client for the service, behind the fault.
func (p *play) open(via string, f fault) {
	p.t.Helper()
	command := message{
		"do": "open", "base_url": p.network.base(via, f.Fault), "client_id": p.service.partner.id, "client_secret": p.service.partner.secret,
		"callback_url": p.service.partner.callback, "scopes": []string{"daily_steps:read", "cycling_daily:read", "cycling_activities:read"},
	}
	if f.TimeoutMS > 0 {
		command["timeout_ms"] = f.TimeoutMS
	}
	if p.network.http2 {
		command["http"] = 2
	}
	p.ask(command, "")
}

func (p *play) connect(key, account string) message {
	p.t.Helper()
	url, _ := p.ask(message{"do": "begin"}, "")["url"].(string)
	p.service.agreed(account)
	return p.ask(message{"do": "finish", "key": key, "callback": "state=" + p.service.consent(url) + "&code=svcc_code"}, "")
}

// fault plays a row of faults.
func (p *play) fault(f fault) {
	refresh, state := message{"do": "refresh", "key": "anna"}, message{"do": "state", "key": "anna"}
	if f.reuses() {
		p.service.keepAlive()
	}
	p.open(f.Via, fault{})
	p.connect("anna", "")
	reopen := f.HTTP == 2 || f.TimeoutMS > 0 || f.Fault == "name-unknown" || f.Fault == "syn-dropped"
	if p.t.Failed() {
		return
	}
	if reopen {
		p.open(f.Via, f)
	}
	token := p.service.current()
	p.network.put(f.Fault)
	first := p.driver.ask(p.t, refresh)
	between := p.driver.ask(p.t, state)
	p.network.put("")
	if reopen {
		p.open(f.Via, fault{})
	}
	second := p.driver.ask(p.t, refresh)
	p.t.Logf("%s: %s, then %s", f.Name, first["outcome"], second["outcome"])
	switch {
	case f.Expect == "either" && p.network.sawBytes():
		f.Expect = "lost"
	case f.Fault == "silent" && p.service.sentTimes(token) == 0 && first["outcome"] == "network":
		f.Expect = "kept" // on a busy machine the time was over before the request left
	}
	active := "active"
	switch {
	case f.Expect == "lost":
		active = "uncertain"
		p.check(refresh, first, "reconnect-uncertain")
		p.check(refresh, second, "reconnect-uncertain")
		if causes, _ := first["causes"].([]any); len(slices.Compact(causes)) < 2 {
			p.t.Errorf("the error has no cause: %s", marshal(first))
		}
	case (f.HTTP == 2 || f.Expect == "either") && first["outcome"] == "ok":
		p.check(refresh, second, "")
	default:
		p.check(refresh, first, "network")
		p.check(refresh, second, "")
	}
	if p.language.byHand {
		active = strings.Replace(active, "uncertain", "over", 1)
	}
	if between["state"] != active {
		p.t.Errorf("meanwhile the connection is %s, not %s", marshal(between), active)
	}
	if f.Cause != "" && !regexp.MustCompile("(?i)"+f.Cause).Match(marshal(first["causes"])) {
		p.t.Errorf("the causes %s have no %s", marshal(first["causes"]), f.Cause)
	}
	want := 1
	if f.Expect == "lost" {
		want = min(1, p.service.sentTimes(token)) // a reset may come before the request is read
	}
	if n := p.service.sentTimes(token); n != want {
		p.t.Errorf("the refresh token was sent %d times", n)
	}
	if f.Via == "proxy" && p.network.tunneled() == 0 {
		p.t.Error("nothing came through the proxy")
	}
}

func (p *play) step(s step) {
	p.t.Helper()
	switch {
	case s.Connect != "":
		p.want(s, p.connect(s.Connect, s.Account))
	case s.Do != nil:
		if callback, has := s.Do["callback"].(string); has {
			s.Do["callback"] = strings.NewReplacer("STATE", p.state, "CODE", "svcc_code").Replace(callback)
		}
		answer := p.ask(s.Do, s.Outcome)
		if url, has := answer["url"].(string); has {
			p.state = p.service.consent(url)
		}
		p.want(s, answer)
	case s.Together != nil:
		var commands []message
		var steps []step
		for _, one := range s.Together {
			for range max(one.Times, 1) {
				commands, steps = append(commands, one.Do), append(steps, one)
			}
		}
		answers, _ := p.ask(message{"do": "together", "commands": commands}, "")["answers"].([]any)
		if len(answers) != len(commands) {
			p.t.Fatalf("%d answers to %d commands", len(answers), len(commands))
		}
		for i, one := range steps {
			answer := message(answers[i].(map[string]any))
			p.check(one.Do, answer, one.Outcome)
			p.want(one, answer)
		}
	case s.Seen != nil:
		if seen := p.service.takeSeen(); !maps.Equal(seen, nonZero(*s.Seen)) {
			p.t.Errorf("the service saw %v, want %v", seen, *s.Seen)
		}
	case s.Open != nil:
		if open := p.service.opened(); !slices.Equal(open, *s.Open) {
			p.t.Errorf("the accounts %v are open, want %v", open, *s.Open)
		}
	case s.Slept > 0:
		if p.slept < s.Slept {
			p.t.Errorf("the client slept %v ms", p.slept)
		}
		p.slept = 0
	default:
		p.service.plan(s)
	}
}

func nonZero(counts map[string]int) map[string]int {
	maps.DeleteFunc(counts, func(_ string, n int) bool { return n == 0 })
	return counts
}

func (p *play) want(s step, answer message) {
	p.t.Helper()
	for name, want := range s.Want {
		if p.language.byHand && name == "state" && want != "active" {
			want = "over" // which tells no more than that
		}
		if !reflect.DeepEqual(answer[name], want) {
			p.t.Errorf("%s: %s is %v, want %v", s.Do["do"], name, answer[name], want)
		}
	}
}

// verify plays a webhook.
func (p *play) verify(secret string, c call) {
	const now = 1795255200
	body := c.Body
	if c.Event != "" {
		body = events[c.Event]
	}
	id, sent := "evt_7b0a8f0d", fmt.Sprint(now-int(c.Age))
	sign := func(secret string) string {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil {
			p.t.Fatal(err)
		}
		mac := hmac.New(sha256.New, key)
		_, _ = mac.Write([]byte(id + "." + sent + "." + body))
		return base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	other := "whsec_" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("o"), 32))
	signature := strings.NewReplacer("SIGNATURE-WITHOUT-V1", sign(secret), "SIGNATURE", "v1,"+sign(secret), "OTHER", "v1,"+sign(other)).Replace(c.Signature)
	if c.Changed {
		body = strings.Replace(body, "2026", "2027", 1)
	}
	answer := p.driver.ask(p.t, message{
		"do": "verify", "secret": secret, "body": body, "at": now,
		"headers": map[string]string{"webhook-id": id, "webhook-timestamp": sent, "webhook-signature": signature},
	})
	if answer["outcome"] != c.Outcome {
		p.t.Errorf("%s: %s, want %s", c.Name, marshal(answer), c.Outcome)
	}
	if kind := cmp.Or(c.Type, c.Event); c.Outcome == "ok" && (answer["id"] != id || answer["type"] != kind) {
		p.t.Errorf("%s: %s", c.Name, marshal(answer))
	}
}

// events are bodies as the contract has them.
var events = map[string]string{
	"connection.revoked": `{"type":"connection.revoked","timestamp":"2026-11-21T10:00:00.000Z","data":` +
		`{"grant_id":"8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55","connection_version":"3","reason":"user_disconnected"}}`,
	"activity.updated": `{"type":"activity.updated","timestamp":"2026-11-21T10:00:00.000Z","data":{"grant_id":"8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55",` +
		`"connection_version":"3","datasets":["daily_steps"],"from":"2026-11-20","to":"2026-11-21"}}`,
}

// Each scenario has a name of its own, and all rows of both kinds are there.
func TestScenariosAreWhole(t *testing.T) {
	t.Parallel()
	all := readScenarios(t)
	names, kinds := []string{}, map[string]int{}
	for _, f := range all.Faults {
		names = append(names, f.Name)
		kinds[f.Expect]++
	}
	for _, s := range all.Scenarios {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	if n := len(names); len(slices.Compact(names)) != n {
		t.Error("two scenarios have one name")
	}
	if len(kinds) != 3 || kinds["kept"] == 0 || kinds["lost"] == 0 || len(all.Webhooks.Calls) == 0 {
		t.Errorf("the rows are %v", kinds)
	}
}
