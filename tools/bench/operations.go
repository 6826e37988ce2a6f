package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"
)

// group is operations that have a limit in common, which is measured right before them.
type group struct {
	limit      limit
	operations []operation
}

// limit is what PostgreSQL or net/http can do alone.
type limit struct {
	name   string
	script func(statements) (string, error) // for pgbench
	reset  string                           // SQL before it
	// effect counts what the script has done: at least as much as pgbench says, or it measured statements that found
	// nothing to do.
	effect string
	// work is how many transactions find something to do; 0: all. A fast machine is through with them before the time is
	// over, and the script, which is made by counted, then waits for the rest of it.
	work int

	constant, plain bool // of net/http instead, as large as the operation's answer
}

// operation is one way to measure an operation.
type operation struct {
	name    string
	variant string // empty: the one that bench.json has
	limiter string
	service func(*stage) *service
	load    func(context.Context, *stage, int) (load, error)
}

func secureService(s *stage) *service { return s.secure }
func redisService(s *stage) *service  { return s.redis }
func plainService(s *stage) *service  { return s.plain }

// hash is that of the limits' connections.
const (
	hash         = `'\x1c1d9be35fb4ab2ed4c5ae2ff3b2da8a34a5f4d3f9bd8a7b1f0e6b5d5ee0ab11'`
	lastingly    = "interval '2160 hours'"
	someTokenID  = "'00000000-0000-4000-8000-000000000000'"
	inAnHour     = "now() + interval '1 hour'"
	numberedUser = "md5('user ' || :u)::uuid"

	// Each worker counts up in steps of their number: no two have the same k. The n-th transaction of worker w, counted from
	// 0, has k = w + n × connections.
	countUp = "\\if :k < 0\n\\set k :client_id\n\\else\n\\set k :k + :connections\n\\endif\n"
)

// counted is a script that counts up, and does something for each k below work.
func counted(work int, script string) string {
	return countUp + fmt.Sprintf("\\if :k < %d\n%s\\else\n\\sleep 20 ms\n\\endif\n", work, script)
}

// secretHash is that of every client.
var secretHash = fmt.Sprintf(`'\x%x'`, sha256.Sum256([]byte(secret)))

func theClient(n int) string { return "'" + clientID(n).String() + "'" }

