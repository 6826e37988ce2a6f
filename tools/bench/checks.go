package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// checks are measured once, and noted below the table.
func (s *stage) checks(ctx context.Context) ([]string, error) {
	var ready []time.Duration
	for i := range 3 {
		again, err := s.serve(ctx, fmt.Sprintf("again-%d", i), false)
		if err != nil {
			return nil, err
		}
		ready = append(ready, again.startToReady)
		again.stop()
	}
	slices.Sort(ready)
	notes := []string{fmt.Sprintf("start to ready, on a migrated database: %d ms (median of 3)", ready[1].Milliseconds())}
	if s.settings.chain > 0 {
		chain, err := s.checkChain(ctx)
		if err != nil {
			return nil, fmt.Errorf("chain of refreshes: %w", err)
		}
		notes = append(notes, chain...)
	}
	for _, service := range s.services {
		notes = append(notes, fmt.Sprintf("memory of the service at the end: %.0f MiB (%s)", service.peakMemory(), service.log))
	}
	return notes, nil
}

// checkChain refreshes one connection so often, and compares the first refreshes with the last. It also looks at what
// the refreshes left on the disk.
func (s *stage) checkChain(ctx context.Context) ([]string, error) {
	before, err := s.updates(ctx)
	if err != nil {
		return nil, err
	}
	work, err := refreshLoad(ctx, s, 1)
	if err != nil {
		return nil, err
	}
	work.warm = false
	refresh, left := work.requests, s.settings.chain
	work.requests = func(n int, body []byte) (string, bool) {
		left--
		request, more := refresh(n, body)
		return request, more && left >= 0
	}
	sample, _, err := s.send(ctx, s.service("tls"), work, time.Minute, "chain")
	if err != nil {
		return nil, err
	}
	after, err := s.updates(ctx)
	if err != nil {
		return nil, err
	}
	n := len(sample.Latencies)
	part := n / 10
	first := percentile(slices.Sorted(slices.Values(sample.Latencies[:part])), 50)
	last := percentile(slices.Sorted(slices.Values(sample.Latencies[n-part:])), 50)
	all, hot := after.all-before.all, after.hot-before.hot
	return []string{
		fmt.Sprintf("refreshes of one chain: p50 %.3f ms at the first, %.3f ms at the %d. of it: %.2f times", first, last, n, last/first),
		fmt.Sprintf("updates of connections by that chain: %d, of which heap-only (no index written): %d (%.2f %%); the table grew by %d bytes",
			all, hot, 100*float64(hot)/float64(max(all, 1)), after.size-before.size),
	}, nil
}

// updates of the table of connections since the database began, and the table's size in bytes.
type updates struct{ all, hot, size int64 }

func (s *stage) updates(ctx context.Context) (u updates, err error) {
	// Each of the service's connections reports its counts after at most a minute, or when it is idle for a moment.
	time.Sleep(1500 * time.Millisecond) //nolint:forbidigo // there is no signal for it
	if _, err := s.conn.Exec(ctx, "select pg_stat_clear_snapshot()"); err != nil {
		return u, err
	}
	err = s.conn.QueryRow(ctx, `select n_tup_upd, n_tup_hot_upd, pg_total_relation_size(relid)
		from pg_stat_user_tables where relname = 'connections'`).Scan(&u.all, &u.hot, &u.size)
	return u, err
}
