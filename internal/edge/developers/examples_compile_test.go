//go:build check

package developers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"connect-svc/gen/sdk"
)

const goBefore = `package examples

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"time"

	connectsdk "connect.invalid/connect-go"
	api "connect.invalid/connect-go" // in place of a partner's own generated package: TestGenerators of the sandbox has that
	"connect.invalid/connect-go/connect"
	"connect.invalid/connect-go/connect/pgstore"
	"connect.invalid/connect-go/webhook"
)

var _, _, _, _, _, _, _, _ = errors.New, fmt.Sprint, io.EOF, log.Print, os.Exit, time.Now, pgstore.New, connectsdk.ScopeDailyStepsRead

func inbox(ctx context.Context, id string, body []byte) error { return nil }
`

// The Go of the guides compiles against the SDK.
func TestGoExamples(t *testing.T) {
	t.Parallel()
	program := goBefore
	for _, page := range guides(t) {
		for i, e := range examplesOf(t, page) {
			switch {
			case e.language != "go":
			case strings.HasPrefix(e.code, "func "):
				program += e.code
			default:
				program += fmt.Sprintf(`
func %s%d(ctx context.Context, client *connect.Client, user string, sessions map[string]connect.Authorization,
	w http.ResponseWriter, r *http.Request, db *sql.DB, key []byte, event webhook.Event, now time.Time) error {
	{
%s
		_ = client // which an example may have made
	}
	return nil
}
`, strings.ReplaceAll(page, "-", ""), i, e.code)
			}
		}
	}
	file := filepath.Join(t.TempDir(), "examples.go")
	if err := os.WriteFile(file, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "vet", file)
	build.Dir = filepath.Join("..", "..", "..")
	if output, err := build.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s\n%s", err, output, program)
	}
}

const tsBefore = `import { type ServerResponse } from "node:http";
import {
  ConnectClient, DeniedError, nodeReceiver, NotConnectedError, ReconnectError, ServiceError, SharedError, verifyWebhook, WebhookError,
  type Authorization, type ClientOptions, type Lock, type Store, type StoredConnection, type WebhookEvent,
} from "connect-svc-sdk";
declare const client: ConnectClient;
declare const options: ClientOptions;
declare const user: string;
declare const now: Date;
declare const sessions: Map<string, Authorization>;
declare const callback: URL;
declare const response: ServerResponse;
declare function inbox(id: string, event: WebhookEvent): Promise<void>;
export async function example(): Promise<void> {
`

// The TypeScript of the guides compiles against the package that the service hands out.
func TestTypeScriptExamples(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, f := range txtar.Parse(sdk.TypeScript).Files {
		write(t, folder, "node_modules/connect-svc-sdk/"+strings.TrimPrefix(f.Name, "package/"), string(f.Data))
	}
	write(t, folder, "package.json", `{"type":"module"}`)
	tools, err := exec.CommandContext(t.Context(), "../../../.ci/typescript").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"openapi-fetch", "openapi-typescript-helpers", "@types", "pg-protocol", "pg-types"} {
		if err := os.Symlink(filepath.Join(strings.TrimSpace(string(tools)), "node_modules", name), filepath.Join(folder, "node_modules", name)); err != nil {
			t.Fatal(err)
		}
	}
	arguments := []string{"--noEmit", "--strict", "--target", "es2022", "--module", "nodenext", "--skipLibCheck", "--types", "node"}
	for _, page := range guides(t) {
		for i, e := range examplesOf(t, page) {
			if e.language != "ts" {
				continue
			}
			name := fmt.Sprintf("%s%d.ts", page, i)
			imports := regexp.MustCompile(`(?m)^import .*\n`)
			write(t, folder, name, strings.Join(imports.FindAllString(e.code, -1), "")+tsBefore+imports.ReplaceAllString(e.code, "")+"}\n")
			arguments = append(arguments, name)
		}
	}
	check := exec.CommandContext(t.Context(), filepath.Join(strings.TrimSpace(string(tools)), "node_modules", ".bin", "tsc"), arguments...)
	check.Dir = folder
	if output, err := check.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, output)
	}
}
