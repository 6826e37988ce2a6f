package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// only is the one file that a pattern names.
func only(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v", pattern, found, err)
	}
	return found[0]
}

func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	return string(out)
}

// installed has what both packages bring.
var installed = []string{
	"/usr/bin/connect-svc", "/usr/lib/systemd/system/connect-svc.service", "/usr/lib/sysusers.d/connect-svc.conf",
	"/etc/connect-svc/connect-svc.env", "/usr/share/man/man1/connect-svc.1.gz", "/usr/share/bash-completion/completions/connect-svc",
}

// testDeb installs the package into a root of its own, holds the unit against systemd's rules, and starts what the unit starts.
func testDeb(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for _, name := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates"} {
		if err := os.MkdirAll(filepath.Join(root, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"status", "available"} {
		if err := os.WriteFile(filepath.Join(root, "var/lib/dpkg", name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	deb, err := filepath.Abs(only(t, "../../bin/*.deb"))
	if err != nil {
		t.Fatal(err)
	}
	// As root of a namespace of its own, which need not be root here.
	output(t, "bwrap", "--unshare-user", "--uid", "0", "--gid", "0", "--dev-bind", "/", "/", "--",
		"dpkg", "--root="+root, "--force-script-chrootless", "--log=/dev/null", "-i", deb)

	read := func(name string) string {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, name := range installed {
		read(name)
	}
	if info, err := os.Stat(filepath.Join(root, "etc/connect-svc/connect-svc.env")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the settings, which hold secrets: %v, %v", info.Mode(), err)
	}
	account := regexp.MustCompile(`(?m)^connect-svc:x:(\d+):`).FindStringSubmatch(read("etc/passwd"))
	if account == nil {
		t.Fatal("the package has made no account")
	}
	uid, err := strconv.Atoi(account[1])
	if err != nil {
		t.Fatal(err)
	}
	if conffiles := output(t, "dpkg-deb", "--info", deb, "conffiles"); !strings.Contains(conffiles, "/etc/connect-svc/connect-svc.env\n") {
		t.Errorf("an upgrade would overwrite the settings: %q", conffiles)
	}

	unit := "/usr/lib/systemd/system/connect-svc.service"
	// It also complains of the units and programs of the system that this root has not.
	verify, _ := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--root="+root, unit).CombinedOutput()
	for _, complaint := range []string{"Unknown", "Failed to parse", "Invalid", "gnoring"} {
		if bytes.Contains(verify, []byte(complaint)) {
			t.Errorf("systemd: %s", verify)
		}
	}
	output(t, "systemd-analyze", "security", "--offline=true", "--threshold=15", "--root="+root, "connect-svc.service")

	start := regexp.MustCompile(`(?m)^ExecStart=(.+)$`).FindStringSubmatch(read(unit))
	if start == nil {
		t.Fatal("the unit starts nothing")
	}
	command := strings.Fields(strings.ReplaceAll(start[1], "${CREDENTIALS_DIRECTORY}", "/run/credentials"))
	serves(t, root, uid, command, nil)
}

// testRPM reads the package, which this machine cannot install.
func testRPM(t *testing.T) {
	t.Parallel()
	files := output(t, "rpm", "-qp", "--queryformat", `[%{FILENAMES} %{FILEFLAGS:fflags} %{FILEMODES:perms}\n]`, only(t, "../../bin/*.rpm"))
	for _, name := range installed {
		if !strings.Contains(files, name+" ") {
			t.Errorf("no %s in:\n%s", name, files)
		}
	}
	// An upgrade keeps the settings, which hold secrets.
	if want := "/etc/connect-svc/connect-svc.env cn -rw-------\n"; !strings.Contains(files, want) {
		t.Errorf("no %s in:\n%s", want, files)
	}
}
