// Package client owns the registrations of partner companies: name, callback, allowance of scopes, rate policy, and the secret that
// authenticates the partner's backend (specification sections 1 and 5.1).
//
// # Invariants
//
//   - A client has exactly one callback, an exact HTTPS address. (TestValidateCallback)
//   - A client's secret is returned once, when it is made. The database holds only its hash. (TestSecret_5_1)
//   - A replaced secret stops working at once, unless the operator lets it work for an overlap of up to 30 days. At most two secrets
//     work at a time. (TestOverlap)
//   - A client's people change nothing: what they request is made when an operator approves it, by the rules of Update, and the log has
//     both names. A client has one request at a time. (TestApprovedChange, TestOpenChange)
//   - Of acts at the same moment that cost others something, as many are made as the budget allows (TestCostlyActsAtOnce). Operators have a budget of their own (TestBudgetOfOperators). The contact gets one email
//     about several (TestContactIsToldOnce)
//   - Look-alikes of a name are found whichever program has written them, and at a cost that does not grow with the number of clients
//     (TestLookAlikesOfOlderPrograms, TestLookAlikesByIndex).
//   - An offboarded client never becomes active again. (TestOffboardedAndUnknownClientsStay)
package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"regexp"
	"strings"
	"time"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
)

// Registry holds the registrations in a database.
type Registry struct {
	pool           *postgres.Pool
	queries        *clientdb.Queries
	endConnections func(context.Context, *postgres.Pool, uuid.UUID) (int64, error)
	logos          *work.Batch[logoKey, brand.Logo]
	acts           *work.Locks[uuid.UUID] // by client; see Costly

	Random io.Reader // source of ids and secrets: crypto/rand, unless a sandbox repeats them
}

// NewRegistry returns the registry in a database. [Registry.Offboard] calls endConnections, which ends the connections of a client and
// returns how many it ended: connections belong to another domain.
func NewRegistry(pool *postgres.Pool, endConnections func(context.Context, *postgres.Pool, uuid.UUID) (int64, error)) *Registry {
	r := &Registry{pool: pool, queries: clientdb.New(pool), endConnections: endConnections, acts: work.NewLocks[uuid.UUID](), Random: rand.Reader}
	r.logos = work.NewBatch(20, r.listLogos) // logos in a statement, of up to 64 KiB each
	return r
}

// Errors of this package, in addition to refusal.Field.
var (
	ErrExists        = errors.New("there is a client of this id")
	ErrReplacedSince = errors.New("the secret was replaced since")
)

// Status of a client.
type Status string

// The states of a client. Disabled can be undone, offboarded cannot.
const (
	Active     Status = "active"
	Disabled   Status = "disabled"
	Offboarded Status = "offboarded"
)

// Client is a registered client.
type Client struct {
	ID uuid.UUID
	Registration
	Status    Status
	CreatedAt time.Time
	// OverlapUntil is until when the previous secret works, too. Zero: it does not work.
	OverlapUntil time.Time
}

func fromRow(r clientdb.ListClientsRow) Client {
	row := r.Client
	c := Client{
		ID: row.ClientID,
		Registration: Registration{
			Name:        row.Name,
			CallbackURL: row.CallbackUrl,
			Scopes:      row.Scopes,
			Policy: Policy{
				RequestsPerMinute: int(row.RequestsPerMinute),
				Burst:             int(row.Burst),
				ConcurrentReads:   int(row.ConcurrentReads),
			},
			ContactEmail:    row.ContactEmail,
			HomepageURL:     row.HomepageUrl,
			PrivacyURL:      row.PrivacyUrl,
			TermsURL:        row.TermsUrl,
			Logo:            brand.Logo{Name: row.Logo},
			WebhookParallel: int(row.WebhookParallel),
		},
		Status:    Status(row.Status),
		CreatedAt: row.CreatedAt,
	}
	if r.Overlapping {
		c.OverlapUntil = *row.PreviousSecretUntil
	}
	return c
}

// unchanged explains why an act changed no row of a client.
func (r *Registry) unchanged(ctx context.Context, id uuid.UUID) error {
	if _, err := r.Get(ctx, id); err != nil {
		return err
	}
	return clientError(id, refusal.ErrClientOffboarded)
}

func clientError(id uuid.UUID, err error) error {
	return postgres.Wrap("client "+id.String(), postgres.NoRowsAs(err, refusal.ErrClientNotFound))
}

// audit adds an entry of the audit log about a client.
func audit(ctx context.Context, queries *clientdb.Queries, id uuid.UUID, action string, detail map[string]any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	return queries.InsertClientAudit(ctx, clientdb.InsertClientAuditParams{Actor: work.Actor(ctx), Action: action, ClientID: id, Detail: text})
}

// Get returns a client. Error: refusal.ErrClientNotFound.
func (r *Registry) Get(ctx context.Context, id uuid.UUID) (Client, error) {
	row, err := r.queries.GetClient(ctx, id)
	return fromRow(clientdb.ListClientsRow(row)), clientError(id, err)
}

// Names returns the names of clients by id. Unknown ids are missing.
func (r *Registry) Names(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	rows, err := r.queries.ListClientNames(ctx, ids)
	names := make(map[uuid.UUID]string, len(rows))
	for _, row := range rows {
		names[row.ClientID] = row.Name
	}
	return names, postgres.Wrap("client: names", err)
}

