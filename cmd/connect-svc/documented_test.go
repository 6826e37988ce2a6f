package main

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
)

// elsewhere says of commands in documents, by how they begin, who runs them if not the test below.
var elsewhere = map[string]string{
	"connect-svc webhook test ":                                  "TestWebhookSample, with a receiver whose certificate it trusts",
	"connect-svc brand preview --check":                          "TestPalettes of internal/edge/pages: it takes minutes",
	"connect-svc sandbox":                                        "TestSandboxSaysWhatThereIs, on ports that are free, and TestSandboxDocument",
	"connect-svc restore reconcile --":                           "TestReconcileAfterRestore",
	"connect-svc migrate distribute":                             "make test-citus: it needs a cluster",
	"select citus_":                                              "make test-citus",
	"select recover_prepared_":                                   "make test-citus",
	"CONNECT_DATABASE_URL=… ":                                    "TestBackupAndRestore of internal/testing/e2e/backup, both scripts",
	"psql postgres://postgres@second.example.com/":               "TestSecondRegion",
	"docs/move.sh ":                                              "TestMoveToAnotherServer, TestMoveBehindPgBouncer",
	`console="psql `:                                             "TestMoveBehindPgBouncer",
	"connect-svc keys create --out /etc/connect-svc/leaked.json": "TestRotateEverything",
	"connect-svc keys adopt /etc/":                               "TestRotateEverything",
	"mv /etc/connect-svc/leaked.json":                            "TestRotateEverything",
	"connect-svc client webhook rotate-secret operator":          "TestRotateEverything",
	"psql postgres://localhost/connect ":                         "TestRotateEverything",
	"fallocate ":                                                 "TestFullDisk",
	"rm /var/lib/postgresql/room":                                "TestFullDisk",
	"select pg_drop_replication_slot(":                           "nobody: the slot of a replica that has gone",
	"createdb ":                                                  "TestYesterdaysBackup: the tests' own server makes the database",
	"npm install https://":                                       "TestQuickStart of internal/edge/developers, with the address of a service",
	"pip install https://":                                       "TestPipInstall of internal/edge/developers, with the address of a service",
	"export GOPROXY=https://":                                    "TestQuickStart of internal/edge/developers",
	"go get connect.example.com":                                 "TestQuickStart of internal/edge/developers",
	"go run connect.example.com":                                 "TestSandboxFromSDKs of internal/edge/developers",
	"go test ":                                                   "make test-long and make bench",
	"minisign -V ":                                               "TestTwiceTheSameBytes of tools/release",
	"sha256sum --check ":                                         "TestTwiceTheSameBytes of tools/release",
	"go run -C tools aead.dev/":                                  "nobody: it asks for a password",
	"kubectl ":                                                   "tools/kubernetes holds the files to the API; there is no cluster",
	"skopeo copy ":                                               "nobody: there is no registry",
	"systemctl ":                                                 "deploy/package/try-on-debian.sh: it needs systemd",
	"apt-get ":                                                   "deploy/package/try-on-debian.sh: it needs Debian's packages",
	"runuser -u postgres -- psql ":                               "deploy/package/try-on-debian.sh: it needs Debian's PostgreSQL",
	"password=$(openssl rand -hex 16)":                           "deploy/package/try-on-debian.sh",
	"export CONNECT_DATABASE_URL=":                               "deploy/package/try-on-debian.sh",
	"install -m 640 -g connect-svc ":                             "deploy/package/try-on-debian.sh: the package makes the group",
	"cat >>/etc/connect-svc/":                                    "deploy/package/try-on-debian.sh, with the settings that follow",
	"sed -":                                                      "deploy/package/try-on-debian.sh",
	"# on call":                                                  "no command: the file of operators' tokens",
}

// piece is a command in a document. One in the text, between backticks, may be no more than the name of a command.
type piece struct {
	document, text string
	named          bool
}

var (
	fence   = regexp.MustCompile("(?sm)^```([a-z]*)\n(.*?)^```$")
	heredoc = regexp.MustCompile(`(?sm)(<<END)\n.*?^END$`)
	inline  = regexp.MustCompile("`([^`]+)`")
	// A command line of the program ends where the shell's language goes on.
	commandLine = regexp.MustCompile(`(?:^|[ (])(connect-svc [a-z][^#|)<>&\n]*)`)
	nameOnly    = regexp.MustCompile(`^connect-svc: (expected|missing flags)`)
	unknown     = regexp.MustCompile(`unknown flag|unexpected argument`)
	runnable    = regexp.MustCompile(`^(connect-svc|make|openssl|go|skopeo|systemctl|apt-get|kubectl|psql|curl|select|grant) .`)
)

