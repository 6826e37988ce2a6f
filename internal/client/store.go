package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/actor"
	"connect-svc/internal/brand"
	"connect-svc/internal/credential"
	"connect-svc/internal/fairqueue"
	"connect-svc/internal/page"
	"connect-svc/internal/postgres"
)

// EndConnections ends the connections of a client that was offboarded, and returns how many it ended. Connections are
// another domain's.
type EndConnections func(ctx context.Context, pool *postgres.Pool, clientID uuid.UUID) (int64, error)

// Registry holds the registrations in a database.
type Registry struct {
	pool           *postgres.Pool
	queries        *clientdb.Queries
	endConnections EndConnections
	logos          *fairqueue.Batch[logoKey, brand.Logo]

	Random io.Reader // source of ids and secrets: crypto/rand, unless a sandbox repeats them
}

// NewRegistry returns the registry in a database. [Registry.Offboard] calls endConnections.
func NewRegistry(pool *postgres.Pool, endConnections EndConnections) *Registry {
	r := &Registry{pool: pool, queries: clientdb.New(pool), endConnections: endConnections, Random: rand.Reader}
	r.logos = fairqueue.NewBatch(logosAtOnce, r.listLogos)
	return r
}

// Create registers a client and returns it with its secret, which is not stored and cannot be shown again. A wrong
// field is a *FieldError.
func (r *Registry) Create(ctx context.Context, registration Registration) (Client, string, error) {
	id, err := uuid.NewRandomFromReader(r.Random)
	if err != nil {
		return Client{}, "", fmt.Errorf("client: create: %w", err)
	}
	return r.Register(ctx, id, registration)
}

// Register is [Registry.Create] with an id that the caller chose. Calls with one id create one client: all but the first fail with
// ErrExists.
func (r *Registry) Register(ctx context.Context, id uuid.UUID, registration Registration) (Client, string, error) {
	registration.WebhookParallel = cmp.Or(registration.WebhookParallel, DefaultWebhookParallel)
	if err := registration.validate(); err != nil {
		return Client{}, "", err
	}
	secret, hash, err := credential.NewClientSecret(r.Random)
	if err != nil {
		return Client{}, "", err
	}
	err = postgres.InTx(ctx, r.pool, func(tx pgx.Tx) error {
		queries := r.queries.WithTx(tx)
		if err := queries.CreateClient(ctx, clientdb.CreateClientParams{
			ClientID:          id,
			Name:              registration.Name,
			CallbackUrl:       registration.CallbackURL,
			Scopes:            registration.Scopes,
			SecretHash:        hash,
			RequestsPerMinute: int32(registration.Policy.RequestsPerMinute),
			Burst:             int32(registration.Policy.Burst),
			ConcurrentReads:   int32(registration.Policy.ConcurrentReads),
			ContactEmail:      registration.ContactEmail,
			HomepageUrl:       registration.HomepageURL,
			PrivacyUrl:        registration.PrivacyURL,
			TermsUrl:          registration.TermsURL,
			Logo:              registration.Logo.Name,
			WebhookParallel:   int16(registration.WebhookParallel), //nolint:gosec // 1 to 64
			Actor:             actor.Of(ctx),
		}); err != nil {
			return err
		}
		return putLogo(ctx, queries, id, registration.Logo)
	})
	if postgres.IsUniqueViolation(err, "clients_pkey") {
		err = ErrExists
	}
	if err != nil {
		return Client{}, "", fmt.Errorf("create client: %w", err)
	}
	created, err := r.Get(ctx, id)
	return created, secret, err
}

// Get returns a client, or ErrNotFound.
func (r *Registry) Get(ctx context.Context, id uuid.UUID) (Client, error) {
	row, err := r.queries.GetClient(ctx, id)
	if err != nil {
		return Client{}, clientError(id, err)
	}
	return fromRow(clientdb.ListClientsRow(row)), nil
}

// Names are the names of clients, by id. Those that there are none of are missing.
func (r *Registry) Names(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]string, error) {
	rows, err := r.queries.ListClientNames(ctx, ids)
	names := make(map[uuid.UUID]string, len(rows))
	for _, row := range rows {
		names[row.ClientID] = row.Name
	}
	return names, postgres.Failed("client: names", err)
}

// List returns clients, oldest first: at most limit of them, those after a position.
func (r *Registry) List(ctx context.Context, after page.Key, limit int) ([]Client, error) {
	rows, err := r.queries.ListClients(ctx, clientdb.ListClientsParams{
		AfterTime: after.At, AfterID: after.ID, MaxRows: int32(limit),
	})
	return postgres.List(rows, fromRow), postgres.Failed("list clients", err)
}

// Disable makes a client unusable: its requests fail authentication and its access tokens stop working, until it is
// enabled again. Disabling a disabled client changes nothing. Errors: ErrNotFound, ErrOffboarded.
func (r *Registry) Disable(ctx context.Context, id uuid.UUID) error {
	return r.setStatus(ctx, id, Disabled)
}

