//go:build check

package developers

import (
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

// newcomer is the environment of somebody who has neither SDK. Dependencies of the SDKs come from this machine if it has them.
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
	return append(os.Environ(), "NODE_EXTRA_CA_CERTS="+authorities, "SSL_CERT_FILE="+authorities, "npm_config_cafile="+authorities, "REQUESTS_CA_BUNDLE="+authorities,
		"PIP_CONFIG_FILE=/dev/null", "PIP_FIND_LINKS=", "PIP_NO_CACHE_DIR=1", "PIP_DISABLE_PIP_VERSION_CHECK=1",
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
	write(t, dir, "web.mts", `import { PgStore } from "connect-svc-sdk/pgstore";
import { ConnectClient, verifyWebhook, type Authorization, type WebhookCall } from "connect-svc-sdk/web";
export const promises: [Promise<Authorization>, Promise<WebhookCall>] = [new ConnectClient({} as never).begin(), verifyWebhook("", {}, "")];
export const name: string = PgStore.name;
`)
	output := run(t, dir, newcomer(t, authority), "npm install "+baseURL+`/developers/sdk/connect-1.2.0.tgz
node esm.mjs
node commonjs.cjs
`+filepath.Join(strings.TrimSpace(string(tools)), "node_modules", ".bin", "tsc")+` --noEmit --strict --target es2023 --module nodenext typed.mts typed.cts web.mts
cp web.mts node10.ts # of a project with older settings
`+filepath.Join(strings.TrimSpace(string(tools)), "node_modules", ".bin", "tsc")+` --noEmit --strict --target es2023 --module commonjs --moduleResolution node10 node10.ts
`)
	for _, want := range []string{"import ConnectClient StateError\n", "require ConnectClient StateError\n", "one class: true\n"} {
		if !strings.Contains(output, want) {
			t.Errorf("no %q\n%s", want, output)
		}
	}
}

// The lines of the quick start before its first command let npm trust the service's authority, also if npm has a file of authorities already:
// then it looks at no other.
func TestTrustWithACafile(t *testing.T) {
	t.Parallel()
	baseURL, authority := serveSite(t, "")
	others := write(t, t.TempDir(), "others.pem", run(t, t.TempDir(), os.Environ(), `node -p 'tls.rootCertificates.join("\n")'`))
	for name, cafile := range map[string]string{"with a cafile": others, "without": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lines, _, _ := strings.Cut(strings.TrimPrefix(fmt.Sprintf(trust, authority), "```bash\n"), "export SSL_CERT_FILE")
			environment := append(newcomer(t, authority), "NODE_EXTRA_CA_CERTS=", "npm_config_cafile="+cafile,
				"npm_config_globalconfig=/nowhere/global", "npm_config_userconfig=/nowhere/user") // which may name a file, too
			// Pasted twice, as one does.
			output := run(t, t.TempDir(), environment, lines+lines+"npm pack --silent "+baseURL+"/developers/sdk/connect-1.1.0.tgz")
			if !strings.Contains(output, "connect-svc-sdk-1.1.0.tgz") {
				t.Errorf("npm says %s", output)
			}
		})
	}
}

// pip reads no file of npm's or Go's, and loads other packages from its usual index beside.
func TestTrustOfPip(t *testing.T) {
	t.Parallel()
	baseURL, authority := serveSite(t, "")
	lines := strings.TrimPrefix(fmt.Sprintf(trust, authority), "```bash\n")
	environment := append(newcomer(t, authority), "REQUESTS_CA_BUNDLE=", "SSL_CERT_FILE=")
	output := run(t, t.TempDir(), environment, lines+"/usr/bin/python3 -m venv venv\nvenv/bin/pip download --no-deps "+baseURL+
		"/developers/python/connect_svc_sdk-1.2.0-py3-none-any.whl\ngrep --count BEGIN $REQUESTS_CA_BUNDLE")
	trusted, err := strconv.Atoi(output[strings.LastIndex(strings.TrimSpace(output), "\n")+1 : len(output)-1])
	if err != nil || trusted < 50 || !strings.Contains(output, "Saved ./connect_svc_sdk-1.2.0-py3-none-any.whl") {
		t.Errorf("%d authorities are trusted, %v, and pip says %s", trusted, err, output)
	}
}

// A project that was locked against a version at one service is installed from another one, at another port.
func TestLockFiles(t *testing.T) {
	t.Parallel()
	const path = "connect.example.com/connect-go"
	at, authority := serveSite(t, path)
	elsewhere, itsAuthority := serveSite(t, path)
	for version, want := range locks {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			locked := run(t, dir, newcomer(t, authority), "npm install "+at+"/developers/sdk/connect-"+version+".tgz && cat package-lock.json")
			if !strings.Contains(locked, want.npm) {
				t.Errorf("the lock file is not that of the release\n%s", locked)
			}
			run(t, dir, newcomer(t, itsAuthority), "rm -r node_modules && sed -i 's#"+at+"#"+elsewhere+"#' package.json package-lock.json && npm ci && ls node_modules/connect-svc-sdk/dist")
			if version == "1.0.0" {
				return // its module has the service's address
			}
			dir = t.TempDir()
			download := "\ngo mod download " + path + "\ncat go.sum"
			module := "go mod init example.com/hello && go mod edit -require=" + path + "@v" + version + "\nexport GONOSUMDB=" + path + " GOPROXY="
			sums := run(t, dir, newcomer(t, authority), module+at+"/developers/go,$(go env GOPROXY)"+download)
			if !strings.Contains(sums, path+" v"+version+" "+want.module+"\n") {
				t.Errorf("go.sum is not that of the release\n%s", sums)
			}
			run(t, dir, newcomer(t, itsAuthority), "export GONOSUMDB="+path+" GOPROXY="+elsewhere+"/developers/go,$(go env GOPROXY)"+download)
		})
	}
}

