package account

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// told is a kind of notices that says what its data says.
func told(ctx context.Context, notice Notice) (Letter, error) {
	var data struct{ Text string }
	if err := json.Unmarshal(notice.Data, &data); err != nil {
		return Letter{}, err
	}
	if data.Text == "" {
		return Letter{}, ErrNoLetter
	}
	return Letter{
		To: "ada@example.com", In: locale.Default().Locale("de"), Subject: data.Text, Says: data.Text, Facts: []Fact{{"Browser", "Firefox & Co"}},
		Why: "Why", Link: "https://service.example/account", Closing: "Closing",
	}, nil
}

func telling(compose Compose) Settings { return Settings{Notices: map[string]Compose{"told": compose}} }

// put adds a notice. Without a text there is nothing to send.
func (b *bench) put(t *testing.T, recipient uuid.UUID, kind, text string) {
	t.Helper()
	err := postgres.InTx(t.Context(), b.db.Pool, func(tx pgx.Tx) error {
		return addNotice(t.Context(), tx, recipient, kind, map[string]string{"text": text})
	})
	if err != nil {
		t.Fatal(err)
	}
}

// noNotice waits until no notice waits.
func (b *bench) noNotice(t *testing.T) {
	t.Helper()
	b.eventually(t, "select count(*) = 0 from notices")
}

func TestNotices(t *testing.T) {
	t.Parallel()
	b := newBench(t, telling(told))
	undone := errors.New("undone")
	if err := postgres.InTx(t.Context(), b.db.Pool, func(tx pgx.Tx) error {
		return errors.Join(addNotice(t.Context(), tx, uuid.New(), "told", map[string]string{"text": "of a change that is undone"}), undone)
	}); !errors.Is(err, undone) {
		t.Fatal(err)
	}
	b.put(t, uuid.New(), "told", "")
	b.put(t, uuid.New(), "unheard", "of a kind that other servers know")
	b.put(t, uuid.New(), "told", "Tea & cake")
	email := b.post.NextNotice(t)
	if email.Subject != "Tea & cake" || email.To[0] != "ada@example.com" || email.Header.Get("Content-Language") != "de" ||
		email.Header.Get("Auto-Submitted") != "auto-generated" {
		t.Errorf("%q to %q, %v", email.Subject, email.To, email.Header)
	}
	for part, text := range map[string]string{"text": email.Text, "html": strings.ReplaceAll(email.HTML, "&amp;", "&")} {
		for _, want := range []string{"Tea & cake", "Browser", "Firefox & Co", "Why", "https://service.example/account", "Closing", "Activity Connect"} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s part does not have %q:\n%s", part, want, text)
			}
		}
	}
	b.eventually(t, "select array_agg(kind) = '{unheard}' from notices")
	if n, oldest, err := b.NoticesWaiting(t.Context()); n != 1 || oldest < 0 || err != nil {
		t.Errorf("%d wait, the oldest for %s, %v", n, oldest, err)
	}
	if got := b.Counts(); got.NoticesSent != 1 || got.NoticesFailed != 0 || got.EmailsSent != 0 || b.post.NoticesWaiting() != 0 {
		t.Errorf("%+v, and %d more emails", got, b.post.NoticesWaiting())
	}
	if err := b.Sweep(t.Context(), b.db.Now().Add(noticeLifetime)); err != nil {
		t.Error(err)
	}
	b.noNotice(t)
}

// TestNoticesDoNotDelayCodes: a thousand notices wait, and the mail server takes none of them. Each code is sent at once, and none is due when
// a notice is begun.
func TestNoticesDoNotDelayCodes(t *testing.T) {
	t.Parallel()
	begun, hang := make(chan bool, 1000), make(chan struct{})
	db := newDB(t)
	compose := func(ctx context.Context, _ Notice) (Letter, error) {
		begun <- pgtest.Value[bool](t, db, "select count(*) > 0 from code_emails where due_at <= now() and leased_until is null")
		select {
		case <-hang:
		case <-ctx.Done():
		}
		return Letter{}, ErrNoLetter
	}
	post := mailtest.Start(t, mailtest.Config{})
	b := newBenchOn(t, db, post, "smtp://"+post.Address, telling(compose))
	b.stop()
	db.Exec(t, "insert into notices (recipient, kind, data) select gen_random_uuid(), 'told', '{}' from generate_series(1, 1000)")
	const codes = 20
	for i := range codes {
		user := b.user(t, fmt.Sprintf("user-%d@example.com", i))
		network := netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}) // one network alone has fewer senders
		if err := b.SendCode(t.Context(), CodeRequest{SignIn: uuid.New(), Email: user.Email, Network: network, LinkPath: "/account/link"}); err != nil {
			t.Fatal(err)
		}
	}
	db.Exec(t, "update code_emails set due_at = now()")
	other := b.another(t, telling(compose))
	for range codes {
		if b.post.Next(t).Code == "" {
			t.Error("an email without a code")
		}
	}
	for range noticeSenders {
		if wait.For(t, "a notice is begun", begun) {
			t.Error("a code was due when a notice was begun")
		}
	}
	if err := b.send(uuid.New(), "user-0@example.com"); err != nil { // while notices hang
		t.Fatal(err)
	}
	db.Exec(t, "update code_emails set due_at = now()")
	other.outbox.wake.Send()
	if b.post.Next(t).Code == "" || len(begun) != 0 {
		t.Errorf("%d notices more were begun", len(begun))
	}
	close(hang)
	b.noNotice(t)
}

