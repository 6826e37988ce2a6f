//go:build check

// Package mail_test sends the service's emails through mail servers that others wrote and that are used everywhere: Debian's Postfix, as
// strict as it can be, Exim and OpenSMTPD. Python's strict parser reads what they deliver.
package mail_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"connect-svc/internal/testing/process"
	"connect-svc/internal/testing/wait"
)

// Each service of a mail server has an address of its own in this network, and all the same port.
const services = 8

var network = fmt.Sprintf("127.%d.%d", 1+os.Getpid()>>8&0x7f, os.Getpid()&0xff)

const password = "s3cret+/"

// mailServer is one that runs, and keeps all emails in one Maildir.
type mailServer struct {
	port    string
	login   bool
	maildir string
}

// startMailServer runs a mail server with the files of testdata in a root of its own, which another program cannot see, as root or as
// several users of a namespace.
func startMailServer(t *testing.T, name string) *mailServer {
	t.Helper()
	folder, err := exec.CommandContext(t.Context(), "../../../../.ci/mail").Output()
	if err != nil {
		t.Fatalf(".ci/mail: %v", err)
	}
	root := filepath.Join(strings.TrimSpace(string(folder)), name)
	s := &mailServer{login: name != "opensmtpd"}
	folders := t.TempDir()
	t.Cleanup(func() { // before those of other users keep it from being removed
		_ = asRoot(context.Background(), "rm", "-rf", s.maildir).Run()
	})
	command := asRoot(t.Context(), "bwrap")
	process.Start(t, func(port string) process.Config {
		temporary := filepath.Join(folders, port)
		etc := filepath.Join(temporary, "etc")
		s.port, s.maildir = port, filepath.Join(temporary, "mail")
		fill := strings.NewReplacer("NETWORK", network, "PORT", port, "PASSWORD", password)
		if err := os.Mkdir(temporary, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(etc, os.DirFS(filepath.Join(root, "etc"))); err != nil {
			t.Fatal(err)
		}
		for _, folder := range []string{"etc", "mail"} {
			if err := os.MkdirAll(filepath.Join(temporary, folder), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		files := map[string][]byte{"certificate.pem": certificatePEM, "key.pem": keyPEM}
		for _, from := range []string{".", name} {
			paths, err := filepath.Glob(filepath.Join("testdata", from, "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range paths {
				if content, err := os.ReadFile(path); err == nil { // no folder
					files[filepath.Base(path)] = []byte(fill.Replace(string(content)))
				}
			}
		}
		for file, content := range files {
			if name == "postfix" && slices.Contains([]string{"main.cf", "master.cf", "first.sh"}, file) {
				file = "postfix/" + file
			}
			mode := os.FileMode(0o644)
			if file == "key.pem" {
				mode = 0o600
			}
			if err := os.WriteFile(filepath.Join(etc, file), content, mode); err != nil {
				t.Fatal(err)
			}
		}
		return process.Config{
			Args: append(slices.Clone(command.Args[1:]), "--ro-bind", root, "/", "--bind", etc, "/etc", "--bind", s.maildir, "/mail",
				"--tmpfs", "/var", "--tmpfs", "/run", "--perms", "1777", "--tmpfs", "/tmp", "--proc", "/proc", "--dev", "/dev",
				"--unshare-pid", "--unshare-ipc", "--die-with-parent", "--cap-add", "ALL", "--clearenv",
				"--setenv", "PATH", "/usr/sbin:/usr/bin", "--", "/bin/dash", "/etc/start.sh"),
			Ready: func(ctx context.Context) error {
				conn, err := new(net.Dialer).DialContext(ctx, "tcp", s.address(1))
				if err == nil {
					_ = conn.Close()
				}
				return err
			},
		}
	}, command.Args[0])
	return s
}

// asRoot is a command for root, or, for others, for the root of a namespace in which there are other users, too.
func asRoot(ctx context.Context, program string, args ...string) *exec.Cmd {
	command := append([]string{program}, args...)
	if os.Getuid() != 0 {
		command = append([]string{"unshare", "--user", "--map-auto", "--map-root-user", "--"}, command...)
	}
	return exec.CommandContext(ctx, command[0], command[1:]...)
}

func (s *mailServer) address(service int) string {
	return net.JoinHostPort(network+"."+fmt.Sprint(service), s.port)
}

// url is the setting for one of its services.
func (s *mailServer) url(service int) string {
	server := url.URL{Scheme: "smtp", Host: s.address(service)}
	if s.login {
		server.User = url.UserPassword("connect", password)
	}
	return server.String()
}

// delivered is an email as Python's parser reads it.
type delivered struct {
	Headers map[string]string
	Parts   []part
	Wrong   []string
}

type part struct{ Type, Encoding, ID, Charset, Content string }

// content is what the parts of a type hold. That of pictures is a hash.
func (d delivered) content(mediaType string) (all []string) {
	for _, part := range d.Parts {
		if part.Type == mediaType {
			all = append(all, part.Content)
		}
	}
	return all
}

// read waits for a number of emails in the Maildir, in the order of their recipients and subjects.
func (s *mailServer) read(t *testing.T, number int) (emails []delivered) {
	t.Helper()
	files := func() int {
		list, _ := filepath.Glob(filepath.Join(s.maildir, "new", "*"))
		if os.Getuid() != 0 {
			found, _ := asRoot(t.Context(), "find", s.maildir, "-path", "*/new/*").Output() // fails until there is a Maildir
			list = strings.Fields(string(found))
		}
		return len(list)
	}
	wait.Until(t, fmt.Sprintf("%d emails are delivered", number), func() bool { return files() >= number })
	read := asRoot(t.Context(), "/usr/bin/python3", "testdata/read.py", s.maildir)
	var failure bytes.Buffer
	read.Stderr = &failure
	list, err := read.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, failure.String())
	}
	if err := json.Unmarshal(list, &emails); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(emails, func(a, b delivered) int {
		return cmp.Or(strings.Compare(a.Headers["To"], b.Headers["To"]), strings.Compare(a.Headers["Subject"], b.Headers["Subject"]))
	})
	if len(emails) != number {
		t.Errorf("%d emails are delivered, want %d", len(emails), number)
	}
	return emails
}