// pieces lists the commands of a document in their order. Groups are those of the program's commands: `user list` is one, too.
func pieces(t *testing.T, document string, groups []string) (list []piece) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join("../..", document))
	if err != nil {
		t.Fatal(err)
	}
	add := func(text string, named bool) {
		if text = strings.Join(strings.Fields(text), " "); text != "" {
			list = append(list, piece{document, text, named})
		}
	}
	words := func(text string) {
		for _, span := range inline.FindAllStringSubmatch(text, -1) {
			text := strings.Join(strings.Fields(span[1]), " ")
			if first, rest, _ := strings.Cut(text, " "); slices.Contains(groups, first) && rest != "" {
				text = "connect-svc " + text // `user list`
			}
			if runnable.MatchString(text) {
				add(text, true)
			}
		}
	}
	block := func(language, text string) {
		text = heredoc.ReplaceAllString(strings.ReplaceAll(text, "\\\n", " "), "$1")
		switch {
		case language == "sql":
			add(text, false)
		case language == "" && strings.HasPrefix(text, "# on call"):
			add("# on call", false)
		case language == "" || language == "bash" && !strings.HasPrefix(text, "set -euo pipefail"): // a script, run as a whole
			for line := range strings.Lines(text) {
				line, _, _ = strings.Cut(line, " #")
				if strings.HasPrefix(line, "# ") {
					continue
				}
				of := commandLine.FindAllStringSubmatch(line, -1)
				for _, command := range of {
					if strings.Contains(line, "xargs") {
						command[1] += " ID"
					}
					add(command[1], false)
				}
				if len(of) == 0 {
					add(line, false)
				}
			}
		}
	}
	rest := string(content)
	for at := fence.FindStringSubmatchIndex(rest); at != nil; at = fence.FindStringSubmatchIndex(rest) {
		words(rest[:at[0]])
		block(rest[at[2]:at[3]], rest[at[4]:at[5]])
		rest = rest[at[1]:]
	}
	words(rest)
	return list
}

// Every command in a document does what it is there for: those of the program are carried out one after the other, in the order in
// which an operator comes to them, from an empty database on. A list says who carries out the others.
func TestDocumentedCommands(t *testing.T) {
	t.Parallel()
	documents, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for i := range documents {
		documents[i] = strings.TrimPrefix(documents[i], "../../")
	}
	const rare = "docs/days.md"                                                                                            // which ends much of what the other documents are about
	documents = slices.DeleteFunc(documents, func(name string) bool { return name == "docs/settings.md" || name == rare }) // texts of the flags
	order := slices.Concat([]string{"docs/install.md", "README.md", "CONTRIBUTING.md"}, documents, []string{rare})
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}

	var groups []string
	for _, leaf := range modelOf(t).Leaves(false) {
		if path := path(leaf); len(path) > 1 {
			groups = append(groups, path[0])
		}
	}
	m := newOperatorsMachine(t)
	seen, used, run := map[string]bool{}, map[string]bool{}, 0
	for _, document := range order {
		for _, piece := range pieces(t, document, groups) {
			if seen[piece.text] {
				continue
			}
			seen[piece.text] = true
			if by := slices.IndexFunc(slices.Collect(maps.Keys(elsewhere)), func(begin string) bool {
				found := strings.HasPrefix(piece.text, begin)
				used[begin] = used[begin] || found
				return found
			}); by >= 0 {
				continue
			}
			program, rest, _ := strings.Cut(piece.text, " ")
			switch program {
			case "connect-svc":
				m.connectSvc(piece)
			case "make":
				target, _, _ := strings.Cut(rest, " ")
				if !regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(target) + `:`).Match(makefile) {
					t.Errorf("%s: %s: there is no such target", document, piece.text)
				}
			case "select", "grant":
				m.db.Exec(t, "begin; "+strings.NewReplacer("ROLE", "current_user").Replace(piece.text)+"; rollback")
			case "curl", "openssl":
				m.shell(piece)
			default:
				t.Errorf("%s: %s: nobody runs it", document, piece.text)
			}
			run++
		}
	}
	for begin := range elsewhere {
		if !used[begin] {
			t.Errorf("no document has %q", begin)
		}
	}
	if run < 40 {
		t.Errorf("only %d commands", run)
	}
}

// operatorsMachine is where the documents' commands are carried out.
type operatorsMachine struct {
	*testing.T
	db     *pgtest.DB
	env    []string
	files  *strings.Replacer // what the documents call their files
	event  string            // the id of one that can be sent again
	server *service
}