// The examples in the npm package, and those of its README, compile against the package as a partner installs it.
func TestNPMExamples(t *testing.T) {
	t.Parallel()
	baseURL, authority := serveSite(t, "")
	dir := t.TempDir()
	readme, err := os.ReadFile("../../../sdk/typescript/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(readme), "```ts\n")[1:] {
		code, _, _ := strings.Cut(block, "```")
		write(t, dir, fmt.Sprintf("readme%d.ts", i), code)
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	output := run(t, dir, newcomer(t, authority), `echo '{"type":"module"}' >package.json
npm install `+baseURL+`/developers/sdk/connect-1.2.0.tgz
cp node_modules/connect-svc-sdk/examples/*.ts .
ls *.ts
others=$(`+root+`/.ci/npm `+root+`/internal/local/sandbox/testdata/receivers)/node_modules
for package in "$others"/*; do
  [ -e "node_modules/${package##*/}" ] || ln -s "$package" node_modules/
done
"$others/.bin/tsc" --noEmit --strict --noUncheckedIndexedAccess --exactOptionalPropertyTypes --target es2023 --module nodenext --types node --skipLibCheck *.ts
`)
	for _, want := range []string{"express.ts\n", "hono.ts\n", "inbox.ts\n", "readme3.ts\n"} {
		if !strings.Contains(output, want) {
			t.Errorf("no %q\n%s", want, output)
		}
	}
}

// In an empty virtual environment pip installs the wheel from the service's index, by its hash, and from its own address. Its types are seen by
// mypy, as are those of the README.
func TestPipInstall(t *testing.T) {
	t.Parallel()
	baseURL, authority := serveSite(t, "")
	dir := t.TempDir()
	readme, err := os.ReadFile("../../../sdk/python/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for i, block := range strings.Split(string(readme), "```python\n")[1:] {
		code, _, _ := strings.Cut(block, "```")
		write(t, dir, fmt.Sprintf("readme%d.py", i), code)
	}
	write(t, dir, "typed.py", `from connect_svc_sdk import AsyncClient, AsyncMemoryStore, AsyncStore, Client, MemoryStore, Store
from connect_svc_sdk.pgstore import AsyncPgStore, PgStore

stores: list[Store] = [MemoryStore(), PgStore(None, b"k" * 32)]  # type: ignore[arg-type]
others: list[AsyncStore] = [AsyncMemoryStore(), AsyncPgStore(None, b"k" * 32)]  # type: ignore[arg-type]


def steps(client: Client) -> int:
    return client.daily_steps("ada", "2026-11-20", "2026-11-21")["data"][0]["steps"]


async def meters(client: AsyncClient) -> list[int]:
    return [ride["distance_meters"] async for ride in client.cycling_activities("ada", "2026-11-20", "2026-11-21")]


number: int = MemoryStore()  # type: ignore[assignment]
no_number: str = steps(Client(base_url="", client_id="", client_secret="", callback_url="", scopes=["steps"]))  # type: ignore[assignment, list-item]
`)
	wheel := locks["1.2.0"].wheel
	output := run(t, dir, newcomer(t, authority), `/usr/bin/python3 -m venv --system-site-packages venv
venv/bin/pip install --index-url `+baseURL+`/developers/python/simple connect-svc-sdk
venv/bin/pip install --force-reinstall --no-deps `+baseURL+`/developers/python/connect_svc_sdk-1.2.0-py3-none-any.whl
echo 'connect-svc-sdk==1.2.0 --hash=sha256:`+wheel+`' >requirements.txt
venv/bin/pip install --force-reinstall --no-deps --require-hashes --index-url `+baseURL+`/developers/python/simple --requirement requirements.txt
echo "connect-svc-sdk==1.2.0 --hash=sha256:$(printf %064d 0)" >requirements.txt
! venv/bin/pip install --force-reinstall --no-deps --require-hashes --index-url `+baseURL+`/developers/python/simple --requirement requirements.txt
venv/bin/pip show --files connect-svc-sdk
venv/bin/python -I -c 'import connect_svc_sdk; print(connect_svc_sdk.__version__, connect_svc_sdk.__file__)'
mypy --strict --python-executable venv/bin/python typed.py readme*.py
`)
	for _, want := range []string{"Version: 1.2.0\n", "connect_svc_sdk/py.typed\n", "licenses/LICENSE\n", "1.2.0 " + dir, "THESE PACKAGES DO NOT MATCH THE HASHES", "Success: no issues found in 4 source files\n"} {
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
# The module by itself: its examples and its tests.
cp -R "$(go list -m -f '{{.Dir}}' `+path+`)" `+t.TempDir()+`/module
cd "$_" && chmod -R u+w .
go vet ./... && go test ./...
`)
			for _, want := range []string{path + " v1.2.0\n", "daily_steps:read active true\n", path + "/examples/webhooks", "ok  \t" + path + "/connect"} {
				if !strings.Contains(output, want) {
					t.Errorf("no %q\n%s", want, output)
				}
			}
		})
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
