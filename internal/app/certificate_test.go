package app

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"
)

// certificateFor is one for a host that is good from one time to another, without its parsed form.
func certificateFor(t *testing.T, host string, from, to time.Time) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: from, NotAfter: to, DNSNames: []string{host}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

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
		"good":          {certificateFor(t, host, now.Add(-day), now.Add(day)), now.Add(day), ""},
		"any subdomain": {certificateFor(t, "*.example.com", now.Add(-day), now.Add(day)), now.Add(day), ""},
		"expired":       {certificateFor(t, host, now.Add(-2*day), now.Add(-day)), now.Add(-day), "has expired"},
		"not yet valid": {certificateFor(t, host, now.Add(day), now.Add(2*day)), now.Add(2 * day), "is not valid yet"},
		"another name":  {certificateFor(t, "connect.example.org", now.Add(-day), now.Add(day)), now.Add(day), "is not for the host of the base URL"},
		"both":          {certificateFor(t, "example.com", now.Add(-2*day), now.Add(-day)), now.Add(-day), "has expired, is not for the host of the base URL"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a, _, log := openWith(t, func(c *Config) {
				c.BaseURL = "https://" + host + ":8443"
				if test.certificate != nil {
					c.Certificate = FixedCertificate(test.certificate)
				}
			})
			defer a.Close()
			if test.warns == "" && log.Len() > 0 ||
				test.warns != "" && (strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), `"level":"WARN"`) || !strings.Contains(log.String(), `"problem":"`+test.warns+`"`)) {
				t.Errorf("the log: %s", log)
			}
			answer := httptest.NewRecorder()
			a.private.Handler.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1/metrics", nil))
			_, after, found := strings.Cut(answer.Body.String(), "\nconnect_certificate_expiry_timestamp_seconds{listener=\"public\"} ")
			value, _, _ := strings.Cut(after, "\n")
			seconds, err := strconv.ParseFloat(value, 64)
			if found != (test.certificate != nil) || found && (err != nil || int64(seconds) != test.expiry.Unix()) {
				t.Errorf("the metric is %q, %v", value, err)
			}
		})
	}
}
