package webhook_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"connect.invalid/connect-go/webhook"
)

// A receiver verifies, queues, responds, and works afterwards.
func Example() {
	secret := "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" // read it from where you keep secrets
	queue := make(chan webhook.Event, 100)             // or a table, whose key is the webhook-id

	receiver := func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
		if err != nil {
			http.Error(w, "the body cannot be read", http.StatusBadRequest)
			return
		}
		event, err := webhook.Verify(secret, r.Header, body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		queue <- event
		w.WriteHeader(http.StatusNoContent)
	}

	// A request that the service sends.
	body := `{"type":"connection.revoked","timestamp":"2026-11-21T10:00:00.000Z","data":{` +
		`"grant_id":"8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55","connection_version":"3","reason":"user_disconnected"}}`
	key, _ := standardwebhooks.NewWebhook(secret)
	now := time.Now()
	signature, _ := key.Sign("msg_0193a4b8d6c07d5f9f1c2a3b4c5d6e7f", now, []byte(body))
	r := httptest.NewRequest("POST", "/webhooks", strings.NewReader(body))
	r.Header.Set("webhook-id", "msg_0193a4b8d6c07d5f9f1c2a3b4c5d6e7f")
	r.Header.Set("webhook-timestamp", fmt.Sprint(now.Unix()))
	r.Header.Set("webhook-signature", signature)
	w := httptest.NewRecorder()
	receiver(w, r)
	fmt.Println("answered", w.Code)

	// The work.
	switch event := (<-queue).(type) {
	case webhook.ConnectionRevoked:
		fmt.Println("version", event.Version, "of connection", event.Data.GrantId, "ended:", event.Data.Reason)
	case webhook.ActivityUpdated:
		fmt.Println("read", event.Data.Datasets, "from", event.Data.From, "to", event.Data.To)
	}
	// Output:
	// answered 204
	// version 3 of connection 8c7be7a0-9d0b-4c1e-8f6b-2f8f4f6a1c55 ended: user_disconnected
}
