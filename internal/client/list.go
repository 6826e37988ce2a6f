package client

import (
	"context"

	"github.com/google/uuid"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/page"
	"connect-svc/internal/postgres"
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

// List returns at most limit clients after a key, oldest first: those with the query in the name or the contact's address, or at the
// beginning of the id. An empty query finds all.
func (r *Registry) List(ctx context.Context, query string, after page.Key, limit int) ([]Client, error) {
	rows, err := r.queries.ListClients(ctx, clientdb.ListClientsParams{
		Query: query, AfterTime: after.At, AfterID: after.ID, MaxRows: int32(limit),
	})
	return postgres.Map(rows, fromRow), postgres.Wrap("list clients", err)
}
