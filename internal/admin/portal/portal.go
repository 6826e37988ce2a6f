// Package portal knows who may see and change a partner's own pages: people of the partner whom the operator gave a link. They have no
// accounts. A link is for one client and becomes a session once, in the browser that opens it.
//
//	CreateLink ─▶ link, at most 24 h ─Open─▶ session, at most 12 h ─▶ ended
//	                     └───────────End, EndAll, the client is disabled or offboarded, time───────┘
//
// # Invariants
//
//   - A link is opened at most once, also by browsers that open it at the same time; by one form, however often it is sent (TestOneBrowserOpensALink).
//   - The database has hashes of secrets with 256 random bits. A session is for its client alone: with another client's id its key
//     finds nothing (TestSessionIsForItsClient).
//   - When Disable, Offboard, End or EndAll returns, no link and no session that it ends works on any server, and enabling the client
//     brings none back (TestWhatEndsSessions).
//   - Each link, its opening and each end by a person is in the audit log (TestPortalIsAudited).
//   - A client has at most 100 links and sessions at a time (TestLinksAreBounded).
package portal

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	portaldb "connect-svc/gen/db/portal"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

const (
	// MaxValid is the longest time, and the usual one, in which a link can be opened.
	MaxValid = 24 * time.Hour
	// SessionLifetime is how long a session lasts. Activity does not extend it.
	SessionLifetime = 12 * time.Hour
	// MaxSessions is how many links and sessions a client has at a time.
	MaxSessions = 100
	// DefaultName names a session whose link was given no name.
	DefaultName = "engineer"
)

// Errors.
var (
	ErrNoSession      = errors.New("portal: no such link or session")
	ErrTooMany        = errors.New("portal: the client has as many links and sessions as it may have")
	ErrClientDisabled = errors.New("portal: the client is disabled")
)

// Session is a link that waits to be opened, or the session of a browser that has opened it.
type Session struct {
	ID        uuid.UUID
	ClientID  uuid.UUID
	Name      string // the audit log names its holder partner:NAME
	ReadOnly  bool
	CreatedBy string // the actor who made the link
	CreatedAt time.Time
	OpenedAt  time.Time // zero while it is a link
	ExpiresAt time.Time // of the link, or of the session
}

// Actor names the holder of the session in the audit log.
func (s Session) Actor() string { return "partner:" + s.Name }

// NewLink says what a link is for.
type NewLink struct {
	ClientID uuid.UUID
	Name     string        // work.IsActorName, or empty for DefaultName
	ReadOnly bool          // its session may change nothing
	Valid    time.Duration // 1 minute to MaxValid, whole seconds
	Replace  bool          // the client's other links and sessions end
}

// check fills in what is usual. Error: refusal.Field.
func (l *NewLink) check() error {
	if l.Name == "" {
		l.Name = DefaultName
	}
	if !work.IsActorName(l.Name) {
		return refusal.Field{Path: "name", Problem: "must be 1 to 64 letters, digits, dots, hyphens and underscores, except for user, client, operator and system"}
	}
	if l.Valid < time.Minute || l.Valid > MaxValid || l.Valid%time.Second != 0 {
		return refusal.Field{Path: "valid_seconds", Problem: "must be 60 to 86400"}
	}
	return nil
}

// Changes says what a partner's people may change at once, by themselves.
type Changes struct {
	Webhooks bool // the address of the webhook
	Secrets  bool // the client's secret, and the webhook's
}

// Portal has the links and the sessions of all clients. They are in the database, so that every server knows them.
type Portal struct {
	pool    *postgres.Pool
	queries *portaldb.Queries
}

// New returns the portal of a migrated database.
func New(pool *postgres.Pool) *Portal { return &Portal{pool, portaldb.New(pool)} }

// Path is where the public listener serves the portal.
const Path = "/partners"

