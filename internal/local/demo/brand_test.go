package demo

import (
	"context"
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/testing/wait"
)

// TestBrandOfTheDemo: everything has the operator's name, also the example partner's page.
func TestBrandOfTheDemo(t *testing.T) {
	t.Parallel()
	color, err := brand.ParseColor("#ffd500")
	if err != nil {
		t.Fatal(err)
	}
	r := start(t, Config{Ephemeral: true, Limits: wait.Patient, Brand: brand.Brand{Name: "Move & Co", Color: color}})
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // testHosts checks the certificate
	defer client.CloseIdleConnections()
	for _, address := range []string{r.Partner, r.Service + "/account/sign-in", r.Private + "/console/sign-in"} {
		request, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		page, err := io.ReadAll(response.Body)
		_ = response.Body.Close()
		if err != nil || !strings.Contains(string(page), "Move &amp; Co") || strings.Contains(string(page), brand.DefaultName) {
			t.Errorf("%s: %d, %v: %s", address, response.StatusCode, err, page)
		}
	}
}
