package users_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/pgtest"
)

// notCopied are the tables that name a user and have no list in a copy, with the reason.
var notCopied = map[string]string{
	"users":                 "is `user`",
	"user_addresses":        "has the address of `user` again, by its key",
	"grant_directory":       "has the grants of `connections` again",
	"webhook_attempts":      "is in each of `webhook_events`",
	"webhook_queue":         "until 1.3.0: has the ids and times of pending `webhook_events` again",
	"code_emails":           "has how the code of one of `sign_ins` is sent, for two minutes: the seed of the code, and hashes",
	"keyset_marks":          "has keys of the keyset, and no hash of an address",
	"revoked_access_tokens": "has ids that access tokens have inside, for 300 seconds",
}

// Columns with these names hold the id of a user or of a grant, or an address, or the hash of one.
const naming = `('user_id', 'recipient', 'subject', 'grant_id', 'grant_ids', 'email', 'address', 'key', 'log_key', 'budget', 'limits')`

// uncopied are the tables with such a column that are neither in a copy nor have a reason.
func (w *life) uncopied(t *testing.T, copied map[string]json.RawMessage) []string {
	t.Helper()
	tables := w.names(t, `select distinct c.table_name::text from information_schema.columns c join information_schema.tables using (table_schema, table_name)
		where table_schema = current_schema() and table_type = 'BASE TABLE' and c.column_name in `+naming+` order by 1`)
	return slices.DeleteFunc(tables, func(table string) bool { return copied[table] != nil || notCopied[table] != "" })
}

// copyOf is a copy of the user's data, as text and by its fields.
func (w *life) copyOf(t *testing.T, user account.User) (text string, fields map[string]json.RawMessage) {
	t.Helper()
	var out bytes.Buffer
	if err := w.service.WriteCopy(work.WithActor(t.Context(), "grace"), &out, user, "test"); err != nil {
		t.Fatal(err)
	}
	if err := contracttest.Operator.CheckSchema("UserCopy", out.Bytes()); err != nil {
		t.Errorf("%v in\n%s", err, &out)
	}
	if err := json.Unmarshal(out.Bytes(), &fields); err != nil {
		t.Fatal(err)
	}
	return out.String(), fields
}

// withSignIns adds what know does not, and returns the user as stored. grace is an operator.
func (w *life) withSignIns(t *testing.T, user known) account.User {
	t.Helper()
	stored, err := w.service.Accounts.GetUser(t.Context(), user.ID)
	if err != nil {
		t.Fatal(err)
	}
	keys := w.service.Accounts.AddressKeys(stored.Email)
	w.db.Exec(t, `insert into sign_in_events (key, id, at, sign_in_id, event, detail) values ($1, gen_random_uuid(), now(), gen_random_uuid(), 'lifted', 'grace')`, keys[0])
	w.db.Exec(t, `insert into sign_in_limits (key, asked_at, last_at, failed) values ($1, array[now()], now(), 1) on conflict do nothing`, keys[1])
	w.db.Exec(t, `insert into audit_log (subject, user_id, actor, action) values ($1, $1, 'grace', 'user.changed')`, user.ID)
	w.db.Exec(t, `insert into webhook_changes (user_id, client_id, datasets, first_date, last_date)
		select user_id, client_id, 1, history_from, history_from from connections where user_id = $1 and client_id = $2`, user.ID, w.partner.ID)
	return stored
}