// Key returns the client's key in the list.
func (c Client) Key() page.Key { return page.Key{At: c.CreatedAt, ID: c.ID} }

// Filter is a search for clients. Each field that is not empty leaves those of which it is true; of the two hosts, one is enough.
type Filter struct {
	Query           string // in the name or the contact's address, in any case, or at the beginning of the id
	Status          Status
	CallbackHost    string // of the callback's URL, without or with its port, in any case
	WebhookHost     string // of the webhook's URL
	ChangeRequested bool   // a request for a change waits for the operator
}

// finds reports whether a client is one of those.
func (f Filter) finds(row clientdb.ListSearchedRow) bool {
	key := text.Fold(f.Query)
	switch {
	case f.Status != "" && string(f.Status) != row.Status, f.ChangeRequested && !row.ChangeRequested,
		f.CallbackHost+f.WebhookHost != "" && !isOn(f.CallbackHost, row.CallbackUrl) && !isOn(f.WebhookHost, row.WebhookUrl):
		return false
	}
	return strings.Contains(text.Fold(row.Name), key) || strings.Contains(text.Fold(row.ContactEmail), key) ||
		strings.HasPrefix(row.ClientID.String(), key) || row.ContactEmail != "" && text.AddressKey(row.ContactEmail) == text.AddressKey(f.Query)
}

// isOn reports whether a URL is on a host.
func isOn(host, address string) bool {
	u, err := url.Parse(address)
	return host != "" && err == nil && (strings.EqualFold(u.Hostname(), host) || strings.EqualFold(u.Host, host))
}

// List returns at most limit clients after a key, oldest first: those that a filter finds.
func (r *Registry) List(ctx context.Context, filter Filter, after page.Key, limit int) ([]Client, error) {
	if filter == (Filter{}) {
		rows, err := r.queries.ListClients(ctx, clientdb.ListClientsParams{AfterTime: after.At, AfterID: after.ID, MaxRows: int32(limit)})
		return postgres.Map(rows, fromRow), postgres.Wrap("list clients", err)
	}
	ids, err := r.search(ctx, filter, after)
	if err != nil {
		return nil, err
	}
	rows, err := r.queries.ListClientsOf(ctx, ids[:min(len(ids), limit)])
	return postgres.Map(rows, func(row clientdb.ListClientsOfRow) Client { return fromRow(clientdb.ListClientsRow(row)) }),
		postgres.Wrap("list clients", err)
}

// Search returns the clients that a filter finds, oldest first. It is nil for an empty filter.
func (r *Registry) Search(ctx context.Context, filter Filter) ([]uuid.UUID, error) {
	if filter == (Filter{}) {
		return nil, nil
	}
	return r.search(ctx, filter, page.Key{})
}

func (r *Registry) search(ctx context.Context, filter Filter, after page.Key) ([]uuid.UUID, error) {
	rows, err := r.queries.ListSearched(ctx, clientdb.ListSearchedParams{AfterTime: after.At, AfterID: after.ID})
	ids := []uuid.UUID{}
	for _, row := range rows {
		if filter.finds(row) {
			ids = append(ids, row.ClientID)
		}
	}
	return ids, postgres.Wrap("search clients", err)
}

// putLogo replaces or removes the logo of a client.
func putLogo(ctx context.Context, queries *clientdb.Queries, id uuid.UUID, logo brand.Logo) error {
	if logo.Name == "" {
		return queries.DeleteLogo(ctx, id)
	}
	return queries.PutLogo(ctx, clientdb.PutLogoParams{ClientID: id, Logo: logo.Name, Content: logo.Content})
}

// logoKey identifies a logo.
type logoKey struct {
	clientID uuid.UUID
	name     string
}

var logoName = regexp.MustCompile(`^[0-9A-Za-z._-]{1,64}$`)

// Logo returns the logo of a client that has this name. Concurrent calls share a statement, because anyone may call this. Error:
// refusal.ErrClientNotFound.
func (r *Registry) Logo(ctx context.Context, id uuid.UUID, name string) (brand.Logo, error) {
	if !logoName.MatchString(name) { // PostgreSQL could refuse the shared statement
		return brand.Logo{}, clientError(id, refusal.ErrClientNotFound)
	}
	logo, ok, err := r.logos.Ask(ctx, logoKey{id, name})
	if err == nil && !ok {
		err = refusal.ErrClientNotFound
	}
	return logo, clientError(id, err)
}

func (r *Registry) listLogos(ctx context.Context, keys []logoKey) (map[logoKey]brand.Logo, error) {
	rows, err := r.queries.ListLogos(work.AnyClock(ctx), clientdb.ListLogosParams{
		ClientIds: postgres.Map(keys, func(k logoKey) uuid.UUID { return k.clientID }),
		Logos:     postgres.Map(keys, func(k logoKey) string { return k.name }),
	})
	logos := make(map[logoKey]brand.Logo, len(rows))
	for _, row := range rows {
		logos[logoKey{row.ClientID, row.Logo}] = brand.Logo{Name: row.Logo, Content: row.Content}
	}
	return logos, err
}
