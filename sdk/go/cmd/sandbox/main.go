// Sandbox fetches the program connect-svc for this machine from the service, compares its checksum, keeps it for the next time, and starts a
// sandbox.
//
//	go run connect.invalid/connect-go/cmd/sandbox@latest [-from URL] [-platform OS_ARCH] [-path] [flags of connect-svc sandbox]
//
// The service's address is that of -from or CONNECT_SANDBOX_FROM, otherwise that of the module proxy in GOPROXY which ends in
// /developers/go, otherwise the host in the module's path. -path prints where the program is, and starts nothing.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"os/signal"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// most bounds the bytes of a program.
const most = 512 << 20

func main() {
	status, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "sandbox:", err)
		status = 1
	}
	os.Exit(status)
}

func run(args []string) (status int, err error) {
	from, platform, start := os.Getenv("CONNECT_SANDBOX_FROM"), runtime.GOOS+"_"+runtime.GOARCH, true
own:
	for ; len(args) > 0; args = args[1:] {
		name := "-" + strings.TrimLeft(args[0], "-")
		switch {
		case name == "-path":
			start = false
		case name != "-from" && name != "-platform":
			break own
		case len(args) == 1:
			return 0, errors.New(name + " needs a value")
		case name == "-from":
			from, args = args[1], args[1:]
		default:
			platform, args = args[1], args[1:]
		}
	}
	if from == "" {
		from = origin()
	}
	service, err := url.Parse(from)
	if err != nil || service.Scheme != "https" || service.Host == "" {
		return 0, errors.New("the service's address must begin with https://: set CONNECT_SANDBOX_FROM")
	}
	program, err := fetched("https://"+service.Host+"/developers/sandbox/", platform)
	if err != nil || !start {
		if err == nil {
			fmt.Println(program)
		}
		return 0, err
	}
	command := exec.Command(program, append([]string{"sandbox"}, args...)...) //nolint:gosec // the arguments are of who runs this
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, os.Stdout, os.Stderr
	// The terminal sends an interrupt to the sandbox, too, and a second one would end that at once.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	stopped := make(chan os.Signal, 1)
	signal.Notify(stopped, syscall.SIGTERM)
	if err := command.Start(); err != nil {
		return 0, err
	}
	go stop(command.Process, stopped)
	var exited *exec.ExitError
	if err = command.Wait(); errors.As(err, &exited) {
		return exited.ExitCode(), nil
	}
	return 0, err
}

// stop ends the sandbox when this process is told to, or when the go command has ended, which passes no signal on.
func stop(sandbox *os.Process, told <-chan os.Signal) {
	parent, watch := os.Getppid(), time.NewTicker(500*time.Millisecond)
	for os.Getppid() == parent {
		select {
		case <-watch.C:
		case <-told:
			parent = -1
		}
	}
	_ = sandbox.Signal(syscall.SIGTERM) // on Windows the console ends it
}

// origin returns the service that hands out this module, or "".
func origin() string {
	if setting, err := exec.Command("go", "env", "GOPROXY").Output(); err == nil {
		for _, proxy := range strings.FieldsFunc(strings.TrimSpace(string(setting)), func(r rune) bool { return r == ',' || r == '|' }) {
			if service, is := strings.CutSuffix(strings.TrimSuffix(proxy, "/"), "/developers/go"); is {
				return service
			}
		}
	}
	info, known := debug.ReadBuildInfo()
	if !known {
		return ""
	}
	host, _, _ := strings.Cut(info.Main.Path, "/")
	if !strings.Contains(host, ".") || strings.HasSuffix(host, ".invalid") {
		return ""
	}
	return "https://" + host
}

var line = regexp.MustCompile(`^([0-9a-f]{64})  (connect-svc(?:_[\w.+~-]+)?_([a-z]+_[a-z0-9]+)(\.tar\.gz|\.zip|\.exe)?)$`)

