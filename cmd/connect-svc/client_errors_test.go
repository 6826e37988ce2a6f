package main

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/testing/pgtest"
)

func TestClientErrors(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	client, request := db.Client(t), uuid.NewString()
	db.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests, request_ids)
		values ($1, true, connect_now() - interval '1 hour', 'requestToken', 400, 'invalid_grant', 'code has expired', 1, array[$2::uuid]),
			($1, false, connect_now(), 'requestToken', 401, 'invalid_client', 'there is no Authorization header', 3, '{}')`, client.ID, request)
	got := succeedJSON[[]operatorapi.ClientError](t, env(db), "", "client", "errors", client.ID.String())
	if len(got) != 2 || got[0].Authenticated || got[0].Requests != 3 || got[1].Reason != "code has expired" || got[1].Status != 400 {
		t.Errorf("%+v", got)
	}
	text := succeed(t, env(db), "", "client", "errors", client.ID.String())
	if !strings.Contains(text, "code has expired") || !strings.Contains(text, "AUTHENTICATED") || !strings.Contains(text, request) {
		t.Error(text)
	}
	if got := call(t, env(db), "", "client", "errors", uuid.NewString()); got.status != statusFailed {
		t.Error("a client that does not exist has errors")
	}
}
