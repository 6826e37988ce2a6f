package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Policy is a client's rate policy (specification section 8).
type Policy struct {
	RequestsPerMinute int `json:"requests_per_minute"` // sustained refill, 1 to 1,000,000
	Burst             int `json:"burst"`               // back-to-back requests when the budget is full, 1 to 1,000,000
	ConcurrentReads   int `json:"concurrent_reads"`    // concurrent activity reads, 1 to 10,000
}

// DefaultPolicy is used unless the operator sets another one.
var DefaultPolicy = Policy{RequestsPerMinute: 600, Burst: 60, ConcurrentReads: 10}

// Registration is what the operator registers about a client.
type Registration struct {
	Name         string    `json:"name"`         // 1 to 100 characters, shown to users
	CallbackURL  string    `json:"callback_url"` // see [ValidateCallback]
	Scopes       scope.Set `json:"scopes"`       // the allowance, at least one
	Policy       Policy    `json:"policy"`
	ContactEmail string    `json:"contact_email"` // optional
	HomepageURL  string    `json:"homepage_url"`  // optional, https, shown to users like the next three
	PrivacyURL   string    `json:"privacy_url"`
	TermsURL     string    `json:"terms_url"`
	// Logo of a client that was read has only its name: see [Registry.Logo].
	Logo brand.Logo `json:"-"`
	// WebhookParallel is how many events a server sends to the client concurrently, 1 to 64, or 0 for [DefaultWebhookParallel].
	WebhookParallel int `json:"webhook_parallel"`
}

// DefaultWebhookParallel suits a receiver that answers immediately.
const DefaultWebhookParallel = 8

// Limits are the maximum lengths in characters, or the largest numbers, of a registration's fields. The smallest number is 1.
var Limits = map[string]int{
	"name": 100, "callback": 2048, "contact-email": text.MaxAddress,
	"homepage": brand.MaxPage, "privacy-url": brand.MaxPage, "terms-url": brand.MaxPage,
	"requests-per-minute": 1_000_000, "burst": 1_000_000, "concurrent-reads": 10_000, "webhook-parallel": 64,
}

// validate makes the contact's address what is stored. It returns a refusal.Field with the command line's name of the field: contact-email.
func (r *Registration) validate() error {
	r.ContactEmail = text.StoredAddress(r.ContactEmail)
	switch callback := ValidateCallback(r.CallbackURL); {
	case r.Name != strings.TrimSpace(r.Name) || r.Name == "" || utf8.RuneCountInString(r.Name) > Limits["name"] ||
		!utf8.ValidString(r.Name) || strings.ContainsFunc(r.Name, unseen) || !strings.ContainsFunc(r.Name, unicode.IsGraphic):
		return refusal.Field{Path: "name", Problem: "must be 1 to 100 characters, without characters that cannot be seen or space at its ends"}
	case callback != nil:
		return refusal.Field{Path: "callback", Problem: callback.Error()}
	case r.Scopes == 0 || !scope.All.Contains(r.Scopes):
		return refusal.Field{Path: "scope", Problem: "must be one or more of " + strings.Join(scope.All.Names(), ", ")}
	case r.ContactEmail != "" && !text.IsAddress(r.ContactEmail):
		return refusal.Field{Path: "contact-email", Problem: "must be an e-mail address like name@example.com"}
	}
	for _, number := range []struct {
		field string
		value int
	}{
		{"requests-per-minute", r.Policy.RequestsPerMinute}, {"burst", r.Policy.Burst},
		{"concurrent-reads", r.Policy.ConcurrentReads}, {"webhook-parallel", r.WebhookParallel},
	} {
		if most := Limits[number.field]; number.value < 1 || number.value > most {
			return refusal.Field{Path: number.field, Problem: fmt.Sprintf("must be 1 to %d", most)}
		}
	}
	for _, page := range []struct{ field, address string }{
		{"homepage", r.HomepageURL}, {"privacy-url", r.PrivacyURL}, {"terms-url", r.TermsURL},
	} {
		if page.address != "" && !brand.IsPage(page.address) {
			return refusal.Field{Path: page.field, Problem: "must be an https:// address of at most 2048 characters"}
		}
	}
	return nil
}

// unseen reports characters that are invisible, also those that fill a place, break the line, or change the direction of the text. A name with them could look like
// another one. The joiners that some scripts and emoji need are allowed.
func unseen(c rune) bool {
	const nonJoiner, joiner = '\u200c', '\u200d'
	invisible := unicode.In(c, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Other_Default_Ignorable_Code_Point) || c == '\u2800'
	return invisible && c != nonJoiner && c != joiner
}

