package developers

import (
	"bytes"
	"encoding/pem"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/mod/module"
	modzip "golang.org/x/mod/zip"
	"golang.org/x/tools/txtar"

	"connect-svc/gen/sdk"
)

// serveSite serves the site with TLS, at the address that the site names, and returns that address and the file of its authority.
func serveSite(t *testing.T, sdkModule string) (baseURL, authority string) {
	t.Helper()
	server := httptest.NewUnstartedServer(nil)
	baseURL = "https://" + server.Listener.Addr().String()
	site, err := New(Config{BaseURL: baseURL, SDKModule: sdkModule})
	if err != nil {
		t.Fatal(err)
	}
	server.Config.Handler = site
	server.StartTLS()
	t.Cleanup(server.Close)
	return baseURL, write(t, t.TempDir(), "authority.pem", string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
}

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

// newcomer is the environment of somebody who has neither SDK. What the SDKs depend on comes from this machine where it has that.
func newcomer(t *testing.T, authority string) []string {
	t.Helper()
	settings, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE", "GOPROXY").Output()
	if err != nil {
		t.Fatal(err)
	}
	cache, proxies, _ := strings.Cut(strings.TrimSpace(string(settings)), "\n")
	// Beside it whom this machine trusts on the way to others: a setting of its own for npm would hide ours.
	trusted := run(t, t.TempDir(), os.Environ(), `cat '`+authority+`' && if [ -n "${SSL_CERT_FILE:-}" ]; then cat "$SSL_CERT_FILE"; else node -p 'tls.rootCertificates.join("\n")'; fi`)
	authorities := write(t, t.TempDir(), "authorities.pem", trusted)
	// With -trimpath what was compiled for one folder is good for every other.
	return append(os.Environ(), "NODE_EXTRA_CA_CERTS="+authorities, "SSL_CERT_FILE="+authorities, "npm_config_cafile="+authorities,
		"npm_config_prefer_offline=true", "npm_config_fetch_retries=0", "npm_config_audit=false", "npm_config_update_notifier=false",
		"GOMODCACHE="+t.TempDir(), "GOFLAGS=-modcacherw -trimpath", "GOWORK=off", "GOSUMDB=off",
		"GOPROXY=file://"+filepath.ToSlash(cache)+"/cache/download,"+proxies)
}

// run runs a script of the shell, which must succeed, and returns what it prints.
func run(t *testing.T, dir string, environment []string, script string) string {
	t.Helper()
	shell := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", script)
	shell.Dir, shell.Env = dir, environment
	output, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	return string(output)
}

// In an empty folder npm installs the package from the service, for import, for require and for TypeScript.
func TestNPMInstall(t *testing.T) {
	t.Parallel()
	baseURL, authority := serveSite(t, "")
	dir := t.TempDir()
	tools, err := exec.CommandContext(t.Context(), "../../../.ci/typescript").Output()
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, "esm.mjs", `import { ConnectClient, StateError } from "connect-svc-sdk";
console.log("import", ConnectClient.name, StateError.name);
`)
	write(t, dir, "commonjs.cjs", `const sdk = require("connect-svc-sdk");
console.log("require", sdk.ConnectClient.name, sdk.StateError.name);
import("connect-svc-sdk").then((esm) => console.log("one class:", esm.StateError === sdk.StateError));
`)
	const typed = `import { MemoryStore, type Store } from "connect-svc-sdk";
export const store: Store = new MemoryStore();
// @ts-expect-error: there are types
export const number: number = new MemoryStore();
`
	write(t, dir, "typed.mts", typed)
	write(t, dir, "typed.cts", typed)
	output := run(t, dir, newcomer(t, authority), "npm install "+baseURL+`/developers/sdk/connect-1.0.0.tgz
node esm.mjs
node commonjs.cjs
`+filepath.Join(strings.TrimSpace(string(tools)), "node_modules", ".bin", "tsc")+` --noEmit --strict --target es2023 --module nodenext typed.mts typed.cts
`)
	for _, want := range []string{"import ConnectClient StateError\n", "require ConnectClient StateError\n", "one class: true\n"} {
		if !strings.Contains(output, want) {
			t.Errorf("no %q\n%s", want, output)
		}
	}
}

