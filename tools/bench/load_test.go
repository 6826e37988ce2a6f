package main

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

func alone() error { return nil }

// What is prepared may be done before the time is over: the rate is that of the time that it took.
func TestLoadEndsWithItsRequests(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	l := load{Address: server.Listener.Addr().String(), Connections: 3, Duration: time.Hour, WantStatus: 200, Once: true}
	for range 50 {
		l.Requests = append(l.Requests, getRequest("/", ""))
	}
	result, err := l.run(alone)
	if err != nil || result.Count != 50 || result.Elapsed > time.Minute || result.figures().Rate < 1 {
		t.Errorf("%+v, %v", result, err)
	}
}

// Where any status will do all are counted, over new connections where the server ends one.
func TestLoadCountsStatuses(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		switch n.Add(1) % 4 {
		case 0:
			panic(http.ErrAbortHandler)
		case 1:
			w.Header().Set("Connection", "close")
		case 2:
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer server.Close()
	l := load{Address: server.Listener.Addr().String(), Connections: 2, Duration: time.Hour, Once: true, Requests: make([]string, 40)}
	for i := range l.Requests {
		l.Requests[i] = getRequest("/", "")
	}
	result, err := l.run(alone)
	if err != nil {
		t.Fatal(err)
	}
	if s := result.Statuses; s[0] != 10 || s[http.StatusOK] != 20 || s[http.StatusTooManyRequests] != 10 {
		t.Errorf("statuses %v", s)
	}
}
