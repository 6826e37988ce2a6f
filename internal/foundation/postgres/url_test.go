package postgres_test

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/pgtest"
)

// TLS is verified by default, unless the connection stays on this machine; an explicit setting holds.
func TestSecurity(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"postgres://u:p@127.0.0.1/n":                             "stays on this machine",
		"postgres://u:p@[::1]:5432/n":                            "stays on this machine",
		"postgresql://u:p@localhost/n?application_name=x":        "stays on this machine",
		"postgres:///n?host=/run/postgresql":                     "stays on this machine",
		"host=/run/postgresql dbname=n":                          "stays on this machine",
		"postgres://u:p@db/n":                                    "TLS is verified",
		"postgresql://u:p@db/n":                                  "TLS is verified",
		"postgres://u:p@192.0.2.1/n":                             "TLS is verified",
		"postgres://u:p@[2001:db8::1]/n":                         "TLS is verified",
		"postgres:///n?host=db":                                  "TLS is verified",
		"postgres://u:p@localhost,db/n":                          "TLS is verified",
		"postgres://u:p@db1:5432,db2:5433/n?pool_max_conns=3":    "TLS is verified",
		"postgres://u:p@db/n?sslmode=":                           "TLS is verified",
		"postgres://u:p@db/n?sslnegotiation=direct":              "TLS is verified",
		"postgres://u:p@db/n?sslmode=verify-full":                "TLS is verified",
		"host=db dbname=n":                                       "TLS is verified",
		"postgres://u:sslmode=disable@db/n?options=sslmode":      "TLS is verified",
		"postgres://u:p@db/n?sslmode=verify-ca":                  "TLS does not verify the server's name (sslmode=verify-ca)",
		"postgres://u:p@db/n?sslmode=require":                    "TLS is not verified (sslmode=require)",
		"postgres://u:p@db/n?sslmode=prefer":                     "TLS is not verified (sslmode=prefer)",
		"postgres://u:p@db/n?sslmode=allow":                      "TLS is not verified (sslmode=allow)",
		"postgres://u:p@db/n?application_name=x&sslmode=disable": "TLS is not verified (sslmode=disable)",
		"postgres://u:p@127.0.0.1,db/n?sslmode=disable":          "TLS is not verified (sslmode=disable)",
		"host=db dbname=n sslmode=prefer":                        "TLS is not verified (sslmode=prefer)",
		"sslmode = 'disable' host=db dbname=n":                   "TLS is not verified (sslmode=disable)",
	} {
		if got, err := postgres.Security(url); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", url, got, err, want)
		}
	}
}

// A variable of the environment holds for whoever runs the command.
func TestSecurityOfTheEnvironment(t *testing.T) {
	t.Setenv("PGSSLMODE", "require")
	if got, err := postgres.Security("postgres://u:p@db/n"); got != "TLS is not verified (sslmode=require)" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// A URL may leave the host to a variable of the environment, but to nobody else.
func TestHostOfTheEnvironment(t *testing.T) {
	for _, url := range []string{"postgres:///n", "postgres://u:p@/n", "dbname=n"} {
		t.Setenv("PGHOST", "")
		if err := postgres.CheckURL(url); err == nil || !strings.Contains(err.Error(), "names no host") {
			t.Errorf("%s: %v", url, err)
		}
		t.Setenv("PGHOST", "/run/postgresql")
		if err := postgres.CheckURL(url); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// If a variable of libpq cannot be used, nothing is wrong with the URL.
func TestBadVariable(t *testing.T) {
	t.Setenv("PGSERVICEFILE", filepath.Join(t.TempDir(), "none"))
	t.Setenv("PGSERVICE", "shop")
	if err := postgres.CheckURL("postgres://u:p@db/n"); err == nil || !strings.Contains(err.Error(), "PGSERVICE") {
		t.Error(err)
	}
}

// A server elsewhere is talked to only if its certificate is for its name and of an authority that is trusted.
func TestVerifiesServers(t *testing.T) {
	t.Parallel()
	db := pgtest.NewEmpty(t)
	front, authority := encrypt(t, db.URL)
	at := func(host, query string) string {
		address, err := url.Parse(db.URL)
		if err != nil {
			t.Fatal(err)
		}
		if _, port, err := net.SplitHostPort(host); err == nil && port == "" {
			host += address.Port()
		}
		address.Host, address.RawQuery = host, query
		return address.String()
	}
	_, port, _ := net.SplitHostPort(front)
	for name, test := range map[string]struct{ url, refused string }{
		"its certificate":    {at("example.com:"+port, "sslrootcert="+authority), ""},
		"of another host":    {at("other.test:"+port, "sslrootcert="+authority), "certificate"},
		"of no authority":    {at("example.com:"+port, ""), "certificate"},
		"without TLS":        {at("example.com:", "sslrootcert="+authority), "TLS"},
		"as it was asked to": {at("example.com:", "sslmode=disable"), ""},
	} {
		pool, err := postgres.Open(t.Context(), test.url, func(config *postgres.Options) {
			config.ConnConfig.LookupFunc = func(context.Context, string) ([]string, error) { return []string{"127.0.0.1"}, nil }
		})
		switch {
		case test.refused == "" && err != nil:
			t.Errorf("%s: %v", name, err)
		case test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused) || strings.Contains(err.Error(), "\n")):
			t.Errorf("%s: %v, want one line with %q", name, err, test.refused)
		}
		if err == nil {
			pool.Close()
		}
	}
}

// encrypt puts TLS, with a certificate for example.com, in front of the database at behind. It returns the address, and the
// file of the authority.
func encrypt(t *testing.T, behind string) (address, authority string) {
	t.Helper()
	target, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	certificate := httptest.NewUnstartedServer(nil)
	certificate.StartTLS()
	t.Cleanup(certificate.Close)
	authority = filepath.Join(t.TempDir(), "root.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate().Raw})
	if err := os.WriteFile(authority, block, 0o600); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			plain, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer plain.Close()
				// SSLRequest, and that it is welcome (PostgreSQL, "Message Flow", SSL Session Encryption).
				if _, err := io.ReadFull(plain, make([]byte, 8)); err != nil {
					return
				}
				_, _ = plain.Write([]byte("S"))
				client := tls.Server(plain, &tls.Config{Certificates: certificate.TLS.Certificates})
				server, err := net.Dial("tcp", target.Host)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, client); server.Close() }()
				_, _ = io.Copy(client, server)
			}()
		}
	}()
	return listener.Addr().String(), authority
}
