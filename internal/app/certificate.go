package app

import (
	"crypto/x509"
	"fmt"
	"net/url"
	"strings"
)

// watchCertificate warns of a certificate with which no caller can connect, and adds to the metrics when it ends. The
// service starts all the same: a proxy in front of it may not look.
func (a *App) watchCertificate(config Config) error {
	leaf, err := x509.ParseCertificate(config.Certificate.Certificate[0])
	if err != nil {
		return fmt.Errorf("certificate (CONNECT_TLS_CERT): %w", err)
	}
	base, err := url.Parse(config.BaseURL)
	if err != nil {
		return fmt.Errorf("base URL (CONNECT_BASE_URL): %w", err)
	}
	var problems []string
	now := config.Clock.Now()
	if now.After(leaf.NotAfter) {
		problems = append(problems, "has expired")
	}
	if now.Before(leaf.NotBefore) {
		problems = append(problems, "is not valid yet")
	}
	if leaf.VerifyHostname(base.Hostname()) != nil {
		problems = append(problems, "is not for the host of the base URL")
	}
	if len(problems) > 0 {
		a.logger.Warn("the certificate (CONNECT_TLS_CERT) cannot be used by callers", "problem", strings.Join(problems, ", "),
			"host", base.Hostname(), "from", leaf.NotBefore.UTC(), "to", leaf.NotAfter.UTC())
	}
	a.metrics.Gauge("certificate_expiry_timestamp_seconds", "When the certificate of the public listener ends, in Unix time.", nil,
		func() float64 { return float64(leaf.NotAfter.Unix()) })
	return nil
}