// ValidateCallback checks the rules of a callback (specification sections 1 and 4.2): at most 2048 bytes, `https://`, a path other than
// `/`, no fragment, wildcard, credentials, whitespace or backslash, and a query, if any, without the parameters that the service adds.
// Callbacks are compared as exact strings, so they must be visible ASCII.
func ValidateCallback(callback string) error {
	parsed, err := url.Parse(callback)
	if err != nil || strings.ContainsFunc(callback, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return errors.New("must be a URL of visible ASCII characters")
	}
	query, err := url.ParseQuery(parsed.RawQuery)
	port, notPort := strconv.ParseUint(cmp.Or(parsed.Port(), "443"), 10, 16)
	switch {
	case len(callback) > Limits["callback"]:
		return errors.New("must be at most 2048 bytes")
	case !strings.HasPrefix(callback, "https://") || parsed.Hostname() == "" || !utf8.ValidString(parsed.Host):
		return errors.New("must begin with https:// and a host")
	case notPort != nil || port == 0:
		return errors.New("must have a port from 1 to 65535, or none")
	case parsed.User != nil:
		return errors.New("must not contain credentials")
	case strings.ContainsAny(callback, `#*\`):
		return errors.New("must not contain a fragment, a wildcard or a backslash")
	case parsed.Path == "" || parsed.Path == "/":
		return errors.New("must have a path other than /")
	case err != nil:
		return errors.New("must have a well-formed query, if any")
	case query.Has("code") || query.Has("state") || query.Has("error") || query.Has("error_description"):
		return errors.New("must not have code, state, error or error_description in its query")
	}
	return nil
}

// Create registers a client and returns it with its secret, which is not stored and cannot be shown again. A wrong field is a
// refusal.Field.
func (r *Registry) Create(ctx context.Context, registration Registration) (Client, string, error) {
	id, err := uuid.NewRandomFromReader(r.Random)
	if err != nil {
		return Client{}, "", fmt.Errorf("client: create: %w", err)
	}
	return r.Register(ctx, id, registration)
}

// Register is [Registry.Create] with an id that the caller chose. Calls with one id create one client: all but the first fail with
// ErrExists.
func (r *Registry) Register(ctx context.Context, id uuid.UUID, registration Registration) (created Client, secret string, err error) {
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
			Looks:             looksOf(registration.Name).keys(),
			Actor:             work.Actor(ctx),
		}); err != nil {
			return err
		}
		if err := putLogo(ctx, queries, id, registration.Logo); err != nil {
			return err
		}
		row, err := queries.GetClient(ctx, id) // here, because after a failure later nobody would have the secret
		created = fromRow(clientdb.ListClientsRow(row))
		return err
	})
	if postgres.Violates(err, "clients_pkey") {
		err = ErrExists
	}
	if err != nil {
		return Client{}, "", fmt.Errorf("create client: %w", err)
	}
	return created, secret, nil
}

// Update changes a registration and returns the changed client. change receives the current registration. After a refusal.Field nothing
// has changed. A new callback or a smaller allowance takes effect at once: requests and codes with the old callback end, and a refresh is
// refused if its scopes are no longer allowed (specification 7.3). Other errors: refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (r *Registry) Update(ctx context.Context, id uuid.UUID, change func(*Registration)) (updated Client, err error) {
	err = postgres.InTxAgain(ctx, r.pool, func(tx pgx.Tx) error {
		queries := r.queries.WithTx(tx)
		if updated, err = lock(ctx, queries, id); err != nil {
			return err
		}
		return update(ctx, queries, &updated, change, nil)
	})
	return updated, clientError(id, err)
}

// lock locks a client until the transaction ends. Errors: pgx.ErrNoRows, refusal.ErrClientOffboarded.
func lock(ctx context.Context, queries *clientdb.Queries, id uuid.UUID) (Client, error) {
	row, err := queries.LockClient(ctx, id)
	if err != nil {
		return Client{}, err
	}
	client := fromRow(clientdb.ListClientsRow(row))
	if client.Status == Offboarded {
		err = refusal.ErrClientOffboarded
	}
	return client, err
}

// update changes the registration of a client that is locked. The audit log gets the changes, and more. After a refusal.Field
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
		Looks:             looksOf(c.Name).keys(),
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
	for field, old := range before.audited() {
		if old != to[field] {
			changes[field] = map[string]any{"from": old, "to": to[field]}
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
