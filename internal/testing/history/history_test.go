package history

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/testing/wait"
)

// acts one after the other, each answered before the next begins.
func inTurn(ops ...Op) []Op {
	for i := range ops {
		if ops[i].Return == 0 {
			ops[i].Call, ops[i].Return = int64(10*i+1), int64(10*i+9)
		}
		if ops[i].Answer == "" {
			ops[i].Answer = Done
		}
		if ops[i].Act == Look && ops[i].Seen.Audited == "" {
			ops[i].Seen.Audited = allAudited(ops[:i], ops[i].Seen.Told)
		}
	}
	return ops
}

// allAudited is the log in which no entry of these acts is missing, and none besides.
func allAudited(ops []Op, told string) string {
	for _, op := range ops {
		if op.Act == Exchange && op.Answer == Done {
			told = add(told, Event(op.Version, Authorized))
		}
	}
	return told
}

// during moves an act: it was called and answered at these places of the others.
func during(op Op, call, end int64) Op {
	op.Call, op.Return = 10*call+5, 10*end+5
	return op
}

func answered(op Op, answer Answer) Op {
	op.Answer = answer
	return op
}

var (
	consent    = Op{Act: Consent, Code: 1}
	exchange   = Op{Act: Exchange, Code: 1, Version: 1}
	refresh1   = Op{Act: Refresh, Version: 1, Generation: 1}
	refresh2   = Op{Act: Refresh, Version: 1, Generation: 2}
	read       = Op{Act: Read, Version: 1, Token: 1}
	revokeOne  = Op{Act: RevokeAccess, Version: 1, Token: 1}
	revokeAll  = Op{Act: RevokeRefresh, Version: 1, Generation: 1}
	disconnect = Op{Act: DisconnectByClient}
	leave      = Op{Act: DisconnectByUser}
	remove     = Op{Act: DeleteUser}
	disable    = Op{Act: DisableClient}
	enable     = Op{Act: EnableClient}
)

func look(state string, version, generation int64, events ...string) Op {
	return Op{Act: Look, Seen: Row{State: state, Version: version, Generation: generation, Told: Events(events)}}
}

// audited has a look find these entries.
func audited(look Op, entries ...string) Op {
	look.Seen.Audited = Events(entries)
	return look
}

