package main

import (
	"crypto/tls"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// SIGHUP reads certificate, logo, texts, the rest of the brand and the operators' tokens again. A file that cannot be used leaves
// everything as it was, and lets nobody new in.
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
	cmd, s, ended := startProcess(t, with(allSettings(t, pgtest.New(t)), "CONNECT_BASE_URL=https://127.0.0.1", "CONNECT_TLS_CERT="+cert,
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
	presents := func() string {
		t.Helper()
		conn, err := tls.Dial("tcp", s.public, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return string(conn.ConnectionState().PeerCertificates[0].Raw)
	}

	if got := s.answers(t, token); got != http.StatusOK {
		t.Errorf("ada is answered with %d", got)
	}
	before, beforePage := presents(), page()
	replace(tokens, writeFile(t, "# nobody\n"))
	replace(cert, newCert)
	replace(key, newKey)
	replace(filepath.Join(texts, "en.toml"), writeFile(t, "[email]\nlabel = \"Your address, please\"\n"))
	replace(logo, writeNamed(t, "logo.svg", `<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h7v7z"/></svg>`))
	s.hangUp(t, cmd, ended, "the settings were read again")
	if presents() == before {
		t.Error("the old certificate is presented")
	}
	if got := s.answers(t, token); got != http.StatusUnauthorized {
		t.Errorf("ada, who left, is answered with %d", got)
	}
	renewed := page()
	if renewed == beforePage || !strings.Contains(renewed, "Your address, please") {
		t.Errorf("the page is as it was:\n%s", renewed)
	}

	replace(tokens, writeFile(t, line+"\n"))
	replace(logo, writeFile(t, "no logo"))
	s.hangUp(t, cmd, ended, "the settings cannot be used; the old ones are kept")
	if page() != renewed || s.answers(t, token) != http.StatusUnauthorized {
		t.Error("a part of what cannot be used as a whole was taken over")
	}
	terminate(t, cmd, ended)
}

// A SIGHUP that comes while the service starts, such as from systemctl reload just after a start, waits until it can read its settings again.
func TestServeIsReloadedWhileItStarts(t *testing.T) {
	t.Parallel()
	settings := strings.Join(allSettings(t, pgtest.New(t)), "\n") + "\n"
	file := filepath.Join(t.TempDir(), "settings")
	if err := syscall.Mkfifo(file, 0o600); err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "serve", "--config", file)
	cmd.Env = []string{asProgram + "=1"}
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	feed := func(meanwhile ...os.Signal) {
		t.Helper()
		pipe, err := os.OpenFile(filepath.Clean(file), os.O_WRONLY, 0) // waits until the service reads
		if err != nil {
			t.Fatal(err)
		}
		for _, signal := range meanwhile {
			_ = cmd.Process.Signal(signal)
		}
		_, _ = pipe.WriteString(settings) // or nobody reads it any more
		_ = pipe.Close()
	}
	feed(syscall.SIGHUP)
	s := new(service)
	ended := s.watch(t, stderr)
	feed()
	wait.Until(t, "the settings were read again", func() bool { return strings.Contains(s.log.String(), "the settings were read again") })
	terminate(t, cmd, ended)
}

// hangUp has the service read its settings again, until it says how that went, and returns what it said.
func (s *service) hangUp(t *testing.T, cmd *exec.Cmd, ended <-chan struct{}, says string) (line string) {
	t.Helper()
	before := len(s.log.String())
	if err := cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the service says how that went", func() bool {
		select {
		case <-ended:
			t.Fatalf("the service ended:\n%s", s.log.String())
		default:
		}
		for line = range strings.Lines(s.log.String()[before:]) {
			if strings.Contains(line, "the settings ") && strings.HasSuffix(line, "\n") {
				return true
			}
		}
		return false
	})
	if !strings.Contains(line, says) {
		t.Fatalf("the service says %s, not %s", line, says)
	}
	return line
}

