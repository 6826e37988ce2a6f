package developers

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	modzip "golang.org/x/mod/zip"
	"golang.org/x/tools/txtar"

	"connect-svc/gen/sdk"
	"connect-svc/sdk/released"
)

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	target := filepath.Join(dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(target), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(target, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return target
}

// The answers of the module proxy protocol, and nothing beside them.
func TestModuleProxy(t *testing.T) {
	t.Parallel()
	site, err := New(Config{BaseURL: "https://connect.example.com", SDKModule: "go.example.com/Acme"})
	if err != nil {
		t.Fatal(err)
	}
	get := func(path string) *httptest.ResponseRecorder {
		answer := httptest.NewRecorder()
		site.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		return answer
	}
	const dir = "/developers/go/go.example.com/!acme/"
	for path, want := range map[string]string{
		"@v/list": "v1.0.0\nv1.1.0\nv1.2.0\n", "@latest": `{"Version":"v1.2.0"}`, "@v/v1.0.0.info": `{"Version":"v1.0.0"}`, "@v/v1.0.0.mod": "module go.example.com/Acme\n",
	} {
		if answer := get(dir + path); answer.Code != http.StatusOK || !strings.HasPrefix(answer.Body.String(), want) {
			t.Errorf("%s: %d %s", path, answer.Code, answer.Body)
		}
	}
	for _, path := range []string{
		dir, dir + "@v/", dir + "@v/v1.0.1.info", dir + "connect/@v/list", "/developers/go/go.example.com/Acme/@v/list",
		"/developers/go/" + nobodysModule + "/@v/list", "/developers/go/sumdb/supported", "/developers/sdk/",
	} {
		if answer := get(path); answer.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, answer.Code)
		}
	}
	archive := get(dir + "@v/v1.0.0.zip")
	file := write(t, t.TempDir(), "module.zip", archive.Body.String())
	if _, err := modzip.CheckZip(module.Version{Path: "go.example.com/Acme", Version: "v1.0.0"}, file); err != nil {
		t.Error(err)
	}
	if strings.Contains(archive.Body.String(), nobodysModule) || archive.Header().Get("Content-Type") != "application/zip" {
		t.Errorf("the zip is %v", archive.Header())
	}
}

func TestDefaultModule(t *testing.T) {
	t.Parallel()
	for baseURL, want := range map[string]string{
		"https://connect.example.com":      "connect.example.com/connect-go",
		"https://connect.example.com:8443": "connect.example.com/connect-go",
		"https://localhost:8443":           nobodysModule,
		"https://connect":                  nobodysModule,
		"https://127.0.0.1:8443":           nobodysModule,
		"https://[::1]:8443":               nobodysModule,
		"https://my_host.example.com":      nobodysModule, // no module may have an underscore there
	} {
		if got := defaultModule(baseURL); got != want {
			t.Errorf("%s: %s, want %s", baseURL, got, want)
		}
	}
}

