// Package docs_test holds the documents to the repository that they describe.
package docs_test

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

const root = ".."

// tracked lists the repository's files: those that git knows or would take.
func tracked(t *testing.T, patterns ...string) []string {
	t.Helper()
	command := exec.Command("git", append([]string{"ls-files", "--cached", "--others", "--exclude-standard", "--"}, patterns...)...)
	command.Dir = root
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Fields(string(output)), func(name string) bool {
		_, err := os.Stat(filepath.Join(root, name))
		return errors.Is(err, fs.ErrNotExist) // removed, and not committed yet
	})
}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// page is what a document links to, and what can be linked to in it.
type page struct {
	links   []string
	anchors []string
}

func parse(source string) (p page) {
	markdown := goldmark.New(goldmark.WithExtensions(extension.GFM), goldmark.WithParserOptions(parser.WithAutoHeadingID()))
	document := markdown.Parser().Parse(text.NewReader([]byte(source)))
	_ = ast.Walk(document, func(node ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch node := node.(type) {
		case *ast.Link:
			p.links = append(p.links, string(node.Destination))
		case *ast.Image:
			p.links = append(p.links, string(node.Destination))
		case *ast.Heading:
			if id, found := node.AttributeString("id"); found {
				p.anchors = append(p.anchors, string(id.([]byte)))
			}
		}
		return ast.WalkContinue, nil
	})
	return p
}

// A link within the repository leads to a file, and to a heading of it where it names one.
func TestLinks(t *testing.T) {
	t.Parallel()
	for _, name := range tracked(t, "*.md") {
		if strings.HasPrefix(name, "internal/edge/developers/") {
			continue // the pages of a site, whose own tests follow its links
		}
		for _, link := range parse(read(t, name)).links {
			target, err := url.Parse(link)
			if err != nil {
				t.Errorf("%s: %s: %v", name, link, err)
				continue
			}
			if target.IsAbs() {
				continue
			}
			to := name
			if target.Path != "" {
				to = path.Join(path.Dir(name), target.Path)
			}
			if _, err := os.Stat(filepath.Join(root, to)); err != nil {
				t.Errorf("%s: %s leads nowhere", name, link)
				continue
			}
			if target.Fragment != "" && !slices.Contains(parse(read(t, to)).anchors, target.Fragment) {
				t.Errorf("%s: %s leads to no heading", name, link)
			}
		}
	}
}

// The documents of packages and archives link to nothing that these do not have.
func TestShippedLinks(t *testing.T) {
	t.Parallel()
	shipped := filepath.Join(t.TempDir(), "shipped")
	if out, err := exec.CommandContext(t.Context(), root+"/.ci/documents", shipped).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	links := 0
	if err := filepath.WalkDir(shipped, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(name) != ".md" || strings.Contains(name, "/internal/edge/developers/") {
			return err
		}
		source, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		for _, link := range parse(string(source)).links {
			target, err := url.Parse(link)
			if err != nil || target.IsAbs() || target.Path == "" {
				continue // TestLinks
			}
			links++
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), target.Path)); err != nil {
				t.Errorf("%s: %s is not shipped", strings.TrimPrefix(name, shipped), link)
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if links < 50 {
		t.Errorf("%d links", links)
	}
	for file, takes := range map[string]string{"Makefile": ".ci/documents bin/package/doc", "deploy/package/nfpm.yaml": "src: bin/package/doc", ".ci/release": `.ci/documents "$work/$name"`} {
		if !strings.Contains(read(t, file), takes) {
			t.Errorf("%s does not take them: %s", file, takes)
		}
	}
}

// block is the code block of a document that contains the text.
func block(t *testing.T, name, contains string) []string {
	t.Helper()
	for i, part := range strings.Split(read(t, name), "```") {
		if i%2 == 1 && strings.Contains(part, contains) {
			_, body, _ := strings.Cut(part, "\n")
			return strings.Split(strings.TrimSuffix(body, "\n"), "\n")
		}
	}
	t.Fatalf("%s has no code block with %q", name, contains)
	return nil
}

var (
	// secretArgument is a secret among the arguments of a program, where everybody on the machine sees it.
	secretArgument = regexp.MustCompile(`\b(?:curl|wget|psql|pg_dump|pg_restore|redis-cli|valkey-cli|kubectl|docker|connect-svc|openssl|jq|npm|service|driver)\b.*?(?:` +
		` --user[ =]|\s-u\s*\S+:|Authorization:|--oauth2-bearer|-token[ =]["']?\$|password '|://[^/\s@]*:[^/\s@]+@|\s-a ['"$]|--from-literal|` +
		`(?i:code|verifier|secret|password|token)=["']?\$)`)
	scripts = regexp.MustCompile("(?ms)^( *)```(?:bash|sh|console|)\n(.*?)^ *```$")
	// The shell itself writes these, and they reach a program by a file descriptor.
	notArguments = []*regexp.Regexp{
		regexp.MustCompile(`(?ms)<<END\b.*?^ *END$`),
		regexp.MustCompile(`<\((?:echo|printf)[^)]*\)`), regexp.MustCompile(`(?m)\{? *(?:echo|printf) [^|\n]*\|`),
	}
)

