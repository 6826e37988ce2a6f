package client

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"connect-svc/gen/db"
)

// store is the registrations as rows of the table clients.
type store struct {
	queries *db.Queries
}

func newStore(pool *pgxpool.Pool) store { return store{db.New(pool)} }

func (s store) create(ctx context.Context, id uuid.UUID, registration Registration, secretHash []byte) error {
	return s.queries.CreateClient(ctx, db.CreateClientParams{
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

// get returns a client and the hash of its secret, or ErrNotFound.
func (s store) get(ctx context.Context, id uuid.UUID) (Client, []byte, error) {
	row, err := s.queries.GetClient(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Client{}, nil, ErrNotFound
	}
	if err != nil {
		return Client{}, nil, err
	}
	return fromRow(row), row.SecretHash, nil
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
	n, err := s.queries.SetClientStatus(ctx, db.SetClientStatusParams{ClientID: id, Status: string(status)})
	return n == 1, err
}

func (s store) replaceSecret(ctx context.Context, id uuid.UUID, hash []byte) (changed bool, err error) {
	n, err := s.queries.ReplaceClientSecret(ctx, db.ReplaceClientSecretParams{ClientID: id, SecretHash: hash})
	return n == 1, err
}

func fromRow(row db.Client) Client {
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
