package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Passenger is a statement that goes along with the next query of an [Along], in the same round trip and transaction: if
// the query fails it has not happened. It is for one goroutine.
type Passenger struct {
	SQL  string
	Args []any
	Done bool // it has happened
	sent bool
}

type passengerKey struct{}

// WithPassenger lets a statement go along with the next query that is made through an [Along] under the context.
func WithPassenger(ctx context.Context, passenger *Passenger) context.Context {
	return context.WithValue(ctx, passengerKey{}, passenger)
}

// Along is a pool whose queries take a passenger along, where the context has one. It is what the generated queries want
// to have.
type Along struct{ *pgxpool.Pool }

// Query is that of the pool. The passenger has happened once the rows are closed.
func (a Along) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	passenger, _ := ctx.Value(passengerKey{}).(*Passenger)
	if passenger == nil || passenger.sent {
		return a.Pool.Query(ctx, sql, args...)
	}
	passenger.sent = true
	batch := &pgx.Batch{}
	batch.Queue(sql, args...)
	batch.Queue(passenger.SQL, passenger.Args...)
	results := a.SendBatch(ctx, batch)
	rows, err := results.Query()
	if err != nil {
		_ = results.Close() // says the same
		return nil, err
	}
	return &rowsAlong{Rows: rows, results: results, passenger: passenger}, nil
}

// rowsAlong are the rows of a query with a passenger.
type rowsAlong struct {
	pgx.Rows
	results   pgx.BatchResults
	passenger *Passenger
	closed    bool
}

// Close ends the rows and waits for the passenger. Why it did not happen is not told: the rows are good, and who sent it
// sees that it is not done.
func (r *rowsAlong) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.Rows.Close()
	var err error
	if r.Err() == nil {
		_, err = r.results.Exec()
	}
	if closing := r.results.Close(); err == nil && closing == nil && r.Err() == nil {
		r.passenger.Done = true
	}
}
