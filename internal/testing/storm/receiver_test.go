//go:build faults

package storm

import (
	"encoding/json"
	"encoding/pem"
	"hash/maphash"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/testing/contracttest"
	"connect-svc/internal/testing/history"
)

// receiver is the partners' endpoint. It notes what arrives, and is sometimes out of order itself.
type receiver struct {
	url, authority string
	t              *testing.T
	s              *storm

	mu       sync.Mutex
	keys     []*standardwebhooks.Webhook
	received map[string]*event // by webhook-id
}

// event is one webhook-id with all its deliveries.
type event struct {
	kind, grant, event string
	from, to           string // dates
	version            int64
	body               []byte
	times              int
	accepted           bool
	last               time.Duration
}

func newReceiver(t *testing.T, s *storm) *receiver {
	t.Helper()
	r := &receiver{t: t, s: s, received: map[string]*event{}}
	server := httptest.NewUnstartedServer(r)
	server.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError) // of servers that are killed
	server.StartTLS()
	t.Cleanup(server.Close)
	r.url, r.authority = server.URL+"/webhooks", filepath.Join(s.dir, "authority.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	if err := os.WriteFile(r.authority, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *receiver) trust(t *testing.T, secret string) {
	t.Helper()
	key, err := standardwebhooks.NewWebhook(secret)
	if err != nil {
		t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keys = append(r.keys, key)
}

func (r *receiver) genuine(body []byte, header http.Header) bool {
	for _, key := range r.keys {
		if key.Verify(body, header) == nil {
			return true
		}
	}
	return false
}

// ServeHTTP implements [http.Handler].
func (r *receiver) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	if err != nil {
		return // a server that was killed
	}
	var told struct {
		Type string `json:"type"`
		Data struct {
			GrantID string `json:"grant_id"`
			Version string `json:"connection_version"`
			Reason  string `json:"reason"`
			From    string `json:"from"`
			To      string `json:"to"`
		} `json:"data"`
	}
	if err := contracttest.CheckWebhook(request, body); err != nil || json.Unmarshal(body, &told) != nil {
		r.t.Errorf("a webhook is not as documented: %v", err)
	}
	number, err := webhook.ParseEventID(request.Header.Get("webhook-id"))
	if err != nil {
		r.t.Errorf("a webhook-id that is none: %v", err)
	}
	id := number.String()
	r.mu.Lock()
	if !r.genuine(body, request.Header) {
		r.t.Error("a webhook is not signed")
	}
	known := r.received[id]
	if known == nil {
		version, _ := strconv.ParseInt(told.Data.Version, 10, 64)
		known = &event{
			kind: told.Type, grant: told.Data.GrantID, event: history.Event(version, told.Data.Reason), version: version,
			from: told.Data.From, to: told.Data.To, body: body,
		}
		r.received[id] = known
	}
	if string(known.body) != string(body) {
		r.t.Error("a webhook has another body than before")
	}
	known.times++
	known.last = time.Since(r.s.began)
	r.s.pauses.arrived(known.grant, known.last)
	// Some are refused the first time, or get no answer in time.
	mood := maphash.String(mood, id) % 40
	ill := known.times == 1 && mood < 3
	known.accepted = known.accepted || !ill
	r.mu.Unlock()
	if ill && mood == 0 {
		await(request.Context(), 7*time.Second) // a server that stood still meanwhile may yet take the answer
	}
	if ill {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

var mood = maphash.MakeSeed()