// exposed lists the lines of a document's scripts that put a secret into arguments.
func exposed(document string) (lines []string) {
	for _, block := range scripts.FindAllStringSubmatch(document, -1) {
		script := strings.ReplaceAll(block[2], "\\\n", " ")
		for _, other := range notArguments {
			script = other.ReplaceAllString(script, "")
		}
		for line := range strings.Lines(script) {
			if line, _, _ = strings.Cut(strings.TrimSpace(line), " #"); secretArgument.MatchString(line) {
				lines = append(lines, line)
			}
		}
	}
	return lines
}

// No document shows a command with a secret in its arguments.
func TestNoSecretsInArguments(t *testing.T) {
	t.Parallel()
	for _, wrong := range []string{
		`psql postgres://u:$password@h/n`, `runuser -u postgres -- psql -c "create role c login password '$p'"`, `redis-cli -a "$p"`,
		`curl -H "Authorization: Bearer $T" http://localhost`, `kubectl create secret generic c --from-literal=a=$b`, `curl -u me:$p http://localhost`,
		"tokens=$(curl --silent http://localhost \\\n  --user \"$ID:$SECRET\")", `curl http://localhost --oauth2-bearer "$token"`,
		`curl --data-urlencode "refresh_token=$token" http://localhost`, `connect-svc sandbox --driver-token "$DRIVER_TOKEN"`,
	} {
		if len(exposed("```bash\n"+wrong+"\n```\n")) == 0 {
			t.Errorf("not found: %s", wrong)
		}
	}
	for _, right := range []string{
		"curl --config - http://localhost <<END\nuser = \"$ID:$SECRET\"\nEND\n", `curl -H @<(echo "Authorization: Bearer $T") http://localhost`,
		`printf 'user = "%s:%s"\n' "$id" "$secret" | curl --config - http://localhost`,
	} {
		if wrong := exposed("```bash\n" + right + "\n```\n"); len(wrong) > 0 {
			t.Errorf("found: %q", wrong)
		}
	}
	for _, name := range append(tracked(t, "*.md"), "api/openapi.yaml", "api/operator.yaml", "api/sandbox.yaml") {
		for _, line := range exposed(read(t, name)) {
			t.Errorf("%s: %s", name, line)
		}
	}
}

// The figures of the README are those of what it links to.
func TestFiguresOfTheREADME(t *testing.T) {
	t.Parallel()
	figure := func(pattern string) int {
		t.Helper()
		found := regexp.MustCompile(pattern).FindStringSubmatch(read(t, "README.md"))
		if found == nil {
			t.Fatalf("README.md does not say %s", pattern)
		}
		n, err := strconv.Atoi(found[1])
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	_, section, _ := strings.Cut(read(t, "docs/reliability.md"), "## What is promised under which fault\n")
	section, _, _ = strings.Cut(section, "\n## ")
	if faults := strings.Count(section, "\n| ") - 1; figure(`(\d+) faults`) != faults {
		t.Errorf("the table of faults has %d rows", faults)
	}
	mutants := 0
	for _, name := range tracked(t, "tools/mutants/*.txt") {
		mutants += strings.Count(read(t, name), "\ntest ")
	}
	if figure(`More than (\d+)`) >= mutants {
		t.Errorf("there are %d mutants", mutants)
	}
}

// The promises name each operation of the operator API that may take longer than others, and each that is not safe to repeat.
func TestExceptionsOfThePromises(t *testing.T) {
	t.Parallel()
	promises, api := strings.Join(strings.Fields(read(t, "docs/reliability.md")), " "), strings.Join(strings.Fields(read(t, "api/operator.yaml")), " ")
	_, longer, _ := strings.Cut(promises, "Only some acts of operators may take up to 30 s: ")
	longer, _, _ = strings.Cut(longer, "These are times")
	words := map[string]string{
		"putUsers": "batches", "putActivity": "batches", "previewActivity": "their preview", "offboardClient": "an offboarding",
		"revokeClientTokens": "the revocation of all tokens", "testWebhook": "a test of a webhook", "exportUser": "a copy of a user's data",
	}
	operations := strings.Split(api, " operationId: ")[1:]
	for _, operation := range operations {
		id, rest, _ := strings.Cut(operation, " ")
		if strings.Contains(rest, " x-time-limit: batch ") && (words[id] == "" || !strings.Contains(longer, words[id])) {
			t.Errorf("docs/reliability.md does not say that %s may take up to 30 s: %s", id, longer)
		}
	}
	_, repeated, _ := strings.Cut(promises, "to the operator API | it may have been done |")
	repeated, _, _ = strings.Cut(repeated, " |")
	_, exceptions, found := strings.Cut(api, "except those that create something new each time: ")
	exceptions, _, _ = strings.Cut(exceptions, ".")
	for exception := range strings.SplitSeq(exceptions, ", ") {
		if exception = strings.TrimPrefix(exception, "and "); !found || !strings.Contains(repeated, exception) {
			t.Errorf("docs/reliability.md does not say that %s is made anew: %s", exception, repeated)
		}
	}
}

// The targets that the documents show are those of `make help`, with its words.
func TestMakeTargets(t *testing.T) {
	t.Parallel()
	command := exec.Command("make", "--no-print-directory", "help")
	command.Dir = root
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	help := strings.Split(strings.TrimRight(string(output), "\n"), "\n")
	if diff := cmp.Diff(help, block(t, "CONTRIBUTING.md", "make test-long")); diff != "" {
		t.Errorf("CONTRIBUTING.md does not show what `make help` prints (-help +document):\n%s", diff)
	}
	targets := regexp.MustCompile(`(?m)^  make ([a-z-]+)`).FindAllStringSubmatch(string(output), -1)
	mentioned := regexp.MustCompile("`make ([a-z][a-z-]*)")
	for _, name := range tracked(t, "*.md") {
		for _, found := range mentioned.FindAllStringSubmatch(read(t, name), -1) {
			if !slices.ContainsFunc(targets, func(target []string) bool { return target[1] == found[1] }) {
				t.Errorf("%s: `make %s` is no target", name, found[1])
			}
		}
	}
}

// rooms reads the tree in ARCHITECTURE.md: the folders of each group, whose name stands above them, indented.
func rooms(t *testing.T) map[string][]string {
	t.Helper()
	rooms, group := map[string][]string{}, ""
	for _, line := range block(t, "ARCHITECTURE.md", "cmd/connect-svc\n") {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case strings.HasPrefix(line, " "):
			group = words[0]
		default:
			rooms[group] = append(rooms[group], words[0])
		}
	}
	return rooms
}

