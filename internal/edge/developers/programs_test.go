package developers

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// ask sends a request as it is, with a path that no client would have tidied.
func ask(t *testing.T, handler http.Handler, method, path string, header ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "/", nil)
	r.URL.Path = path
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	answer := httptest.NewRecorder()
	handler.ServeHTTP(answer, r)
	return answer
}

// The program that runs is handed out for its own platform, as it is.
func TestOwnPrograms(t *testing.T) {
	t.Parallel()
	programs := OwnPrograms()
	name := "connect-svc_" + runtime.GOOS + "_" + runtime.GOARCH
	sums := ask(t, programs, "GET", ProgramsPath+"SHA256SUMS")
	got := ask(t, programs, "GET", ProgramsPath+name)
	if want := fmt.Sprintf("%x  %s\n", sha256.Sum256(got.Body.Bytes()), name); got.Code != 200 || sums.Body.String() != want {
		t.Errorf("%d, with the sums %s, want %s", got.Code, sums.Body, want)
	}
	if got := ask(t, programs, "GET", ProgramsPath+"connect-svc_plan9_amd64"); got.Code != 404 {
		t.Errorf("another platform: %d", got.Code)
	}
}

// An archive beside the program is listed in its place, and both are handed out.
func TestOwnArchive(t *testing.T) {
	t.Parallel()
	const packed = "the program, packed"
	name := "connect-svc_" + runtime.GOOS + "_" + runtime.GOARCH
	folder, sums := t.TempDir(), fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256([]byte(packed)), name)
	write(t, folder, name+".tar.gz", packed)
	write(t, folder, sumsName, sums)
	programs := ownPrograms(folder)
	for file, want := range map[string]string{sumsName: sums, name + ".tar.gz": packed} {
		if got := ask(t, programs, "GET", ProgramsPath+file); got.Code != 200 || got.Body.String() != want {
			t.Errorf("%s: %d %s", file, got.Code, got.Body)
		}
	}
	alone := ask(t, OwnPrograms(), "GET", ProgramsPath+name)
	if got := ask(t, programs, "GET", ProgramsPath+name); got.Code != 200 || !bytes.Equal(got.Body.Bytes(), alone.Body.Bytes()) || got.Header().Get("ETag") != alone.Header().Get("ETag") {
		t.Errorf("the program itself: %d %v, want %v", got.Code, got.Header(), alone.Header())
	}
	if got := ask(t, programs, "GET", ProgramsPath+"connect-svc_plan9_amd64"); got.Code != 404 {
		t.Errorf("another platform: %d", got.Code)
	}
	if programs.downloads != programs.unpacked.downloads {
		t.Error("the program itself has places and a rate of its own")
	}
}

// A folder hands out the programs of its release, and nothing else, in whatever way it is asked.
func TestReleasedPrograms(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	folder := filepath.Join(dir, "release")
	const program, packed = "connect-svc_1.2.0+5.gabc_linux_amd64.tar.gz", "the program, packed"
	sum := fmt.Sprintf("%x", sha256.Sum256([]byte(packed)))
	const other = "connect-svc_1.2.0_windows_arm64.zip"
	for name, text := range map[string]string{
		"SHA256SUMS": sum + "  " + program + "\n" + sum + "  connect-svc_1.2.0_amd64.deb\n" + sum + "  " + other + "\nno sum  connect-svc_darwin_arm64\n",
		program:      packed, "connect-svc_1.2.0_amd64.deb": packed, "connect-svc_darwin_arm64": packed, "connect-svc_linux_arm64": packed,
	} {
		write(t, folder, name, text)
	}
	secret := write(t, dir, "secret", "keyset")
	if _, err := ReleasedPrograms(folder); err == nil || !strings.Contains(err.Error(), other) {
		t.Errorf("a program is missing: %v", err)
	}
	if err := os.Symlink(secret, filepath.Join(folder, other)); err != nil {
		t.Fatal(err)
	}
	if _, err := ReleasedPrograms(folder); err == nil {
		t.Error("a link leads out of the folder")
	}
	if err := os.Remove(filepath.Join(folder, other)); err != nil {
		t.Fatal(err)
	}
	write(t, folder, other, packed)
	programs, err := ReleasedPrograms(folder)
	if err != nil {
		t.Fatal(err)
	}
	got := ask(t, programs, "GET", ProgramsPath+program)
	if got.Code != 200 || got.Body.String() != packed || got.Header().Get("ETag") != `"`+sum+`"` || got.Header().Get("Content-Type") != "application/octet-stream" {
		t.Errorf("%d %v %s", got.Code, got.Header(), got.Body)
	}
	if got := ask(t, programs, "HEAD", ProgramsPath+program); got.Code != 200 || got.Body.Len() != 0 {
		t.Errorf("HEAD: %d %s", got.Code, got.Body)
	}
	if got := ask(t, programs, "GET", ProgramsPath+program, "Range", "bytes=4-10", "If-Range", `"`+sum+`"`); got.Code != 206 || got.Body.String() != "program" {
		t.Errorf("a range: %d %s", got.Code, got.Body)
	}
	if got := ask(t, programs, "GET", ProgramsPath+program, "If-None-Match", `"`+sum+`"`); got.Code != 304 {
		t.Errorf("known: %d", got.Code)
	}
	for _, path := range []string{
		"", "/", ".", "..", "../secret", "../release/" + program, "./" + program, "/" + program, program + "/", "%2e%2e/secret", "..\\secret", secret,
		"connect-svc_1.2.0_amd64.deb", "connect-svc_darwin_arm64", "connect-svc_linux_arm64", "connect-svc_1_linux_amd64/../../secret", program + "\x00",
	} {
		if got := ask(t, programs, "GET", ProgramsPath+path); got.Code != 404 {
			t.Errorf("%q: %d %s", path, got.Code, got.Body)
		}
	}
	if got := ask(t, programs, "POST", ProgramsPath+program); got.Code != 404 {
		t.Errorf("POST: %d", got.Code)
	}
	// A later release takes its place. A file that has become a link, or has gone, is not served.
	write(t, folder, "SHA256SUMS", sum+"  "+other+"\n")
	if got := ask(t, programs, "GET", ProgramsPath+program); got.Code != 404 {
		t.Errorf("of the release before: %d", got.Code)
	}
	if err := os.Remove(filepath.Join(folder, other)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, filepath.Join(folder, other)); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, programs, "GET", ProgramsPath+other); got.Code != 503 || strings.Contains(got.Body.String(), "keyset") {
		t.Errorf("a link: %d %s", got.Code, got.Body)
	}
}