// LinkPath returns the path at which a link is opened.
func LinkPath(clientID uuid.UUID, secret string) string {
	return Path + "/" + clientID.String() + "/open/" + secret
}

// secretEncoding writes secrets of links and sessions.
var secretEncoding = base64.RawURLEncoding.Strict()

// CreateLink makes a link. Its secret is not stored and cannot be shown again. Errors: refusal.Field, refusal.ErrClientNotFound,
// refusal.ErrClientOffboarded, ErrClientDisabled, ErrTooMany.
func (p *Portal) CreateLink(ctx context.Context, link NewLink) (made Session, secret string, err error) {
	if err := link.check(); err != nil {
		return made, "", err
	}
	var bits [32]byte
	rand.Read(bits[:])
	secret = secretEncoding.EncodeToString(bits[:])
	hash := credential.Hash(secret)
	err = postgres.InTxAgain(ctx, p.pool, func(tx pgx.Tx) error {
		queries := p.queries.WithTx(tx)
		locked, err := queries.LockClient(ctx, link.ClientID)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
			return refusal.ErrClientNotFound
		case err != nil:
			return err
		case locked.Status == "offboarded":
			return refusal.ErrClientOffboarded
		case !locked.Active:
			return ErrClientDisabled
		}
		if link.Replace {
			if err := p.endAll(ctx, queries, link.ClientID); err != nil {
				return err
			}
		}
		alive, err := queries.CountSessions(ctx, portaldb.CountSessionsParams{ClientID: link.ClientID})
		if err != nil {
			return err
		}
		if alive >= MaxSessions {
			return ErrTooMany
		}
		row, err := queries.InsertLink(ctx, portaldb.InsertLinkParams{
			ClientID: link.ClientID, SessionID: uuid.New(), SecretHash: hash, Name: link.Name, ReadOnly: link.ReadOnly, CreatedBy: work.Actor(ctx),
			Valid: link.Valid,
		})
		if err != nil {
			return err
		}
		made = sessionOf(row)
		return audit(ctx, queries, link.ClientID, work.Actor(ctx), "client.portal_link_created",
			map[string]any{"session_id": made.ID, "name": made.Name, "read_only": made.ReadOnly})
	})
	return made, secret, postgres.Wrap("portal: create link", err)
}

func sessionOf(row portaldb.PortalSession) Session {
	return Session{
		ID: row.SessionID, ClientID: row.ClientID, Name: row.Name, ReadOnly: row.ReadOnly, CreatedBy: row.CreatedBy,
		CreatedAt: row.CreatedAt, OpenedAt: postgres.Value(row.OpenedAt), ExpiresAt: row.ExpiresAt,
	}
}

// audit writes an event of the client, in the transaction of the act.
func audit(ctx context.Context, queries *portaldb.Queries, clientID uuid.UUID, who, action string, detail map[string]any) error {
	text, err := json.Marshal(detail)
	if err != nil {
		return err
	}
	return queries.AuditSession(ctx, portaldb.AuditSessionParams{ClientID: clientID, Actor: who, Action: action, Detail: text})
}

// Link returns the link that a secret opens, and changes nothing. Error: ErrNoSession.
func (p *Portal) Link(ctx context.Context, clientID uuid.UUID, secret string) (Session, error) {
	session, err := p.find(ctx, clientID, secret)
	if err == nil && !session.OpenedAt.IsZero() {
		err = ErrNoSession
	}
	return session, err
}

// Session returns the session whose key a browser holds. Error: ErrNoSession.
func (p *Portal) Session(ctx context.Context, clientID uuid.UUID, key string) (Session, error) {
	session, err := p.find(ctx, clientID, key)
	if err == nil && session.OpenedAt.IsZero() {
		err = ErrNoSession
	}
	return session, err
}

func (p *Portal) find(ctx context.Context, clientID uuid.UUID, secret string) (Session, error) {
	row, err := p.queries.FindSession(ctx, portaldb.FindSessionParams{ClientID: clientID, SecretHash: credential.Hash(secret)})
	return sessionOf(row), postgres.WrapNoRows("portal: session", err, ErrNoSession)
}

