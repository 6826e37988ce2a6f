package client

import (
	"context"
	"strings"

	"github.com/google/uuid"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/text"
)

// Get returns a client. Error: refusal.ErrClientNotFound.
func (r *Registry) Get(ctx context.Context, id uuid.UUID) (Client, error) {
	row, err := r.queries.GetClient(ctx, id)
	if err != nil {
		return Client{}, clientError(id, err)
	}
	return fromRow(clientdb.ListClientsRow(row)), nil
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

// List returns at most limit clients after a key, oldest first: those that a query finds as in [Registry.Search]. An empty query finds all.
func (r *Registry) List(ctx context.Context, query string, after page.Key, limit int) ([]Client, error) {
	if query == "" {
		rows, err := r.queries.ListClients(ctx, clientdb.ListClientsParams{AfterTime: after.At, AfterID: after.ID, MaxRows: int32(limit)})
		return postgres.Map(rows, fromRow), postgres.Wrap("list clients", err)
	}
	found, err := r.search(ctx, query, after)
	if err != nil {
		return nil, err
	}
	rows, err := r.queries.ListClientsOf(ctx, found[:min(len(found), limit)])
	return postgres.Map(rows, func(row clientdb.ListClientsOfRow) Client { return fromRow(clientdb.ListClientsRow(row)) }),
		postgres.Wrap("list clients", err)
}

// Search returns the clients that a query finds, oldest first: those with the query in the name or the contact's address, in any case, or at the
// beginning of the id. It is nil for an empty query.
func (r *Registry) Search(ctx context.Context, query string) ([]uuid.UUID, error) {
	if query == "" {
		return nil, nil
	}
	return r.search(ctx, query, page.Key{})
}

func (r *Registry) search(ctx context.Context, query string, after page.Key) ([]uuid.UUID, error) {
	rows, err := r.queries.ListSearched(ctx, clientdb.ListSearchedParams{AfterTime: after.At, AfterID: after.ID})
	found, key, address := []uuid.UUID{}, text.Fold(query), text.AddressKey(query)
	for _, row := range rows {
		if strings.Contains(text.Fold(row.Name), key) || strings.Contains(text.Fold(row.ContactEmail), key) ||
			strings.HasPrefix(row.ClientID.String(), key) ||
			row.ContactEmail != "" && text.AddressKey(row.ContactEmail) == address {
			found = append(found, row.ClientID)
		}
	}
	return found, postgres.Wrap("search clients", err)
}
