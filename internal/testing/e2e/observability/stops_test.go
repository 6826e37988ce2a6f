package observability_test

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/admin/usage"
	"connect-svc/internal/app"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/edgetest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// stopsTable are the rows of the table in docs/operations.md that says what an operator's act stops, by their first cell.
func stopsTable(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../../../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), "\nEach act stops:\n\n")
	if !found {
		t.Fatal("there is no table")
	}
	rows := map[string][]string{}
	for line := range strings.Lines(table) {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|\n"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows[cells[0]] = cells[1:]
	}
	return rows
}

// Each cell of the table is what happens.
func TestActsStopWhatTheTableSays(t *testing.T) {
	t.Parallel()
	table := stopsTable(t)
	acts := []struct {
		name     string
		do, undo func(context.Context, *app.App, uuid.UUID) error
	}{
		{
			"`client disable`",
			func(ctx context.Context, a *app.App, id uuid.UUID) error { return a.Clients.Disable(ctx, id) },
			func(ctx context.Context, a *app.App, id uuid.UUID) error { return a.Clients.Enable(ctx, id) },
		},
		{
			"`client webhook pause`",
			func(ctx context.Context, a *app.App, id uuid.UUID) error {
				_, err := a.Webhooks.Pause(ctx, id)
				return err
			},
			func(ctx context.Context, a *app.App, id uuid.UUID) error {
				_, err := a.Webhooks.Resume(ctx, id)
				return err
			},
		},
		{
			"`client revoke-tokens`",
			func(ctx context.Context, a *app.App, id uuid.UUID) error {
				_, err := a.OAuth.RevokeTokensOfClient(ctx, id)
				return err
			},
			nil,
		},
		{
			"`client offboard`",
			func(ctx context.Context, a *app.App, id uuid.UUID) error {
				_, err := a.Clients.Offboard(ctx, id)
				return err
			},
			nil,
		},
	}
	for i, act := range acts {
		if table[""][i] != act.name {
			t.Fatalf("column %d is %s, want %s", i+1, table[""][i], act.name)
		}
		t.Run(act.name, func(t *testing.T) {
			t.Parallel()
			p := newPartnerUnderAct(t)
			must := func(do func(context.Context, *app.App, uuid.UUID) error) {
				t.Helper()
				if do == nil {
					return
				}
				if err := do(t.Context(), p.App, p.Partner.ID); err != nil {
					t.Fatal(err)
				}
			}
			before := p.works(t)
			must(act.do)
			during, waits := p.works(t), p.during
			must(act.undo)
			after := p.works(t)
			want, got := map[string]string{}, map[string]string{}
			for row, cells := range table {
				if row == "" || row == "---" {
					continue
				}
				want[row] = cells[i]
				switch {
				case !before[row]:
					got[row] = "it did not work before"
				case during[row]:
					got[row] = "go on"
				case row == "webhooks" && p.sent(t, waits):
					got[row] = "wait"
				case row != "webhooks" && after[row]:
					got[row] = "stop"
				default:
					got[row] = "end"
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-table +service):\n%s", diff)
			}
		})
	}
}

// partnerUnderAct is a partner that has everything, on which an operator acts.
type partnerUnderAct struct {
	*e2e.Service
	front   *e2e.Front
	tokens  oauth.Tokens
	refresh string // of another connection
	pages   *edgetest.Visitor
	home    string
	other   pgtest.Client // on which nobody acts
	during  uuid.UUID     // the event of the second call of works
}

