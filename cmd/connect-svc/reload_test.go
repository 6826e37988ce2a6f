package main

import (
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"connect-svc/internal/operators"
	"connect-svc/internal/testing/pgtest"
)

// SIGHUP reads certificate, logo, texts, the rest of the brand and the operators' tokens again. What cannot be used leaves everything as it was.
func TestServeReloads(t *testing.T) {
	t.Parallel()
	cert, key, _ := certificateFiles(t)
	newCert, newKey, _ := certificateFiles(t)
	texts := t.TempDir()
	logo := writeNamed(t, "logo.svg", `<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9v9z"/></svg>`)
	token, line, err := operators.Create(operators.Operator{Name: "ada"})
	if err != nil {
		t.Fatal(err)
	}
	tokens := writeNamed(t, "tokens", line+"\n")
	cmd, s, ended := startProcess(t, with(settings(t, pgtest.New(t)), "CONNECT_BASE_URL=https://127.0.0.1", "CONNECT_TLS_CERT="+cert,
		"CONNECT_TLS_KEY="+key, "CONNECT_TEXTS_DIR="+texts, "CONNECT_BRAND_LOGO="+logo, "CONNECT_OPERATOR_TOKENS_FILE="+tokens))
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

	letsIn := func() int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.private+"/operator/v1/clients", nil)
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}

	if got := letsIn(); got != http.StatusOK {
		t.Errorf("ada is answered with %d", got)
	}
	before, beforePage := presents(), page()
	replace(tokens, writeFile(t, "# nobody\n"))
	replace(cert, newCert)
	replace(key, newKey)
	replace(filepath.Join(texts, "en.toml"), writeFile(t, "[email]\nlabel = \"Your address, please\"\n"))
	replace(logo, writeNamed(t, "logo.svg", `<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h7v7z"/></svg>`))
	hangUp("the settings were read again")
	if presents() == before {
		t.Error("the old certificate is presented")
	}
	if got := letsIn(); got != http.StatusUnauthorized {
		t.Errorf("ada, who left, is answered with %d", got)
	}
	renewed := page()
	if renewed == beforePage || !strings.Contains(renewed, "Your address, please") {
		t.Errorf("the page is as it was:\n%s", renewed)
	}

	replace(tokens, writeFile(t, line+"\n"))
	replace(logo, writeFile(t, "no logo"))
	hangUp("the settings cannot be used; the old ones are kept")
	if page() != renewed || letsIn() != http.StatusUnauthorized {
		t.Error("a part of what cannot be used as a whole was taken over")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ended
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
}
