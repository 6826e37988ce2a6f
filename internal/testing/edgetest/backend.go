// Package edgetest has what the tests of the edges (the partner API, the operator API, the user's pages and the console) have in
// common: the domains on a database of the test's own, a user who connects with a partner as browser and backend do, operators'
// tokens, one request of an API with its answer, the mistakes of an integration, and a browser without a screen.
//
// Each edge has its own fixture around it, with its own configuration. The package knows no edge.
package edgetest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log/slog"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"connect-svc/internal/admin/audit"
	"connect-svc/internal/admin/lookup"
	"connect-svc/internal/admin/portal"
	"connect-svc/internal/admin/usage"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/edge/preview"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// Backend is what stands behind an edge: the domains on a database of its own, with one user. Its time begins when the test says,
// and hardly passes by itself. A copy is the same service with another user.
type Backend struct {
	DB   *pgtest.DB
	Keys *credential.Keyring
	Log  *logtest.Buffer
	User pgtest.User

	preview.Domains // Accounts sends no emails, and Webhooks to servers of [httptest.NewTLSServer]
}

// New is a backend whose time begins at start. The user is that of [pgtest.DB.User], unless change says otherwise.
func New(t testing.TB, start time.Time, change ...func(*pgtest.User)) Backend {
	t.Helper()
	db, keys := pgtest.New(t), credential.NewTestKeyring()
	db.StartAt(t, start)
	lifetimes := oauth.DefaultSettings
	lifetimes.Now, lifetimes.Limits = db.Now, wait.Patient
	clients := client.NewRegistry(db.Pool, oauth.EndConnectionsOfClient)
	return Backend{
		DB: db, Keys: keys, Log: new(logtest.Buffer), User: db.User(t, change...),
		Domains: preview.Domains{
			Accounts: account.New(db.Pool, keys, nil, account.Settings{
				EndConnections: oauth.EndConnectionsOfUser, EndRequests: oauth.EndRequestsOfUsers, Limits: wait.Patient,
				Logger: slog.New(slog.DiscardHandler),
			}),
			Activity: activity.New(db.Pool, keys, activity.Settings{CursorLifetime: 15 * time.Minute}),
			OAuth:    oauth.New(db.Pool, keys, lifetimes),
			Clients:  clients,
			Webhooks: webhook.New(db.Pool, keys, webhook.Settings{
				AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, RootCAs: receiverCAs(), Limits: wait.Patient,
				Costly: clients.Costly,
			}),
			Usage: usage.New(db.Pool, wait.Patient, slog.New(slog.DiscardHandler), db.Now),
			Audit: audit.New(db.Pool, wait.Patient, 0), Portal: portal.New(db.Pool),
			Finder: lookup.New(db.Pool),
		},
	}
}

// receiverCAs sign the certificate that all servers of [httptest.NewTLSServer] have.
var receiverCAs = sync.OnceValue(func() *x509.CertPool {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return pool
})

// Receiver is a partner's server for webhooks, and lists the bodies that it was sent. Without an answer it accepts each with 204.
func Receiver(t testing.TB, answer http.HandlerFunc) (address string, sent func() []string) {
	t.Helper()
	if answer == nil {
		answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }
	}
	var (
		mu     sync.Mutex
		bodies []string
	)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		bodies = append(bodies, string(body))
		mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL, func() []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.Clone(bodies)
	}
}

// Certificate is one for a host that is good from one time to another.
func Certificate(t testing.TB, host string, from, to time.Time) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, // curl refuses an empty issuer (RFC 5280, 4.1.2.4)
		NotBefore: from, NotAfter: to, DNSNames: []string{host},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}
