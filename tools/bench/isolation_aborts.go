package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"runtime"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	abortConnections = 8
	// holdTables is how long tables are locked so that requests come to wait: well under the 2 s that a read may take.
	holdTables = 700 * time.Millisecond
	// warmers is how many reads and pages wait at once for the pool to be full: more than it has connections.
	warmers = 64
)

// abort asks for pages and reads over HTTP/2, and takes each request back a moment later. Before it the service's pool of
// connections to PostgreSQL is made full, so that each new one replaces another.
func (s *isolation) abort(ctx context.Context, begin func() error, o *outcome) error {
	client := o.partnerA
	page := authorizePath(client)
	granted, err := s.grantsOf(ctx, troubleUser, concurrentReads, client)
	if err != nil {
		return err
	}
	reads := readsOf(granted)
	for request, want := range map[string]int{getRequest(page, ""): http.StatusSeeOther, reads[0]: http.StatusOK} {
		if err := s.once(request, want); err != nil {
			return err
		}
	}
	if statuses, err := s.heldBack(ctx, []string{"daily_steps"}, reads); err != nil {
		return err
	} else if statuses[http.StatusOK] != len(reads) {
		return fmt.Errorf("before the trouble, %d reads at once were answered %v", len(reads), named(statuses))
	}
	if err := s.fillPool(ctx, page); err != nil {
		return err
	}
	o.Connections, o.aborted = abortConnections, &aborted{}
	before, err := s.sessions(ctx)
	if err != nil {
		return err
	}
	if err := s.conn.QueryRow(ctx, "select count(*) from pg_stat_activity where application_name = 'connect-svc'").Scan(&o.Pool); err != nil {
		return err
	}
	o.Pool -= int(s.pool.Stat().TotalConns()) // which has the same name
	a := aborter{address: s.service.address, roots: s.certificate, most: s.streams, after: 2 * time.Millisecond,
		requests: []abortedRequest{{path: page}, {path: granted[0].Path, token: granted[0].AccessToken}}}
	if err := begin(); err != nil {
		return err
	}
	began, cpu := time.Now(), ownCPU()
	if err := a.run(abortConnections, began.Add(s.beside())); err != nil {
		return err
	}
	o.LoadShare = float64(ownCPU()-cpu) / float64(time.Since(began)) / float64(runtime.NumCPU())
	o.Opened, o.Answered, o.Refused = a.opened.Load(), a.answered.Load(), a.refused.Load()
	o.Reconnected = a.connected.Load() - abortConnections
	until(time.Now().Add(settle), ctx.Done())
	after, err := s.sessions(ctx)
	if err != nil {
		return err
	}
	o.NewConnections = after - before
	statuses, err := s.heldBack(ctx, []string{"daily_steps"}, reads)
	o.Reads, o.LeasesLeft = named(statuses), statuses[http.StatusTooManyRequests]
	return err
}

// sessions is how many were ever made to this database: PostgreSQL counts each client's when it has begun, but neither
// its own workers nor requests to cancel. Between two of our questions only the service makes any.
func (s *isolation) sessions(ctx context.Context) (n int, err error) {
	err = s.conn.QueryRow(ctx, "select sessions from pg_stat_database where datname = current_database()").Scan(&n)
	return n, err
}

// fillPool lets reads of partner B and pages wait for the tables that they need.
func (s *isolation) fillPool(ctx context.Context, page string) error {
	granted, err := s.grantsOf(ctx, warmUser, warmers, partnerB)
	if err != nil {
		return err
	}
	requests := readsOf(granted)
	for range warmers {
		requests = append(requests, getRequest(page, ""))
	}
	if _, err := s.heldBack(ctx, []string{"authorization_requests", "daily_steps"}, requests); err != nil {
		return err
	}
	_, err = s.flood(load{Connections: warmers, Duration: settle, Requests: requests}, func() error { return nil })
	return err
}

// heldBack sends requests at once while tables are locked, and counts the statuses of the answers. It goes on when all
// that were not answered wait in PostgreSQL, or after holdTables.
func (s *isolation) heldBack(ctx context.Context, tables []string, requests []string) (statuses map[int]int, err error) {
	wires := make([]*wire, len(requests))
	for i := range wires {
		if wires[i], err = dial(s.service.address, s.certificate); err != nil {
			return nil, err
		}
		defer wires[i].Close() //nolint:errcheck // all was read
	}
	answers := make(chan int, len(requests))
	tx, err := s.conn.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // it was rolled back, or has failed
	if _, err := tx.Exec(ctx, "set local lock_timeout = '3s'"); err != nil {
		return nil, err
	}
	for _, table := range tables {
		if _, err := tx.Exec(ctx, "lock table "+pgx.Identifier{table}.Sanitize()+" in access exclusive mode"); err != nil {
			return nil, err
		}
	}
	for i, w := range wires {
		go func() {
			status, _, _ := w.answer(requests[i]) // 0 without an answer
			answers <- status
		}()
	}
	for end := time.Now().Add(holdTables); time.Now().Before(end); until(time.Now().Add(10*time.Millisecond), ctx.Done()) {
		var waiting int
		if err := s.pool.QueryRow(ctx, `select count(*) from pg_stat_activity
			where wait_event_type = 'Lock' and application_name = 'connect-svc'`).Scan(&waiting); err != nil {
			return nil, err
		}
		if waiting+len(answers) >= len(requests) {
			break
		}
	}
	if err := tx.Rollback(ctx); err != nil {
		return nil, err
	}
	statuses = map[int]int{}
	for range requests {
		statuses[<-answers]++
	}
	return statuses, nil
}

// authorizePath is a page that is asked for without any credential, and stores a request.
func authorizePath(client int) string {
	challenge := sha256.Sum256([]byte(verifier))
	query := url.Values{
		"response_type": {"code"}, "client_id": {clientID(client).String()}, "redirect_uri": {callback},
		"scope": {"daily_steps:read"}, "state": {"0123456789012345678901"},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}
	return "/oauth/authorize?" + query.Encode()
}
