package client

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/postgres"
)

// store is the registrations as rows of the table clients.
type store struct {
	pool    *postgres.Pool
	queries *clientdb.Queries
}

func newStore(pool *postgres.Pool) store { return store{pool, clientdb.New(pool)} }

func (s store) create(ctx context.Context, id uuid.UUID, registration Registration, secretHash []byte) error {
	return s.queries.CreateClient(ctx, clientdb.CreateClientParams{
		ClientID:          id,
		Name:              registration.Name,
		CallbackUrl:       registration.CallbackURL,
		Scopes:            registration.Scopes,
		SecretHash:        secretHash,
		RequestsPerMinute: int32(registration.Policy.RequestsPerMinute),
		Burst:             int32(registration.Policy.Burst),
		ConcurrentReads:   int32(registration.Policy.ConcurrentReads),
		ContactEmail:      optional(registration.ContactEmail),
		HomepageUrl:       optional(registration.HomepageURL),
	})
}

// get returns a client, or ErrNotFound.
func (s store) get(ctx context.Context, id uuid.UUID) (Client, error) {
	row, err := s.queries.GetClient(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Client{}, ErrNotFound
	}
	if err != nil {
		return Client{}, err
	}
	return fromRow(row), nil
}

func (s store) list(ctx context.Context) ([]Client, error) {
	rows, err := s.queries.ListClients(ctx)
	if err != nil {
		return nil, err
	}
	list := make([]Client, len(rows))
	for i, row := range rows {
		list[i] = fromRow(row)
	}
	return list, nil
}

func (s store) setStatus(ctx context.Context, id uuid.UUID, status Status) (done bool, err error) {
	n, err := s.queries.SetClientStatus(ctx, clientdb.SetClientStatusParams{ClientID: id, Status: string(status)})
	return n == 1, err
}

func (s store) replaceSecret(ctx context.Context, id uuid.UUID, hash []byte) (changed bool, err error) {
	n, err := s.queries.ReplaceClientSecret(ctx, clientdb.ReplaceClientSecretParams{ClientID: id, SecretHash: hash})
	return n == 1, err
}

// update changes a registration as change does, and notes in the audit log what is another.
func (s store) update(ctx context.Context, id uuid.UUID, change func(*Registration) error) (updated Client, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		queries := s.queries.WithTx(tx)
		row, err := queries.LockClient(ctx, id)
		if errors.Is(err, pgx.ErrNoRows) {
			return ErrNotFound
		}
		if err != nil {
			return err
		}
		updated = fromRow(row)
		if updated.Status == Offboarded {
			return ErrOffboarded
		}
		before := updated.Registration
		if err := change(&updated.Registration); err != nil {
			return err
		}
		changes := differences(before, updated.Registration)
		if len(changes) == 0 {
			return nil
		}
		if err := queries.UpdateClient(ctx, updateParams(updated)); err != nil {
			return err
		}
		return note(ctx, queries, id, "client.updated", changes)
	})
	if err != nil {
		return Client{}, err
	}
	return updated, nil
}

func updateParams(c Client) clientdb.UpdateClientParams {
	return clientdb.UpdateClientParams{
		ClientID:          c.ID,
		Name:              c.Name,
		CallbackUrl:       c.CallbackURL,
		Scopes:            c.Scopes,
		RequestsPerMinute: int32(c.Policy.RequestsPerMinute),
		Burst:             int32(c.Policy.Burst),
		ConcurrentReads:   int32(c.Policy.ConcurrentReads),
		ContactEmail:      optional(c.ContactEmail),
		HomepageUrl:       optional(c.HomepageURL),
	}
}

// differences are the fields that are another, with what they were and are. The contact's address is somebody's: that
// it changed is enough.
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
	differ("homepage_url", before.HomepageURL, after.HomepageURL)
	if before.ContactEmail != after.ContactEmail {
		changes["contact_email"] = map[string]any{}
	}
	return changes
}

// note writes an event of the operator to the audit log.
func note(ctx context.Context, queries *clientdb.Queries, id uuid.UUID, action string, detail map[string]any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	return queries.NoteClientChange(ctx, clientdb.NoteClientChangeParams{Action: action, ClientID: id, Detail: text})
}

func (s store) countConnections(ctx context.Context, id uuid.UUID) (int64, error) {
	return s.queries.CountConnections(ctx, id)
}

// offboard ends a client and then its connections. Whoever exchanges a code holds the client's row until the
// connection is there, and so none is missed.
func (s store) offboard(
	ctx context.Context, id uuid.UUID, endConnections EndConnections,
) (connections int64, changed bool, err error) {
	err = postgres.InTx(ctx, s.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "set local statement_timeout = 0"); err != nil { // there may be millions
			return err
		}
		queries := s.queries.WithTx(tx)
		n, err := queries.OffboardClient(ctx, id)
		if err != nil || n == 0 {
			return err
		}
		if connections, err = endConnections(ctx, tx, id); err != nil {
			return err
		}
		changed = true
		return note(ctx, queries, id, "client.offboarded", map[string]any{"connections": connections})
	})
	return connections, changed, err
}

func fromRow(row clientdb.Client) Client {
	return Client{
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
			ContactEmail: given(row.ContactEmail),
			HomepageURL:  given(row.HomepageUrl),
		},
		Status:    Status(row.Status),
		CreatedAt: row.CreatedAt,
	}
}

// optional and given turn an optional text into a nullable column and back.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func given(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}
