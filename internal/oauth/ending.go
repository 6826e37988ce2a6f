package oauth

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// EndConnectionsOfUser disconnects a user from every client within the transaction that goes on to delete the user, and
// returns how many connections were not disconnected before. The clients are told. The transaction holds the user's row,
// so that no connection is made meanwhile.
func EndConnectionsOfUser(ctx context.Context, tx pgx.Tx, userID uuid.UUID) (int64, error) {
	n, err := endConnectionsOfUser(ctx, tx, userID)
	if err != nil {
		return 0, fmt.Errorf("end the connections of a user: %w", err)
	}
	return n, nil
}

// EndConnectionsOfClient disconnects every user from a client within the transaction that has offboarded the client, and
// returns how many connections were not disconnected before. The transaction holds the client's row, so that no
// connection is made meanwhile.
func EndConnectionsOfClient(ctx context.Context, tx pgx.Tx, clientID uuid.UUID) (int64, error) {
	n, err := endConnectionsOfClient(ctx, tx, clientID)
	if err != nil {
		return 0, fmt.Errorf("end the connections of a client: %w", err)
	}
	return n, nil
}
