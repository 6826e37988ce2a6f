// Package authority is a certificate authority for servers on this machine: those of the demo and the sandbox.
//
// The demo's key can vouch only for localhost, 127.0.0.1 and ::1, and is a file that only its owner can read. The sandbox forgets its key
// when it has started.
package authority

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

const (
	authorityLifetime = 10 * 365 * 24 * time.Hour
	// Apple's systems refuse server certificates of more than 825 days, even of a private authority.
	serverLifetime = 398 * 24 * time.Hour
	renewBefore    = 30 * 24 * time.Hour
)

// Authority is a certificate authority of one machine, and the certificate that it issued for the servers there.
type Authority struct {
	File        string // with the authority's certificate, for a browser or curl to trust
	Certificate *x509.Certificate
	Roots       *x509.CertPool // of this certificate
	Server      tls.Certificate
}

// Open reads the certificates in dir, and issues those that are missing, unusable or about to expire. New ones also have the given
// names.
func Open(dir string, now time.Time, names ...string) (*Authority, error) {
	names = append([]string{"localhost"}, names...)
	file := filepath.Join(dir, "ca.pem")
	own := ownTemplate(now)
	// If the key leaks, it can only vouch for this machine.
	own.PermittedDNSDomainsCritical, own.PermittedDNSDomains = true, names
	own.PermittedIPRanges = []*net.IPNet{
		{IP: net.IPv4(127, 0, 0, 0).To4(), Mask: net.CIDRMask(8, 32)},
		{IP: net.IPv6loopback, Mask: net.CIDRMask(128, 128)},
	}
	ca, err := loadOrIssue(file, filepath.Join(dir, "ca-key.pem"), own, nil, now)
	if err != nil {
		return nil, err
	}
	server, err := loadOrIssue(filepath.Join(dir, "server.pem"), filepath.Join(dir, "server-key.pem"), serverTemplate(now, names), ca, now)
	if err != nil {
		return nil, err
	}
	return newAuthority(file, ca, server), nil
}

// Once issues certificates for one run of a server, and writes only that of the authority, to a file. The keys are never on a disk, and
// the authority's is forgotten, so it can vouch for nothing else. That takes the place of name constraints, which Bun refuses.
func Once(file string, now time.Time, names ...string) (*Authority, error) {
	ca, err := issue(ownTemplate(now), nil, now)
	if err != nil {
		return nil, err
	}
	server, err := issue(serverTemplate(now, append([]string{"localhost"}, names...)), ca, now)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(file, certificatePEM(ca), 0o644); err != nil { // readable for all programs that trust it
		return nil, err
	}
	return newAuthority(file, ca, server), nil
}

func newAuthority(file string, ca, server *tls.Certificate) *Authority {
	a := &Authority{File: file, Certificate: ca.Leaf, Roots: x509.NewCertPool(), Server: *server}
	a.Roots.AddCert(ca.Leaf)
	return a
}

func ownTemplate(now time.Time) *x509.Certificate {
	return &x509.Certificate{
		Subject:               pkix.Name{CommonName: "connect-svc local authority"},
		NotAfter:              now.Add(authorityLifetime),
		IsCA:                  true,
		BasicConstraintsValid: true,
		MaxPathLenZero:        true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
}

func serverTemplate(now time.Time, names []string) *x509.Certificate {
	return &x509.Certificate{
		Subject:     pkix.Name{CommonName: "localhost"},
		NotAfter:    now.Add(serverLifetime),
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
}

// loadOrIssue reads a certificate and its key, or issues them if they are missing, about to expire, or not signed by the parent.
func loadOrIssue(certFile, keyFile string, template *x509.Certificate, parent *tls.Certificate, now time.Time) (*tls.Certificate, error) {
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	switch {
	case errors.Is(err, fs.ErrPermission):
		return nil, err
	case err != nil: // missing, or incomplete because a start was killed
	case now.Before(pair.Leaf.NotBefore) || now.After(pair.Leaf.NotAfter.Add(-renewBefore)):
	case parent != nil && pair.Leaf.CheckSignatureFrom(parent.Leaf) != nil:
	default:
		return &pair, nil
	}
	issued, err := issue(template, parent, now)
	if err != nil {
		return nil, err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(issued.PrivateKey)
	if err != nil {
		return nil, err
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	return issued, errors.Join(os.WriteFile(keyFile, keyPEM, 0o600), os.WriteFile(certFile, certificatePEM(issued), 0o644))
}

// issue issues a certificate for a new key. A certificate without a parent signs itself.
func issue(template *x509.Certificate, parent *tls.Certificate, now time.Time) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127)); err != nil {
		return nil, err
	}
	template.NotBefore = now.Add(-time.Hour)
	signer, issuer := any(key), template
	if parent != nil {
		signer, issuer = parent.PrivateKey, parent.Leaf
	}
	der, err := x509.CreateCertificate(rand.Reader, template, issuer, key.Public(), signer)
	if err != nil {
		return nil, fmt.Errorf("issue the certificate of %s: %w", template.Subject.CommonName, err)
	}
	leaf, err := x509.ParseCertificate(der)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, err
}

func certificatePEM(certificate *tls.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate[0]})
}