var groups = []group{
	{
		limit: limit{
			name: "the conditional update of a refresh, committed",
			script: func(s statements) (string, error) {
				statement, err := s.script("RotateRefreshToken", map[string]string{
					"user_id": numberedUser, "client_id": theClient(limitRefresh), "version": "1", "generation": ":generation",
					"presented_hash": hash, "secret_hash": secretHash, "new_hash": hash, "inactivity": lastingly,
				})
				return "\\if :k < 0\n\\set k 0\n\\set u :client_id\n\\set generation 1\n\\endif\n" + statement +
					"\\set generation :generation + 1\n", err
			},
			reset: "update connections set refresh_generation = 1, refresh_hash = " + hash +
				" where client_id = " + theClient(limitRefresh),
			effect: "select sum(refresh_generation - 1) from connections where client_id = " + theClient(limitRefresh),
		},
		operations: []operation{
			{name: "refresh", service: secureService, load: refreshLoad},
			{name: "refresh", variant: "plain HTTP", service: plainService, load: refreshLoad},
		},
	},
	{
		limit: limit{
			name: "the upsert of an exchange, committed",
			script: func(s statements) (string, error) {
				statement, err := s.script("AuthorizeConnection", map[string]string{
					"user_id": numberedUser, "client_id": "md5('client ' || :c)::uuid", "new_grant_id": "gen_random_uuid()", "secret_hash": secretHash,
					"code_version": "0", "code_expires_at": inAnHour, "redirect_uri": "'" + callback + "'", "scopes": "7",
					"consent_day": "current_date", "refresh_hash": hash, "inactivity": lastingly,
				})
				return counted(users*many, fmt.Sprintf("\\set u :k / %d\n\\set c %d + :k %% %d\n", many, firstLimit, many)+statement), err
			},
			work:   users * many,
			reset:  "delete from connections where client_id in (select md5('client ' || n)::uuid from generate_series(300, 399) n)",
			effect: "select count(*) from connections where client_id in (select md5('client ' || n)::uuid from generate_series(300, 399) n)",
		},
		operations: []operation{{name: "exchange", service: secureService, load: exchangeLoad}},
	},
	{
		limit: limit{
			name: "the statement of a revocation, committed",
			script: func(s statements) (string, error) {
				statement, err := s.script("RevokeConnection", map[string]string{
					"user_id": numberedUser, "client_id": theClient(limitRevoke), "version": "1", "secret_hash": secretHash,
				})
				return counted(users, "\\set u :k\n"+statement), err
			},
			work: users,
			reset: "update connections set state = 'authorized', refresh_hash = " + hash +
				" where client_id = " + theClient(limitRevoke) + " and state <> 'authorized'",
			effect: "select count(*) from connections where state = 'revoked' and client_id = " + theClient(limitRevoke),
		},
		operations: []operation{{name: "revoke", service: secureService, load: revokeLoad}},
	},
	{
		limit: limit{
			name: "the statement of an access token's revocation, committed",
			script: func(s statements) (string, error) {
				statement, err := s.script("RevokeAccessToken", map[string]string{
					"user_id": numberedUser, "client_id": theClient(limitRevoke), "version": "1", "secret_hash": secretHash,
					"token_id": "gen_random_uuid()", "expires_at": inAnHour,
				})
				return countUp + fmt.Sprintf("\\set u :k %% %d\n", users) + statement, err
			},
			reset:  "delete from revoked_access_tokens",
			effect: "select count(*) from revoked_access_tokens",
		},
		operations: []operation{{name: "revoke", variant: "access token", service: secureService, load: revokeAccessLoad}},
	},
	{
		limit: limit{
			name: "select of connection and client, then of 31 rows",
			script: func(s statements) (string, error) {
				return readScript(s, 0, true, "ReadDailySteps",
					map[string]string{"first_date": "current_date - 30", "last_date": "current_date"})
			},
		},
		operations: readOperations("steps", "daily-activity", "", daily),
	},
	{
		limit: limit{
			name: "select of connection and client, then of 62 rides in 31 days",
			script: func(s statements) (string, error) {
				return readScript(s, 0, true, "ReadCyclingDaily",
					map[string]string{"since": "(current_date - 30)", "until": "(current_date + 1)"})
			},
		},
		operations: readOperations("cycling_daily", "cycling-daily", "", daily),
	},
	pageGroup(100),
	pageGroup(500),
	{
		limit: limit{name: "net/http constant", constant: true},
		operations: []operation{
			{name: "discovery", service: secureService, load: discoveryLoad},
		},
	},
	{
		limit: limit{name: "net/http constant, plain", constant: true, plain: true},
		operations: []operation{
			{name: "discovery", variant: "plain HTTP", service: plainService, load: discoveryLoad},
		},
	},
}

func pageGroup(rows int) group {
	return group{
		limit: limit{
			name: fmt.Sprintf("select of %d rows", rows),
			script: func(s statements) (string, error) {
				return readScript(s, readers, false, "ReadCyclingActivities", map[string]string{
					"after_time": "(current_date - 30)", "after_source_id": "''", "until": "(current_date + 1)",
					"max_rows": fmt.Sprint(rows + 1), // the service looks one row ahead
				})
			},
		},
		operations: readOperations(fmt.Sprintf("activities_%d", rows), "cycling-activities", fmt.Sprintf("&limit=%d", rows), pages),
	}
}

// readScript reads for some user, counted from the first, with the statement that authenticates before it or without.
func readScript(s statements, firstUser int, authenticate bool, name string, values map[string]string) (string, error) {
	script := fmt.Sprintf("\\set u random(%d, %d)\n", firstUser, firstUser+readers-1)
	if authenticate {
		statement, err := s.script("AuthenticateAccess", map[string]string{
			"user_id": numberedUser, "client_id": theClient(limitReader), "version": "1",
			"token_id": someTokenID, "expires_at": inAnHour,
		})
		if err != nil {
			return "", err
		}
		script += statement
	}
	values["user_id"] = numberedUser
	statement, err := s.script(name, values)
	return script + statement, err
}

// Which purse a read takes, over many clients or over one.
func daily(s *stage, one bool) *purse {
	if one {
		return s.oneDaily
	}
	return s.manyDaily
}

func pages(s *stage, one bool) *purse {
	if one {
		return s.onePages
	}
	return s.manyPages
}