func newOperatorsMachine(t *testing.T) *operatorsMachine {
	folder := t.TempDir()
	m := &operatorsMachine{T: t, db: pgtest.NewEmpty(t)}
	file := func(name, text string) string {
		name = filepath.Join(folder, name)
		if err := os.WriteFile(name, []byte(text), 0o600); text != "" && err != nil {
			t.Fatal(err)
		}
		return name
	}
	keyset := filepath.Join(folder, "keyset.json") // made by a command
	config := slices.DeleteFunc(allSettings(t, m.db), func(setting string) bool { return strings.HasPrefix(setting, "CONNECT_KEYSET_FILE=") })
	config = with(slices.DeleteFunc(config, func(setting string) bool { return strings.HasPrefix(setting, "CONNECT_SMTP_URL=") }),
		"CONNECT_SMTP_URL=smtp://"+mailtest.Start(t, mailtest.Config{}).Address)
	m.env = with(config, "CONNECT_KEYSET_FILE="+keyset)
	m.files = strings.NewReplacer(
		"/etc/connect-svc/keyset.json", keyset, "FILE", keyset,
		"/etc/connect-svc/connect-svc.env", file("connect-svc.env", strings.Join(config, "\n")+"\n"),
		"users.csv", file("users.csv", "user_id,email,timezone,registered_on\n"+walker+",bob@example.com,UTC,2026-01-31\n"),
		"steps.csv", file("steps.csv", "user_id,date,steps\n"+walker+",2026-11-20,8421\n"),
		"-minute N", "-minute 100",
		"postgres://localhost/yesterday", m.db.URL, "127.0.0.1:9190", "127.0.0.1:0",
	)
	return m
}

// id is what ID stands for in a command.
func (m *operatorsMachine) id(command string) string {
	if strings.HasPrefix(command, "connect-svc webhook ") && !strings.Contains(command, "--client") {
		if m.event == "" {
			partner := m.db.Client(m)
			m.db.Webhook(m, partner.ID)
			m.event = messageOf(failedEvent(m.T, m.db, partner.ID))
		}
		return m.event
	}
	id := pgtest.Value[uuid.UUID](m, m.db, "select client_id from clients order by created_at limit 1")
	if strings.HasPrefix(command, "connect-svc client change-request ") {
		if _, err := client.NewRegistry(m.db.Pool, nil).RequestChange(m.Context(), id, func(r *client.Registration) { r.Policy.Burst++ }); err != nil {
			m.Fatal(err)
		}
	}
	return id.String()
}

// connectSvc carries out a command line of the program, with somebody at a terminal who agrees, and reads rows from a pipe.
func (m *operatorsMachine) connectSvc(piece piece) {
	text := m.files.Replace(piece.text)
	if strings.HasSuffix(text, " ID") || strings.Contains(text, " ID ") {
		text = strings.ReplaceAll(text, " ID", " "+m.id(piece.text))
	}
	if strings.Contains(text, " EMAIL") {
		text = strings.ReplaceAll(text, " EMAIL", " "+m.db.User(m).Email)
	}
	out, err := exec.CommandContext(m.Context(), "bash", "-c", `connect-svc() { printf '%s\n' "$@"; }; `+text).Output()
	if err != nil {
		m.Errorf("%s: %s: %v", piece.document, piece.text, err)
		return
	}
	args := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	ctx, cancel := context.WithCancel(m.Context())
	defer cancel()
	stdin := "yes\n"
	if args[len(args)-1] == "-" {
		stdin = "user_id,date,steps\n"
	}
	stdout, stderr := &cancelAt{text: "Ctrl-C", cancel: cancel}, &cancelAt{text: `"public":`, cancel: cancel} // those that go on
	p := &program{ctx, args, m.env, strings.NewReader(stdin), stdout, stderr, true, nil}
	status := p.run()
	named := piece.named && status == statusUsage && (nameOnly.MatchString(stderr.String()) ||
		strings.HasPrefix(args[len(args)-1], "--") && !unknown.MatchString(stderr.String()))
	if status != statusDone && !named {
		m.Errorf("%s: %s: status %d, %s", piece.document, piece.text, status, stderr)
	}
}

// shell has bash run a command beside a running service.
func (m *operatorsMachine) shell(piece piece) {
	const token = operatorToken
	if m.server == nil {
		m.server = start(m.T, with(m.env, "CONNECT_OPERATOR_TOKEN="+token))
		m.db.User(m, func(u *pgtest.User) { u.ID = uuid.MustParse("3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a01") }) // of the document
	}
	command := exec.CommandContext(m.Context(), "bash", "-c", `curl() { command curl --silent --show-error --fail-with-body "$@"; }; `+
		strings.NewReplacer("127.0.0.1:9090", m.server.private, "127.0.0.1:9190", m.server.private).Replace(piece.text))
	command.Env = append(os.Environ(), "CONNECT_OPERATOR_TOKEN="+token)
	var out bytes.Buffer
	command.Stdout, command.Stderr = &out, &out
	if err := command.Run(); err != nil {
		m.Error(fmt.Errorf("%s: %s: %w: %s", piece.document, piece.text, err, &out))
	}
}
