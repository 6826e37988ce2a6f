package main

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"connect-svc/internal/testing/pgtest"
)

// SIGHUP reads certificate, logo, texts and the rest of the brand again. What cannot be used leaves everything as it was.
func TestServeReloads(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificateFiles(t)
	newCert, newKey, _ := certificateFiles(t)
	texts := t.TempDir()
	logo := writeNamed(t, "logo.svg", `<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9v9z"/></svg>`)
	cmd, s, ended := startProcess(t, with(settings(t, pgtest.New(t)), "CONNECT_BASE_URL=https://127.0.0.1", "CONNECT_TLS_CERT="+cert,
		"CONNECT_TLS_KEY="+key, "CONNECT_TEXTS_DIR="+texts, "CONNECT_BRAND_LOGO="+logo))
	page := func() string {
		t.Helper()
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
		_, body := get(t, client, "https://"+s.public+"/account/sign-in")
		return body
	}
	replace := func(file, by string) {
		t.Helper()
		content, err := os.ReadFile(filepath.Clean(by))
		if err == nil {
			err = os.WriteFile(file, content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	hangUp := func(says string) {
		t.Helper()
		before := strings.Count(s.log.String(), says)
		if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		for strings.Count(s.log.String(), says) == before {
			select {
			case <-ended:
				t.Fatalf("the service ended:\n%s", s.log.String())
			default:
			}
		}
	}
	presents := func() string {
		t.Helper()
		conn, err := tls.Dial("tcp", s.public, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return string(conn.ConnectionState().PeerCertificates[0].Raw)
	}

	before, beforePage := presents(), page()
	replace(cert, newCert)
	replace(key, newKey)
	replace(filepath.Join(texts, "en.toml"), writeFile(t, "[email]\nlabel = \"Your address, please\"\n"))
	replace(logo, writeNamed(t, "logo.svg", `<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h7v7z"/></svg>`))
	hangUp("the settings were read again")
	if presents() == before {
		t.Error("the old certificate is presented")
	}
	renewed := page()
	if renewed == beforePage || !strings.Contains(renewed, "Your address, please") {
		t.Errorf("the page is as it was:\n%s", renewed)
	}

	replace(logo, writeFile(t, "no logo"))
	hangUp("the settings cannot be used; the old ones are kept")
	if page() != renewed {
		t.Error("the page has changed")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ended
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
}
