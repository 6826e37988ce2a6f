package work

import (
	"context"
	"sync"
	"time"
)

// Batch answers many questions with one call. Questions that arrive during a call wait for the next one. So there is one call at
// a time, however many ask, and no answer is older than its question. It is safe for concurrent use.
type Batch[Question comparable, Answer any] struct {
	call func(context.Context, []Question) (map[Question]Answer, error)
	most int // questions in a call

	mu      sync.Mutex
	calling bool
	rounds  []*round[Question, Answer] // that have not begun
}

// round is one call.
type round[Question comparable, Answer any] struct {
	end       time.Time // the latest deadline of its questions
	endless   bool      // one of them has no deadline
	questions []Question
	asked     map[Question]struct{}
	done      chan struct{} // closed when answers and err are set
	answers   map[Question]Answer
	err       error
}

// NewBatch returns a Batch. Its call gets up to most different questions. A question that is not in the result has no answer.
func NewBatch[Question comparable, Answer any](most int, call func(context.Context, []Question) (map[Question]Answer, error)) *Batch[Question, Answer] {
	return &Batch[Question, Answer]{call: call, most: most}
}

// Ask returns the answer, and whether there is one. Errors: those of the call, [ErrGone], and the context's own if it ends first.
func (b *Batch[Question, Answer]) Ask(ctx context.Context, question Question) (answer Answer, ok bool, err error) {
	joined := b.join(ctx, question)
	select {
	case <-joined.done:
		answer, ok = joined.answers[question]
		return answer, ok, joined.err
	case <-ctx.Done():
		return answer, false, ctx.Err()
	case <-requestOf(ctx).gone:
		return answer, false, ErrGone
	}
}

func (b *Batch[Question, Answer]) join(ctx context.Context, question Question) *round[Question, Answer] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if n := len(b.rounds); n == 0 || len(b.rounds[n-1].questions) == b.most {
		b.rounds = append(b.rounds, &round[Question, Answer]{asked: map[Question]struct{}{}, done: make(chan struct{})})
	}
	joined := b.rounds[len(b.rounds)-1]
	end, limited := ctx.Deadline()
	joined.endless = joined.endless || !limited
	if end.After(joined.end) {
		joined.end = end
	}
	if _, asked := joined.asked[question]; !asked {
		joined.asked[question] = struct{}{}
		joined.questions = append(joined.questions, question)
	}
	if !b.calling {
		b.calling = true
		go b.run()
	}
	return joined
}

// run makes calls until no question waits.
func (b *Batch[Question, Answer]) run() {
	for {
		b.mu.Lock()
		if len(b.rounds) == 0 {
			b.calling = false
			b.mu.Unlock()
			return
		}
		next := b.rounds[0]
		b.rounds = b.rounds[1:]
		b.mu.Unlock()
		next.run(b.call)
	}
}

// run makes the call as a caller of the kind [Proofs], with the time of the question that has the most. It takes nothing else from the
// questions: what one of them may or has to do is not true of the others, and a trace would show their statement in a stranger's request.
func (r *round[Question, Answer]) run(call func(context.Context, []Question) (map[Question]Answer, error)) {
	defer close(r.done)
	ctx := WithCaller(context.Background(), Caller{Kind: Proofs})
	if !r.endless {
		var cancel context.CancelFunc
		ctx, cancel = Within(ctx, CallerOf(ctx), time.Until(r.end))
		defer cancel()
		ctx = Begun(ctx) // nothing comes after it
	}
	r.err = Try(func() (err error) {
		r.answers, err = call(ctx, r.questions)
		return err
	})
}

// Locks lets one caller at a time hold each key. Those that wait for it are served as a [Queue] serves them. It is safe for
// concurrent use.
type Locks[Key comparable] struct {
	mu   sync.Mutex
	keys map[Key]*lock
}

// lock exists while somebody holds the key or waits for it.
type lock struct {
	*Queue
	wanted int
}

// NewLocks returns Locks of which no key is held.
func NewLocks[Key comparable]() *Locks[Key] { return &Locks[Key]{keys: map[Key]*lock{}} }

// Lock takes the key for the caller of the context. Call unlock when done. Errors: those of [Queue.Acquire].
func (l *Locks[Key]) Lock(ctx context.Context, key Key) (unlock func(), err error) {
	l.mu.Lock()
	mine := l.keys[key]
	if mine == nil {
		mine = &lock{Queue: NewQueue(1, Unbounded)}
		l.keys[key] = mine
	}
	mine.wanted++
	l.mu.Unlock()
	if err := mine.Acquire(ctx); err != nil {
		l.forget(key, mine)
		return nil, err
	}
	return func() {
		mine.Release()
		l.forget(key, mine)
	}, nil
}

func (l *Locks[Key]) forget(key Key, mine *lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if mine.wanted--; mine.wanted == 0 {
		delete(l.keys, key)
	}
}