// The archives hold the files of sdk/. `make verify` holds compiled files to their sources.
func TestSDKsAreThose(t *testing.T) {
	t.Parallel()
	handedOut := map[string][]byte{}
	for _, f := range txtar.Parse(sdk.Go).Files {
		handedOut["go/"+f.Name] = f.Data
	}
	for _, f := range txtar.Parse(sdk.TypeScript).Files {
		handedOut["typescript/"+strings.TrimPrefix(f.Name, "package/")] = f.Data
	}
	for _, f := range txtar.Parse(sdk.Python).Files {
		handedOut["python/"+f.Name] = f.Data
	}
	root := os.DirFS(filepath.Join("..", "..", "..", "sdk"))
	names, err := fs.Glob(root, "python/connect_svc_sdk/*.py")
	if err != nil || len(names) == 0 {
		t.Fatalf("the modules of Python are %v, %v", names, err)
	}
	names = append(names, "python/connect_svc_sdk/py.typed", "typescript/README.md", "typescript/package.json")
	for _, folder := range []string{"go", "typescript/examples"} {
		err := fs.WalkDir(root, folder, func(name string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				names = append(names, name)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names {
		want, err := fs.ReadFile(root, name)
		if err != nil || !bytes.Equal(handedOut[name], want) {
			t.Errorf("gen/sdk has another %s: run make generate (%v)", name, err)
		}
	}
}

var release = flag.Bool("release", false, "keep what the SDKs are now as a released version")

// lock is what lock files of projects have of a version: npm's integrity of the tarball, the hash of the module in go.sum, at a service
// with the module path connect.example.com/connect-go and, for 1.0.0, which had the service's address, that base URL, and the hash of the wheel.
type lock struct{ npm, module, wheel string }

var locks = map[string]lock{
	"1.0.0": {"sha512-tj2buKng3Jb4imwWFjY+cUzJjLpgqfIz9HQUjenwqA5aszpyD8MowftbboIfs0hEKEx8xsP0maqi4SEHcz/JsQ==", "h1:aOWmfbBwcEI5kq0QWxkkpAkG1byfL3nPFfcYS7Duwc0=", ""},
	"1.1.0": {"sha512-auSRfwqH9y0LCP5AxZmcXXi+EcQOaI96iRYAkaRtVr/A1cdGJzmg+fRQhSXgt0R2Sk3Pl/F4eSzbm/D7kSkppQ==", "h1:Uebg2ah+u/UKbs1G2PnO8afUtQFcp37j2n+YwgmIn/0=", ""},
	"1.2.0": {"sha512-64tf/f64CG0QvqnhKqOqTA92xtROyiq71TzSfHfRgiAxKXZ95Ni1y4hQfAZRgQxFqzCkoG/qUQNAqx9SyzuCHQ==", "h1:kUhjCy2Fr9xY48Su2hhsdahEwuAuV6G83pVAENgT7yo=", "ce7221c9ae8622e5d1b457990c3d110acbf7b0c03ce193a73d39ae0df6d7e21c"},
}

func lockOf(t *testing.T, site *Site, version string) lock {
	t.Helper()
	get := func(path string) []byte {
		answer := httptest.NewRecorder()
		site.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/developers/"+path, nil))
		if answer.Code != http.StatusOK {
			t.Fatalf("%s: %d", path, answer.Code)
		}
		return answer.Body.Bytes()
	}
	sum := sha512.Sum512(get("sdk/connect-" + version + ".tgz"))
	file := write(t, t.TempDir(), "module.zip", string(get("go/"+site.config.SDKModule+"/@v/v"+version+".zip")))
	h1, err := dirhash.HashZip(file, dirhash.Hash1)
	if err != nil {
		t.Fatal(err)
	}
	wheel := ""
	if version != "1.0.0" && version != "1.1.0" {
		wheel = fmt.Sprintf("%x", sha256.Sum256(get("python/connect_svc_sdk-"+version+"-py3-none-any.whl")))
	}
	return lock{"sha512-" + base64.StdEncoding.EncodeToString(sum[:]), h1, wheel}
}

// The SDKs are the latest released version, so a change of them needs a new one. Each version is the same bytes as when it was released,
// at every service with one module path.
func TestReleased(t *testing.T) {
	t.Parallel()
	const folder, module = "../../../sdk/released", "connect.example.com/connect-go"
	text, err := os.ReadFile("../../../sdk/typescript/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var npm struct{ Version string }
	if err := json.Unmarshal(text, &npm); err != nil {
		t.Fatal(err)
	}
	for file, names := range map[string]string{
		"typescript/src/version.ts": `version = "` + npm.Version + `"`, "go/connect/client.go": `Version = "` + npm.Version + `"`,
		"python/METADATA": "\nVersion: " + npm.Version + "\n", "python/connect_svc_sdk/_version.py": `version__ = "` + npm.Version + `"`,
	} {
		if text, err := os.ReadFile("../../../sdk/" + file); err != nil || !strings.Contains(string(text), names) {
			t.Errorf("sdk/%s does not have %s (%v)", file, names, err)
		}
	}
	all, err := released.All()
	if err != nil {
		t.Fatal(err)
	}
	latest := all[len(all)-1]
	if *release && latest.Version != npm.Version {
		for name, now := range map[string][]byte{"go": sdk.Go, "typescript": sdk.TypeScript, "python": sdk.Python} {
			var packed bytes.Buffer
			text := gzip.NewWriter(&packed)
			if _, err := text.Write(now); err != nil || text.Close() != nil {
				t.Fatal(err)
			}
			write(t, folder, name+"-"+npm.Version+".txtar.gz", packed.String())
		}
		return // they are not built in yet
	}
	if latest.Version != npm.Version || !bytes.Equal(latest.Go, sdk.Go) || !bytes.Equal(latest.TypeScript, sdk.TypeScript) ||
		!bytes.Equal(latest.Python, sdk.Python) {
		t.Errorf("the SDKs are not those of version %s in sdk/released: raise the version in sdk/typescript/package.json, say what changed in "+
			"sdk/CHANGELOG.md, and run make generate sdk-release", latest.Version)
	}
	for _, baseURL := range []string{"https://connect.example.com", "https://other.example:8443"} {
		site, err := New(Config{BaseURL: baseURL, SDKModule: module})
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all {
			got, want := lockOf(t, site, one.Version), locks[one.Version]
			if one.Version == "1.0.0" && baseURL != "https://connect.example.com" {
				got.module = want.module
			}
			if got != want {
				t.Errorf("at %s, %s is %+v, want %+v", baseURL, one.Version, got, want)
			}
		}
	}
}

// Pages name the latest version.
func TestPagesNameTheLatestSDK(t *testing.T) {
	t.Parallel()
	all, err := released.All()
	if err != nil {
		t.Fatal(err)
	}
	latest := all[len(all)-1].Version
	for _, file := range []string{"pages/quick-start.md", "../../../sdk/typescript/README.md", "../../../sdk/python/README.md", "../../../docs/operations.md", "../../../README.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, named := range regexp.MustCompile(`/developers/(?:sdk/connect|python/connect_svc_sdk)-(\d+\.\d+\.\d+)[.-]`).FindAllStringSubmatch(string(text), -1) {
			if named[1] != latest {
				t.Errorf("%s names %s, want %s", file, named[0], latest)
			}
		}
	}
}

// The tarball is the same bytes whatever compressor Go has, and is sent as it is.
func TestTarball(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/developers/sdk/connect-1.2.0.tgz", nil)
	r.Header.Set("Accept-Encoding", "gzip")
	answer := httptest.NewRecorder()
	newSite(t).ServeHTTP(answer, r)
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.Header().Get("Content-Type") != "application/gzip" || answer.Header().Get("Content-Encoding") != "" || len(body) < len(sdk.TypeScript) {
		t.Errorf("%v, %d bytes", answer.Header(), len(body))
	}
}
