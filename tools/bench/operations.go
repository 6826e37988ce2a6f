package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"
)

// operation is one that is measured, in a list whose neighbors have their limits in common.
type operation struct {
	name    string
	limit   *limit
	limiter string // empty where the operation has none
	plain   bool   // HTTP
	bare    bare   // without statements: none
	load    func(context.Context, *stage, int) (load, error)
}

func (o *operation) service(s *stage) *service {
	switch {
	case o.plain:
		return s.plain
	case o.limiter == "redis":
		return s.redis
	}
	return s.tls
}

var (
	refreshLimit = limit{
		name:       "the conditional update of a refresh, committed",
		statements: []string{"RotateRefreshToken"},
		choose:     set("u", ":client_id"), // a chain for each of pgbench's clients
		args:       map[string]string{"client_id": theClient(limitRefresh)},
		reset:      "update connections set refresh_generation = 1 where client_id = " + theClient(limitRefresh),
		effect:     "select sum(refresh_generation - 1) from connections where client_id = " + theClient(limitRefresh),
	}
	exchangeLimit = limit{
		name:       "the statement of an exchange, committed",
		statements: []string{"AuthorizeConnection"},
		choose:     set("u", fmt.Sprintf(":k / %d", many)) + set("c", fmt.Sprintf("%d + :k %% %d", limitExchange, many)),
		reset: "delete from connections where " + theClients(limitExchange, many) + `;
			insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
				refresh_generation, refresh_deadline)
			select md5('user ' || n)::uuid, client_id, gen_random_uuid(), 0, 'disconnected', 7, current_date, now(), 1, now()
			from generate_series(0, ` + strconv.Itoa(consents-1) + `) n, clients where ` + theClients(limitExchange, many),
		effect: "select count(*) from connections where version > 0 and " + theClients(limitExchange, many),
		work:   consents * many,
	}
	revokeLimit = limit{
		name:       "the statement of a revocation, committed",
		statements: []string{"RevokeConnection"},
		choose:     set("u", ":k"),
		args:       map[string]string{"client_id": theClient(limitRevoke), "generation": "1"},
		reset:      authorizeAgain + "client_id = " + theClient(limitRevoke),
		effect:     "select count(*) from connections where state = 'revoked' and client_id = " + theClient(limitRevoke),
		work:       users,
	}
	revokeAccessLimit = limit{
		name:       "the statement of an access token's revocation, committed",
		statements: []string{"RevokeAccessToken"},
		choose:     set("u", fmt.Sprintf(":k %% %d", users)),
		args:       map[string]string{"client_id": theClient(limitRevoke)},
		reset:      "delete from revoked_access_tokens",
		effect:     "select count(*) from revoked_access_tokens",
	}
	stepsLimit       = readLimit("select of connection and client, then of 31 rows", "ReadDailySteps")
	cyclingLimit     = readLimit("select of connection and client, then of 62 rides in 31 days", "ReadCyclingDaily")
	page100, page500 = pageLimit(100), pageLimit(500)
	constant         = limit{name: "net/http constant", constant: true}
	operations       = slices.Concat(
		[]operation{
			{name: "refresh", limit: &refreshLimit, bare: bareRefresh, load: refreshLoad},
			{name: "refresh, plain HTTP", limit: &refreshLimit, plain: true, load: refreshLoad},
			{name: "exchange", limit: &exchangeLimit, load: exchangeLoad},
			{name: "revoke", limit: &revokeLimit, load: revokeLoad},
			{name: "revoke, access token", limit: &revokeAccessLimit, load: revokeAccessLoad},
		},
		withBare(bareSteps, readOperations("steps", &stepsLimit, "daily-activity", "", 0)),
		readOperations("cycling_daily", &cyclingLimit, "cycling-daily", "", 0),
		readOperations("activities_100", &page100, "cycling-activities", "&limit=100", readers),
		readOperations("activities_500", &page500, "cycling-activities", "&limit=500", readers),
		[]operation{
			{name: "discovery", limit: &constant, load: discoveryLoad},
			{name: "discovery, plain HTTP", limit: &constant, plain: true, load: discoveryLoad},
		},
	)
)

