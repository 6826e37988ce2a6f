package postgres_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// A statement that a cluster refuses because a table is on the move, or because a connection between nodes is broken, is sent again, until
// its deadline only. Another error is returned at once. A sequence counts the attempts, because a rollback does not take its values back.
func TestRefusedByClusterIsSentAgain(t *testing.T) {
	t.Parallel()
	pgtest.NotOnCluster(t, "its errors are made up")
	db := pgtest.New(t)
	db.Exec(t, "create sequence tries")
	db.Exec(t, `create function refuse(code text, message text) returns bigint language plpgsql as $$ begin
		if nextval('tries') % 3 <> 0 then
			raise exception using errcode = code, message = message;
		end if;
		return currval('tries');
	end $$`)
	ctx, cancel := context.WithTimeout(t.Context(), wait.Limit)
	defer cancel()
	const statement = "select refuse($1, $2)"
	for _, refusal := range [][]any{
		{"40001", "shard for the given value does not exist"},
		{"0A000", "direct joins between distributed and local tables are not supported"},
		{"0A000", "recursive complex joins are only supported when all distributed tables are co-located"},
		{"XX000", "relation connections is not distributed"},
		{"XX000", "could not find valid entry for shard 102008"},
		{"XX000", "failure on connection marked as essential: 127.0.0.1:5432"},
	} {
		for way, act := range map[string]func(context.Context) error{
			"Exec": func(ctx context.Context) error {
				_, err := db.Pool.Exec(ctx, statement, refusal...)
				return err
			},
			"QueryRow": func(ctx context.Context) error {
				var tries int64
				return db.Pool.QueryRow(ctx, statement, refusal...).Scan(&tries)
			},
			"InTxAgain": func(ctx context.Context) error {
				return postgres.InTxAgain(ctx, db.Pool, func(tx pgx.Tx) error {
					_, err := tx.Exec(ctx, statement, refusal...)
					return err
				})
			},
		} {
			db.Exec(t, "select setval('tries', 3)")
			if err := act(ctx); err != nil {
				t.Errorf("%s: %v: %v", way, refusal, err)
			}
			if err := act(context.WithoutCancel(ctx)); err == nil || way != "InTxAgain" && !work.NotAttempted(err) {
				t.Errorf("%s: %v: without a deadline: %v", way, refusal, err)
			}
		}
	}
	db.Exec(t, "select setval('tries', 3)")
	if _, err := db.Pool.Exec(ctx, statement, "XX000", "connection not open"); err == nil || work.NotAttempted(err) {
		t.Errorf("an unknown outcome: %v", err)
	}
}
