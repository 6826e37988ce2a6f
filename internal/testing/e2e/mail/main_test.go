//go:build check

package mail_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"testing"
	"time"

	"connect-svc/internal/testing/pgtest"
)

// The mail servers share a certificate, which this process trusts as those of the machine.
var certificatePEM, keyPEM []byte

func TestMain(m *testing.M) {
	if err := trust(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pgtest.Main(m)
}

func trust() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	certificate := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "mail.example"}, NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	for service := range services {
		certificate.IPAddresses = append(certificate.IPAddresses, net.ParseIP(network+"."+fmt.Sprint(service+1)))
	}
	der, err := x509.CreateCertificate(rand.Reader, certificate, certificate, key.Public(), key)
	if err != nil {
		return err
	}
	pkcs8, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certificatePEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM = pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8})
	file, err := os.CreateTemp("", "certificate")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	if _, err := file.Write(certificatePEM); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	if err := os.Setenv("SSL_CERT_FILE", file.Name()); err != nil {
		return err
	}
	_, err = x509.SystemCertPool() // reads it, once
	return err
}
