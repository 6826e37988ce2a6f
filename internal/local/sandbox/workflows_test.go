//go:build check

package sandbox

import (
	"encoding/base64"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"connect-svc/gen/partnerapi"
	"connect-svc/gen/sandboxapi"
)

// Redocly runs the workflows that the developers' site has, as they say: every step is answered as they and the contract say, and they use
// every operation.
func TestWorkflows(t *testing.T) {
	t.Parallel()
	r := start(t)
	folder := t.TempDir()
	r.download(t, folder, "workflows.arazzo.yaml", "openapi.yaml", "sandbox.yaml")
	partner := r.described.Client
	credentials := url.QueryEscape(partner.ClientId.String()) + ":" + url.QueryEscape(partner.ClientSecret)
	program := strings.TrimSpace(string(succeed(t, exec.CommandContext(t.Context(), "../../../.ci/redocly"))))
	// The contract that the sandbox serves has its address, but nobody knows where its driver is.
	respect := exec.CommandContext(t.Context(), program, "respect", "workflows.arazzo.yaml", "--server", "driver="+r.described.DriverUrl,
		"--input", encode(t, map[string]string{
			"base_url": r.described.BaseUrl, "client_id": partner.ClientId.String(), "callback_url": partner.CallbackUrl,
			"client_credentials": base64.StdEncoding.EncodeToString([]byte(credentials)),
		}))
	respect.Dir = folder
	respect.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+r.described.CaFile, "REDOCLY_TELEMETRY=off", "REDOCLY_SUPPRESS_UPDATE_NOTICE=true")
	if printed := string(succeed(t, respect)); !strings.Contains(printed, "Workflows: 7 passed, 7 total") {
		t.Errorf("Redocly: %s", printed)
	}
	asked := map[string]bool{}
	for _, request := range want[sandboxapi.RequestLog](t, r, 200, "GET", "/sandbox/requests", "").Data {
		asked[request.Operation] = true
	}
	contract, err := partnerapi.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range contract.Paths.Map() {
		for _, operation := range item.Operations() {
			if !asked[operation.OperationID] {
				t.Errorf("no workflow asks for %s", operation.OperationID)
			}
		}
	}
}
