package client

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math"
	"strings"
	"unicode"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/foundation/postgres"
	"github.com/google/uuid"
	"go.mau.fi/util/confusable"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// LookAlikes returns the clients whose names users could confuse with this one, oldest first, without the client except. The cost does not
// depend on how many clients there are. until 1.3.0: it grows with the names that programs of 1.0.0 have written since [Registry.KeyNames].
func (r *Registry) LookAlikes(ctx context.Context, name string, except uuid.UUID) ([]Client, error) {
	wanted := looksOf(name)
	possible, err := r.queries.ListNamesWithLooks(ctx, clientdb.ListNamesWithLooksParams{Looks: append(wanted.keys(), unknownLooks), MaxRows: math.MaxInt32})
	if err != nil {
		return nil, postgres.Wrap("look-alikes", err)
	}
	var similar []uuid.UUID
	for _, row := range possible {
		if row.ClientID != except && looksOf(row.Name).alike(wanted) {
			similar = append(similar, row.ClientID)
		}
	}
	if len(similar) == 0 {
		return nil, nil
	}
	rows, err := r.queries.ListClientsOf(ctx, similar)
	return postgres.Map(rows, func(row clientdb.ListClientsOfRow) Client { return fromRow(clientdb.ListClientsRow(row)) }), err
}

const (
	// unknownLooks is the key of names that have no keys yet.
	unknownLooks = 0
	// namesPage is how many names KeyNames reads at a time.
	namesPage = 1000
)

// KeyNames stores the keys by which LookAlikes finds names that a program of 1.0.0 (until 1.3.0) has written.
func (r *Registry) KeyNames(ctx context.Context) error {
	for {
		rows, err := r.queries.ListNamesWithLooks(ctx, clientdb.ListNamesWithLooksParams{Looks: []int64{unknownLooks}, MaxRows: namesPage})
		for _, row := range rows {
			if err == nil {
				err = r.queries.PutLooks(ctx, clientdb.PutLooksParams{ClientID: row.ClientID, Name: row.Name, Looks: looksOf(row.Name).keys()})
			}
		}
		if err != nil || len(rows) < namesPage {
			return postgres.Wrap("client: give names their keys", err)
		}
	}
}

// looks are what users see of a name as it is written, and in lower case: a capital i looks like an l, and a small one does not.
type looks [2]string

// alike reports whether two names look the same or similar.
func (l looks) alike(other looks) bool { return l[0] == other[0] || l[1] == other[1] }

// keys are what the database has of looks. Names that are alike have one in common. Other names hardly ever do.
func (l looks) keys() []int64 {
	keys := make([]int64, len(l))
	for i, seen := range l {
		sum := sha256.Sum256(append([]byte{byte(i)}, seen...))
		keys[i] = int64(binary.BigEndian.Uint64(sum[:])) //nolint:gosec // the bits matter
	}
	return keys
}

// looksOf ignores case, accents, spaces and punctuation, and equates characters that are easily confused (UTS #39). The database has keys of the
// result, so a change of it needs a migration (TestLooksStay).
func looksOf(name string) looks {
	fold := cases.Fold()
	seen := func(s string) string {
		skeleton := fold.String(confusable.Skeleton(s))
		letters := strings.Map(func(c rune) rune {
			if unicode.IsSpace(c) || unicode.IsPunct(c) || c >= '\u0300' && c <= '\u036f' { // the accents of Latin, Greek and Cyrillic
				return -1
			}
			return c
		}, norm.NFD.String(skeleton))
		return cmp.Or(letters, skeleton) // a name of nothing else stays as it is
	}
	name = norm.NFKC.String(name)
	return looks{seen(name), seen(fold.String(name))}
}