// roomOf is where a folder lies in the tree.
func roomOf(rooms map[string][]string, folder string) (group, room string) {
	for group, folders := range rooms {
		for _, room := range folders {
			if folder == room || strings.HasPrefix(folder, room+"/") {
				return group, room
			}
		}
	}
	return "", ""
}

// Each room of the tree exists, and each package is in a room of the tree.
func TestTree(t *testing.T) {
	t.Parallel()
	rooms := rooms(t)
	for _, folders := range rooms {
		for _, folder := range folders {
			if info, err := os.Stat(filepath.Join(root, folder)); err != nil || !info.IsDir() {
				t.Errorf("ARCHITECTURE.md has %s, and the repository does not", folder)
			}
		}
	}
	for _, name := range tracked(t, "*.go") {
		if _, room := roomOf(rooms, path.Dir(name)); room == "" {
			t.Errorf("%s is in no room of the tree in ARCHITECTURE.md", name)
		}
	}
}

// Imports go the way of the arrows in the drawing, and never from one edge or domain to another.
func TestDoors(t *testing.T) {
	t.Parallel()
	rooms, layers := rooms(t), map[string]int{}
	for i, groups := range strings.Split(block(t, "ARCHITECTURE.md", "──▶ foundation")[0], "──▶") {
		for _, group := range strings.Split(groups, ",") {
			layers[strings.TrimSpace(group)] = i
		}
	}
	command := exec.Command("go", "list", "-f", `{{range .Imports}}{{$.ImportPath}} {{.}}{{"\n"}}{{end}}`, "./cmd/...", "./internal/...")
	command.Dir = root
	output, err := command.Output()
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range strings.Lines(string(output)) {
		words := strings.Fields(strings.ReplaceAll(line, "connect-svc/", ""))
		if len(words) != 2 {
			continue
		}
		if statements, is := strings.CutPrefix(words[1], "gen/db/"); is && path.Base(words[0]) != statements {
			t.Errorf("%s imports the statements of %s", words[0], statements)
		}
		from, importer := roomOf(rooms, words[0])
		to, imported := roomOf(rooms, words[1])
		above, drawn := layers[from]
		below, too := layers[to]
		if !drawn || !too || importer == imported {
			continue
		}
		checked++
		if above > below || above == below && from != "local" && from != "app" && from != "foundation" {
			t.Errorf("%s imports %s: the drawing in ARCHITECTURE.md has no such door", words[0], words[1])
		}
	}
	if checked < 50 {
		t.Errorf("only %d imports were looked at", checked)
	}
}

// TestChangelogIsForReaders: an upgrade is told in two parts that somebody reads to the end: what operators do, and what is new for whom.
func TestChangelogIsForReaders(t *testing.T) {
	t.Parallel()
	latest := strings.Split(read(t, "CHANGELOG.md"), "\n## ")[1]
	acts, news, ok := strings.Cut(latest, "\n### For users\n")
	_, acts, found := strings.Cut(acts, "\n### What you do\n")
	if !ok || !found {
		t.Fatalf("the newest entry has no section %q, or none after it %q", "What you do", "For users")
	}
	for _, part := range []struct {
		name, text string
		most       int
	}{{"What you do", acts, 25}, {"what is new", news, 40}} {
		if lines := strings.Count(strings.TrimSpace(part.text), "\n") + 1; lines > part.most {
			t.Errorf("%s has %d lines, want at most %d", part.name, lines, part.most)
		}
	}
}
