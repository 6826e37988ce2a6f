package client

import (
	"cmp"
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/work"
)

// Create registers a client and returns it with its secret, which is not stored and cannot be shown again. A wrong field is a
// *refusal.FieldError.
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
	err = postgres.InTxAgain(ctx, r.pool, func(tx pgx.Tx) error {
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
			Actor:             work.Actor(ctx),
		}); err != nil {
			return err
		}
		return putLogo(ctx, queries, id, registration.Logo)
	})
	if postgres.Violates(err, "clients_pkey") {
		err = ErrExists
	}
	if err != nil {
		return Client{}, "", fmt.Errorf("create client: %w", err)
	}
	created, err := r.Get(ctx, id)
	return created, secret, err
}
