package contract

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// freeBody is the length of bodies that cost next to nothing, such as one row: they wait for nothing.
const freeBody = 4 << 10

// cost is the memory that a body of so many bytes takes at most while it is read, checked and carried out, as measured: a text
// exists up to five times, and values cost what they are made into. Those that say nothing, such as rows without fields,
// cost most for their length, and their number is bounded by maxValues.
func cost(length int64) int64 {
	if length < 0 || length > MaxBody { // what comes in chunks says nothing of its length
		length = MaxBody
	}
	return 5*length + min(256*length, 40<<20)
}

// Budget bounds the memory that large bodies take at the same time, in all edges that have it.
type Budget struct {
	bytes    int64
	free     *semaphore.Weighted
	patience time.Duration
}

// NewBudget is one of so many bytes. A request that finds too few of them free waits in the order of arrival, at most for the
// patience.
func NewBudget(bytes int64, patience time.Duration) *Budget {
	return &Budget{bytes, semaphore.NewWeighted(bytes), patience}
}

var errBusy = errors.New("no memory for the body")

// Busy is the error for a body for which there was no memory in time. An edge with a budget has it in its table.
var Busy = Failure{Err: errBusy, Code: "busy", Text: "Too much is being written just now.", Status: 503, RetryAfter: "5"}

// enter waits until there is memory for the body, which has not been read. Call leave when the request has been answered. A body
// that costs more than the whole budget has all of it.
func (b *Budget) enter(r *http.Request) (leave func(), err error) {
	if b == nil || r.ContentLength >= 0 && r.ContentLength <= freeBody {
		return func() {}, nil
	}
	needed := min(cost(r.ContentLength), b.bytes)
	ctx, cancel := context.WithTimeout(r.Context(), b.patience)
	defer cancel()
	if b.free.Acquire(ctx, needed) != nil {
		// Closing the connection while the caller still sends would keep the response from it.
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, MaxBody))
		return nil, errBusy
	}
	return func() { b.free.Release(needed) }, nil
}
