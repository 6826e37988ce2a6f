package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

const (
	abortConnections = 8
	abortStreams     = 16 // at a time on each connection, as many as the service allows
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
	a := aborter{endpoint: s.tls.endpoint, streams: abortStreams, after: 2 * time.Millisecond, requests: []request{page, read}}
	begin()
	if err := a.run(abortConnections, time.Now().Add(s.duration())); err != nil {
		return err
	}
	o.Statuses = map[int]int{0: int(a.reset.Load())}
	if o.Statuses[0] < 10*abortPlaces {
		return fmt.Errorf("only %d streams were reset", o.Statuses[0])
	}
	return expect(read, http.StatusOK)
}
