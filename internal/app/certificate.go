package app

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Certificate reads a listener's certificate with its chain, key and Leaf. It is called at the start and regularly afterwards, so that a
// renewed certificate is used without a restart.
type Certificate func() (*tls.Certificate, error)

// FixedCertificate returns a Certificate that is never renewed.
func FixedCertificate(pair *tls.Certificate) Certificate {
	return func() (*tls.Certificate, error) { return pair, nil }
}

// certificateInterval is the interval between reads of the certificates. Reading is cheap. Unlike notifications of a file system it
// notices every way to replace files: swapped links (Kubernetes, certbot), new files, and files that are overwritten.
const certificateInterval = 5 * time.Second

type certificate struct {
	listener, setting string // names of the listener on pages and in the log
	host              string // to which callers connect; empty: unknown
	read              Certificate
	now               func() time.Time
	logger            *slog.Logger

	current atomic.Pointer[tls.Certificate]

	mu        sync.Mutex // guards the fields below
	complaint string     // about the last read; empty: none
	seen      int        // number of reads in a row with this complaint
}

// secure returns the TLS configuration of a listener. Without a certificate it returns nil.
func (a *App) secure(listener, setting, host string, read Certificate, now func() time.Time) (*tls.Config, error) {
	if read == nil {
		return nil, nil
	}
	c := &certificate{listener: listener, setting: setting, host: host, read: read, now: now, logger: a.logger}
	pair, err := read()
	if err != nil {
		return nil, fmt.Errorf("certificate (%s): %w", setting, err)
	}
	// The service starts even with a certificate that no caller can use, because a proxy in front of it may not check it.
	if problem := c.problem(pair.Leaf); problem != "" {
		a.logger.Warn("the certificate ("+setting+") cannot be used by callers", "problem", problem,
			"host", host, "from", pair.Leaf.NotBefore.UTC(), "to", pair.Leaf.NotAfter.UTC())
	}
	c.current.Store(pair)
	a.certificates = append(a.certificates, c)
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}, nil
}

// problem returns why no caller can connect with a certificate, or "".
func (c *certificate) problem(leaf *x509.Certificate) string {
	var problems []string
	now := c.now()
	if now.After(leaf.NotAfter) {
		problems = append(problems, "has expired")
	}
	if now.Before(leaf.NotBefore) {
		problems = append(problems, "is not valid yet")
	}
	if c.host != "" && leaf.VerifyHostname(c.host) != nil {
		problems = append(problems, "is not for the host of the base URL")
	}
	return strings.Join(problems, ", ")
}

// refresh reads the certificate again and presents it from now on. If the new certificate cannot be used but the old one can, refresh
// keeps the old one and warns once. Unless insist is set, it warns at the second read only: certificate and key are two files, of
// which only one may have been replaced so far.
func (c *certificate) refresh(insist bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old, complaint := c.current.Load(), ""
	pair, err := c.read()
	switch {
	case err != nil:
		complaint = err.Error()
	case slices.EqualFunc(pair.Certificate, old.Certificate, slices.Equal[[]byte]):
		// unchanged
	case c.problem(pair.Leaf) != "" && c.problem(old.Leaf) == "":
		complaint = c.problem(pair.Leaf)
	default:
		c.current.Store(pair)
		if pair.Leaf.NotAfter.Before(old.Leaf.NotAfter) {
			c.logger.Warn("the new certificate ("+c.setting+") ends sooner than the one before", "to", pair.Leaf.NotAfter.UTC(), "before", old.Leaf.NotAfter.UTC())
		}
		c.logger.Info("a new certificate ("+c.setting+") is in use", "from", pair.Leaf.NotBefore.UTC(), "to", pair.Leaf.NotAfter.UTC())
	}
	if complaint != c.complaint {
		c.complaint, c.seen = complaint, 0
	}
	c.seen++
	if insist {
		c.seen = 2
	}
	if complaint != "" && c.seen == 2 {
		c.logger.Warn("the new certificate ("+c.setting+") cannot be used; the old one is kept", "problem", complaint,
			"to", old.Leaf.NotAfter.UTC())
	}
}

func (a *App) refreshCertificates(insist bool) {
	for _, c := range a.certificates {
		c.refresh(insist)
	}
}

func hostOf(origin string) (string, error) {
	base, err := url.Parse(origin)
	if err != nil {
		return "", err
	}
	return base.Hostname(), nil
}