// Open makes a session of a link, which works no more, and returns its key. The same opening, a random text of the form that is sent, opens that
// session again: a browser sends a form twice and drops the first answer. An empty one opens a link once. Error: ErrNoSession.
func (p *Portal) Open(ctx context.Context, clientID uuid.UUID, secret, opening string) (opened Session, key string, err error) {
	key = secretEncoding.EncodeToString(credential.Hash(secret + cmp.Or(opening, rand.Text())))
	if _, err = p.Link(ctx, clientID, secret); err == nil { // also if the client is active
		err = postgres.InTxAgain(ctx, p.pool, func(tx pgx.Tx) error {
			queries := p.queries.WithTx(tx)
			row, err := queries.OpenLink(ctx, portaldb.OpenLinkParams{
				ClientID: clientID, LinkHash: credential.Hash(secret), SessionHash: credential.Hash(key), Lifetime: SessionLifetime,
			})
			if err != nil {
				return err
			}
			opened = sessionOf(row)
			return audit(ctx, queries, clientID, opened.Actor(), "client.portal_opened", map[string]any{"session_id": opened.ID})
		})
	}
	if errors.Is(postgres.NoRowsAs(err, ErrNoSession), ErrNoSession) {
		opened, err = p.Session(ctx, clientID, key)
	}
	return opened, key, postgres.Wrap("portal: open", err)
}

// Sessions lists the links and sessions of a client that work, newest first: at most [MaxSessions].
func (p *Portal) Sessions(ctx context.Context, clientID uuid.UUID) ([]Session, error) {
	rows, err := p.queries.ListSessions(ctx, portaldb.ListSessionsParams{ClientID: clientID})
	return postgres.Map(rows, sessionOf), postgres.Wrap("portal: sessions", err)
}

// End ends a link or a session. Error: ErrNoSession.
func (p *Portal) End(ctx context.Context, clientID, sessionID uuid.UUID) error {
	err := postgres.InTxAgain(ctx, p.pool, func(tx pgx.Tx) error {
		queries := p.queries.WithTx(tx)
		ended, err := queries.EndSession(ctx, portaldb.EndSessionParams{ClientID: clientID, SessionID: sessionID})
		if err != nil {
			return err
		}
		if len(ended) == 0 {
			return ErrNoSession
		}
		return audit(ctx, queries, clientID, work.Actor(ctx), "client.portal_session_ended", map[string]any{"session_id": sessionID, "name": ended[0]})
	})
	return postgres.Wrap("portal: end", err)
}

// SignOut ends a session as its holder.
func (p *Portal) SignOut(ctx context.Context, session Session) error {
	return p.End(work.WithActor(ctx, session.Actor()), session.ClientID, session.ID)
}

// EndAll ends all links and sessions of a client.
func (p *Portal) EndAll(ctx context.Context, clientID uuid.UUID) error {
	return postgres.Wrap("portal: end all", postgres.InTxAgain(ctx, p.pool, func(tx pgx.Tx) error {
		return p.endAll(ctx, p.queries.WithTx(tx), clientID)
	}))
}

// endAll leaves no event if there were none.
func (p *Portal) endAll(ctx context.Context, queries *portaldb.Queries, clientID uuid.UUID) error {
	ended, err := queries.EndSessions(ctx, clientID)
	if err != nil || ended == 0 {
		return err
	}
	return audit(ctx, queries, clientID, work.Actor(ctx), "client.portal_sessions_ended", map[string]any{"count": ended})
}

// Sweep deletes links and sessions that had expired at that time.
func (p *Portal) Sweep(ctx context.Context, before time.Time) error {
	return postgres.Wrap("sweep sessions of the portal", postgres.Sweep(ctx, p.queries.DeleteExpired, before))
}
