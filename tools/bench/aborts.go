package main

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const (
	abortConnections = 8
	// maxStreams is how many streams each has open, where the server allows as many: it should (RFC 9113, section 6.5.2).
	maxStreams = 100
	// holdTables is how long tables are locked so that requests come to wait: well under the 2 s that a read may take.
	holdTables = 700 * time.Millisecond
	// warmers is how many reads and pages wait at once for the pool to be full: more than it has connections.
	warmers = 64
)

// abort asks for pages and reads over HTTP/2, and takes each request back a moment later. Before it the service's pool of
// connections to PostgreSQL is filled, so that each new one replaces another.
func (s *isolation) abort(ctx context.Context, begin func(), o *outcome) error {
	page := authorizePath(o.partnerA)
	connected, err := s.connectFrom(ctx, troubleUser, concurrentReads, o.partnerA)
	if err != nil {
		return err
	}
	reads := readsOf(connected)
	for request, want := range map[string]int{getRequest(page, ""): http.StatusSeeOther, reads[0]: http.StatusOK} {
		if err := s.expect(request, want); err != nil {
			return err
		}
	}
	if got, err := s.heldBack(ctx, "daily_steps", reads); err != nil {
		return err
	} else if got["200"] != len(reads) {
		return fmt.Errorf("before the trouble, %d reads at once had the statuses %v", len(reads), got)
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
	a := aborter{endpoint: s.service.endpoint, most: maxStreams, after: 2 * time.Millisecond,
		requests: []abortedRequest{{path: page}, {path: readPath(connected[0], "daily-activity"), token: connected[0].AccessToken}}}
	begin()
	began, cpu := time.Now(), ownCPU()
	if err := a.run(abortConnections, began.Add(s.beside())); err != nil {
		return err
	}
	o.LoadShare = share(ownCPU()-cpu, time.Since(began))
	o.Opened, o.Answered, o.Refused = a.opened.Load(), a.answered.Load(), a.refused.Load()
	o.Reconnected = a.connected.Load() - abortConnections
	until(time.Now().Add(settle), ctx.Done())
	after, err := s.sessions(ctx)
	if err != nil {
		return err
	}
	o.NewConnections = after - before
	o.Reads, err = s.heldBack(ctx, "daily_steps", reads)
	o.LeasesLeft = o.Reads["429"]
	return err
}

// sessions is how many were ever made to this database: PostgreSQL counts each client's when it has begun, but neither
// its own workers nor requests to cancel. Between two of our questions only the service makes any.
func (s *isolation) sessions(ctx context.Context) (n int, err error) {
	err = s.conn.QueryRow(ctx, "select sessions from pg_stat_database where datname = current_database()").Scan(&n)
	return n, err
}

// fillPool lets reads of partner B and pages wait for the tables that they need, and then has each connection prepare their
// statements.
func (s *isolation) fillPool(ctx context.Context, page string) error {
	connected, err := s.connectFrom(ctx, warmUser, warmers, partnerB)
	if err != nil {
		return err
	}
	requests := slices.Concat(readsOf(connected), slices.Repeat([]string{getRequest(page, "")}, warmers))
	if _, err := s.heldBack(ctx, "authorization_requests, daily_steps", requests); err != nil {
		return err
	}
	_, err = s.flood(load{connections: warmers, requests: inTurns(requests...)}, settle, func() {})
	return err
}

// heldBack sends requests at once while tables are locked, and counts the statuses of the responses. It goes on when all
// that have none wait in PostgreSQL, or after holdTables.
func (s *isolation) heldBack(ctx context.Context, tables string, requests []string) (statuses, error) {
	callers, err := load{endpoint: s.service.endpoint, connections: len(requests)}.connect()
	if err != nil {
		return nil, err
	}
	defer callers.close()
	tx, err := s.conn.Begin(ctx)
	if err != nil {
		return nil, err
	}
	defer tx.Rollback(ctx) //nolint:errcheck // it was rolled back, or has failed
	if _, err := tx.Exec(ctx, "set local lock_timeout = '3s'"); err != nil {
		return nil, err
	}
	if _, err := tx.Exec(ctx, "lock table "+tables+" in access exclusive mode"); err != nil {
		return nil, err
	}
	responses := make(chan int, len(requests))
	for i, c := range callers {
		go func() {
			status, _, _ := c.wire.send(requests[i]) // 0 without a response
			responses <- status
		}()
	}
	for end := time.Now().Add(holdTables); time.Now().Before(end); until(time.Now().Add(10*time.Millisecond), ctx.Done()) {
		var waiting int
		if err := s.pool.QueryRow(ctx, `select count(*) from pg_stat_activity
			where wait_event_type = 'Lock' and application_name = 'connect-svc'`).Scan(&waiting); err != nil {
			return nil, err
		}
		if waiting+len(responses) >= len(requests) {
			break
		}
	}
	if err := tx.Rollback(ctx); err != nil {
		return nil, err
	}
	return count(responses, len(requests)), nil
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
