package webhooks

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log"
	"net/http"
	"time"

	"connect.invalid/connect-go/webhook"
)

// mostBody is far more than the service sends.
const mostBody = 64 << 10

// Receiver is your webhook address.
type Receiver struct {
	DB     *sql.DB
	Secret string // whsec_…
}

// ServeHTTP verifies the call, puts its event aside and responds. The service waits for five seconds: the work comes later.
func (rc *Receiver) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody)) // the bytes as they came: the signature is theirs
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		http.Error(w, "the body is too large", http.StatusRequestEntityTooLarge)
		return
	}
	if err != nil {
		http.Error(w, "the body cannot be read", http.StatusBadRequest)
		return
	}
	event, err := webhook.Verify(rc.Secret, r.Header, body) // compares in constant time
	if err != nil {
		log.Print("webhook refused: ", err)
		http.Error(w, "not a call of the service", http.StatusUnauthorized)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), 3*time.Second)
	defer cancel()
	if _, err := rc.DB.ExecContext(ctx, `insert into webhook_inbox (id, event) values ($1, $2) on conflict (id) do nothing`,
		event.WebhookID(), string(body)); err != nil {
		log.Print("webhook not stored: ", err)
		http.Error(w, "not now", http.StatusServiceUnavailable) // the service sends it again
		return
	}
	w.WriteHeader(http.StatusNoContent) // also for an event that was there already, or of a type that is not known yet
}
