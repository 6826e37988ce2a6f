package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
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
	"/usr/share/connect-svc/programs/SHA256SUMS", "/usr/share/connect-svc/programs/connect-svc_linux_" + runtime.GOARCH + ".tar.gz",
	"/usr/share/connect-svc/backup.sh", "/usr/share/connect-svc/restore.sh", "/usr/share/connect-svc/move.sh", "/usr/share/doc/connect-svc/docs/pgbouncer.ini",
	"/usr/share/doc/connect-svc/docs/haproxy.cfg", "/usr/share/doc/connect-svc/docs/nginx.conf", "/usr/share/doc/connect-svc/docs/alerts.yaml",
	"/usr/share/doc/connect-svc/deploy/grafana/connect-svc.json", "/usr/share/doc/connect-svc/docs/install.md",
	"/usr/share/doc/connect-svc/docs/operations.md", "/usr/share/doc/connect-svc/api/operator.yaml",
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
	dpkg := []string{"--unshare-user", "--uid", "0", "--gid", "0", "--dev-bind", "/", "/", "--", "dpkg", "--root=" + root, "--force-script-chrootless", "--log=/dev/null"}
	output(t, "bwrap", append(dpkg, "-i", deb)...)

	uid := holdsAll(t, root)
	holdsVersion(t, output(t, "dpkg-deb", "--field", deb, "Version"), root, "sh", "-c", `dpkg --compare-versions "$0" lt "$1"`)
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

	serves(t, root, uid, startOf(t, root), nil)

	// An upgrade keeps the settings, which hold secrets, also if the package has another file of them and nobody is at a terminal.
	newer := filepath.Join(t.TempDir(), "newer")
	output(t, "dpkg-deb", "--raw-extract", deb, newer)
	for name, change := range map[string]func(string) string{
		"DEBIAN/control": func(text string) string {
			return regexp.MustCompile(`(?m)^Version: .*$`).ReplaceAllString(text, "Version: 99")
		},
		"etc/connect-svc/connect-svc.env": func(text string) string { return text + "\n# A new setting.\n#CONNECT_NEW=\n" },
	} {
		if err := os.WriteFile(filepath.Join(newer, name), []byte(change(read(t, newer, name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	output(t, "dpkg-deb", "-Znone", "--root-owner-group", "--build", newer, newer+".deb")
	const written = "CONNECT_BASE_URL=https://connect.example.com\n"
	if err := os.WriteFile(filepath.Join(root, "etc/connect-svc/connect-svc.env"), []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
	documented := regexp.MustCompile("`apt-get install ([^`]*)\\./connect-svc_\\*\\.deb`").FindStringSubmatch(read(t, "../..", "docs/upgrade.md"))
	if documented == nil {
		t.Fatal("docs/upgrade.md does not say how to upgrade the package")
	}
	for _, option := range regexp.MustCompile(`-o Dpkg::Options::=(\S+)`).FindAllStringSubmatch(documented[1], -1) {
		dpkg = append(dpkg, option[1])
	}
	output(t, "bwrap", append(dpkg, "-i", newer+".deb")...)
	if got := read(t, root, "etc/connect-svc/connect-svc.env"); got != written {
		t.Errorf("the upgrade has made the settings %q", got)
	}
}

// holdsVersion checks that a package has the version of its program, and that one built after 1.0.0 is newer than 1.0.0 and older than
// 1.0.1 for the package manager. newer exits with 0 if the second of its last two arguments is newer than the first.
func holdsVersion(t *testing.T, got, root string, newer ...string) {
	t.Helper()
	out := output(t, filepath.Join(root, "usr/bin/connect-svc"), "version", "--output", "json")
	if version := regexp.MustCompile(`"version": ?"v([^"]+)"`).FindStringSubmatch(out); version == nil || strings.TrimSpace(got) != version[1] {
		t.Errorf("the package has version %s, and the program in it %s", got, out)
	}
	for _, versions := range [][]string{{"1.0.0", "1.0.0+0.g834402a"}, {"1.0.0+9.gffffffa", "1.0.0+57.g034402a"}, {"1.0.0+57.g834402a", "1.0.1"}} {
		output(t, newer[0], append(newer[1:len(newer):len(newer)], versions...)...)
	}
}

// read is a file below a root.
func read(t *testing.T, root, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// holdsAll checks that a root has what the package brings, and returns the id of the account that the package has made there.
func holdsAll(t *testing.T, root string) (uid int) {
	t.Helper()
	for _, name := range installed {
		read(t, root, name)
	}
	if info, err := os.Stat(filepath.Join(root, "etc/connect-svc/connect-svc.env")); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the settings, which hold secrets: %v, %v", info.Mode(), err)
	}
	account := regexp.MustCompile(`(?m)^connect-svc:x:(\d+):`).FindStringSubmatch(read(t, root, "etc/passwd"))
	if account == nil {
		t.Fatal("the package has made no account")
	}
	uid, err := strconv.Atoi(account[1])
	if err != nil {
		t.Fatal(err)
	}
	return uid
}

// startOf is the command line of the installed unit.
func startOf(t *testing.T, root string) []string {
	t.Helper()
	start := regexp.MustCompile(`(?m)^ExecStart=(.+)$`).FindStringSubmatch(read(t, root, "usr/lib/systemd/system/connect-svc.service"))
	if start == nil {
		t.Fatal("the unit starts nothing")
	}
	return strings.Fields(strings.ReplaceAll(start[1], "${CREDENTIALS_DIRECTORY}", "/run/credentials"))
}

// testRPM installs the package into a root of its own, upgrades it, starts what the unit starts, and removes the package.
func testRPM(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	file, err := filepath.Abs(only(t, "../../bin/*.rpm"))
	if err != nil {
		t.Fatal(err)
	}
	// The root is empty but for programs of this machine, which the package's scripts and rpm itself use: rpm changes into the
	// root before it runs them. The package's own files lie below /usr, which belongs to the root.
	rpm := []string{
		"--unshare-user", "--uid", "0", "--gid", "0", "--bind", root, "/", "--dev", "/dev", "--proc", "/proc",
		"--ro-bind", file, "/package.rpm", "--ro-bind", "/usr/bin", "/bin", "--ro-bind", "/usr/lib", "/lib",
		"--ro-bind-try", "/usr/lib64", "/lib64", "--ro-bind", "/usr/lib/rpm", "/usr/lib/rpm",
	}
	libraries, err := filepath.Glob("/usr/lib/*-linux-gnu*")
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range libraries {
		rpm = append(rpm, "--ro-bind", folder, folder)
	}
	rpm = append(rpm, "--", "/bin/rpm", "--nodeps") // no package of this machine is one of rpm's

	output(t, "bwrap", append(rpm, "--install", "/package.rpm")...)
	uid := holdsAll(t, root)
	holdsVersion(t, output(t, "rpm", "--query", "--package", "--queryformat", "%{VERSION}", file), root,
		"sh", "-c", `test "$(rpm --eval "%{lua: print(rpm.vercmp('$0', '$1'))}")" = -1`)
	serves(t, root, uid, startOf(t, root), nil)

	// An upgrade keeps the settings, which hold secrets. Those that somebody wrote stay even when the package goes.
	settings := filepath.Join(root, "etc/connect-svc/connect-svc.env")
	const written = "CONNECT_BASE_URL=https://connect.example.com\n"
	if err := os.WriteFile(settings, []byte(written), 0o600); err != nil {
		t.Fatal(err)
	}
	output(t, "bwrap", append(rpm, "--upgrade", "--replacepkgs", "/package.rpm")...)
	if got := read(t, root, "etc/connect-svc/connect-svc.env"); got != written {
		t.Errorf("the upgrade has made the settings %q", got)
	}
	output(t, "bwrap", append(rpm, "--erase", "connect-svc")...)
	if got := read(t, root, "etc/connect-svc/connect-svc.env.rpmsave"); got != written {
		t.Errorf("the removal has made the settings %q", got)
	}
	if _, err := os.Stat(filepath.Join(root, "usr/bin/connect-svc")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the program after the removal: %v", err)
	}
}
