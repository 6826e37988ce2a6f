package main

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/pgtest"
)

const drawing = `<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9v9z"/></svg>`

// pictureOf returns a PNG file.
func pictureOf(t *testing.T, width, height int) string {
	t.Helper()
	var file strings.Builder
	if err := png.Encode(&file, image.NewGray(image.Rect(0, 0, width, height))); err != nil {
		t.Fatal(err)
	}
	return file.String()
}

// TestClientPresentation: what users see of a client can be registered, changed and taken away.
func TestClientPresentation(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	logo := writeNamed(t, "logo.svg", drawing)
	created := succeedJSON[operatorapi.CreatedClient](t, env(db), "", append(walkRewards, "--logo", logo,
		"--privacy-url", "https://partner.example/privacy", "--terms-url", "https://partner.example/terms")...)
	id := created.ClientId.String()
	got := succeedJSON[operatorapi.Client](t, env(db), "", "client", "show", id)
	if got.PrivacyUrl != "https://partner.example/privacy" || got.TermsUrl != "https://partner.example/terms" || !strings.HasSuffix(got.Logo, ".svg") {
		t.Errorf("created as %+v", got)
	}
	other := writeNamed(t, "other.svg", strings.Replace(drawing, "9v9", "8v8", 1))
	changed := succeedJSON[operatorapi.Client](t, env(db), "", "client", "update", id, "--logo", other, "--terms-url", "")
	if changed.Logo == got.Logo || changed.TermsUrl != "" || changed.PrivacyUrl != got.PrivacyUrl {
		t.Errorf("changed to %+v", changed)
	}
	if n := pgtest.Value[int](t, db, "select count(*) from client_logos where client_id = $1 and logo = $2", created.ClientId, changed.Logo); n != 1 {
		t.Errorf("%d logos", n)
	}
	if gone := succeedJSON[operatorapi.Client](t, env(db), "", "client", "update", id, "--logo", ""); gone.Logo != "" {
		t.Errorf("the logo %s stays", gone.Logo)
	}
	if n := pgtest.Value[int](t, db, "select count(*) from client_logos"); n != 0 {
		t.Errorf("%d logos are left", n)
	}
	for _, wrong := range [][]string{
		{"--logo", logo + ".png"}, {"--logo", writeFile(t, "a logo")}, {"--privacy-url", "http://partner.example"}, {"--terms-url", "terms"},
	} {
		refuse(t, env(db), statusUsage, []string{wrong[0] + ": "}, append([]string{"client", "update", id}, wrong...)...)
		refuse(t, env(db), statusUsage, []string{wrong[0] + ": "}, append(walkRewards, wrong...)...)
	}
}

// TestBrandPreview: an operator sees the pages without a database, on this machine only.
func TestBrandPreview(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, in := io.Pipe()
	var stderr bytes.Buffer
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, []string{"brand", "preview", "--port", "0", "--brand-name", "Acme Move", "--brand-color", "#5b21b6",
			"--brand-logo", writeNamed(t, "logo.svg", drawing)}, nil, strings.NewReader(""), in, &stderr)
	}()
	line := make([]byte, 200)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+/`).FindString(string(line[:n]))
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	page, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK || !bytes.Contains(page, []byte("<h1>Acme Move: all pages and emails</h1>")) {
		t.Errorf("status %d, %v:\n%.300s", response.StatusCode, err, page)
	}
	cancel()
	if status := <-done; status != statusDone || stderr.Len() != 0 {
		t.Errorf("status %d: %s", status, &stderr)
	}
	refuse(t, nil, statusUsage, []string{"CONNECT_BRAND_COLOR (--brand-color)", "is not a color", "; accepted: "}, "brand", "preview", "--brand-color", "orange")
	refuse(t, nil, statusUsage, []string{"--port: must"}, "brand", "preview", "--port", "70000")
}

// Without a browser the check says in one line how to get one.
func TestBrandCheckWithoutBrowser(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	refuse(t, nil, statusFailed, []string{"no Chromium", "install"}, "brand", "preview", "--check")
}
