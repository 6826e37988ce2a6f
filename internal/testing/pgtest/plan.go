package pgtest

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres"
)

// Statements are those that a pool has sent, for [postgres.WithTracer].
type Statements []pgx.TraceQueryStartData

// TraceQueryStart implements [pgx.QueryTracer].
func (s *Statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	*s = append(*s, query)
	return ctx
}

// TraceQueryEnd implements [pgx.QueryTracer].
func (*Statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// PlanNode is a node of a plan that was carried out.
type PlanNode struct {
	Type    string `json:"Node Type"`
	Table   string `json:"Relation Name"`
	Index   string `json:"Index Name"`
	Alias   string // of a table, a subquery or a CTE
	Filter  string
	Rows    float64 `json:"Actual Rows"`
	Loops   float64 `json:"Actual Loops"`
	Removed float64 `json:"Rows Removed by Filter"`
	Plans   []PlanNode
}

// Read is how many rows the node has read.
func (n PlanNode) Read() float64 { return (n.Rows + n.Removed) * n.Loops }

// Explain carries each statement of sql/ out again, in the settings of its transaction, and calls check with the nodes of its plan.
func (s *Statements) Explain(t testing.TB, pool *postgres.Pool, check func(sql string, plan []PlanNode)) {
	t.Helper()
	settings, explained := "", 0
	for _, query := range *s {
		if strings.Contains(query.SQL, "set_config") {
			settings = query.SQL
		} else if strings.HasPrefix(query.SQL, "-- name:") {
			check(query.SQL, explain(t, pool, query, settings))
			explained++
		}
	}
	if explained == 0 {
		t.Error("there is no statement")
	}
}

func explain(t testing.TB, pool *postgres.Pool, query pgx.TraceQueryStartData, settings string) (all []PlanNode) {
	t.Helper()
	var text []byte
	if err := postgres.InTx(t.Context(), pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(t.Context(), settings); err != nil {
			return err
		}
		return tx.QueryRow(t.Context(), "explain (analyze, format json) "+query.SQL, query.Args...).Scan(&text)
	}); err != nil {
		t.Fatal(err)
	}
	var plans []struct{ Plan PlanNode }
	if err := json.Unmarshal(text, &plans); err != nil {
		t.Fatal(err)
	}
	for all = append(all, plans[0].Plan); ; {
		var below []PlanNode
		for i := range all {
			below, all[i].Plans = append(below, all[i].Plans...), nil
		}
		if len(below) == 0 {
			return all
		}
		all = append(all, below...)
	}
}