func TestCheck(t *testing.T) {
	t.Parallel()
	consent2, exchange3 := Op{Act: Consent, Code: 2}, Op{Act: Exchange, Code: 2, Version: 3}
	for name, test := range map[string]struct {
		legal bool
		ops   []Op
	}{
		"a life": {true, inTurn(consent, exchange, read, refresh1, refresh2, revokeOne, answered(read, Refused), disconnect, consent2, exchange3,
			look("authorized", 3, 1, "1 client_disconnected"))},
		"nobody consented": {true, inTurn(answered(exchange, Refused), answered(leave, Refused), look("none", 0, 0))},

		"a code works once":              {true, inTurn(consent, exchange, answered(exchange, Refused))},
		"a code honoured twice":          {false, inTurn(consent, exchange, Op{Act: Exchange, Code: 1, Version: 2})},
		"a version left out":             {false, inTurn(consent, Op{Act: Exchange, Code: 1, Version: 2})},
		"a good code refused":            {false, inTurn(consent, answered(exchange, Refused))},
		"a code after a disconnect":      {false, inTurn(consent, exchange, consent2, disconnect, exchange3)},
		"a disconnect raises it again":   {true, inTurn(consent, exchange, disconnect, disconnect, look("disconnected", 3, 0, "1 client_disconnected"))},
		"two tell of one disconnect":     {false, inTurn(consent, exchange, disconnect, disconnect, look("disconnected", 3, 0, "1 client_disconnected", "2 client_disconnected"))},
		"a code of before a second one":  {false, inTurn(consent, exchange, disconnect, consent2, disconnect, Op{Act: Exchange, Code: 2, Version: 4})},
		"of two codes the first works":   {true, inTurn(consent, consent2, exchange, answered(exchange3, Refused))},
		"and the second works not":       {false, inTurn(consent, consent2, exchange, Op{Act: Exchange, Code: 2, Version: 2})},
		"a refresh token honoured twice": {false, inTurn(consent, exchange, refresh1, refresh1)},
		"at one time neither":            {false, inTurn(consent, exchange, during(refresh1, 3, 5), during(refresh1, 3, 5))},
		"one of them is a replay":        {true, inTurn(consent, exchange, during(refresh1, 3, 5), during(answered(refresh1, Refused), 3, 5), Op{Act: Look, Seen: Row{State: "revoked", Version: 1, Told: "1 refresh_token_replayed"}, Call: 90, Return: 91})},
		"a replay revokes":               {true, inTurn(consent, exchange, refresh1, answered(refresh1, Refused), answered(refresh2, Refused), answered(read, Refused))},
		"a replay that does not revoke":  {false, inTurn(consent, exchange, refresh1, answered(refresh1, Refused), refresh2)},
		"a read after a replay":          {false, inTurn(consent, exchange, refresh1, answered(refresh1, Refused), read)},
		"a good refresh refused":         {false, inTurn(consent, exchange, answered(refresh1, Refused))},

		"a read after a disconnect":        {false, inTurn(consent, exchange, disconnect, read)},
		"a read during a disconnect":       {true, inTurn(consent, exchange, during(disconnect, 3, 6), during(read, 4, 7))},
		"refused, and then not":            {false, inTurn(consent, exchange, during(disconnect, 3, 9), during(answered(read, Refused), 4, 5), during(read, 6, 7))},
		"a read refused for nothing":       {false, inTurn(consent, exchange, answered(read, Refused))},
		"one access token revoked":         {true, inTurn(consent, exchange, revokeOne, answered(read, Refused), Op{Act: Read, Version: 1, Token: 2}, refresh1)},
		"a revoked one read":               {false, inTurn(consent, exchange, revokeOne, read)},
		"a read after a revocation":        {false, inTurn(consent, exchange, revokeAll, read)},
		"revoked and told nobody":          {false, inTurn(consent, exchange, revokeAll, look("revoked", 1, 0))},
		"told of what never happened":      {false, inTurn(consent, exchange, look("authorized", 1, 1, "1 refresh_token_revoked"))},
		"a disconnect after a revocation":  {true, inTurn(consent, exchange, revokeAll, leave, look("disconnected", 2, 0, "1 refresh_token_revoked", "1 user_disconnected"))},
		"the same scopes again":            {true, inTurn(consent, exchange, revokeAll, consent2, Op{Act: Exchange, Code: 2, Version: 2}, look("authorized", 2, 1, "1 refresh_token_revoked"))},
		"a deleted user's token":           {false, inTurn(consent, exchange, remove, refresh1)},
		"a deleted user":                   {true, inTurn(consent, exchange, remove, answered(refresh1, Refused), answered(remove, Refused), disconnect, answered(leave, Refused), look("deleted", 0, 0, "1 account_deleted"))},
		"a disabled client":                {true, inTurn(consent, exchange, disable, answered(refresh1, Stranger), answered(read, Refused), answered(revokeAll, Stranger), enable, refresh1)},
		"a disabled client's refresh":      {false, inTurn(consent, exchange, disable, refresh1)},
		"a grant refused while it changes": {false, inTurn(consent, exchange, disable, during(enable, 4, 6), during(answered(refresh1, Refused), 4, 6))},

		"unknown, and it happened":       {true, inTurn(consent, exchange, answered(refresh1, Unknown), answered(refresh1, Refused), answered(read, Refused))},
		"unknown, and it did not":        {true, inTurn(consent, exchange, answered(refresh1, Unknown), refresh1, look("authorized", 1, 2))},
		"unknown is not both":            {false, inTurn(consent, exchange, answered(refresh1, Unknown), refresh1, look("authorized", 1, 3))},
		"an unknown replay":              {true, inTurn(consent, exchange, answered(refresh1, Unknown), refresh1, answered(refresh2, Refused))},
		"unknown, and it happened later": {true, inTurn(consent, exchange, answered(disconnect, Unknown), read, answered(read, Refused), look("disconnected", 2, 0, "1 client_disconnected"))},
		"unknown before it was called":   {false, inTurn(consent, exchange, answered(read, Refused), answered(disconnect, Unknown))},
		"unknown of an older version":    {true, inTurn(consent, exchange, answered(refresh1, Unknown), disconnect, consent2, exchange3, look("authorized", 3, 1, "1 client_disconnected"))},
		"an unknown exchange":            {true, inTurn(consent, answered(exchange, Unknown), answered(exchange, Refused), audited(look("authorized", 1, 1), "1 authorized"))},

		"an end without its entry":      {false, inTurn(consent, exchange, disconnect, audited(look("disconnected", 2, 0, "1 client_disconnected"), "1 authorized"))},
		"an exchange without its entry": {false, inTurn(consent, exchange, disconnect, audited(look("disconnected", 2, 0, "1 client_disconnected"), "1 client_disconnected"))},
		"an entry without an act":       {false, inTurn(consent, exchange, audited(look("authorized", 1, 1), "1 authorized", "1 refresh_token_revoked"))},
		"an entry with another reason":  {false, inTurn(consent, exchange, disconnect, audited(look("disconnected", 2, 0, "1 client_disconnected"), "1 authorized", "1 user_disconnected"))},
		"two entries of one act":        {false, inTurn(consent, exchange, audited(look("authorized", 1, 1), "1 authorized", "1 authorized"))},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := Check(test.ops, wait.Limit)
			if !got.Decided || got.Legal != test.legal {
				t.Errorf("legal %v, decided %v, want legal %v:\n%s", got.Legal, got.Decided, test.legal, Text(test.ops))
			}
		})
	}
}

// Acts of unknown outcome do not make the search endless.
func TestManyUnknown(t *testing.T) {
	t.Parallel()
	ops := []Op{consent, exchange}
	for n := range 40 {
		version, code := int64(2*n+1), n+2
		ops = append(ops, Op{Act: Refresh, Version: version, Generation: 1, Answer: Unknown}, Op{Act: RevokeAccess, Version: version, Token: n, Answer: Unknown},
			Op{Act: Exchange, Code: code - 1, Answer: Unknown},
			disconnect, Op{Act: Consent, Code: code}, Op{Act: Exchange, Code: code, Version: version + 2})
	}
	for _, legal := range []bool{true, false} {
		last := ops
		if !legal {
			last = append(last, Op{Act: Refresh, Version: 1, Generation: 1})
		}
		if got := Check(inTurn(last...), wait.Limit); !got.Decided || got.Legal != legal {
			t.Errorf("legal %v, decided %v, want legal %v", got.Legal, got.Decided, legal)
		}
	}
}

func TestDraw(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "history.html")
	if err := Check(inTurn(consent, exchange, refresh1, refresh1), wait.Limit).Draw(path); err != nil {
		t.Fatal(err)
	}
	if page, err := os.ReadFile(path); err != nil || !strings.Contains(string(page), "refresh 1.1: done") {
		t.Errorf("the picture does not show the acts: %v", err)
	}
}