// answers is the status with which the operator API answers somebody.
func (s *service) answers(t *testing.T, token string) int {
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

func terminate(t *testing.T, cmd *exec.Cmd, ended <-chan struct{}) {
	t.Helper()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ended
	if err := cmd.Wait(); err != nil {
		t.Errorf("the process ended with %v", err)
	}
}

// Taking an operator's line away takes effect whatever else is wrong, and what is wrong lets nobody in.
func TestServeTakesTokensAway(t *testing.T) {
	t.Parallel()
	lines, holders := map[string]string{}, []string{"ada", "bob", "eve", "operator"}
	tokens := map[string]string{"operator": operatorToken}
	for _, name := range holders[:3] {
		var err error
		if tokens[name], lines[name], err = operators.Create(operators.Operator{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	const inUse, inPart, refused = "the settings were read again\"", "operator tokens of bad lines do not work", "the settings cannot be used; the old ones are kept"
	file, logo := writeNamed(t, "tokens", lines["ada"]+"\n"+lines["bob"]), writeNamed(t, "logo.svg", `<svg xmlns="http://www.w3.org/2000/svg"><path d="M0 0h9v9z"/></svg>`)
	config := writeNamed(t, "settings", "CONNECT_OPERATOR_TOKENS_FILE="+file+"\nCONNECT_BRAND_LOGO="+logo+"\n")
	cmd, s, ended := startProcess(t, with(allSettings(t, pgtest.New(t)), "CONNECT_OPERATOR_TOKEN="+operatorToken), "--config", config)
	good := map[string]string{}
	for _, name := range []string{file, logo, config} {
		text, err := os.ReadFile(filepath.Clean(name))
		if err != nil {
			t.Fatal(err)
		}
		good[name] = string(text)
	}
	for _, step := range []struct {
		name          string
		file, content string      // empty content: the file goes
		mode          os.FileMode // 0: 0600
		says, in      string
		log           string
	}{
		{"as at the start", file, good[file], 0, inUse, "ada bob operator", ""},
		{"bob leaves, and a line has a typo", file, "x\n" + lines["ada"], 0, inPart, "ada operator", "line 1: want NAME"},
		{"eve comes in spite of it", file, "x\n" + lines["ada"] + "\n" + lines["eve"], 0, inPart, "ada eve operator", "line 1: want NAME"},
		{"all is well", file, good[file], 0, inUse, "ada bob operator", ""},
		{"the logo is none", logo, "no logo", 0, refused, "ada bob operator", "CONNECT_BRAND_LOGO"},
		{"and bob leaves, and eve comes", file, lines["ada"] + "\n" + lines["eve"], 0, refused, "ada operator", "CONNECT_BRAND_LOGO"},
		{"bob is back, but not with a bad logo", file, good[file], 0, refused, "ada operator", "CONNECT_BRAND_LOGO"},
		{"the logo is one", logo, good[logo], 0, inUse, "ada bob operator", ""},
		{"others may change the file", file, good[file], 0o666, inPart, "operator", "has mode 0666"},
		{"they may not any more", file, good[file], 0, inUse, "ada bob operator", ""},
		{"no file", file, "", 0, inPart, "operator", "no such file"},
		{"it is back", file, good[file], 0, inUse, "ada bob operator", ""},
		{"no settings file", config, "", 0, refused, "ada bob operator", "no such file"},
		{"and bob leaves", file, "x\n" + lines["ada"], 0, refused, "ada operator", "line 1: want NAME"},
		{"it is back as well", config, good[config], 0, inPart, "ada operator", "line 1: want NAME"},
		{"a bad line in it", config, good[config] + "x", 0, refused, "ada operator", ":3: is not of the form"},
		{"nothing named", config, "", 0o600, inUse, "operator", ""},
	} {
		err := os.Remove(step.file)
		if step.content != "" || step.mode != 0 {
			err = os.WriteFile(step.file, []byte(step.content), 0o600)
		}
		if err == nil && step.mode != 0 {
			err = os.Chmod(step.file, step.mode)
		}
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		said := s.hangUp(t, cmd, ended, step.says)
		var in []string
		for _, name := range holders {
			if s.answers(t, tokens[name]) == http.StatusOK {
				in = append(in, name)
			}
		}
		_, metrics := get(t, http.DefaultClient, "http://"+s.private+"/metrics")
		went := "connect_config_last_reload_successful " + map[bool]string{true: "1", false: "0"}[step.says == inUse]
		if strings.Join(in, " ") != step.in || !strings.Contains(said, step.log) || strings.Contains(said, lines["ada"][20:]) || !strings.Contains(metrics, "\n"+went+"\n") {
			t.Errorf("%s: in are %v, want %s; the log: %s want %s and %s", step.name, in, step.in, said, step.log, went)
		}
	}
	terminate(t, cmd, ended)
}

// Settings of a file are read again. The log names those whose change needs a restart, and those of the environment, whose change the
// process cannot see.
func TestServeSaysWhatItDoesNotReadAgain(t *testing.T) {
	t.Parallel()
	settings := allSettings(t, pgtest.New(t))
	const restart, environment = "changes take effect only after a restart", "changes cannot be seen in the environment"
	file := writeNamed(t, "settings", strings.Join(settings, "\n")+"\n")
	cmd, s, ended := startProcess(t, []string{"HOME=/nonexistent"}, "--config", file)
	change := func(more, keyset string) {
		t.Helper()
		text := strings.Join(append(slices.Clone(settings), more), "\n") + "\n"
		if err := os.WriteFile(file, []byte(strings.Replace(text, keysetOf(settings), keyset, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	keyset := keysetOf(settings)
	other := writeNamed(t, "keyset", "")
	if err := os.Remove(other); err != nil {
		t.Fatal(err)
	}
	succeed(t, nil, "", "keys", "create", "--out", other)
	for _, step := range []struct{ more, keyset, needs string }{
		{"CONNECT_BRAND_NAME=Nine", keyset, ""},
		{"CONNECT_REQUEST_LIFETIME=5m", keyset, `["CONNECT_REQUEST_LIFETIME"]`},
		{"CONNECT_LOG_LEVEL=info", other, `["CONNECT_KEYSET_FILE"]`},
		{"", keyset, ""},
	} {
		change(step.more, step.keyset)
		before := len(s.log.String())
		s.hangUp(t, cmd, ended, "the settings were read again")
		s.hangUp(t, cmd, ended, "the settings were read again") // by now the first one has said all
		said := s.log.String()[before:]
		if got := strings.Contains(said, restart); got != (step.needs != "") || !strings.Contains(said, step.needs) || strings.Contains(said, environment) {
			t.Errorf("%s: the log:\n%s", step.more, said)
		}
		_, page := get(t, http.DefaultClient, "http://"+s.public+"/account/sign-in")
		if strings.Contains(page, "Nine") != (step.more == "CONNECT_BRAND_NAME=Nine") {
			t.Errorf("%s: the page:\n%s", step.more, page)
		}
	}
	terminate(t, cmd, ended)

	cmd, s, ended = startProcess(t, with(settings, "CONNECT_BRAND_NAME=Nine"))
	s.hangUp(t, cmd, ended, "the settings were read again")
	s.hangUp(t, cmd, ended, "the settings were read again")
	if said := s.log.String(); !strings.Contains(said, environment) || !strings.Contains(said, `"CONNECT_BRAND_NAME"`) || strings.Contains(said, `"CONNECT_KEYSET_FILE"`) {
		t.Errorf("the log:\n%s", said)
	}
	terminate(t, cmd, ended)
}

// keysetOf is the path of the keyset.
func keysetOf(settings []string) string {
	for _, setting := range settings {
		if path, found := strings.CutPrefix(setting, "CONNECT_KEYSET_FILE="); found {
			return path
		}
	}
	return ""
}