// TestANoticeOutlivesAnOutage of hours, and is given up after a day.
func TestANoticeOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	b, r := newBenchBehind(t, closed, telling(told))
	b.put(t, uuid.New(), "told", "to ada@example.com")
	attempted := func(n int) {
		b.eventually(t, "select count(*) = 1 and bool_and(attempts = $1 and leased_until is null and due_at > now()) from notices", n)
	}
	hurry := func() {
		b.db.Exec(t, "update notices set due_at = now()")
		b.outbox.notices.wake.Send()
	}
	attempted(1)
	r.set(open)
	hurry()
	if b.post.NextNotice(t).Subject != "to ada@example.com" {
		t.Error("another email")
	}
	b.noNotice(t)
	r.set(closed)
	b.put(t, uuid.New(), "told", "to ada@example.com")
	for n := range noticePauses {
		attempted(n + 1)
		hurry()
	}
	b.noNotice(t)
	if got := b.Counts(); got.NoticesSent != 1 || got.NoticesFailed != 1 || got.EmailsFailed != 0 {
		t.Errorf("%+v", got)
	}
	if log := b.log.String(); strings.Count(log, "level=WARN") != 1+len(noticePauses) || strings.Count(log, "level=ERROR") != 1 ||
		strings.Contains(log, "ada@") {
		t.Errorf("log:\n%s", log)
	}
	var day int64
	for _, pause := range noticePauses {
		day += int64(pause.Hours() * 60)
	}
	if day < 23*60 || day > 25*60 {
		t.Errorf("the pauses are %d minutes in all", day)
	}
}

// TestANoticeOutlivesRefusedSessions: a mail server that refuses the server for good, or its sender, does not refuse the notice. One that refuses
// the recipient does.
func TestANoticeOutlivesRefusedSessions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		verb, reply string
		outlives    bool
	}{
		{"EHLO", "554 5.3.2 closed for maintenance", true},
		{"MAIL", "530 5.7.0 authentication required", true},
		{"RCPT", "550 5.1.1 no such user", false},
		{".", "554 5.6.0 not this email", false},
	} {
		t.Run(test.verb, func(t *testing.T) {
			t.Parallel()
			var mended atomic.Bool
			post := mailtest.Start(t, mailtest.Config{Reply: func(command string) string {
				if mended.Load() {
					return ""
				}
				verb := test.verb
				if verb == "EHLO" && strings.HasPrefix(command, "HELO") {
					verb = "HELO"
				}
				return mailtest.Saying(verb, test.reply)(command)
			}})
			b := newBenchOn(t, newDB(t), post, "smtp://"+post.Address, telling(told))
			b.put(t, uuid.New(), "told", "to ada@example.com")
			if !test.outlives {
				b.noNotice(t)
				if got := b.Counts(); got.NoticesFailed != 1 || got.NoticesSent != 0 {
					t.Errorf("%+v", got)
				}
				return
			}
			b.eventually(t, "select count(*) = 0 or bool_and(attempts = 1 and leased_until is null and due_at > now()) from notices")
			if n, _, err := b.NoticesWaiting(t.Context()); n == 0 || err != nil {
				t.Fatalf("the notice is gone: %v", err)
			}
			mended.Store(true)
			b.db.Exec(t, "update notices set due_at = now()")
			b.outbox.notices.wake.Send()
			b.post.NextNotice(t)
			b.noNotice(t)
		})
	}
}

// TestSlowNotices: a notice that takes too long is tried again after the usual pauses, and no more often than they allow.
func TestSlowNotices(t *testing.T) {
	t.Parallel()
	begun := make(chan struct{}, 1000)
	settings := telling(func(ctx context.Context, _ Notice) (Letter, error) {
		begun <- struct{}{}
		<-ctx.Done()
		return Letter{}, ctx.Err()
	})
	settings.Limits = wait.Patient
	settings.Limits.MailSend = time.Millisecond
	b := newBench(t, settings)
	b.put(t, uuid.New(), "told", "x")
	b.eventually(t, "select count(*) = 1 and bool_and(attempts = 1 and leased_until is null and due_at > now()) from notices")
	b.db.Exec(t, "update notices set due_at = now(), attempts = $1", len(noticePauses)+1) // by servers that died
	b.outbox.notices.wake.Send()
	b.noNotice(t)
	if got := b.Counts(); got.NoticesFailed != 1 || len(begun) != 1 {
		t.Errorf("%+v, and %d attempts", got, len(begun))
	}
}

