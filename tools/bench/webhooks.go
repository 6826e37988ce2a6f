package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"time"
)

// webhook measures an event and its delivery: connections of one client are revoked, each of which takes revocation by itself.
func (s *stage) webhook(ctx context.Context, connected []connection, revocation used) (u used, err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return u, err
	}
	var received atomic.Int64
	receiver := &http.Server{ReadHeaderTimeout: responseLimit, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		received.Add(1)
		w.WriteHeader(http.StatusNoContent)
	})}
	defer receiver.Close() //nolint:errcheck // nothing more comes
	go func() {
		_ = receiver.ServeTLS(listener, filepath.Join(s.dir, "server.pem"), filepath.Join(s.dir, "server-key.pem"))
	}()
	if err := s.command(ctx, "client", "update", clientID(connected[0].client).String(), "--webhook-parallel=64",
		fmt.Sprintf("--webhook-url=https://localhost:%d/", listener.Addr().(*net.TCPAddr).Port)); err != nil {
		return u, err
	}
	u, err = s.measureAct(ctx, func() (int, error) {
		sent, err := revocations(costConnections, connected, func(c connection) string { return c.RefreshToken }).run(time.Minute, func() {}, s.tls.endpoint)
		for end := time.Now().Add(2 * time.Minute); err == nil && int(received.Load()) < len(connected); until(time.Now().Add(settle/100), ctx.Done()) {
			if time.Now().After(end) {
				err = fmt.Errorf("%d events of %d revocations arrived", received.Load(), len(sent.Latencies))
			}
		}
		return len(connected), err
	})
	u.cpu, u.databaseCPU, u.wal = u.cpu-revocation.cpu, u.databaseCPU-revocation.databaseCPU, u.wal-revocation.wal
	return u, err
}