// fetched returns the path of the program for a platform.
func fetched(site, platform string) (string, error) {
	listed, err := get(site + "SHA256SUMS")
	if err != nil {
		return "", err
	}
	var found, others []string
	for text := range strings.Lines(string(listed)) {
		if parts := line.FindStringSubmatch(strings.TrimSpace(text)); parts != nil {
			others = append(others, parts[3])
			if parts[3] == platform && found == nil {
				found = parts
			}
		}
	}
	if found == nil {
		return "", fmt.Errorf("the service has no program for %s, only for %s", platform, strings.Join(others, ", "))
	}
	caches, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum, name, file := found[1], found[2], "connect-svc"
	if strings.HasPrefix(platform, "windows") {
		file += ".exe"
	}
	caches = filepath.Join(caches, "connect-svc")
	kept := filepath.Join(caches, sum, file)
	if _, err := os.Stat(kept); err == nil {
		return kept, nil
	}
	fmt.Fprintln(os.Stderr, "fetching", name, "from", site)
	content, err := get(site + name)
	if err != nil {
		return "", err
	}
	if hash := sha256.Sum256(content); hex.EncodeToString(hash[:]) != sum {
		return "", errors.New(name + " has another checksum than SHA256SUMS says")
	}
	if content, err = unpacked(content, found[4], file); err != nil {
		return "", err
	}
	if err := os.MkdirAll(caches, 0o700); err != nil {
		return "", err
	}
	fresh, err := os.MkdirTemp(caches, "new-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(fresh)
	if err := os.WriteFile(filepath.Join(fresh, file), content, 0o755); err != nil {
		return "", err
	}
	if err := os.Rename(fresh, filepath.Dir(kept)); err != nil {
		if _, faster := os.Stat(kept); faster != nil { // no other process was faster
			return "", err
		}
	}
	return kept, nil
}

// get returns what is at an address. It asks again if there is no place for it, and for the rest if an answer breaks off.
func get(address string) ([]byte, error) {
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return errors.New("redirects are not followed") }}
	var content []byte
	tag, reached, busy, broken := "", 0, 30, 3 // how often there may still be no place, and a break without more than before
	for {
		request, err := http.NewRequest(http.MethodGet, address, nil) //nolint:gosec // the same
		if err != nil {
			return nil, err
		}
		request.Header.Set("Accept-Encoding", "identity") // so that parts fit together
		if tag != "" && len(content) > 0 {
			request.Header.Set("Range", fmt.Sprintf("bytes=%d-", len(content)))
			request.Header.Set("If-Range", tag)
		}
		seconds := 1
		answer, err := client.Do(request) //nolint:gosec // the same
		if err == nil {
			if content, tag, err = read(answer, content, tag); err == nil {
				return content, nil
			}
		}
		switch {
		case answer != nil && answer.StatusCode == http.StatusServiceUnavailable && busy > 0:
			busy--
			seconds, _ = strconv.Atoi(answer.Header.Get("Retry-After"))
		case answer != nil && answer.StatusCode >= http.StatusMultipleChoices || len(content) == 0:
			return nil, err
		case len(content) > reached:
			reached, broken = len(content), 3
		case broken == 0:
			return nil, err
		default:
			broken--
		}
		<-time.After(time.Duration(min(max(seconds, 1), 10)) * time.Second)
	}
}

// read returns what has come with an answer: the whole, or the rest of what came before. The tag is for the next range; empty: none.
func read(answer *http.Response, content []byte, tag string) ([]byte, string, error) {
	defer answer.Body.Close()
	switch {
	case answer.StatusCode == http.StatusOK:
		if content, tag = nil, answer.Header.Get("ETag"); !strings.HasPrefix(tag, `"`) {
			tag = "" // a weak one
		}
	case answer.StatusCode != http.StatusPartialContent || !strings.HasPrefix(answer.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", len(content))):
		return content, tag, fmt.Errorf("%s answers %s", answer.Request.URL, answer.Status)
	}
	more, err := io.ReadAll(io.LimitReader(answer.Body, most-int64(len(content))))
	return append(content, more...), tag, err
}

// unpacked returns a file of an archive, in which it is in one folder.
func unpacked(content []byte, kind, file string) ([]byte, error) {
	switch kind {
	case ".tar.gz":
		uncompressed, err := gzip.NewReader(bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		for archive := tar.NewReader(uncompressed); ; {
			header, err := archive.Next()
			if err != nil {
				return nil, fmt.Errorf("%s in the archive: %w", file, err)
			}
			if path.Base(header.Name) == file {
				return io.ReadAll(io.LimitReader(archive, most))
			}
		}
	case ".zip":
		archive, err := zip.NewReader(bytes.NewReader(content), int64(len(content)))
		if err != nil {
			return nil, err
		}
		for _, packed := range archive.File {
			if path.Base(packed.Name) == file {
				reader, err := packed.Open()
				if err != nil {
					return nil, err
				}
				defer reader.Close()
				return io.ReadAll(io.LimitReader(reader, most))
			}
		}
		return nil, errors.New("the archive has no " + file)
	}
	return content, nil
}
