package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const path = "../../api/operator.yaml"

// The commands are those of the document. `make generate` writes them.
func TestGenerated(t *testing.T) {
	t.Parallel()
	want, err := commands(path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile("../../cmd/connect-svc/acts.gen.go")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != string(want) {
		t.Error("cmd/connect-svc/acts.gen.go is not what api/operator.yaml makes: run make generate")
	}
}

// The generator refuses each word that it does not know.
func TestRefuses(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ old, new, says string }{
		"a key of a command":        {"command: client list\n", "command: client list\n        colour: red\n", `unknown field "colour"`},
		"a key of a flag":           {"placeholder: SESSION_ID", "hint: SESSION_ID", `unknown field "hint"`},
		"a shared flag":             {"flags: [of user, of client]", "flags: [of user, of partner]", `there is no shared flag "of partner"`},
		"a command of a group":      {"commands: [list, ended, disconnect]", "commands: [list, ended, connect]", `there is no command "connection connect"`},
		"a command that none lists": {"commands: [list, ended, disconnect]", "commands: [list, ended]", `connection disconnect: no group lists it`},
		"an operation":              {"preview: previewUser", "preview: readEverything", `there is no operation "readEverything" that answers`},
		"an act without a way back": {"        preview: previewClient\n        unless: overlap\n        scripted: true\n        confirm: stop the secret of client {id} ({preview.name}) at once; with --overlap it works for a while\n", "", "client rotate-secret: it cannot be undone, and does not ask"},
		"an act that says nothing":  {"      x-undo: disableClient\n", "", "client enable: x-undo does not say what undoes enableClient, or none"},
		"a flag that spares":        {"unless: overlap", "unless: overlaps", `there is no duration "overlaps"`},
		"a parameter":               {"with: { session_id: end }", "with: { session_id: finish }", `no flag is session_id`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if strings.Count(string(text), test.old) == 0 {
				t.Fatalf("the document has no %q", test.old)
			}
			file := filepath.Join(t.TempDir(), "operator.yaml")
			if err := os.WriteFile(file, []byte(strings.Replace(string(text), test.old, test.new, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := commands(file); err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("%v does not say %q", err, test.says)
			}
		})
	}
}
