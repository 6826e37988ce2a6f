package listener

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/foundation/work"
)

// OnlyHosts passes on requests for an IP address, localhost or one of the names, on any port. It answers all others with 421
// (Misdirected Request, RFC 9110, section 15.5.20). Otherwise a page in a browser could read a listener that only the browser's
// machine can reach, by resolving the page's own name to the listener's address (DNS rebinding): the browser takes the listener for
// the page's own server. The host of such a request is the name of the page. The names are in lower case.
func OnlyHosts(names []string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isHost(r.Host, names) {
			telemetry.EventOf(r.Context()).Code = "misdirected_request"
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "This host is not served here.", http.StatusMisdirectedRequest)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func isHost(host string, names []string) bool {
	if host == "" { // HTTP/1.0, which some load balancers use for probes and no browser uses
		return true
	}
	name := host
	if before, _, err := net.SplitHostPort(host); err == nil {
		name = before
	}
	// An IPv6 address without a port has brackets. A name that is complete may end with a dot (RFC 3986, section 3.2.2).
	name = strings.TrimSuffix(strings.ToLower(strings.Trim(name, "[]")), ".")
	_, err := netip.ParseAddr(name)
	return err == nil || name == "localhost" || slices.Contains(names, name)
}

// ServeLocally serves the programs of this machine (see [OnlyHosts]) until ctx ends, with TLS if there is a certificate. Requests that
// run then have the time of drain.
func ServeLocally(
	ctx context.Context, listener net.Listener, certificate *tls.Certificate, handler http.Handler, drain time.Duration, logger *slog.Logger,
) error {
	server := &http.Server{
		Handler: OnlyHosts(nil, handler), ReadHeaderTimeout: work.DefaultLimits.Head, ReadTimeout: work.DefaultLimits.Request, ErrorLog: telemetry.ServerErrors(logger),
	}
	if certificate != nil {
		listener = tls.NewListener(listener, &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{*certificate}})
	}
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		limit, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
		defer cancel()
		_ = server.Shutdown(limit)
		_ = server.Close()
	})
	defer stop()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	<-stopped
	return nil
}
