package app

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/app/listener"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/wait"
)

// A certificate with which no partner can connect is told at the start, and when it ends at each scrape.
func TestCertificate(t *testing.T) {
	t.Parallel()
	const host = "connect.example.com"
	now := time.Now().Truncate(time.Second)
	day := 24 * time.Hour
	for name, test := range map[string]struct {
		certificate *tls.Certificate
		expiry      time.Time
		warns       string
	}{
		"none":          {},
		"good":          {edgetest.Certificate(t, host, now.Add(-day), now.Add(day)), now.Add(day), ""},
		"any subdomain": {edgetest.Certificate(t, "*.example.com", now.Add(-day), now.Add(day)), now.Add(day), ""},
		"expired":       {edgetest.Certificate(t, host, now.Add(-2*day), now.Add(-day)), now.Add(-day), "has expired"},
		"not yet valid": {edgetest.Certificate(t, host, now.Add(day), now.Add(2*day)), now.Add(2 * day), "is not valid yet"},
		"another name":  {edgetest.Certificate(t, "connect.example.org", now.Add(-day), now.Add(day)), now.Add(day), "is not for the host of the base URL"},
		"both":          {edgetest.Certificate(t, "example.com", now.Add(-2*day), now.Add(-day)), now.Add(-day), "has expired, is not for the host of the base URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, _, log := openWith(t, func(c *Config) {
				c.BaseURL = "https://" + host + ":8443"
				if test.certificate != nil {
					c.Certificate = listener.FixedCertificate(test.certificate)
				}
			})
			defer a.Close()
			if test.warns == "" && log.Len() > 0 ||
				test.warns != "" && (strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), `"level":"WARN"`) || !strings.Contains(log.String(), `"problem":"`+test.warns+`"`)) {
				t.Errorf("the log: %s", log)
			}
			answer := httptest.NewRecorder()
			a.private.HTTP.Handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/metrics", nil))
			_, after, found := strings.Cut(answer.Body.String(), "\nconnect_certificate_expiry_timestamp_seconds{listener=\"public\"} ")
			value, _, _ := strings.Cut(after, "\n")
			seconds, err := strconv.ParseFloat(value, 64)
			if found != (test.certificate != nil) || found && (err != nil || int64(seconds) != test.expiry.Unix()) {
				t.Errorf("the metric is %q, %v", value, err)
			}
		})
	}
}