// Enable makes a disabled client usable again; its connections were kept. Errors: ErrNotFound, ErrOffboarded.
func (r *Registry) Enable(ctx context.Context, id uuid.UUID) error {
	return r.setStatus(ctx, id, Active)
}

func (r *Registry) setStatus(ctx context.Context, id uuid.UUID, status Status) error {
	n, err := r.queries.SetClientStatus(ctx, clientdb.SetClientStatusParams{ClientID: id, Status: string(status), Actor: actor.Of(ctx)})
	return r.changed(ctx, id, n, err)
}

// RotateSecret replaces the secret of a client. The one before works for overlap yet, by the database's clock: 0, or whole seconds
// up to [MaxOverlap]. With 0 it no longer works when RotateSecret returns. An older one never works. Errors: *FieldError,
// ErrNotFound, ErrOffboarded.
func (r *Registry) RotateSecret(ctx context.Context, id uuid.UUID, overlap time.Duration) (Secret, error) {
	return r.rotateSecret(ctx, id, overlap, nil)
}

// RotateSeenSecret is RotateSecret for a caller who has seen [Client.OverlapUntil]. Where another secret works beside the newest by
// now, it replaces nothing: that secret would end, although its holder was told that it goes on. Error also: ErrReplacedSince.
func (r *Registry) RotateSeenSecret(ctx context.Context, id uuid.UUID, overlap time.Duration, overlapUntil time.Time) (Secret, error) {
	return r.rotateSecret(ctx, id, overlap, &overlapUntil)
}

func (r *Registry) rotateSecret(ctx context.Context, id uuid.UUID, overlap time.Duration, seenUntil *time.Time) (Secret, error) {
	if err := checkOverlap(overlap); err != nil {
		return Secret{}, err
	}
	secret, hash, err := credential.NewClientSecret(r.Random)
	if err != nil {
		return Secret{}, err
	}
	until, err := r.queries.ReplaceClientSecret(ctx, clientdb.ReplaceClientSecretParams{
		ClientID: id, SecretHash: hash, Overlap: overlap, SeenUntil: seenUntil, Actor: actor.Of(ctx),
	})
	if errors.Is(err, pgx.ErrNoRows) {
		known, err := r.Get(ctx, id)
		switch {
		case err != nil:
			return Secret{}, err
		case known.Status == Offboarded:
			return Secret{}, clientError(id, ErrOffboarded)
		}
		return Secret{}, clientError(id, ErrReplacedSince)
	}
	if err != nil {
		return Secret{}, clientError(id, err)
	}
	return Secret{secret, postgres.Value(until)}, nil
}

// Update changes what is registered about a client, and returns the client as it is then. change gets the present
// registration. After a *FieldError nothing has changed. A new callback or a smaller allowance takes effect at once:
// requests and codes that name the old callback end, and so does a refresh of scopes that are no longer allowed
// (specification 7.3). Other errors: ErrNotFound, ErrOffboarded.
func (r *Registry) Update(ctx context.Context, id uuid.UUID, change func(*Registration)) (updated Client, err error) {
	err = postgres.InTx(ctx, r.pool, func(tx pgx.Tx) error {
		queries := r.queries.WithTx(tx)
		row, err := queries.LockClient(ctx, id)
		if err != nil {
			return err
		}
		updated = fromRow(clientdb.ListClientsRow(row))
		if updated.Status == Offboarded {
			return ErrOffboarded
		}
		before := updated.Registration
		change(&updated.Registration)
		if err := updated.validate(); err != nil {
			return err
		}
		changes := differences(before, updated.Registration)
		if len(changes) == 0 {
			return nil
		}
		if err := queries.UpdateClient(ctx, clientdb.UpdateClientParams{
			ClientID:          id,
			Name:              updated.Name,
			CallbackUrl:       updated.CallbackURL,
			Scopes:            updated.Scopes,
			RequestsPerMinute: int32(updated.Policy.RequestsPerMinute),
			Burst:             int32(updated.Policy.Burst),
			ConcurrentReads:   int32(updated.Policy.ConcurrentReads),
			ContactEmail:      updated.ContactEmail,
			HomepageUrl:       updated.HomepageURL,
			PrivacyUrl:        updated.PrivacyURL,
			TermsUrl:          updated.TermsURL,
			Logo:              updated.Logo.Name,
			WebhookParallel:   int16(updated.WebhookParallel), //nolint:gosec // 1 to 64
		}); err != nil {
			return err
		}
		if updated.Logo.Name != before.Logo.Name {
			if err := putLogo(ctx, queries, id, updated.Logo); err != nil {
				return err
			}
		}
		return audit(ctx, queries, id, "client.updated", changes)
	})
	if err != nil {
		return Client{}, clientError(id, err)
	}
	return updated, nil
}

// putLogo replaces the logo of a client, or removes it.
func putLogo(ctx context.Context, queries *clientdb.Queries, id uuid.UUID, logo brand.Logo) error {
	if logo.Name == "" {
		return queries.DeleteLogo(ctx, id)
	}
	return queries.PutLogo(ctx, clientdb.PutLogoParams{ClientID: id, Logo: logo.Name, Content: logo.Content})
}

