package account

import (
	"context"
	"crypto/rand"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/mailtest"
	"connect-svc/internal/testing/pgtest"
)

// newBrowserKey is the key of a browser that signs in for the first time.
func newBrowserKey(user uuid.UUID) BrowserKey {
	key := BrowserKey{UserID: user}
	rand.Read(key.Secret[:])
	return key
}

const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"

// TestReceiptOfANewBrowser: the first sign-in of all has none, and a known browser has none.
func TestReceiptOfANewBrowser(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{Receipts: true})
	user := b.user(t, "ada@example.com")
	signIn := uuid.New()
	b.code(t, signIn, user.Email)
	remember := func(language string, keys ...BrowserKey) BrowserKey {
		key := newBrowserKey(user.ID)
		for range 2 { // a form sent twice
			if err := b.RememberBrowser(t.Context(), signIn, key, keys, firefox, language); err != nil {
				t.Fatal(err)
			}
		}
		return key
	}
	first := remember("de")
	first = remember("de", first)
	if n := pgtest.Value[int64](t, b.db, "select count(*) from notices"); n != 0 {
		t.Fatalf("%d receipts of a known browser", n)
	}
	remember("de")
	email := b.post.NextNotice(t)
	day := b.db.Now().In(user.Zone()).Format("15:04")
	for _, part := range []string{email.Text, email.HTML} {
		for _, want := range []string{"Neue Anmeldung bei Ihrem Konto", "Firefox (Linux)", day + "\u00a0Uhr", "https://service.example" + ReceiptPath + "svcl_"} {
			if !strings.Contains(part, want) {
				t.Errorf("the receipt does not have %q:\n%s", want, part)
			}
		}
	}
	if email.To[0] != user.Email || email.Header.Get("Content-Language") != "de" {
		t.Errorf("to %q in %s", email.To, email.Header.Get("Content-Language"))
	}
	if found, err := b.GetUser(t.Context(), user.ID); err != nil || found.Language != "de" {
		t.Errorf("language %q, %v", found.Language, err)
	}
	remember("fr", first)
	b.db.Exec(t, "delete from known_browsers") // all were removed, or are too old
	remember("fr")
	if got := b.post.NextNotice(t); got.Header.Get("Content-Language") != "fr" {
		t.Errorf("in %s", got.Header.Get("Content-Language"))
	}
	b.noNotice(t)
}

// TestReceiptsAreSwitchedOff: none is sent, and those that others store are deleted.
func TestReceiptsAreSwitchedOff(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{Notices: map[string]Compose{"told": told}})
	user := b.user(t, "ada@example.com")
	signIn := uuid.New()
	b.code(t, signIn, user.Email)
	for range 2 {
		if err := b.RememberBrowser(t.Context(), signIn, newBrowserKey(user.ID), nil, firefox, "en"); err != nil {
			t.Fatal(err)
		}
	}
	if n := pgtest.Value[int64](t, b.db, "select count(*) from notices"); n != 0 {
		t.Errorf("%d receipts", n)
	}
	b.put(t, user.ID, connectionEnded, "x")
	b.put(t, user.ID, "unheard", "x")
	b.put(t, user.ID, "told", "of another kind")
	if got := b.post.NextNotice(t).Subject; got != "of another kind" {
		t.Errorf("sent: %q", got)
	}
	b.eventually(t, "select count(*) = 2 from notices")
	if err := b.Sweep(t.Context(), b.db.Now()); err != nil {
		t.Fatal(err)
	}
	if got := pgtest.Value[string](t, b.db, "select string_agg(kind, ' ') from notices"); got != "unheard" {
		t.Errorf("left: %s", got)
	}
}

