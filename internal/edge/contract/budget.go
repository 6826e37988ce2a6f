package contract

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"golang.org/x/sync/semaphore"
)

// freeBody is the length of bodies that cost almost nothing, such as one row. They never wait.
const freeBody = 4 << 10

// cost returns the maximum memory that a request takes for a body of a length, as measured. A text exists up to five times. Values also
// take memory when they are parsed. Short values, such as rows without fields, take the most for their length, and maxValues limits
// their number.
func cost(length int64) int64 {
	if length < 0 || length > MaxBody { // a chunked body has no length
		length = MaxBody
	}
	return 5*length + min(256*length, 40<<20)
}

// Budget limits the memory that concurrent large bodies take in all edges that share it.
type Budget struct {
	bytes    int64
	free     *semaphore.Weighted
	patience time.Duration
}

// NewBudget returns a budget of a number of bytes. If too few are free, requests wait in the order of arrival for at most patience.
func NewBudget(bytes int64, patience time.Duration) *Budget {
	return &Budget{bytes, semaphore.NewWeighted(bytes), patience}
}

var errBusy = errors.New("no memory for the body")

// Busy is the failure of a body that got no memory in time. Edges with a budget list it.
var Busy = Failure{Err: errBusy, Code: "busy", Text: "Too much is being written just now.", Status: 503, RetryAfter: "5"}

// enter waits until there is memory for the body, before it is read. Call leave after the response. A body that costs more than the
// whole budget takes all of it.
func (b *Budget) enter(r *http.Request) (leave func(), err error) {
	if b == nil || r.ContentLength >= 0 && r.ContentLength <= freeBody {
		return func() {}, nil
	}
	needed := min(cost(r.ContentLength), b.bytes)
	ctx, cancel := context.WithTimeout(r.Context(), b.patience)
	defer cancel()
	if b.free.Acquire(ctx, needed) != nil {
		// If the connection closed while the caller still sends, it would not get the response.
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, MaxBody))
		return nil, errBusy
	}
	return func() { b.free.Release(needed) }, nil
}