// logoKey is a logo that somebody asks for.
type logoKey struct {
	clientID uuid.UUID
	name     string
}

// logoName is what the name of a logo may be.
var logoName = regexp.MustCompile(`^[0-9A-Za-z._-]{1,64}$`)

// logosAtOnce is how many logos, of up to 64 KiB, are read by one statement.
const logosAtOnce = 20

// Logo returns the logo of a client that has this name. All who ask at a time share a statement: anybody may ask. Error:
// ErrNotFound.
func (r *Registry) Logo(ctx context.Context, id uuid.UUID, name string) (brand.Logo, error) {
	if !logoName.MatchString(name) { // PostgreSQL would refuse all who ask with it
		return brand.Logo{}, clientError(id, ErrNotFound)
	}
	logo, found, err := r.logos.Ask(ctx, logoKey{id, name})
	switch {
	case err != nil:
		return brand.Logo{}, clientError(id, err)
	case !found:
		return brand.Logo{}, clientError(id, ErrNotFound)
	}
	return logo, nil
}

func (r *Registry) listLogos(ctx context.Context, asked []logoKey) (map[logoKey]brand.Logo, error) {
	rows, err := r.queries.ListLogos(ctx, clientdb.ListLogosParams{
		ClientIds: postgres.List(asked, func(k logoKey) uuid.UUID { return k.clientID }),
		Logos:     postgres.List(asked, func(k logoKey) string { return k.name }),
	})
	found := make(map[logoKey]brand.Logo, len(rows))
	for _, row := range rows {
		found[logoKey{row.ClientID, row.Logo}] = brand.Logo{Name: row.Logo, Content: row.Content}
	}
	return found, err
}

// Connections counts the connections that Offboard would end.
func (r *Registry) Connections(ctx context.Context, id uuid.UUID) (int64, error) {
	n, err := r.queries.CountConnections(ctx, id)
	return n, postgres.Failed("connections of client "+id.String(), err)
}

// Offboard ends a client for good: it can never be used again, from then on, and all its connections are disconnected, in
// parts. It returns how many were. Errors: ErrNotFound, ErrOffboarded.
func (r *Registry) Offboard(ctx context.Context, id uuid.UUID) (connections int64, err error) {
	var n int64
	err = postgres.InTx(ctx, r.pool, func(tx pgx.Tx) error {
		queries := r.queries.WithTx(tx)
		if n, err = queries.OffboardClient(ctx, id); err != nil || n == 0 {
			return err
		}
		return audit(ctx, queries, id, "client.offboarded", map[string]any{})
	})
	if err := r.changed(ctx, id, n, err); err != nil {
		return 0, err
	}
	connections, err = r.endConnections(ctx, r.pool, id)
	if err != nil {
		return connections, fmt.Errorf("client %s is offboarded, and the service ends the rest of its connections: %w", id, err)
	}
	return connections, nil
}

// changed tells why a statement changed no row.
func (r *Registry) changed(ctx context.Context, id uuid.UUID, rows int64, err error) error {
	if err != nil {
		return clientError(id, err)
	}
	if rows > 0 {
		return nil
	}
	if _, err := r.Get(ctx, id); err != nil {
		return err
	}
	return clientError(id, ErrOffboarded)
}

func clientError(id uuid.UUID, err error) error {
	return fmt.Errorf("client %s: %w", id, postgres.NoRow(err, ErrNotFound))
}

// differences are the fields that changed, with their old and new values. Of the contact's address, which is personal, it
// only says that it changed.
func differences(before, after Registration) map[string]any {
	changes := map[string]any{}
	differ := func(field string, from, to any) {
		if from != to {
			changes[field] = map[string]any{"from": from, "to": to}
		}
	}
	differ("name", before.Name, after.Name)
	differ("callback_url", before.CallbackURL, after.CallbackURL)
	differ("scopes", before.Scopes.String(), after.Scopes.String())
	differ("requests_per_minute", before.Policy.RequestsPerMinute, after.Policy.RequestsPerMinute)
	differ("burst", before.Policy.Burst, after.Policy.Burst)
	differ("concurrent_reads", before.Policy.ConcurrentReads, after.Policy.ConcurrentReads)
	differ("webhook_parallel", before.WebhookParallel, after.WebhookParallel)
	differ("homepage_url", before.HomepageURL, after.HomepageURL)
	differ("privacy_url", before.PrivacyURL, after.PrivacyURL)
	differ("terms_url", before.TermsURL, after.TermsURL)
	differ("logo", before.Logo.Name, after.Logo.Name)
	if before.ContactEmail != after.ContactEmail {
		changes["contact_email"] = map[string]any{}
	}
	return changes
}

// audit writes an act of the operator to the audit log.
func audit(ctx context.Context, queries *clientdb.Queries, id uuid.UUID, action string, detail map[string]any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	return queries.NoteClientChange(ctx, clientdb.NoteClientChangeParams{Actor: actor.Of(ctx), Action: action, ClientID: id, Detail: text})
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