// TestReceiptsOfConnections say how it is when they are sent.
func TestReceiptsOfConnections(t *testing.T) {
	t.Parallel()
	day := time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	connected := Connected{
		Partner: "Stride & Co", Version: 7, Live: true, Scopes: scope.DailySteps | scope.CyclingDaily, HistoryFrom: day,
		AuthorizedAt: day.Add(23*time.Hour + 30*time.Minute), Browser: "Firefox (Linux)",
	}
	for name, test := range map[string]struct {
		kind, data string
		of         func(*Connected)
		err        error
		want       []string // nil: nothing is sent
	}{
		"begun": {connectionBegun, `{"version": 7}`, func(*Connected) {}, nil, []string{
			"Stride & Co can now see your activity", "Your steps · Your cycling distance", "21\u00a0November 2026", "22\u00a0November 2026, 00:30",
			"Firefox (Linux)", "https://service.example" + ReceiptPath + "svcl_", "30 days",
		}},
		"renewed since":  {connectionBegun, `{"version": 6}`, func(*Connected) {}, nil, []string{"Stride & Co can now see your activity"}},
		"ended since":    {connectionBegun, `{"version": 7}`, func(c *Connected) { c.Live = false }, nil, nil},
		"never begun":    {connectionBegun, `{"version": 7}`, func(*Connected) {}, ErrNoLetter, nil},
		"no browser":     {connectionBegun, `{"version": 7}`, func(c *Connected) { c.Browser = "" }, nil, []string{"A browser"}},
		"by the partner": {connectionEnded, `{"by": "partner"}`, func(c *Connected) { c.Live = false }, nil, []string{"Stride & Co has ended its connection", "https://service.example/account\n", "keeps what it has"}},
		"by a replay":    {connectionEnded, `{"by": "replay"}`, func(c *Connected) { c.Live = false }, nil, []string{"used twice"}},
		"by us":          {connectionEnded, `{"by": "operator"}`, func(c *Connected) { c.Live = false }, nil, []string{"We’ve ended the connection of Stride & Co"}},
		"for good": {connectionEnded, `{"by": "operator"}`, func(c *Connected) { c.Live, c.Over = false, true }, nil, []string{
			"We’ve ended the connection of Stride & Co", "\n\nYou’ll find all your connections here:\n\nhttps://service.example/account\n",
		}},
		"by lapse":    {connectionEnded, `{"by": "lapse"}`, func(c *Connected) { c.Live = false }, nil, []string{"for a long time"}},
		"begun since": {connectionEnded, `{"by": "partner"}`, func(*Connected) {}, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			of := connected
			test.of(&of)
			b := newBench(t, Settings{Receipts: true, FindConnection: func(context.Context, uuid.UUID, uuid.UUID) (Connected, error) {
				return of, test.err
			}})
			user := b.user(t, "ada@example.com")
			b.db.Exec(t, "insert into notices (recipient, kind, data) values ($1, $2, $3::jsonb || jsonb_build_object('client_id', gen_random_uuid()))",
				user.ID, test.kind, test.data)
			b.noNotice(t)
			if test.want == nil {
				if n := b.post.NoticesWaiting(); n != 0 {
					t.Errorf("%d receipts were sent", n)
				}
				return
			}
			email := b.post.NextNotice(t)
			for _, want := range test.want {
				if !strings.Contains(email.Text+"\n", want) {
					t.Errorf("the receipt does not have %q:\n%s", want, email.Text)
				}
			}
			html := strings.ReplaceAll(email.HTML, "&amp;", "&")
			button := regexp.MustCompile(`(?s)<td align="center" bgcolor="#0b5a41".*?<a href="(\S+?)".*?>([^<]+)</a></td>`).FindStringSubmatch(html)
			if want := map[string]string{connectionBegun: "Disconnect Stride & Co", connectionEnded: "Your connections"}[test.kind]; button == nil ||
				button[2] != want || !strings.Contains(html, ">"+button[1]+"</a></p>") || !strings.Contains(email.Text, "\n\n"+button[1]+"\n\n") {
				t.Errorf("no button %q with its address below it: %q in\n%s", want, button, html)
			}
		})
	}
}

// TestOneReceiptAfterAnOutage: of several of a kind about a connection the latest is sent, and none to a user who was deleted.
func TestOneReceiptAfterAnOutage(t *testing.T) {
	t.Parallel()
	post := mailtest.Start(t, mailtest.Config{})
	db := newDB(t)
	b := newBenchOn(t, db, post, "smtp://"+post.Address, Settings{})
	b.stop()
	user, client := b.user(t, "ada@example.com"), uuid.New()
	for range 3 {
		db.Clock.Advance(time.Minute)
		db.Exec(t, "insert into notices (recipient, kind, data, put_at) values ($1, 'connection_ended', jsonb_build_object('client_id', $2::uuid, 'by', 'partner'), $3)",
			user.ID, client, db.Now())
	}
	db.Exec(t, "insert into notices (recipient, kind, data) values (gen_random_uuid(), 'connection_ended', jsonb_build_object('client_id', $1::uuid, 'by', 'partner'))", client)
	b.another(t, Settings{Receipts: true, FindConnection: func(context.Context, uuid.UUID, uuid.UUID) (Connected, error) {
		return Connected{Partner: "Stride", Scopes: scope.All}, nil
	}})
	b.noNotice(t)
	if post.NextNotice(t); post.NoticesWaiting() != 0 {
		t.Errorf("%d receipts more", post.NoticesWaiting())
	}
}

// TestReceiptLinks: what does not open.
func TestReceiptLinks(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	user := b.user(t, "ada@example.com")
	seal := func(of Receipt) string {
		path, err := b.SealReceipt(of)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(path, ReceiptPath)
	}
	of := Receipt{UserID: user.ID, ClientID: uuid.New(), Version: 3, ExpiresAt: b.db.Now().Add(receiptLifetime).Truncate(time.Microsecond)}
	sealed := seal(of)
	if got, found, err := b.OpenReceipt(t.Context(), sealed); err != nil || found.ID != user.ID || got.ClientID != of.ClientID || got.Version != 3 || !got.ExpiresAt.Equal(of.ExpiresAt) {
		t.Errorf("%+v, %v", got, err)
	}
	session, err := b.SealSession(SessionKey{UserID: user.ID})
	if err != nil {
		t.Fatal(err)
	}
	stranger := of
	stranger.UserID = uuid.New()
	for name, wrong := range map[string]string{
		"empty": "", "cut short": sealed[:len(sealed)-1], "altered": sealed[:20] + "A" + sealed[21:] + "A", "longer": sealed + "A",
		"a session": session, "a session with the prefix": "svcl_" + session, "of an unknown user": seal(stranger),
	} {
		if _, _, err := b.OpenReceipt(t.Context(), wrong); err != ErrNoReceipt {
			t.Errorf("%s: %v", name, err)
		}
	}
	b.db.Clock.Advance(receiptLifetime)
	if _, _, err := b.OpenReceipt(t.Context(), sealed); err != ErrNoReceipt {
		t.Errorf("after 30 days: %v", err)
	}
}

// TestOlderSeedsAreFew: the row of a sign-in does not grow with its codes.
func TestOlderSeedsAreFew(t *testing.T) {
	t.Parallel()
	b := newBench(t, Settings{})
	b.stop()
	signIn := uuid.New()
	for range 7 {
		if err := b.send(signIn, "ada@example.com"); err != nil {
			t.Fatal(err)
		}
	}
	if n := pgtest.Value[int32](t, b.db, "select cardinality(older_seeds) from sign_ins"); n != 4 {
		t.Errorf("%d older seeds", n)
	}
}
