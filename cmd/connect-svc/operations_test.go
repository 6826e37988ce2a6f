package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/domain/client"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/pgtest"
)

// noCommand has the operations that no command calls, and why.
var noCommand = map[string]string{
	"putUsers":        "import users takes files that are longer than a batch",
	"readWebhook":     "client show has the webhook",
	"listConnections": "connection list --user has those that have ended, too",
}

// answered is a command and what its JSON is: a schema of api/operator.yaml, or of the rows if it begins with "[]".
type answered struct {
	schema string
	args   []string
}

// Every operation has a command, which prints what the operation answers.
func TestEveryOperationHasACommand(t *testing.T) {
	t.Parallel()
	db := withWalker(t)
	env, company, leaving := allSettings(t, db), db.Client(t), db.Client(t)
	user, id := db.User(t), company.ID.String()
	connected(t, db, user, company)
	event := messageOf(failedEvent(t, db, company.ID))
	const date = "2026-01-02"
	succeed(t, env, "user_id,date,steps\n"+walker+","+date+",100\n", "import", "daily-steps", "-")
	command := func(schema string, args ...string) answered { return answered{schema, args} }

	operations := []struct {
		id string
		by answered
	}{
		{"createUser", command("User", "user", "create", "--email", "new@example.com", "--timezone", "UTC", "--registered-on", date)},
		{"listUsers", command("[]User", "user", "list")},
		{"readUser", command("User", "user", "show", walker)},
		{"changeUser", command("User", "user", "update", "ada@example.com", "--timezone", "Asia/Tokyo")},
		{"putActivity", command("Removed", "remove", "steps", "--user", walker, "--date", date)},
		{"createAdjustment", command("Adjustment", "adjust", "steps", "--user", walker, "--date", date, "--delta", "5", "--note", "n")},
		{"createAdjustment", command("Adjustment", "adjust", "cycling", "--user", walker, "--date", date, "--delta", "5", "--note", "n")},
		{"listAdjustments", command("[]Adjustment", "adjust", "list", "--user", "ada@example.com")},
		{"listSignIns", command("SignInLog", "user", "sign-ins", "nobody@example.com")},
		{"listUserSignIns", command("SignInLog", "user", "sign-ins", walker)},
		{"exportUser", command("UserCopy", "user", "export", "ada@example.com")},
		{"liftSignInLimits", command("SignInLog", "user", "lift-limits", "ada@example.com")},
		{"readUserActivity", command("UserActivity", "user", "activity", "ada@example.com", "--from", date, "--to", date)},
		{"removeAdjustment", command("Removed", "remove", "adjustment", "--user", walker, "--id")},
		{"createClient", command("CreatedClient", append(slices.Clone(walkRewards), "--webhook-url", hook)...)},
		{"listClients", command("[]Client", "client", "list")},
		{"listClients", command("[]Client", "client", "list", "--callback-host", "partner.example", "--webhook-host", "partner.example", "--status", "active")},
		{"setWebhook", command("WebhookWithSecret", "client", "webhook", "set", id, hook)},
		{"rotateWebhookSecret", command("WebhookWithSecret", "client", "webhook", "rotate-secret", id)},
		{"pauseWebhook", command("Webhook", "client", "webhook", "pause", id)},
		{"resumeWebhook", command("Webhook", "client", "webhook", "resume", id)},
		{"readClient", command("Client", "client", "show", id)},
		{"changeClient", command("Client", "client", "update", id, "--webhook-url", hook+"8", "--burst", "7")},
		{"rotateClientSecret", command("RotatedClientSecret", "client", "rotate-secret", id, "--overlap", "1h")},
		{"disableClient", command("Client", "client", "disable", id, "--yes")},
		{"enableClient", command("Client", "client", "enable", id)},
		{"suspendClient", command("SuspendedClient", "client", "suspend", id, "--yes")},
		{"resumeClient", command("ResumedClient", "client", "resume", id, "--yes")},
		{"listEndedConnections", command("[]EndedConnection", "connection", "ended", id)},
		{"listClientErrors", command("[]ClientError", "client", "errors", id)},
		{"listUsage", command("[]ClientUsage", "usage", "--query", "Walk")},
		{"readReport", command("Report", "report", "--since", "7d")},
		{"readClientUsage", command("Usage", "usage", "--client", id)},
		{"listWebhookEvents", command("[]WebhookEvent", "webhook", "list", "--state", "failed")},
		{"readWebhookEvent", command("WebhookEventDetail", "webhook", "show", event)},
		{"replayWebhookEvent", command("WebhookEvent", "webhook", "replay", event)},
		{"removeWebhook", command("Client", "client", "webhook", "remove", id, "--yes")},
		{"revokeClientTokens", command("RevokedClientTokens", "client", "revoke-tokens", id)},
		{"createPortalLink", command("PortalLink", "client", "portal-link", id, "--base-url", "https://connect.example.com")},
		{"listPortalSessions", command("[]PortalSession", "client", "portal-sessions", id)},
		{"endPortalSession", command("", "client", "portal-sessions", id, "--end")},
		{"listChangeRequests", command("[]OpenChangeRequest", "client", "change-requests")},
		{"readChangeRequest", command("ChangeRequest", "client", "change-request", id)},
		{"approveChangeRequest", command("ChangeRequest", "client", "change-request", id, "--approve")},
		{"refuseChangeRequest", command("ChangeRequest", "client", "change-request", id, "--answer", "Not yet.", "--refuse")},
		{"endPortalSessions", command("", "client", "portal-sessions", id, "--end-all")},
		{"offboardClient", command("OffboardedClient", "client", "offboard", leaving.ID.String())},
		{"findConnections", command("[]FoundConnection", "connection", "list", "--user", user.Email)},
		{"disconnectUser", command("FoundConnection", "connection", "disconnect", "--user", user.Email, "--client", id)},
		{"deleteUser", command("", "user", "delete", walker)}, // answers 204
		{"listAuditLog", command("[]AuditEvent", "audit", "list")},
		{"find", command("FoundList", "find", "Walk Rewards")},
		{"testWebhook", command("WebhookSample", "webhook", "test", "--client", id)}, // see TestWebhookSample
	}
	var held []string
	for _, operation := range operations {
		held = append(held, operation.id)
		args := operation.by.args
		switch operation.id {
		case "testWebhook":
			continue
		case "removeAdjustment":
			args = append(args, pgtest.Value[string](t, db, "select adjustment_id::text from cycling_adjustments"))
		case "endPortalSession":
			args = append(args, pgtest.Value[string](t, db, "select session_id::text from portal_sessions"))
		case "listChangeRequests", "refuseChangeRequest":
			if _, err := client.NewRegistry(db.Pool, nil).RequestChange(t.Context(), company.ID, func(r *client.Registration) { r.Policy.Burst++ }); err != nil {
				t.Fatal(err)
			}
		case "listEndedConnections":
			db.Exec(t, `insert into audit_log (subject, actor, action, user_id, client_id, connection_version)
				select u, 'user', 'connection.disconnected', u, $1, 2 from (select gen_random_uuid() as u) made`, company.ID)
		case "listClientErrors":
			db.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests)
				values ($1, true, connect_now(), 'requestToken', 400, 'invalid_grant', 'code has expired', 1)`, company.ID)
		}
		if operation.id == "approveChangeRequest" || operation.id == "refuseChangeRequest" {
			args = append(args, pgtest.Value[string](t, db, "select request_id::text from change_requests"))
		}
		if slices.Contains([]string{"remove", "offboard", "disconnect", "delete"}, args[0]) || slices.Contains([]string{"offboard", "revoke-tokens", "disconnect", "delete"}, args[1]) {
			args = append(args, "--yes")
		}
		checkSchema(t, operation.by, succeed(t, env, "", append(args, "--output", "json")...))
	}

	document, err := operatorapi.GetSpec()
	if err != nil {
		t.Fatal(err)
	}
	calls, noCommand := sources(t), maps.Clone(noCommand)
	for path, item := range document.Paths.Map() {
		for method, operation := range item.Operations() {
			name := operation.OperationID
			if strings.HasPrefix(name, "preview") && noCommand[name] == "" { // a command reads it before it asks
				if !strings.Contains(calls, "api."+strings.ToUpper(name[:1])+name[1:]+"(") {
					t.Errorf("%s %s: no command asks with it", method, path)
				}
				continue
			}
			reason, excepted := noCommand[name]
			if isCalled := regexp.MustCompile(`\bapi\.` + strings.ToUpper(name[:1]) + name[1:] + `\b`).MatchString(calls); slices.Contains(held, name) == excepted || isCalled == excepted {
				t.Errorf("%s %s: %s is held to a command: %t, called: %t, excepted: %q", method, path, name, slices.Contains(held, name), isCalled, reason)
			}
			delete(noCommand, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(noCommand)) {
		t.Errorf("%s is no operation", name)
	}
}

// checkSchema holds the JSON that a command has printed against the document. A list has rows.
func checkSchema(t *testing.T, by answered, text string) {
	t.Helper()
	name, isList := strings.CutPrefix(by.schema, "[]")
	values := []json.RawMessage{json.RawMessage(text)}
	if isList {
		if err := json.Unmarshal([]byte(text), &values); err != nil || len(values) == 0 {
			t.Fatalf("%v: %v, %d rows", by.args, err, len(values))
		}
	}
	for _, value := range values {
		if name == "" {
			continue
		}
		if err := contracttest.Operator.CheckSchema(name, value); err != nil {
			t.Errorf("connect-svc %s: %v in %s", strings.Join(by.args, " "), err, value)
		}
	}
}

// sources is the program's own text, without tests.
func sources(t *testing.T) string {
	t.Helper()
	files, err := fs.Glob(os.DirFS("."), "*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all bytes.Buffer
	for _, file := range files {
		if text, err := os.ReadFile(file); err != nil {
			t.Fatal(err)
		} else if !strings.HasSuffix(file, "_test.go") {
			all.Write(text)
		}
	}
	return all.String()
}
