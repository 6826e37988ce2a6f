package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// group is operations that have a limit in common, which is measured right before them.
type group struct {
	limit      limit
	operations []operation
}

// operation is one way to measure an operation.
type operation struct {
	name    string
	variant string // empty: the one that bench.json has
	limiter string // empty where the operation has none
	plain   bool   // HTTP
	load    func(context.Context, *stage, int) (load, error)
}

// instance is the name of the service that is asked.
func (o *operation) instance() string {
	switch {
	case o.plain:
		return "plain"
	case o.limiter == "redis":
		return "redis"
	}
	return "tls"
}

// Variants that the table names in more than one place.
const (
	plainHTTP        = "plain HTTP"
	oneClientVariant = "one client"
)

var groups = []group{
	{
		limit: limit{
			name:       "the conditional update of a refresh, committed",
			statements: []string{"RotateRefreshToken"},
			choose:     set("u", ":client_id"), // a chain for each of pgbench's clients
			args:       map[string]string{"client_id": theClient(limitRefresh)},
			reset:      "update connections set refresh_generation = 1 where client_id = " + theClient(limitRefresh),
			effect:     "select sum(refresh_generation - 1) from connections where client_id = " + theClient(limitRefresh),
		},
		operations: []operation{
			{name: "refresh", load: refreshLoad},
			{name: "refresh", variant: plainHTTP, plain: true, load: refreshLoad},
		},
	},
	{
		limit: limit{
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
		},
		operations: []operation{{name: "exchange", load: exchangeLoad}},
	},
	{
		limit: limit{
			name:       "the statement of a revocation, committed",
			statements: []string{"RevokeConnection"},
			choose:     set("u", ":k"),
			args:       map[string]string{"client_id": theClient(limitRevoke)},
			reset:      authorizeAgain + "client_id = " + theClient(limitRevoke),
			effect:     "select count(*) from connections where state = 'revoked' and client_id = " + theClient(limitRevoke),
			work:       users,
		},
		operations: []operation{{name: "revoke", load: revokeLoad}},
	},
	{
		limit: limit{
			name:       "the statement of an access token's revocation, committed",
			statements: []string{"RevokeAccessToken"},
			choose:     set("u", fmt.Sprintf(":k %% %d", users)),
			args:       map[string]string{"client_id": theClient(limitRevoke)},
			reset:      "delete from revoked_access_tokens",
			effect:     "select count(*) from revoked_access_tokens",
		},
		operations: []operation{{name: "revoke", variant: "access token", load: revokeAccessLoad}},
	},
	{
		limit: limit{
			name:       "select of connection and client, then of 31 rows",
			statements: []string{"AuthenticateAccess", "ReadDailySteps"},
			choose:     chooseReader(0),
			args:       map[string]string{"client_id": theClient(limitReader), "token_id": "'00000000-0000-4000-8000-000000000000'"},
		},
		operations: readOperations("steps", "daily-activity", "", 0),
	},
	{
		limit: limit{
			name:       "select of connection and client, then of 62 rides in 31 days",
			statements: []string{"AuthenticateAccess", "ReadCyclingDaily"},
			choose:     chooseReader(0),
			args:       map[string]string{"client_id": theClient(limitReader), "token_id": "'00000000-0000-4000-8000-000000000000'"},
		},
		operations: readOperations("cycling_daily", "cycling-daily", "", 0),
	},
	pageGroup(100),
	pageGroup(500),
	{
		limit:      limit{name: "net/http constant", constant: true},
		operations: []operation{{name: "discovery", load: discoveryLoad}},
	},
	{
		limit:      limit{name: "net/http constant, plain", constant: true},
		operations: []operation{{name: "discovery", variant: plainHTTP, plain: true, load: discoveryLoad}},
	},
}

// set is a command of pgbench.
func set(variable, expression string) string { return "\\set " + variable + " " + expression + "\n" }

// chooseReader chooses one of the readers from a user on.
func chooseReader(firstUser int) string {
	return set("u", fmt.Sprintf("random(%d, %d)", firstUser, firstUser+readers-1))
}

func pageGroup(rows int) group {
	return group{
		limit: limit{
			name:       fmt.Sprintf("select of %d rows", rows),
			statements: []string{"ReadCyclingActivities"},
			choose:     chooseReader(readers),
			args:       map[string]string{"max_rows": fmt.Sprint(rows + 1)}, // the service looks one row ahead
		},
		operations: readOperations(fmt.Sprintf("activities_%d", rows), "cycling-activities", fmt.Sprintf("&limit=%d", rows), readers),
	}
}

// readOperations read for the readers from the first one on, over many clients and over one, with both limiters.
func readOperations(name, path, query string, firstUser int) (operations []operation) {
	for _, oneClient := range []bool{false, true} {
		variant := ""
		if oneClient {
			variant = oneClientVariant
		}
		read := func(_ context.Context, s *stage, connections int) (load, error) {
			var requests []string
			for _, c := range s.readers[readerSet{firstUser, oneClient}] {
				requests = append(requests, getRequest(readPath(c, path)+query, c.AccessToken))
			}
			return load{connections: connections, requests: inTurns(requests...), warm: true}, nil
		}
		for _, limiter := range []string{"postgres", "redis"} {
			operations = append(operations, operation{name: name, variant: variant, limiter: limiter, load: read})
		}
	}
	return operations
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
	requests := make([]string, len(codes))
	for i, code := range codes {
		requests[i] = exchangeRequest(pairs[i].client, code)
	}
	return load{connections: connections, requests: eachOnce(requests)}, err
}

// revokeLoad revokes refresh tokens, whose connections SQL has authorized again.
func revokeLoad(ctx context.Context, s *stage, connections int) (load, error) {
	_, err := s.conn.Exec(ctx, authorizeAgain+theClients(firstPair, many))
	requests := make([]string, len(s.revocable))
	for i, c := range s.revocable {
		requests[i] = formRequest("/oauth/revoke", c.client, "token="+c.RefreshToken)
	}
	return load{connections: connections, requests: eachOnce(requests)}, err
}

func revokeAccessLoad(ctx context.Context, s *stage, connections int) (load, error) {
	connected, err := s.connect(ctx, s.nextPairs())
	requests := make([]string, len(connected))
	for i, c := range connected {
		requests[i] = formRequest("/oauth/revoke", c.client, "token="+c.AccessToken+"&token_type_hint=access_token")
	}
	return load{connections: connections, requests: eachOnce(requests)}, err
}
