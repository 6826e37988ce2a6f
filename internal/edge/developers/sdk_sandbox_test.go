//go:build check

package developers

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// archives are a release whose program is a script that prints how it is called.
func archives(t *testing.T) map[string][]byte {
	t.Helper()
	const script = "#!/bin/sh\necho \"started with $*\"\nexit 3\n"
	var tarball, zipped bytes.Buffer
	compressed := gzip.NewWriter(&tarball)
	packed := tar.NewWriter(compressed)
	inZip := zip.NewWriter(&zipped)
	for _, f := range []struct{ name, text string }{
		{"connect-svc_9.9.9_x/README.md", strings.Repeat("read me\n", 99)}, {"connect-svc_9.9.9_x/connect-svc", script},
		{"connect-svc_9.9.9_x/connect-svc.exe", script},
	} {
		if err := packed.WriteHeader(&tar.Header{Name: f.name, Mode: 0o755, Size: int64(len(f.text)), Format: tar.FormatUSTAR}); err != nil {
			t.Fatal(err)
		}
		_, _ = packed.Write([]byte(f.text)) // to memory
		w, err := inZip.Create(f.name)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write([]byte(f.text))
	}
	for _, w := range []interface{ Close() error }{packed, compressed, inZip} {
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return map[string][]byte{
		"connect-svc_9.9.9_linux_amd64.tar.gz": tarball.Bytes(), "connect-svc_9.9.9_linux_arm64.tar.gz": tarball.Bytes(),
		"connect-svc_9.9.9_windows_amd64.zip": zipped.Bytes(), "connect-svc_darwin_arm64": []byte(script), "connect-svc_darwin_amd64": []byte(script),
	}
}

// npx and go run fetch the program from the service that hands out the SDKs, check it, and start it. If it breaks off, they fetch the rest. If something goes wrong, nothing is started,
// and nothing is kept.
func TestSandboxFromSDKs(t *testing.T) {
	t.Parallel()
	folder, sums, packed := t.TempDir(), "", archives(t)
	for name, content := range packed {
		write(t, folder, name, string(content))
		sums += fmt.Sprintf("%x  %s\n", sha256.Sum256(content), name)
	}
	const broken = "connect-svc_9.9.9_windows_amd64.zip"
	const spoiled, cut = "connect-svc_9.9.9_darwin_amd64.zip", "connect-svc_9.9.9_windows_arm64.zip"
	sums = strings.ReplaceAll(sums, "connect-svc_darwin_amd64", spoiled) + strings.Repeat("0", 64) + "  " + cut + "\n"
	write(t, folder, spoiled, "something else")
	write(t, folder, cut, strings.Repeat("cut off", 1<<10))
	write(t, folder, "SHA256SUMS", sums)
	programs, err := ReleasedPrograms(folder)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(nil)
	base := "https://" + server.Listener.Addr().String()
	site, err := New(Config{BaseURL: base})
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasSuffix(r.URL.Path, cut):
			w.Header().Set("Content-Length", "99999")
			_, _ = w.Write(make([]byte, 1<<10))
			panic(http.ErrAbortHandler)
		case strings.HasSuffix(r.URL.Path, broken) && r.Header.Get("Range") == "": // the rest is there
			w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256(packed[broken])))
			w.Header().Set("Content-Length", strconv.Itoa(len(packed[broken])))
			_, _ = w.Write(packed[broken][:len(packed[broken])/2])
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case strings.HasPrefix(r.URL.Path, ProgramsPath):
			programs.ServeHTTP(w, r)
		default:
			site.ServeHTTP(w, r)
		}
	})
	server.StartTLS()
	t.Cleanup(server.Close)
	authority := write(t, t.TempDir(), "authority.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))

	for name, of := range map[string]struct{ prepare, command string }{
		"npx":       {"", "npx --yes --package " + base + "/developers/sdk/connect-1.2.0.tgz -- connect-sandbox"},
		"installed": {"npm install " + base + "/developers/sdk/connect-1.2.0.tgz", "npx connect-sandbox"},
		"go run":    {"export GOPROXY=" + base + "/developers/go,$(go env GOPROXY) GONOSUMDB=" + nobodysModule, "go run " + nobodysModule + "/cmd/sandbox@latest"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cache := t.TempDir()
			environment := append(newcomer(t, authority), "XDG_CACHE_HOME="+cache, "npm_config_cache="+t.TempDir())
			dir := t.TempDir()
			call := func(arguments string, more ...string) (string, error) {
				shell := exec.CommandContext(t.Context(), "bash", "-c", of.prepare+"\n"+of.command+" "+arguments)
				shell.Dir, shell.Env = dir, append(environment, more...)
				output, err := shell.CombinedOutput()
				return string(output), err
			}
			first := name == "npx" // the same program as when it is installed: the rest is tried there
			for arguments, want := range map[string]string{
				"--platform darwin_amd64 --path": "another checksum", "--platform plan9_amd64 --path": "no program for plan9_amd64, only for",
				"--from http://127.0.0.1:9/ --path": "https://", "--platform windows_arm64": "",
			} {
				if first {
					break
				}
				if output, err := call(arguments); err == nil || !strings.Contains(output, want) || strings.Contains(output, "started") {
					t.Errorf("%s: %v, %s", arguments, err, output)
				}
			}
			if left, err := filepath.Glob(filepath.Join(cache, "connect-svc", "*")); err != nil || len(left) > 0 {
				t.Errorf("kept: %v, %v", left, err)
			}
			for platform, script := range map[string]string{"windows_amd64": "connect-svc.exe", "linux_arm64": "connect-svc", "darwin_arm64": "connect-svc"} {
				if first {
					break
				}
				output, err := call("--path --platform " + platform)
				lines := strings.Split(strings.TrimSpace(output), "\n")
				path := lines[len(lines)-1]
				if text, unread := os.ReadFile(path); err != nil || filepath.Base(path) != script || !strings.HasPrefix(string(text), "#!/bin/sh\n") || !strings.HasSuffix(string(text), "exit 3\n") {
					t.Errorf("%s: %v, %v, %s", platform, err, unread, output)
				}
			}
			for _, fetching := range []bool{first, false} { // linux_arm64 is the same archive, so the program is there
				output, err := call("--seed 7")
				if err == nil || !strings.Contains(output, "started with sandbox --seed 7\n") || strings.Contains(output, "fetching") != fetching {
					t.Errorf("%v: %s", err, output)
				}
			}
		})
	}
}
