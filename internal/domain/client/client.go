package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/google/uuid"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
)

// Registry holds the registrations in a database.
type Registry struct {
	pool           *postgres.Pool
	queries        *clientdb.Queries
	endConnections EndConnections
	logos          *work.Batch[logoKey, brand.Logo]

	Random io.Reader // source of ids and secrets: crypto/rand, unless a sandbox repeats them
}

// NewRegistry returns the registry in a database. [Registry.Offboard] calls endConnections.
func NewRegistry(pool *postgres.Pool, endConnections EndConnections) *Registry {
	r := &Registry{pool: pool, queries: clientdb.New(pool), endConnections: endConnections, Random: rand.Reader}
	r.logos = work.NewBatch(logosPerStatement, r.listLogos)
	return r
}

// Errors of this package, in addition to *refusal.FieldError.
var (
	ErrExists = errors.New("there is a client of this id")

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

func fromRow(found clientdb.ListClientsRow) Client {
	row := found.Client
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
	if found.Overlapping {
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
	return fmt.Errorf("client %s: %w", id, postgres.NoRowsAs(err, refusal.ErrClientNotFound))
}

// audit adds an entry of the audit log about a client.
func audit(ctx context.Context, queries *clientdb.Queries, id uuid.UUID, action string, detail map[string]any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	return queries.InsertClientAudit(ctx, clientdb.InsertClientAuditParams{Actor: work.Actor(ctx), Action: action, ClientID: id, Detail: text})
}