// In an empty folder the go command takes the module from the service, under each path that it may have there.
func TestGoGet(t *testing.T) {
	t.Parallel()
	for _, path := range []string{nobodysModule, "go.example.com/Acme/connect"} {
		t.Run(path, func(t *testing.T) {
			t.Parallel()
			baseURL, authority := serveSite(t, path)
			dir := t.TempDir()
			write(t, dir, "main.go", `package main

import (
	"fmt"

	connectsdk "`+path+`"
	"`+path+`/connect"
	"`+path+`/webhook"
)

func main() {
	_, err := webhook.Verify("", nil, nil)
	fmt.Println(connectsdk.ScopeDailyStepsRead, connect.StateActive, err != nil)
}
`)
			output := run(t, dir, newcomer(t, authority), `go mod init example.com/hello
export GOPROXY=`+baseURL+`/developers/go,$(go env GOPROXY) GONOSUMDB=`+path+`
go get `+path+`/...
go list -m -versions `+path+`
go run .
`)
			for _, want := range []string{path + " v1.0.0\n", "daily_steps:read active true\n"} {
				if !strings.Contains(output, want) {
					t.Errorf("no %q\n%s", want, output)
				}
			}
		})
	}
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
		"@v/list": "v1.0.0\n", "@latest": `{"Version":"v1.0.0"}`, "@v/v1.0.0.info": `{"Version":"v1.0.0"}`, "@v/v1.0.0.mod": "module go.example.com/Acme\n",
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

// go get without a proxy asks the module's host.
func TestGoImport(t *testing.T) {
	t.Parallel()
	tests := []struct {
		baseURL, module, asked string
		answered               bool
	}{
		{"https://connect.example.com", "", "/connect-go?go-get=1", true},
		{"https://connect.example.com", "", "/connect-go/webhook?go-get=1", true},
		{"https://connect.example.com", "", "/connect-go", false},
		{"https://connect.example.com", "", "/connect-go?go-get=1&x=1", false},
		{"https://connect.example.com", "", "/connect-gone?go-get=1", false},
		{"https://connect.example.com", "", "/?go-get=1", false},
		{"https://connect.example.com:8443", "", "/connect-go?go-get=1", false},
		{"https://connect.example.com", "go.example.com/connect-go", "/connect-go?go-get=1", false},
		{"https://localhost", "", "/connect-go?go-get=1", false},
	}
	for _, test := range tests {
		site, err := New(Config{BaseURL: test.baseURL, SDKModule: test.module})
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, test.asked, nil)
		if got := site.AsksForModule(r); got != test.answered {
			t.Errorf("%+v: %t", test, got)
			continue
		}
		if !test.answered {
			continue
		}
		answer := httptest.NewRecorder()
		site.ServeHTTP(answer, r)
		const want = `<meta name="go-import" content="connect.example.com/connect-go mod https://connect.example.com/developers/go">`
		if answer.Code != http.StatusOK || !strings.Contains(answer.Body.String(), want) || answer.Header().Get("Content-Security-Policy") == "" {
			t.Errorf("%s: %d %s", test.asked, answer.Code, answer.Body)
		}
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
		if got := DefaultModule(baseURL); got != want {
			t.Errorf("%s: %s, want %s", baseURL, got, want)
		}
	}
}

// What is handed out is what lies in sdk/, in the version of the contract. `make verify` holds what is compiled to its sources.
func TestSDKsAreThose(t *testing.T) {
	t.Parallel()
	handedOut := map[string][]byte{}
	for _, f := range txtar.Parse(sdk.Go).Files {
		handedOut["go/"+f.Name] = f.Data
	}
	for _, f := range txtar.Parse(sdk.TypeScript).Files {
		handedOut["typescript/"+strings.TrimPrefix(f.Name, "package/")] = f.Data
	}
	root := os.DirFS(filepath.Join("..", "..", "..", "sdk"))
	names := []string{"typescript/README.md", "typescript/package.json"}
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
	document, err := contract()
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Contains(handedOut["typescript/package.json"], []byte(`"version": "`+document.Version+`",`)) {
		t.Errorf("the npm package is not version %s, which is the contract's", document.Version)
	}
}

// The tarball is the same bytes whatever compressor Go has, and is sent as it is.
func TestTarball(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/developers/sdk/connect-1.0.0.tgz", nil)
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
