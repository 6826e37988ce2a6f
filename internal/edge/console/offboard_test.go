package console

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/edge/preview"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// A partner whose connections could not all end in time is offboarded, and the page says so, also if a question has to wait for a connection by then.
func TestOffboardThatTakesLong(t *testing.T) {
	t.Parallel()
	db := pgtest.New(t)
	pool, err := postgres.Open(t.Context(), db.URL, postgres.WithLimits(wait.Patient), postgres.WithMaxConns(1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	var busy pgx.Tx
	clients := client.NewRegistry(pool, func(ctx context.Context, pool *postgres.Pool, _ uuid.UUID) (ended int64, err error) {
		<-ctx.Done()
		busy, err = pool.Begin(t.Context())
		return 0, errors.Join(ctx.Err(), err)
	})
	partner, err := clients.Get(t.Context(), db.Client(t).ID)
	if err != nil {
		t.Fatal(err)
	}
	limited, cancel := work.Within(t.Context(), work.Caller{Kind: work.Console}, 10*time.Second)
	defer cancel()
	form := strings.NewReader(url.Values{"name": {partner.Name}}.Encode())
	request := httptest.NewRequestWithContext(limited, http.MethodPost, "/", form)
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	c := &console{Config: Config{Domains: preview.Domains{Clients: clients}, Limits: wait.Patient}}
	answer := make(chan error, 1)
	go func() { answer <- c.offboardPartner(httptest.NewRecorder(), request, partner) }()
	wait.Until(t, "the question waits, or fails", func() bool { return pool.QueueStats().Waiting+len(answer) > 0 })
	if err := busy.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	var to site.Redirect
	if err := wait.For(t, "the answer", answer); !errors.As(err, &to) || !strings.HasSuffix(string(to), "?done=partner_offboarded") {
		t.Errorf("the answer is %v", err)
	}
}
