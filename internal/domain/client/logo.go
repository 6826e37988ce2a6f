package client

import (
	"context"
	"regexp"

	"github.com/google/uuid"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
)

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

// logosPerStatement bounds how many logos, of up to 64 KiB, one statement reads.
const logosPerStatement = 20

// Logo returns the logo of a client that has this name. Concurrent calls share a statement, because anyone may call this. Error:
// refusal.ErrClientNotFound.
func (r *Registry) Logo(ctx context.Context, id uuid.UUID, name string) (brand.Logo, error) {
	if !logoName.MatchString(name) { // PostgreSQL could refuse the shared statement
		return brand.Logo{}, clientError(id, refusal.ErrClientNotFound)
	}
	logo, found, err := r.logos.Ask(ctx, logoKey{id, name})
	if err == nil && !found {
		err = refusal.ErrClientNotFound
	}
	if err != nil {
		return brand.Logo{}, clientError(id, err)
	}
	return logo, nil
}

func (r *Registry) listLogos(ctx context.Context, keys []logoKey) (map[logoKey]brand.Logo, error) {
	rows, err := r.queries.ListLogos(ctx, clientdb.ListLogosParams{
		ClientIds: postgres.Map(keys, func(k logoKey) uuid.UUID { return k.clientID }),
		Logos:     postgres.Map(keys, func(k logoKey) string { return k.name }),
	})
	found := make(map[logoKey]brand.Logo, len(rows))
	for _, row := range rows {
		found[logoKey{row.ClientID, row.Logo}] = brand.Logo{Name: row.Logo, Content: row.Content}
	}
	return found, err
}
