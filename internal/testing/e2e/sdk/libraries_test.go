//go:build check

package sdk_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/testing/e2e"
)

// The lines that the developers' page "Libraries" gives for each library connect, refresh and revoke, as they stand there.
// testdata/clients/play.* plays them, for the language or for the library.
func TestLibraries(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "edge", "developers", "pages", "libraries.md"))
	if err != nil {
		t.Fatal(err)
	}
	packages := installedClients(t)
	blocks := regexp.MustCompile("(?ms)^## (.*?)$(?:.*?)^```(\\w+)\n(.*?)^```$").FindAllStringSubmatch(string(page), -1)
	if rows := strings.Count(string(page), "\n| ["); len(blocks) != rows {
		t.Errorf("%d libraries have lines, of %d", len(blocks), rows)
	}
	for _, block := range blocks {
		library, language, code := block[1], block[2], block[3]
		t.Run(library, func(t *testing.T) {
			t.Parallel()
			play, err := os.ReadFile(filepath.Join("testdata", "clients", "play-"+library+"."+language))
			if err != nil {
				play, err = os.ReadFile(filepath.Join("testdata", "clients", "play."+language))
			}
			if err != nil {
				t.Fatal(err)
			}
			var command *exec.Cmd
			switch language {
			case "js":
				command = exec.CommandContext(t.Context(), "node", "--input-type=module", "--eval", code+string(play))
				command.Dir = packages // where its imports are looked for
			case "python":
				// Debian's own, for which the packages are installed.
				command = exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", code+string(play))
			case "ruby":
				command = exec.CommandContext(t.Context(), "ruby", "-e", code+string(play))
			case "go":
				folder := t.TempDir()
				for name, content := range map[string][]byte{"library.go": []byte(code), "play.go": play} {
					if err := os.WriteFile(filepath.Join(folder, name), content, 0o644); err != nil {
						t.Fatal(err)
					}
				}
				command = exec.CommandContext(t.Context(), "go", "run", filepath.Join(folder, "library.go"), filepath.Join(folder, "play.go"))
			}
			e := e2e.New(t)
			if library == "Auth.js" { // its callback has a fixed path
				e.Partner.CallbackURL = "https://partner.example/auth/callback/connect"
				if _, err := e.App.Clients.Update(t.Context(), e.Partner.ID, func(r *client.Registration) { r.CallbackURL = e.Partner.CallbackURL }); err != nil {
					t.Fatal(err)
				}
			}
			runClient(t, e, command)
		})
	}
}
