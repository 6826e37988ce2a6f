package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"

	"github.com/jackc/pgx/v5/pgxpool"
)

// bare is a handler of net/http that sends the statements of an operation with pgx, and then a constant response: what a service in Go can
// do at most. It knows nothing of tokens, forms, JSON, budgets, metrics or logs.
type bare struct {
	limit // its statements and their values
	pick  func(connection int) (user, client int)
}

// bareRefresh and bareSteps pick what refreshLimit and the readers of many clients do.
var (
	bareRefresh = bare{refreshLimit, func(connection int) (user, client int) { return connection, limitRefresh }}
	bareSteps   = bare{
		limit{
			statements: []string{"AuthenticateAccess", "CompareAndSetState", "ReadDailySteps"},
			args:       map[string]string{"token_id": "'00000000-0000-4000-8000-000000000000'"},
		},
		func(int) (user, client int) {
			user = rand.IntN(readers) //nolint:gosec // no secret
			return user, firstReader + user%many
		},
	}
)

// bareStatement has numbered arguments, which are variables of pgbench.
type bareStatement struct {
	sql  string
	args []string
}

var variable = regexp.MustCompile(`:(u|c|n)\b`)

// bareHandlers returns the handlers of operations by their index. GET /123/4/u/c/n does operation 4 with these variables, and has 123 bytes.
func bareHandlers(ctx context.Context, database string) (http.HandlerFunc, error) {
	config, err := pgxpool.ParseConfig(database)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 20 // as many as the service has
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	found, err := readStatements("sql")
	if err != nil {
		return nil, err
	}
	statements := map[string][]bareStatement{}
	for i, o := range operations {
		for _, name := range o.bare.statements {
			text, err := o.bare.statement(found, name)
			if err != nil {
				return nil, err
			}
			var args []string
			numbered := variable.ReplaceAllStringFunc(text, func(name string) string {
				args = append(args, name[1:])
				return fmt.Sprintf("$%d::int", len(args))
			})
			statements[strconv.Itoa(i)] = append(statements[strconv.Itoa(i)], bareStatement{numbered, args})
		}
	}
	return func(w http.ResponseWriter, r *http.Request) {
		for _, s := range statements[r.PathValue("operation")] {
			var args []any
			for _, name := range s.args {
				n, _ := strconv.Atoi(r.PathValue(name))
				args = append(args, n)
			}
			rows, err := pool.Query(r.Context(), s.sql, args...)
			for err == nil && rows.Next() {
			}
			if rows.Close(); rows.Err() != nil || rows.CommandTag().RowsAffected() == 0 {
				http.Error(w, fmt.Sprint("nothing to do, or ", rows.Err()), http.StatusInternalServerError)
				return
			}
		}
		writeConstant(w, r)
	}, nil
}

// measureBare measures the bare handler of an operation, whose index it gets.
func (s *stage) measureBare(ctx context.Context, index, size, connections int) (sample, error) {
	o := &operations[index]
	if _, err := s.conn.Exec(ctx, o.bare.reset); err != nil {
		return sample{}, err
	}
	turns := make([]int, connections)
	l := load{connections: connections, warm: true, requests: func(connection int, _ []byte) (request, bool) {
		user, client := o.bare.pick(connection)
		turn := turns[connection]
		turns[connection]++
		return request{path: fmt.Sprintf("/%d/%d/%d/%d/%d", size, index, user, client, turn)}, true
	}}
	return l.run(s.duration(), func() {}, s.constant)
}