func newPartnerUnderAct(t *testing.T) *partnerUnderAct {
	t.Helper()
	receiver, _ := edgetest.Receiver(t, nil)
	server := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(server.Close)
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	e := e2e.New(t, withPortal, func(c *app.Config) {
		c.Webhooks = webhook.Settings{AllowedNetworks: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, RootCAs: roots}
	})
	p := &partnerUnderAct{Service: e, front: e2e.NewFront(t, e, true), other: e.DB.Client(t)}
	e.DB.Exec(t, "update clients set contact_email = 'it@' || client_id || '.example'")
	for _, client := range []pgtest.Client{e.Partner, p.other} {
		if _, err := e.App.Webhooks.SetEndpoint(t.Context(), client.ID, receiver); err != nil {
			t.Fatal(err)
		}
	}
	_, p.tokens = e.NewConnection(t, e.Partner)
	_, another := e.NewConnection(t, e.Partner)
	p.refresh = another.RefreshToken
	p.pages, p.home = engineer(t, e, e.Partner.ID)
	ctx, stop := context.WithCancel(context.Background())
	var delivering sync.WaitGroup
	delivering.Go(func() { e.App.Webhooks.Run(ctx) })
	t.Cleanup(func() { stop(); delivering.Wait() })
	return p
}

// works are the rows of the table that work now.
func (p *partnerUnderAct) works(t *testing.T) map[string]bool {
	t.Helper()
	works := map[string]bool{}
	works["requests with its secret"] = p.front.Post(t.Context(), t, p.Partner, "/oauth/revoke", url.Values{"token": {"svcr2_unknown"}}).Status == http.StatusOK
	works["reads"] = p.front.Read(t.Context(), t, p.tokens).Status == http.StatusOK
	refreshed := p.front.Refresh(t.Context(), t, p.Partner, p.refresh)
	if works["refreshes"] = refreshed.Status == http.StatusOK; works["refreshes"] {
		p.refresh = refreshed.RefreshToken(t)
	}
	query := edgetest.AuthorizationQuery(p.Partner, scope.All)
	works["consent of users"] = edgetest.Visit(t, p.Server, p.Base).Get("/oauth/authorize?"+query.Encode()).StatusCode == http.StatusSeeOther
	works["its own pages"] = p.pages.Get(p.home).StatusCode == http.StatusOK

	p.during = p.event(t, p.Partner.ID)
	marker := p.event(t, p.other.ID)
	p.App.Webhooks.Wake()
	wait.Until(t, "the events of another partner are sent", func() bool { return p.sent(t, marker) })
	works["webhooks"] = p.sent(t, p.during)

	p.DB.Exec(t, `insert into notices (recipient, kind, data) values ($1, 'partner_answer', '{"By": "kim", "State": "approved", "Answer": ""}')`, p.Partner.ID)
	wait.Until(t, "the email is settled", func() bool {
		return pgtest.Value[int](t, p.DB, "select count(*) from notices where recipient = $1", p.Partner.ID) == 0
	})
	for range p.Mail.NoticesWaiting() {
		works["emails to its contact"] = slices.Contains(p.Mail.NextNotice(t).To, "it@"+p.Partner.ID.String()+".example")
	}

	query.Set("state", "")
	refused := edgetest.Visit(t, p.Server, p.Base).Get("/oauth/authorize?" + query.Encode()).Header.Get("X-Request-ID")
	writeUsage(t, p.Service)
	listed, err := p.App.Usage.Errors(t.Context(), p.Partner.ID, usage.ErrorFilter{}, page.Key{}, 100)
	if err != nil {
		t.Fatal(err)
	}
	works["the list of its refused requests"] = slices.ContainsFunc(listed, func(e usage.ClientError) bool { return slices.Contains(e.RequestIDs, uuid.MustParse(refused)) })
	return works
}

func (p *partnerUnderAct) event(t *testing.T, client uuid.UUID) uuid.UUID {
	t.Helper()
	return pgtest.Value[uuid.UUID](t, p.DB, `insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason)
		values (gen_random_uuid(), $1, 'connection.revoked', gen_random_uuid(), 1, 'user_disconnected') returning event_id`, client)
}

// sent waits until no server has the event, and reports whether it was delivered.
func (p *partnerUnderAct) sent(t *testing.T, event uuid.UUID) bool {
	t.Helper()
	wait.Until(t, "no server has the event", func() bool {
		return pgtest.Value[bool](t, p.DB, "select state <> 'pending' or leased_until is null or leased_until <= now() from webhook_events where event_id = $1", event)
	})
	return pgtest.Value[string](t, p.DB, "select state from webhook_events where event_id = $1", event) == "delivered"
}