// A copy has something of each list, nothing of another user, and no secret, nor the hash or the seed of one.
func TestCopyOfAUser(t *testing.T) {
	t.Parallel()
	w := newLife(t)
	ada, bob := w.know(t, "ada"), w.know(t, "bob")
	user := w.withSignIns(t, ada)
	w.withSignIns(t, bob)
	text, fields := w.copyOf(t, user)
	text = strings.ToLower(text)

	for name, value := range fields {
		if string(value) == "[]" {
			t.Errorf("%s has nothing of the user: the test must put something there", name)
		}
	}
	for what, trace := range ada.traces {
		if strings.Contains(text, trace) == strings.HasPrefix(what, "the hash") {
			t.Errorf("%s in the copy: %t", what, strings.Contains(text, trace))
		}
	}
	for what, trace := range bob.traces {
		if strings.Contains(text, trace) {
			t.Errorf("%s of another user is in the copy", what)
		}
	}
	for _, foreign := range []string{bob.ID.String(), bob.tokens.GrantID.String(), "grace"} {
		if strings.Contains(text, foreign) {
			t.Errorf("the copy has %s, another user, their grant or an operator", foreign)
		}
	}
	secrets := 0
	for _, column := range w.names(t, `select c.table_name || ' ' || c.column_name from information_schema.columns c
		join information_schema.tables using (table_schema, table_name)
		where table_schema = current_schema() and table_type = 'BASE TABLE' and c.data_type = 'bytea'`) {
		table, name, _ := strings.Cut(column, " ")
		for _, value := range w.names(t, fmt.Sprintf("select encode(%s, 'hex') from %s where length(%[1]s) >= 8", pgx.Identifier{name}.Sanitize(), pgx.Identifier{table}.Sanitize())) {
			raw, err := hex.DecodeString(value)
			if err != nil {
				t.Fatal(err)
			}
			secrets++
			if strings.Contains(text, value) || strings.Contains(text, strings.ToLower(base64.StdEncoding.EncodeToString(raw))) {
				t.Errorf("a value of %s is in the copy", column)
			}
		}
	}
	if secrets < 10 {
		t.Errorf("the search looked for %d values", secrets)
	}
	for _, browser := range w.names(t, "select browser_id::text from known_browsers") {
		if strings.Contains(text, browser) {
			t.Error("the id of a browser, which is the hash of its secret, is in the copy")
		}
	}
	if n := pgtest.Value[int](t, w.db, `select count(*) from audit_log where subject = $1 and actor = 'grace' and action = 'user.exported' and detail = '{"by": "test"}'`, ada.ID); n != 1 {
		t.Errorf("%d entries of the audit log, want 1", n)
	}
}

// An end that an operator made, and that another one replayed after a restore, names neither: its detail has the first.
func TestCopyOfAReplayedEnd(t *testing.T) {
	t.Parallel()
	w := newLife(t)
	ada := w.know(t, "ada")
	lost := oauth.Act{
		UserID: ada.ID, ClientID: w.partner.ID, Version: ada.tokens.ConnectionVersion + 1, Action: "connection.disconnected", Actor: "grace",
		At: w.db.Now().Add(time.Hour), Until: w.db.Now().Add(time.Hour),
	}
	changed, err := oauth.Replay(work.WithActor(t.Context(), "heidi"), w.service.Pool, []oauth.Act{lost})
	if err != nil || changed[lost.Action] != 1 {
		t.Fatalf("replayed %v, %v", changed, err)
	}
	user, err := w.service.Accounts.GetUser(t.Context(), ada.ID)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := w.copyOf(t, user)
	for _, name := range []string{"grace", "heidi"} {
		if strings.Contains(text, name) {
			t.Errorf("the copy names the operator %s", name)
		}
	}
	if !strings.Contains(text, `"replayed"`) || !strings.Contains(text, `"by": "operator"`) {
		t.Errorf("the copy does not have the end, by an operator:\n%s", text)
	}
}

// Each table that may name a user is in the copy, or has its reason. A table that a migration adds is missed, and so is a row that names the user in
// a column of another name.
func TestCopyHasEveryTable(t *testing.T) {
	t.Parallel()
	w := newLife(t)
	ada := w.know(t, "ada")
	_, fields := w.copyOf(t, w.withSignIns(t, ada))
	if missing := w.uncopied(t, fields); len(missing) > 0 {
		t.Errorf("%v are not in the copy, and notCopied says no reason", missing)
	}
	for table := range notCopied {
		if pgtest.Value[bool](t, w.db, "select to_regclass($1) is null", table) || fields[table] != nil {
			t.Errorf("there is no reason to leave out %s", table)
		}
	}
	everything := w.everything(t)
	for _, trace := range []string{ada.ID.String(), strings.ToLower(ada.Email), ada.tokens.GrantID.String()} {
		for _, table := range tablesWith(everything, trace) {
			if fields[table] == nil && notCopied[table] == "" {
				t.Errorf("%s has the user, and is not in the copy", table)
			}
		}
	}
	w.db.Exec(t, "create table bicycles (user_id uuid primary key)")
	if missing := w.uncopied(t, fields); !slices.Equal(missing, []string{"bicycles"}) {
		t.Errorf("of a new table the walk finds %v", missing)
	}
}
