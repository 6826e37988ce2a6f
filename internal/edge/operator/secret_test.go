package operator

import (
	"context"
	"encoding/json"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/edgetest"
)

// goes lets the statement that reads webhooks fail after a commit, as where the database goes away then.
type goes struct{ committed atomic.Bool }

func (g *goes) TraceQueryStart(ctx context.Context, _ *pgx.Conn, query pgx.TraceQueryStartData) context.Context {
	if query.SQL == "commit" {
		g.committed.Store(true)
	}
	if !g.committed.Load() || !strings.HasPrefix(query.SQL, "-- name: ListWebhookTargets ") {
		return ctx
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	return ended
}

func (*goes) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// An answer has the new secret of a webhook also if the database goes away after it was made: nobody would have the secret otherwise, and another
// one would end that of the partner.
func TestSecretIsAnswered(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	going := new(goes)
	pool, err := postgres.Open(t.Context(), f.DB.URL, postgres.WithClock(f.DB.Clock), postgres.WithTracer(going))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	f.config.Webhooks, f.config.InProcess = webhook.New(pool, f.Keys, webhook.Settings{}), true
	f.serve(t)
	client := "/operator/v1/clients/" + f.DB.Client(t).ID.String()
	other := "/operator/v1/clients/" + f.DB.Client(t).ID.String()
	const url = "https://partner.example/webhooks"
	for _, request := range []edgetest.Request{
		{Method: "PUT", Target: client + "/webhook", Body: `{"url":"` + url + `"}`},
		{Method: "POST", Target: client + "/webhook/secret"},
		{Method: "PATCH", Target: other, Body: `{"webhook_url":"` + url + `"}`},
	} {
		going.committed.Store(false)
		answer := f.send(t, request)
		var made struct {
			operatorapi.WebhookWithSecret
			Client operatorapi.Client
		}
		if err := json.Unmarshal([]byte(answer.Body), &made); err != nil || answer.Status != 200 {
			t.Fatalf("%s %s: %d, %v", request.Method, request.Target, answer.Status, err)
		}
		if made.WebhookSecret == nil && made.Client.WebhookSecret == nil {
			t.Errorf("%s %s answers no secret: %s", request.Method, request.Target, answer.Body)
		}
		if request.Method != "PATCH" && made.Webhook.Url != url {
			t.Errorf("%s %s: the webhook %+v", request.Method, request.Target, made.Webhook)
		}
	}
}
