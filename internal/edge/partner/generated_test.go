package partner

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"pgregory.net/rapid"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/generated"
	"connect-svc/internal/testing/pgtest"
)

// generator makes requests, in part with the credentials of a connection that is really there.
type generator struct {
	generated.Generator
	state *played
}

// played is what the requests of one sequence act on, and what came back.
type played struct {
	partners               []pgtest.Client
	codes, access, refresh []string
	grants, cursors        []string
}

// known are values of the running sequence for the parameters and fields that carry one.
func (s *played) known(name string) []string {
	switch name {
	case "grant_id":
		return latest(s.grants)
	case "code":
		return s.codes
	case "refresh_token":
		return latest(s.refresh)
	case "token":
		return slices.Concat(s.access, s.refresh)
	case "cursor":
		return s.cursors
	case "redirect_uri":
		return []string{callback}
	case "code_verifier":
		return []string{verifier}
	case "from", "to":
		return []string{today, tomorrow, yesterday}
	}
	return nil
}

// latest are values of which the last is the one that probably still works, and so comes most often.
func latest(values []string) []string {
	if len(values) == 0 {
		return nil
	}
	return append(slices.Clone(values), slices.Repeat(values[len(values)-1:], 2*len(values))...)
}

// authorization adds credentials: as the operation wants them, or other ones.
func (g generator) authorization(document *openapi3.T, r *generated.Request) {
	security := &document.Security
	if r.Operation.Security != nil {
		security = r.Operation.Security
	}
	good := edgetest.Basic(g.state.partners[0].ID.String(), g.state.partners[0].Secret)
	if len(*security) > 0 && (*security)[0][bearerScheme] != nil {
		good = "Bearer " + g.One("access token", latest(g.state.access)...)
	}
	r.Header["Authorization"] = []string{good}
	switch {
	case !g.Chance(6, "other credentials?"):
	case g.Chance(4, "two headers?"):
		r.Header["Authorization"] = []string{good, good}
		r.Valid = false
	default:
		values := []string{"", "Basic", "Basic ", "Basic !", "Basic eA==", "Bearer", "Bearer ", "Bearer a b", "Bearer \xff",
			"Digest x", "Basic Og==", "Basic AAA6AAA=", strings.Repeat("x", 5000)}
		for _, p := range g.state.partners {
			values = append(values, edgetest.BasicOf(p), edgetest.Basic(p.ID.String(), "wrong"))
		}
		for _, token := range slices.Concat(g.state.access, g.state.refresh, g.state.codes, g.state.cursors) {
			values = append(values, "Bearer "+token)
		}
		r.Header["Authorization"] = []string{g.One("credentials", values...)}
	}
}

// remember takes from an answer what later requests can be made with.
func (s *played) remember(body []byte) {
	var fields struct {
		Access  string `json:"access_token"`
		Refresh string `json:"refresh_token"`
		Meta    struct {
			Cursor string `json:"next_cursor"`
		} `json:"meta"`
	}
	if json.Unmarshal(body, &fields) != nil {
		return
	}
	if fields.Access != "" {
		s.access, s.refresh = append(s.access, fields.Access), append(s.refresh, fields.Refresh)
	}
	if fields.Meta.Cursor != "" {
		s.cursors = append(s.cursors, fields.Meta.Cursor)
	}
}

// Requests that the document describes, and requests close to them, are answered as the document says: never with a fault or an
// undocumented answer, never with success where the document forbids it, and never as malformed where it allows it. Each sequence
// of requests has a connection of its own, which they use, refresh and end.
func TestGeneratedRequests(t *testing.T) {
	t.Parallel()
	document, err := partnerapi.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t)
	slow := f.newClient(t, client.Policy{RequestsPerMinute: 1, Burst: 3, ConcurrentReads: 1})
	sent, successes := 0, 0
	rapid.Check(t, func(rt *rapid.T) {
		own := *f
		own.User.ID = f.DB.User(t).ID
		for _, ride := range []string{"a", "b", "c"} {
			own.addRide(t, ride, today+" 07:00:00", nil, 1000)
		}
		partners := []pgtest.Client{f.client, slow}
		if rapid.IntRange(1, 5).Draw(rt, "slow client?") == 1 {
			slices.Reverse(partners)
		}
		scopes := rapid.SampledFrom([]scope.Set{scope.All, scope.All, scope.DailySteps, scope.CyclingActivities}).Draw(rt, "scopes")
		state := &played{partners: partners}
		connect := func(p pgtest.Client, scopes scope.Set) {
			tokens := own.Connect(t, p, scopes)
			state.codes = append(state.codes, own.Code(t, p, scopes))
			state.access, state.refresh = append(state.access, tokens.AccessToken), append(state.refresh, tokens.RefreshToken)
			state.grants = append(state.grants, tokens.GrantID.String())
		}
		connect(partners[1], scope.All)
		connect(partners[0], scopes)
		for range rapid.IntRange(1, 20).Draw(rt, "requests") {
			g := generator{generated.Generator{T: rt, Known: state.known}, state}
			if g.Chance(5, "connect again?") { // the requests before may have ended the connection
				connect(partners[0], scopes)
			}
			r := g.Request(document)
			// Limits of the document's prose.
			r.Valid = r.Valid && len(baseURL)+len(r.Target) <= maxReadURL && len(r.Body) <= maxBody
			g.authorization(document, &r)
			status, body := r.Try(rt, f.url, contracttest.Partner)
			sent++
			if status < 300 {
				successes++
			}
			state.remember(body)
		}
	})
	if successes == 0 {
		t.Errorf("none of %d requests succeeded", sent)
	}
	t.Logf("%d requests, of which %d succeeded", sent, successes)
}
