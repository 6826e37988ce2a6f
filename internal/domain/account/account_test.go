package account

import (
	"cmp"
	"context"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func TestMain(m *testing.M) { pgtest.Main(m) }

// bench is one service's accounts with a database and a mail server of their own.
type bench struct {
	*Accounts
	db   *pgtest.DB
	post *mailtest.Server
	log  *logtest.Buffer
	stop func() // ends the outbox and waits for it
}

func newBench(t *testing.T, settings Settings) *bench {
	t.Helper()
	db := newDB(t)
	post := mailtest.Start(t, mailtest.Config{})
	return newBenchOn(t, db, post, "smtp://"+post.Address, settings)
}

// newDB is a database whose time hardly passes by itself.
func newDB(t *testing.T) *pgtest.DB {
	t.Helper()
	db := pgtest.New(t)
	db.StartAt(t, time.Now())
	return db
}

func newBenchOn(t *testing.T, db *pgtest.DB, post *mailtest.Server, smtpURL string, settings Settings) *bench {
	t.Helper()
	return startBench(t, db, credential.NewTestKeyring(), post, smtpURL, settings)
}

// another is one more server on the same database, with its own way to the mail server.
func (b *bench) another(t *testing.T, settings ...Settings) *bench {
	t.Helper()
	return startBench(t, b.db, b.keys, b.post, "smtp://"+b.post.Address, append(settings, Settings{})[0])
}

func startBench(t *testing.T, db *pgtest.DB, keys *credential.Keyring, post *mailtest.Server, smtpURL string, settings Settings) *bench {
	t.Helper()
	mailer, err := NewMailer(smtpURL, "Activity Connect <connect@service.example>")
	if err != nil {
		t.Fatal(err)
	}
	log := new(logtest.Buffer)
	settings.EndConnections = func(context.Context, pgx.Tx, uuid.UUID) (int64, error) { return 0, nil }
	settings.EndRequests = func(context.Context, pgx.Tx, []uuid.UUID) error { return nil } // another domain's
	settings.BaseURL = "https://service.example"
	settings.Limits = cmp.Or(settings.Limits, wait.Patient)
	settings.Logger = slog.New(slog.NewTextHandler(log, nil))
	b := &bench{Accounts: New(db.Pool, keys, mailer, settings), db: db, post: post, log: log}
	// An attempt follows when a test hurries it.
	b.outbox.pauses = slices.Repeat([]time.Duration{time.Hour}, len(usualPauses))
	b.outbox.notices.pauses, b.outbox.notices.rest = slices.Repeat([]time.Duration{time.Hour}, len(noticePauses)), 0
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Run(ctx)
	}()
	b.stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(b.stop)
	return b
}

// user adds an account with this address.
func (b *bench) user(t *testing.T, email string) User {
	t.Helper()
	user, err := b.CreateUser(context.Background(), NewUser{
		Email: email, Timezone: "Europe/Berlin", RegisteredOn: time.Date(2025, 3, 1, 0, 0, 0, 0, time.UTC),
	})
	if err != nil {
		t.Fatal(err)
	}
	return user
}

// send asks for a code from a network of its own.
func (b *bench) send(signIn uuid.UUID, email string) error {
	return b.SendCode(context.Background(), CodeRequest{
		SignIn: signIn, Email: email, Network: netip.MustParseAddr("192.0.2.1"), Partner: "Stride & Co", LinkPath: "/account/link",
	})
}

// code asks for a code and reads it in the email.
func (b *bench) code(t *testing.T, signIn uuid.UUID, email string) string {
	t.Helper()
	if err := b.send(signIn, email); err != nil {
		t.Fatal(err)
	}
	code := b.post.Next(t).Code
	if code == "" {
		t.Fatal("the email has no code")
	}
	return code
}

// codeNow is the code that a sign-in waits for.
func (b *bench) codeNow(t *testing.T, signIn uuid.UUID) string {
	t.Helper()
	return b.codeOf(signIn, b.seedNow(t, signIn))
}

func (b *bench) seedNow(t *testing.T, signIn uuid.UUID) []byte {
	t.Helper()
	return pgtest.Value[[]byte](t, b.db, "select seed from sign_ins where sign_in_id = $1", signIn)
}

// settled waits until no email waits.
func (b *bench) settled(t *testing.T) {
	t.Helper()
	b.eventually(t, "select count(*) = 0 from code_emails")
}

// eventually waits until a query finds true.
func (b *bench) eventually(t *testing.T, query string, args ...any) {
	t.Helper()
	wait.Until(t, query, func() bool { return pgtest.Value[bool](t, b.db, query, args...) })
}

// wrong is a code that differs from this one.
func wrong(code string) string {
	if code[0] == '9' {
		return "0" + code[1:]
	}
	return string(code[0]+1) + code[1:]
}
