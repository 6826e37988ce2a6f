package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
)

const (
	abortConnections = 8
	abortStreams     = 16 // at a time on each connection, as many as the service allows
	abortAfter       = 2 * time.Millisecond
	// abortPlaces is how many reads partner A may have under way: more than it has, and few beside those that it takes back.
	abortPlaces = 100
)

// resetStreams asks for pages and reads over HTTP/2, and takes each request back a moment later. If the service kept the places of such
// reads, the read at the end would be refused.
func (s *stage) resetStreams(ctx context.Context, begin func(), o *outcome) error {
	if _, err := s.conn.Exec(ctx, "update clients set concurrent_reads = $1 where client_id = $2", abortPlaces, clientID(o.partnerA)); err != nil {
		return err
	}
	connected, err := s.connectFrom(ctx, troubleUser, 1, o.partnerA)
	if err != nil {
		return err
	}
	page := authorizeRequest(o.partnerA, 22)
	read := readRequest(readPath(connected[0], "daily-activity"), connected[0].AccessToken)
	client := s.tls.client(1)
	defer client.CloseIdleConnections()
	expect := func(r request, want int) error {
		if status, err := send(client, r, nil); status != want {
			return errors.Join(fmt.Errorf("%s: status %d", r.path, status), err)
		}
		return nil
	}
	if err := errors.Join(expect(page, http.StatusSeeOther), expect(read, http.StatusOK)); err != nil {
		return err
	}
	o.Connections = abortConnections
	a := aborter{requests: inTurns(page, read)}
	o.Statuses = sendStreams(s.tls.endpoint, abortConnections, abortStreams, s.duration(), a.ask, begin).Statuses
	if n := a.reset.Load(); n < 10*abortPlaces {
		return fmt.Errorf("only %d streams were reset", n)
	}
	return expect(read, http.StatusOK)
}

// aborter sends requests over HTTP/2, and takes each back a moment after it was written.
type aborter struct {
	requests source
	reset    atomic.Int64 // requests
}

func (a *aborter) ask(client *http.Client) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	next, _ := a.requests(0, nil)
	status := sendHTTP2(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(httptrace.WroteRequestInfo) { time.AfterFunc(abortAfter, cancel) },
	}), client, next)
	if status == 0 && ctx.Err() != nil {
		a.reset.Add(1)
	}
	return status
}