// presented is the certificate that the public listener presents now.
func presented(t *testing.T, a *App) *x509.Certificate {
	t.Helper()
	conn, err := tls.Dial("tcp", a.PublicAddr().String(), &tls.Config{InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0]
}

// writePair writes a certificate and its key as they come from an authority.
func writePair(t *testing.T, certFile, keyFile string, pair *tls.Certificate) {
	t.Helper()
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: pair.Certificate[0]}, keyFile: {Type: "PRIVATE KEY", Bytes: key},
	} {
		if file == "" {
			continue
		}
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// relink lets a link lead elsewhere, in one step.
func relink(t *testing.T, link, to string) {
	t.Helper()
	if err := os.Symlink(to, link+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(link+".new", link); err != nil {
		t.Fatal(err)
	}
}

// A renewed certificate is presented without a restart, in whichever way its files are replaced. One that callers cannot use is
// not, and there is one warning.
func TestCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	const host = "connect.example.com"
	now := time.Now().Truncate(time.Second)
	for name, replace := range map[string]func(t *testing.T, dir string, n int, pair *tls.Certificate){
		"written over": func(t *testing.T, dir string, _ int, pair *tls.Certificate) {
			writePair(t, filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), pair)
		},
		"certbot": func(t *testing.T, dir string, n int, pair *tls.Certificate) { // live/… are links to archive/…
			for file, archived := range map[string]string{"cert.pem": fmt.Sprintf("archive/cert%d.pem", n), "key.pem": fmt.Sprintf("archive/key%d.pem", n)} {
				cert, key := filepath.Join(dir, archived), ""
				if file == "key.pem" {
					cert, key = "", cert
				}
				writePair(t, cert, key, pair)
				relink(t, filepath.Join(dir, file), archived)
			}
		},
		"Kubernetes": func(t *testing.T, dir string, n int, pair *tls.Certificate) { // files are links into ..data, which is one itself
			version := fmt.Sprintf("..version%d", n)
			writePair(t, filepath.Join(dir, version, "cert.pem"), filepath.Join(dir, version, "key.pem"), pair)
			relink(t, filepath.Join(dir, "..data"), version)
			if n == 0 {
				relink(t, filepath.Join(dir, "cert.pem"), "..data/cert.pem")
				relink(t, filepath.Join(dir, "key.pem"), "..data/key.pem")
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			pairs := []*tls.Certificate{
				edgetest.Certificate(t, host, now.Add(-time.Hour), now.Add(time.Hour)),
				edgetest.Certificate(t, host, now.Add(-time.Hour), now.Add(2*time.Hour)),
				edgetest.Certificate(t, "connect.example.org", now.Add(-time.Hour), now.Add(3*time.Hour)),
				edgetest.Certificate(t, host, now.Add(-time.Hour), now.Add(4*time.Hour)),
			}
			replace(t, dir, 0, pairs[0])
			log := new(logtest.Buffer)
			a, _, _ := openWith(t, func(c *Config) {
				c.Certificate = func() (*tls.Certificate, error) {
					pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
					return &pair, err
				}
				c.Logger = telemetry.NewLogger(log, slog.LevelInfo)
			})
			a.certificateInterval = 5 * time.Millisecond
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx) }()

			is := func(n int) bool { return bytes.Equal(presented(t, a).Raw, pairs[n].Certificate[0]) }
			if !is(0) {
				t.Error("the first one is not presented")
			}
			replace(t, dir, 1, pairs[1])
			wait.Until(t, "the second one is presented", func() bool { return is(1) })
			replace(t, dir, 2, pairs[2])
			wait.Until(t, "there is a warning", func() bool { return strings.Contains(log.String(), `"problem":"is not for the host of the base URL"`) })
			if !is(1) {
				t.Error("one for another host took the place of a good one")
			}
			replace(t, dir, 3, pairs[3])
			wait.Until(t, "the fourth one is presented", func() bool { return is(3) })
			if err := os.Remove(filepath.Join(dir, "key.pem")); err != nil {
				t.Fatal(err)
			}
			wait.Until(t, "there is a warning", func() bool { return strings.Contains(log.String(), "no such file") })
			if !is(3) {
				t.Error("the last one is not kept")
			}
			stop()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			if n := strings.Count(log.String(), `"level":"WARN","msg":"the new certificate (CONNECT_TLS_CERT) cannot be used; the old one is kept","problem":"is not for`); n != 1 {
				t.Errorf("%d warnings, want 1", n)
			}
		})
	}
}

// A private listener is reached by its address, and its certificate may have nothing else.
func TestCertificateOfAnAddress(t *testing.T) {
	t.Parallel()
	pair := edgetest.Certificate(t, "connect.example.com", time.Now(), time.Now().Add(time.Hour))
	key := pair.PrivateKey.(*ecdsa.PrivateKey)
	var err error
	if pair.Certificate[0], err = x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(10, 1, 2, 3), net.ParseIP("fd00::1")},
	}, &x509.Certificate{}, key.Public(), key); err != nil {
		t.Fatal(err)
	}
	if pair.Leaf, err = x509.ParseCertificate(pair.Certificate[0]); err != nil {
		t.Fatal(err)
	}
	a, _, _ := openWith(t, func(c *Config) { c.PrivateCertificate = listener.FixedCertificate(pair) })
	defer a.Close()
	f := a.facts(t.Context())
	if len(f.Certificates) != 1 || f.Certificates[0].Listener != "private" ||
		!slices.Equal(f.Certificates[0].Names, []string{"localhost", "10.1.2.3", "fd00::1"}) {
		t.Errorf("the certificates are %+v", f.Certificates)
	}
}
