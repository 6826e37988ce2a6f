//go:build check

package sandbox

import (
	"encoding/json"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"bytes"
	"connect-svc/gen/sandboxapi"
	"connect-svc/internal/testing/wait"
	"time"
)

// A generated client reads a day, and learns why days before the consent are refused.
type readByGenerated struct {
	Steps, Meters, Rides []int64
	Refused              string
}

// Clients that common generators make with their default options compile, and read real answers.
func TestGenerators(t *testing.T) {
	t.Parallel()
	r := start(t)
	sandboxDocument := absolute(t, "../../../api/sandbox.yaml")
	for edition, document := range map[string]string{
		"3.1": absolute(t, "../../../api/openapi.yaml"), "3.0": absolute(t, "../../../gen/openapi30/openapi-3.0.yaml"),
	} {
		t.Run(edition, func(t *testing.T) {
			t.Parallel()
			typescript, program := t.TempDir(), t.TempDir()
			succeed(t, exec.CommandContext(t.Context(), "testdata/generators/typescript.sh", document, typescript))
			succeed(t, exec.CommandContext(t.Context(), "testdata/generators/go.sh", t.TempDir(), document, sandboxDocument, program))
			for name, command := range map[string][]string{
				"openapi-typescript":     {"node", typescript + "/compiled/openapi-typescript.js"},
				"hey-api":                {"node", typescript + "/compiled/hey-api.js"},
				"orval":                  {"node", typescript + "/compiled/orval-client.js"},
				"swagger-typescript-api": {"node", typescript + "/compiled/swagger-typescript-api.js"},
				"oapi-codegen":           {program + "/partner"},
			} {
				t.Run(name, func(t *testing.T) { r.readsByGenerated(t, command) })
			}
		})
	}
}

// openapi-generator makes clients of the edition in OpenAPI 3.0 in the languages that partners ask for. The one in Python reads. This
// version is the last whose npm package has the whole program; later ones fetch it from elsewhere.
func TestOpenAPIGenerator(t *testing.T) {
	t.Parallel()
	r := start(t)
	installed := strings.TrimSpace(string(succeed(t, exec.CommandContext(t.Context(), "../../../.ci/npm", "testdata/generators"))))
	for _, language := range []string{"java", "kotlin", "csharp-netcore", "python", "ruby", "php", "swift5", "rust"} {
		t.Run(language, func(t *testing.T) { // one after the other: each takes all processors
			client := t.TempDir()
			succeed(t, exec.CommandContext(t.Context(), "java", "-jar",
				installed+"/node_modules/@openapitools/openapi-generator-cli/bin/openapi-generator.jar", "generate",
				"--generator-name", language, "--input-spec", "../../../gen/openapi30/openapi-3.0.yaml", "--output", client))
			if language == "python" { // Debian's own, for which the packages are installed
				r.readsByGenerated(t, []string{"/usr/bin/python3", "testdata/generators/programs/openapi-generator.py", client})
			}
		})
	}
}

// readsByGenerated has a user with one ride today consent, and runs a program that reads it.
func (r *running) readsByGenerated(t *testing.T, command []string) {
	t.Helper()
	p := r.newPartner(t, sandboxapi.KindNew)
	begun := p.client.Begin()
	code := p.callback(t, begun, sandboxapi.AuthorizationDecisionDecisionAllow).Get("code")
	day := r.clock.Now().UTC().Format("2006-01-02")
	want[sandboxapi.ActivityBatchResult](t, r, 200, "POST", "/sandbox/users/"+p.user.String()+"/activity", `{
		"daily_steps": [{"date": "`+day+`", "steps": 8421}],
		"cycling_activities": [{"source_id": "`+uuid.NewString()+`", "recorded_start_time": "`+day+`T07:45:00", "distance_meters": 12840}]}`)
	run := exec.CommandContext(t.Context(), command[0], command[1:]...)
	run.Env = append(os.Environ(), "BASE_URL="+r.described.BaseUrl, "DAY="+day, "CODE="+code, "CODE_VERIFIER="+begun.Verifier,
		"CLIENT_ID="+r.described.Client.ClientId.String(), "CLIENT_SECRET="+url.QueryEscape(r.described.Client.ClientSecret),
		"CONNECT_CLIENT_ID="+r.described.Client.ClientId.String(), "CONNECT_CLIENT_SECRET="+r.described.Client.ClientSecret,
		"CALLBACK_URL="+r.described.Client.CallbackUrl, "NODE_EXTRA_CA_CERTS="+r.described.CaFile, "SSL_CERT_FILE="+r.described.CaFile)
	var got readByGenerated
	if err := json.Unmarshal(succeed(t, run), &got); err != nil {
		t.Fatal(err)
	}
	wanted := readByGenerated{Steps: []int64{8421}, Meters: []int64{12840}, Rides: []int64{12840}, Refused: "invalid_date_range"}
	if diff := cmp.Diff(wanted, got); diff != "" {
		t.Error(diff)
	}
}

// succeed runs a program, which gets some minutes, and returns what it printed.
func succeed(t *testing.T, command *exec.Cmd) []byte {
	t.Helper()
	var printed, problem bytes.Buffer
	command.Stdout, command.Stderr = &printed, &problem
	command.WaitDelay = wait.Limit // its children may hold its output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	end := time.AfterFunc(2*wait.Limit, func() { _ = command.Process.Kill() })
	defer end.Stop()
	if err := command.Wait(); err != nil {
		t.Fatalf("%v: %v\n%s%s", command.Args, err, printed.Bytes(), problem.Bytes())
	}
	return printed.Bytes()
}

func absolute(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}
