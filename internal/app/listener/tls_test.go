package listener

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"io"
	"math/big"
	"net/http"
	"slices"
	"testing"
	"time"

	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/wait"
)

// In TLS 1.2 the suites without authenticated encryption, such as CBC with SHA-1, are refused.
func TestCipherSuites(t *testing.T) {
	t.Parallel()
	now := time.Now()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Hour), DNSNames: []string{"connect.example.com"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	accepted := []uint16{}
	for _, pair := range []*tls.Certificate{
		edgetest.Certificate(t, "connect.example.com", now.Add(-time.Hour), now.Add(time.Hour)),
		{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf},
	} {
		s, err := Open(t.Context(), Config{
			Name: "test", Address: "127.0.0.1:0", Places: 99, Limits: wait.Patient, Logger: telemetry.NewLogger(io.Discard, nil),
			Certificate: FixedCertificate(pair), Now: time.Now, Handler: http.NotFoundHandler(),
		})
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- s.Run() }()
		for _, suite := range slices.Concat(tls.CipherSuites(), tls.InsecureCipherSuites()) {
			conn, err := tls.Dial("tcp", s.Addr().String(), &tls.Config{
				InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12, CipherSuites: []uint16{suite.ID},
			})
			if err == nil {
				accepted = append(accepted, conn.ConnectionState().CipherSuite)
				_ = conn.Close()
			}
		}
		s.Drain(t.Context())
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	slices.Sort(accepted)
	want := slices.Sorted(slices.Values(suites12))
	if !slices.Equal(accepted, want) {
		t.Errorf("accepted %x, want %x", accepted, want)
	}
}