// set is a command of pgbench.
func set(variable, expression string) string { return "\\set " + variable + " " + expression + "\n" }

func chooseReader(firstUser int) string {
	return set("u", fmt.Sprintf("random(%d, %d)", firstUser, firstUser+readers-1))
}

func readLimit(name, statement string) limit {
	return limit{
		name: name, statements: []string{"AuthenticateAccess", statement}, choose: chooseReader(0),
		args: map[string]string{"client_id": theClient(limitReader), "token_id": "'00000000-0000-4000-8000-000000000000'"},
	}
}

func pageLimit(rows int) limit {
	return limit{
		name: fmt.Sprintf("select of %d rows", rows), statements: []string{"ReadCyclingActivities"}, choose: chooseReader(readers),
		args: map[string]string{"max_rows": fmt.Sprint(rows + 1)}, // the service looks one row ahead
	}
}

// readOperations read for the readers from the first one on, over many clients and over one, with both limiters.
func readOperations(name string, bound *limit, path, query string, firstUser int) (list []operation) {
	for _, oneClient := range []bool{false, true} {
		for _, limiter := range []string{"postgres", "redis"} {
			one := operation{name: name, limit: bound, limiter: limiter}
			one.load = func(ctx context.Context, s *stage, connections int) (load, error) {
				of := s.readers[audience{limiter, oneClient}][firstUser:][:readers]
				if err := refresh(ctx, one.service(s).endpoint, of); err != nil {
					return load{}, err
				}
				var requests []request
				for _, c := range of {
					requests = append(requests, readRequest(readPath(c, path)+query, c.AccessToken))
				}
				return load{connections: connections, requests: inTurns(requests...), warm: true}, nil
			}
			list = append(list, one)
		}
		name += ", one client"
	}
	return list
}

func withBare(b bare, list []operation) []operation {
	list[0].bare = b
	return list
}

func today() time.Time { return time.Now().UTC().Truncate(24 * time.Hour) }

// readPath is that of a read of the last month.
func readPath(c connection, path string) string {
	return fmt.Sprintf("/connect-svc/v1/grants/%s/%s?from=%s&to=%s", c.GrantID, path,
		today().AddDate(0, 0, 1-days).Format(time.DateOnly), today().Format(time.DateOnly))
}

func discoveryLoad(_ context.Context, _ *stage, connections int) (load, error) {
	return load{connections: connections, requests: inTurns(discovery), warm: true}, nil
}

// refreshLoad gives each connection of the loop a chain of its own, of a new connection of one client. A refresh writes no
// row of its client.
func refreshLoad(ctx context.Context, s *stage, n int) (load, error) {
	pairs := make([]pair, n)
	for i := range pairs {
		pairs[i] = pair{s.refreshed % users, refreshing}
		s.refreshed++
	}
	connected, err := s.connect(ctx, pairs)
	return load{connections: n, requests: chains(connected), warm: true}, err
}

func exchangeLoad(ctx context.Context, s *stage, connections int) (load, error) {
	pairs := s.nextPairs()
	codes, err := s.codes(ctx, pairs)
	var requests []request
	for i, code := range codes {
		requests = append(requests, exchangeRequest(pairs[i].client, code))
	}
	return load{connections: connections, requests: eachOnce(requests)}, err
}

// revokeLoad revokes refresh tokens, whose connections SQL has authorized again.
func revokeLoad(ctx context.Context, s *stage, connections int) (load, error) {
	_, err := s.conn.Exec(ctx, authorizeAgain+theClients(firstPair, many))
	return revocations(connections, s.revocable, func(c connection) string { return c.RefreshToken }), err
}

func revokeAccessLoad(ctx context.Context, s *stage, connections int) (load, error) {
	connected, err := s.connect(ctx, s.nextPairs())
	return revocations(connections, connected, func(c connection) string { return c.AccessToken + "&token_type_hint=access_token" }), err
}

func revocations(connections int, of []connection, token func(connection) string) load {
	var requests []request
	for _, c := range of {
		requests = append(requests, formRequest("/oauth/revoke", c.client, "token="+token(c)))
	}
	return load{connections: connections, requests: eachOnce(requests)}
}
