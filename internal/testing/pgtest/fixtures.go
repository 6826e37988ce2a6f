package pgtest

import (
	"crypto/rand"
	"crypto/sha256"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/text"
)

// Client is a registration for a test. Change its fields in the function that [DB.Client] takes.
type Client struct {
	ID                uuid.UUID
	Secret            string
	Name              string
	CallbackURL       string
	Scopes            scope.Set
	Status            string
	RequestsPerMinute int
	Burst             int
	ConcurrentReads   int
}

// SecretHash is what the service keeps of the secret.
func (c Client) SecretHash() [sha256.Size]byte { return sha256.Sum256([]byte(c.Secret)) }

// Client registers a client: active, with all scopes and the default rate policy, unless change says otherwise.
func (db *DB) Client(t testing.TB, change ...func(*Client)) Client {
	t.Helper()
	c := Client{
		ID:          uuid.New(),
		Secret:      "svci_" + rand.Text(),
		Name:        "Example Partner",
		CallbackURL: "https://partner.example/callback",
		Scopes:      scope.All,
		Status:      "active",

		RequestsPerMinute: 600,
		Burst:             60,
		ConcurrentReads:   10,
	}
	for _, f := range change {
		f(&c)
	}
	hash := c.SecretHash()
	db.Exec(t, `insert into clients (client_id, name, callback_url, scopes, secret_hash, status,
		requests_per_minute, burst, concurrent_reads, created_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, connect_now())`,
		c.ID, c.Name, c.CallbackURL, int16(c.Scopes), hash[:], c.Status, c.RequestsPerMinute, c.Burst, c.ConcurrentReads)
	return c
}

// Webhook gives a client a webhook at an address that does not exist, with a secret that nothing can open.
func (db *DB) Webhook(t testing.TB, clientID uuid.UUID) {
	t.Helper()
	db.Exec(t, "insert into webhook_endpoints (client_id, url, secret) values ($1, 'https://partner.invalid/webhook', 'sealed')", clientID)
}

// User is a user for a test. Change its fields in the function that [DB.User] takes.
type User struct {
	ID           uuid.UUID
	Email        string
	Timezone     string
	RegisteredOn time.Time // midnight UTC
}

// User makes a user with an address of its own, who lives by UTC and is registered since 2020, unless change says
// otherwise.
func (db *DB) User(t testing.TB, change ...func(*User)) User {
	t.Helper()
	u := User{
		ID:           uuid.New(),
		Email:        "user-" + strings.ToLower(rand.Text()) + "@users.example",
		Timezone:     "UTC",
		RegisteredOn: time.Date(2020, time.January, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, f := range change {
		f(&u)
	}
	db.Exec(t, `with address as (insert into user_addresses (address, user_id, email) values ($5, $1, $2))
		insert into users (user_id, email, timezone, registered_on, created_at)
		values ($1, $2, $3, $4, connect_now())`, u.ID, u.Email, u.Timezone, u.RegisteredOn, text.AddressKey(u.Email))
	return u
}
