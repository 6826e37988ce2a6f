//go:build check

package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"connect-svc/gen/sandboxapi"
)

// The Python of the developers' guides is one program, and so is their PHP: each connects, reads, refreshes, receives a webhook
// and disconnects as it stands in the pages, but for the length of a page of rides. testdata/guides/play.* plays it.
func TestGuides(t *testing.T) {
	t.Parallel()
	r := start(t)
	programs := map[string][]string{
		"python": {"/usr/bin/python3", "-c"}, // Debian's own, which has the package of requests
		"php":    {"php", "-d", "curl.cainfo=" + r.described.CaFile, "-d", "display_errors=stderr", "-r"},
	}
	// One after the other: an error that is forced is for whoever comes next.
	for _, language := range []string{"python", "php"} {
		t.Run(language, func(t *testing.T) {
			play, err := os.ReadFile("testdata/guides/play." + language)
			if err != nil {
				t.Fatal(err)
			}
			code := strings.ReplaceAll(codeOfGuides(t, language), `"limit": 500`, `"limit": 2`)
			code = strings.ReplaceAll(code, `'limit' => 500`, `'limit' => 2`)
			program := append(slices.Clone(programs[language]), strings.TrimPrefix(code, "<?php\n")+string(play))
			run := exec.CommandContext(t.Context(), program[0], program[1:]...)
			run.Env = append(os.Environ(), "REQUESTS_CA_BUNDLE="+r.described.CaFile, "DRIVER_URL="+r.described.DriverUrl,
				"CONNECT_BASE_URL="+r.described.BaseUrl, "CONNECT_CLIENT_ID="+r.described.Client.ClientId.String(),
				"CONNECT_CLIENT_SECRET="+r.described.Client.ClientSecret, "CONNECT_CALLBACK_URL="+r.described.Client.CallbackUrl,
				"CONNECT_WEBHOOK_SECRET="+r.described.Client.WebhookSecret, "CONNECT_USER="+r.newUser(t, sandboxapi.KindNew).String())
			if printed := succeed(t, run); string(printed) != "played\n" {
				t.Errorf("it prints %s", printed)
			}
		})
	}
}

// codeOfGuides is all code in a language, in the order of the guides.
func codeOfGuides(t *testing.T, language string) (code string) {
	t.Helper()
	block := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$")
	for _, page := range []string{"consent", "refresh", "paging", "limits", "webhooks", "errors", "disconnects"} {
		text, err := os.ReadFile(filepath.Join("..", "..", "edge", "developers", "pages", page+".md"))
		if err != nil {
			t.Fatal(err)
		}
		found := block.FindAllSubmatch(text, -1)
		if len(found) == 0 {
			t.Errorf("%s has nothing in %s", page, language)
		}
		for _, part := range found {
			code += string(part[1]) + "\n\n"
		}
	}
	return code
}
