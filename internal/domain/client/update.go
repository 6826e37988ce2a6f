package client

import (
	"context"
	"maps"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
)

// Update changes a registration and returns the changed client. change receives the current registration. After a *refusal.FieldError nothing
// has changed. A new callback or a smaller allowance takes effect at once: requests and codes with the old callback end, and a refresh of
// scopes that are no longer allowed is refused (specification 7.3). Other errors: refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (r *Registry) Update(ctx context.Context, id uuid.UUID, change func(*Registration)) (updated Client, err error) {
	err = postgres.InTxAgain(ctx, r.pool, func(tx pgx.Tx) error {
		queries := r.queries.WithTx(tx)
		if updated, err = lock(ctx, queries, id); err != nil {
			return err
		}
		return update(ctx, queries, &updated, change, nil)
	})
	if err != nil {
		return Client{}, clientError(id, err)
	}
	return updated, nil
}

// lock locks a client until the transaction ends. Errors: pgx.ErrNoRows, refusal.ErrClientOffboarded.
func lock(ctx context.Context, queries *clientdb.Queries, id uuid.UUID) (Client, error) {
	row, err := queries.LockClient(ctx, id)
	if err != nil {
		return Client{}, err
	}
	found := fromRow(clientdb.ListClientsRow(row))
	if found.Status == Offboarded {
		err = refusal.ErrClientOffboarded
	}
	return found, err
}

// update changes the registration of a client that is locked. The audit log gets the changes, and more. After a *refusal.FieldError
// nothing has changed.
func update(ctx context.Context, queries *clientdb.Queries, c *Client, change func(*Registration), more map[string]any) error {
	before := c.Registration
	change(&c.Registration)
	if err := c.validate(); err != nil {
		return err
	}
	changes := differences(before, c.Registration)
	if len(changes) == 0 {
		return nil
	}
	if err := queries.UpdateClient(ctx, clientdb.UpdateClientParams{
		ClientID:          c.ID,
		Name:              c.Name,
		CallbackUrl:       c.CallbackURL,
		Scopes:            c.Scopes,
		RequestsPerMinute: int32(c.Policy.RequestsPerMinute),
		Burst:             int32(c.Policy.Burst),
		ConcurrentReads:   int32(c.Policy.ConcurrentReads),
		ContactEmail:      c.ContactEmail,
		HomepageUrl:       c.HomepageURL,
		PrivacyUrl:        c.PrivacyURL,
		TermsUrl:          c.TermsURL,
		Logo:              c.Logo.Name,
		WebhookParallel:   int16(c.WebhookParallel), //nolint:gosec // 1 to 64
	}); err != nil {
		return err
	}
	if c.Logo.Name != before.Logo.Name {
		if err := putLogo(ctx, queries, c.ID, c.Logo); err != nil {
			return err
		}
	}
	maps.Copy(changes, more)
	return audit(ctx, queries, c.ID, "client.updated", changes)
}

// differences returns the changed fields with their old and new values. Contact addresses are personal, so their values are left out.
func differences(before, after Registration) map[string]any {
	changes, to := map[string]any{}, after.audited()
	for field, from := range before.audited() {
		if from != to[field] {
			changes[field] = map[string]any{"from": from, "to": to[field]}
		}
	}
	if before.ContactEmail != after.ContactEmail {
		changes["contact_email"] = map[string]any{}
	}
	return changes
}

// audited returns the fields whose values the audit log contains.
func (r Registration) audited() map[string]any {
	return map[string]any{
		"name": r.Name, "callback_url": r.CallbackURL, "scopes": r.Scopes.String(), "webhook_parallel": r.WebhookParallel,
		"requests_per_minute": r.Policy.RequestsPerMinute, "burst": r.Policy.Burst, "concurrent_reads": r.Policy.ConcurrentReads,
		"homepage_url": r.HomepageURL, "privacy_url": r.PrivacyURL, "terms_url": r.TermsURL, "logo": r.Logo.Name,
	}
}