func readOperations(name, path, query string, purseOf func(*stage, bool) *purse) []operation {
	over := func(one bool) func(context.Context, *stage, int) (load, error) {
		return func(ctx context.Context, s *stage, connections int) (load, error) {
			p := purseOf(s, one)
			if err := s.fresh(ctx, p, false); err != nil {
				return load{}, err
			}
			l := load{Connections: connections, WantStatus: 200, Warmup: warmUp}
			to := time.Now().UTC()
			for _, t := range p.tokens {
				l.Requests = append(l.Requests, getRequest(readPath(t.GrantID, path, to)+query, t.AccessToken))
			}
			return l, nil
		}
	}
	return []operation{
		{name: name, limiter: "postgres", service: secureService, load: over(false)},
		{name: name, limiter: "redis", service: redisService, load: over(false)},
		{name: name, limiter: "postgres", variant: "one client", service: secureService, load: over(true)},
		{name: name, limiter: "redis", variant: "one client", service: redisService, load: over(true)},
	}
}

// readPath is that of a read of a month, which ends on a day.
func readPath(grant fmt.Stringer, path string, to time.Time) string {
	return fmt.Sprintf("/connect-svc/v1/grants/%s/%s?from=%s&to=%s", grant, path,
		to.AddDate(0, 0, 1-days).Format(time.DateOnly), to.Format(time.DateOnly))
}

// warmUp opens the service's connections to the database, and prepares their statements.
const warmUp = 250 * time.Millisecond

func discoveryLoad(_ context.Context, _ *stage, connections int) (load, error) {
	return load{
		Connections: connections, WantStatus: 200, Warmup: warmUp,
		Requests: []string{getRequest("/.well-known/oauth-authorization-server", "")},
	}, nil
}

const refreshForm = "grant_type=refresh_token&refresh_token="

// refreshLoad gives each connection a chain of its own, of fresh connections.
func refreshLoad(ctx context.Context, s *stage, connections int) (load, error) {
	// One client for all: the head of the request is the same. No row of a client is written by a refresh.
	pairs := make([]pair, connections)
	for i := range pairs {
		pairs[i] = pair{s.refreshed % users, refreshing}
		s.refreshed++
	}
	tokens, err := s.tokens(ctx, pairs)
	if err != nil {
		return load{}, err
	}
	head := formHead("/oauth/token", pairs[0].client)
	l := load{Connections: connections, WantStatus: 200, Warmup: warmUp, Chain: true, ChainHead: head, ChainForm: refreshForm}
	for _, t := range tokens {
		l.Requests = append(l.Requests, formOf(head, refreshForm+t.RefreshToken))
	}
	return l, nil
}

func exchangeLoad(ctx context.Context, s *stage, connections int) (load, error) {
	pairs := s.nextPairs(2500 * s.settings.seconds)
	codes, err := s.codes(ctx, pairs)
	if err != nil {
		return load{}, err
	}
	l := load{Connections: connections, WantStatus: 200, Once: true}
	for i, code := range codes {
		l.Requests = append(l.Requests, exchangeRequest(pairs[i].client, code))
	}
	return l, nil
}

func exchangeRequest(client int, code string) string {
	return formRequest("/oauth/token", client,
		"grant_type=authorization_code&code="+code+"&redirect_uri=https%3A%2F%2Fpartner.example%2Fcallback&code_verifier="+verifier)
}

// revokeLoad revokes refresh tokens, whose connections SQL has made whole again.
func revokeLoad(ctx context.Context, s *stage, connections int) (load, error) {
	_, err := s.conn.Exec(ctx, "update connections set state = 'authorized', refresh_hash = "+hash+
		" where state = 'revoked' and client_id in (select md5('client ' || n)::uuid from generate_series(100, 199) n)")
	l := load{Connections: connections, WantStatus: 200, Once: true}
	for i, t := range s.revoked.tokens {
		l.Requests = append(l.Requests, formRequest("/oauth/revoke", s.revoked.pairs[i].client, "token="+t.RefreshToken))
	}
	return l, err
}

func revokeAccessLoad(ctx context.Context, s *stage, connections int) (load, error) {
	// A refresh needs the hash of its token, which revokeLoad has overwritten: the tokens are of new connections.
	pairs := s.nextPairs(2500 * s.settings.seconds)
	tokens, err := s.tokens(ctx, pairs)
	if err != nil {
		return load{}, err
	}
	l := load{Connections: connections, WantStatus: 200, Once: true}
	for i, t := range tokens {
		l.Requests = append(l.Requests, formRequest("/oauth/revoke", pairs[i].client, "token="+t.AccessToken+"&token_type_hint=access_token"))
	}
	return l, nil
}