// TestNoticesRest: while the mail server refuses sessions, a server does not try one notice after the other.
func TestNoticesRest(t *testing.T) {
	t.Parallel()
	db := newDB(t)
	b := newBenchOn(t, db, nil, "smtp://127.0.0.1:1", Settings{})
	b.stop()
	db.Exec(t, `insert into notices (recipient, kind, data) select gen_random_uuid(), 'told', '{"text": "x"}' from generate_series(1, 100)`)
	resting := New(db.Pool, b.keys, b.mailer, Settings{
		Notices: map[string]Compose{"told": told}, Limits: wait.Patient, Logger: slog.New(slog.DiscardHandler),
	})
	attempts := func(want int, when string) {
		t.Helper()
		notices, _, err := resting.claimNotice(t.Context(), nil, noticeSenders)
		if len(notices) != want || err != nil {
			t.Errorf("%s %d notices are attempted, %v", when, len(notices), err)
		}
		for _, notice := range notices {
			if err := resting.notices().Do(t.Context(), notice, nil); err != nil {
				t.Error(err)
			}
		}
	}
	resting.outbox.idle.Store(true)
	attempts(1, "at first")
	attempts(0, "while the server rests")
	resting.outbox.notices.resume.Store(new(time.Now()))
	attempts(1, "after its rest")
}

// TestServersShareNotices: each is sent once, also those of a server that died after it had leased them.
func TestServersShareNotices(t *testing.T) {
	t.Parallel()
	b := newBench(t, telling(told))
	b.stop()
	const all = 60
	for i := range all {
		b.put(t, uuid.New(), "told", fmt.Sprint("notice ", i))
	}
	b.db.Exec(t, "update notices set leased_until = now() - interval '1 minute', attempts = 1 where data ->> 'text' like '%7'")
	b.another(t, telling(told))
	b.another(t, telling(told))
	seen := map[string]bool{}
	for range all {
		seen[b.post.NextNotice(t).Subject] = true
	}
	b.noNotice(t)
	if len(seen) != all || b.post.NoticesWaiting() != 0 {
		t.Errorf("%d different notices, and %d more", len(seen), b.post.NoticesWaiting())
	}
}

// TestANoticeBesideMany: all users of a partner that is offboarded get a receipt. Somebody else's does not wait for those.
func TestANoticeBesideMany(t *testing.T) {
	t.Parallel()
	b := newBench(t, telling(told))
	b.stop()
	b.db.Exec(t, `insert into notices (recipient, kind, data, due_at)
		select gen_random_uuid(), 'told', '{"text": "of many"}', now() - interval '1 minute' from generate_series(1, 1000)`)
	b.put(t, uuid.New(), "told", "of another")
	b.outbox.idle.Store(true)
	var texts []string
	for range noticeSenders {
		notices, _, err := b.claimNotice(t.Context(), nil, noticeSenders)
		if err != nil || len(notices) != 1 {
			t.Fatalf("%d notices are leased, %v", len(notices), err)
		}
		texts = append(texts, string(notices[0].Data))
	}
	slices.Sort(texts)
	if diff := cmp.Diff([]string{`{"text": "of another"}`, `{"text": "of many"}`}, texts); diff != "" {
		t.Errorf("the next that are sent (-want +got):\n%s", diff)
	}
}

// TestALateFailureOfANotice, whose lease has ended, does not end that of another server: two would send the notice.
func TestALateFailureOfANotice(t *testing.T) {
	t.Parallel()
	b := newBench(t, telling(told))
	b.stop()
	b.put(t, uuid.New(), "told", "x")
	b.outbox.idle.Store(true)
	claim := func(want int) []waitingNotice {
		t.Helper()
		notices, _, err := b.claimNotice(t.Context(), nil, 1)
		if len(notices) != want || err != nil {
			t.Fatalf("%d notices are leased, want %d: %v", len(notices), want, err)
		}
		return notices
	}
	late := claim(1)
	b.db.Exec(t, "update notices set leased_until = now()")
	inTime := claim(1)
	if err := b.recordNotice(t.Context(), late[0], errors.New("too late"), nil); err != nil {
		t.Fatal(err)
	}
	claim(0)
	if !pgtest.Value[bool](t, b.db, "select leased_until > now() from notices") {
		t.Error("the lease has ended, or the next attempt waits")
	}
	if err := b.recordNotice(t.Context(), inTime[0], errors.New("in time"), nil); err != nil {
		t.Fatal(err)
	}
	if !pgtest.Value[bool](t, b.db, "select leased_until is null and due_at > now() from notices") {
		t.Error("the holder of the lease cannot end it")
	}
}

// TestNoticesOfADeletedUser go with the user.
func TestNoticesOfADeletedUser(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	ada, alex := b.user(t, "ada@example.com"), b.user(t, "alex@example.com")
	b.put(t, ada.ID, "told", "x")
	b.put(t, alex.ID, "told", "x")
	if _, err := b.DeleteUser(t.Context(), ada.ID); err != nil {
		t.Fatal(err)
	}
	if got := pgtest.Value[uuid.UUID](t, b.db, "select recipient from notices"); got != alex.ID {
		t.Errorf("left: %s", got)
	}
}
