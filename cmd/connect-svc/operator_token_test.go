package main

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/pgtest"
)

// A token that the command makes works where its line is in the file, with the rights that the line gives.
func TestOperatorTokens(t *testing.T) {
	t.Parallel()
	create := func(args ...string) operatorTokenJSON {
		t.Helper()
		return succeedJSON[operatorTokenJSON](t, nil, "", append([]string{"operator-token", "create"}, args...)...)
	}
	ada, grace := create("--name", "ada"), create("--name", "grace", "--read-only")
	if ada.ReadOnly || !grace.ReadOnly || !strings.HasPrefix(ada.Line, "ada write sha256:") || !strings.HasPrefix(grace.Line, "grace read sha256:") {
		t.Errorf("%+v, %+v", ada, grace)
	}
	text := succeed(t, nil, "", "operator-token", "create", "--name", "ada")
	if strings.Count(text, "svco_") != 1 || !strings.Contains(text, "cannot be shown again") {
		t.Error("not a token and its line")
	}
	refuse(t, nil, statusUsage, []string{"--name"}, "operator-token", "create", "--name", "ada@example.com")
	refuse(t, nil, statusUsage, []string{"--name"}, "operator-token", "create", "--name", "operator")

	file := filepath.Join(t.TempDir(), "tokens")
	write := func(lines ...string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	db := pgtest.New(t)
	write("# people", ada.Line, "grace admin "+strings.Fields(grace.Line)[2])
	refuse(t, allSettings(t, db), statusUsage, []string{"CONNECT_OPERATOR_TOKENS_FILE (--operator-tokens-file)", "line 3:", "NAME read|write sha256:HEX"},
		"serve", "--operator-tokens-file", file)
	refuse(t, allSettings(t, db), statusUsage, []string{"CONNECT_OPERATOR_TOKENS_FILE", "cannot be read"}, "serve", "--operator-tokens-file", file+"x")
	write("# people", ada.Line, grace.Line)
	s := start(t, allSettings(t, db), "--operator-tokens-file", file)
	status := func(who, token string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.private+"/operator/v1/users",
			strings.NewReader(`{"email":"`+who+`@example.com","timezone":"UTC","registered_on":"2026-01-31"}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+token)
		request.Header.Set("Content-Type", "application/json")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		return response.StatusCode
	}
	for _, test := range []struct {
		who, token string
		want       int
	}{{"ada", ada.Token, 201}, {"grace", grace.Token, 403}, {"nobody", ada.Token[:len(ada.Token)-1], 401}} {
		if got := status(test.who, test.token); got != test.want {
			t.Errorf("%s: %d, want %d", test.who, got, test.want)
		}
	}
	if got := succeedJSON[[]operatorapi.AuditEvent](t, env(db), "", "audit", "list", "--actor", "ada", "--action", "user.created", "--until", "9999-01-01"); len(got) != 1 {
		t.Errorf("ada did %+v", got)
	}
	if got := succeedJSON[[]operatorapi.AuditEvent](t, env(db), "", "audit", "list", "--actor", "grace"); len(got) != 0 {
		t.Errorf("grace did %+v", got)
	}
}
