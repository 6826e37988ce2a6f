//go:build check

package mail_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/png"
	"log/slog"
	"math/rand/v2"
	netmail "net/mail"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"connect-svc/internal/app"
	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/locale"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/foundation/telemetry"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/logtest"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

const (
	brandName   = "Aktivität & Übersicht – 東京"
	partnerName = "Größe, “Łódź” & Søn 東京"
)

// sender is the service with one of a mail server's services, a logo and a log.
type sender struct {
	*e2e.Service
	logo string // hash
	log  *logtest.Buffer
}

func newSender(t *testing.T, server *mailServer, service int) *sender {
	t.Helper()
	noise := image.NewNRGBA(image.Rect(0, 0, 80, 80)) // more than 10 kB, which do not compress
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(noise.Pix) // it never fails
	var file bytes.Buffer
	if err := png.Encode(&file, noise); err != nil {
		t.Fatal(err)
	}
	logo, err := brand.ReadLogo(file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	mailer, err := account.NewMailer(server.url(service), (&netmail.Address{Name: brandName, Address: "connect@service.example"}).String())
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(logo.Content)
	s := &sender{logo: hex.EncodeToString(hash[:]), log: new(logtest.Buffer)}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log:\n%s", s.log)
		}
	})
	s.Service = e2e.New(t, func(config *app.Config) {
		config.Mailer, config.Accounts.Receipts, config.Brand = mailer, true, brand.Brand{Name: brandName, Icon: logo, SupportURL: "https://service.example/hilfe"}
		config.Logger = telemetry.NewLogger(s.log, slog.LevelInfo)
	})
	return s
}

// code asks for a code, for a partner or for the account pages.
func (s *sender) code(t *testing.T, to, language, partner string) (signIn uuid.UUID) {
	t.Helper()
	signIn = uuid.New()
	err := s.App.Accounts.SendCode(t.Context(), account.CodeRequest{
		SignIn: signIn, Email: to, Language: language, Partner: partner, LinkPath: "/account/link",
	})
	if err != nil {
		t.Fatal(err)
	}
	return signIn
}

func (s *sender) user(t *testing.T, email, language string) pgtest.User {
	t.Helper()
	user := s.DB.User(t, func(u *pgtest.User) { u.Email, u.Timezone = email, "Europe/Warsaw" })
	s.DB.Exec(t, "update users set language = $2 where user_id = $1", user.ID, language)
	return user
}

// wanted is an email that a test has asked for.
type wanted struct {
	language, subject, text string // subject and text are parts
	code                    bool   // alone on a line, and in the subject
}

var codeLine = regexp.MustCompile(`(?m)^\d{6}\r?$`)

// check compares what was delivered to an address with what was asked for, and looks for all that a mail program could stumble over.
func (s *sender) check(t *testing.T, email delivered, want wanted) {
	t.Helper()
	if len(email.Wrong) > 0 {
		t.Errorf("%s: %q", email.Headers["Subject"], email.Wrong)
	}
	var types []string
	for _, part := range email.Parts {
		types = append(types, part.Type)
	}
	if diff := cmp.Diff([]string{"multipart/related", "multipart/alternative", "text/plain", "text/html", "image/png"}, types); diff != "" {
		t.Errorf("%s: parts (-want +got):\n%s", email.Headers["Subject"], diff)
		return
	}
	text, html, picture := email.Parts[2], email.Parts[3], email.Parts[4]
	code := strings.TrimSpace(codeLine.FindString(text.Content))
	subject := want.subject
	if want.code {
		subject = code + want.subject
	}
	switch h := email.Headers; {
	case h["From"] != `"`+brandName+`" <connect@service.example>` && h["From"] != brandName+" <connect@service.example>":
		t.Errorf("from %q", h["From"])
	case !strings.Contains(h["Subject"], subject) || want.code != (code != ""):
		t.Errorf("subject %q and code %q, want %q", h["Subject"], code, want.subject)
	case h["Content-Language"] != want.language || h["Auto-Submitted"] != "auto-generated":
		t.Errorf("%s: in %q, %q", h["Subject"], h["Content-Language"], h["Auto-Submitted"])
	case !strings.HasSuffix(h["Message-ID"], "@service.example>"):
		t.Errorf("message id %q", h["Message-ID"])
	}
	if text.Charset != "utf-8" || html.Charset != "utf-8" || !strings.Contains(text.Content, brandName) || !strings.Contains(text.Content, want.text) {
		t.Errorf("%s: %s, %s, without %q:\n%s", email.Headers["Subject"], text.Charset, html.Charset, want.text, text.Content)
	}
	if !strings.Contains(html.Content, `src="cid:logo"`) || picture.ID != "<logo>" || picture.Content != s.logo {
		t.Errorf("%s: the logo is %s %s", email.Headers["Subject"], picture.ID, picture.Content)
	}
}

// TestEveryKindOfEmail: codes in all languages, codes for the account pages, links alone, all receipts, and all emails to partners reach the
// recipients whole.
func TestEveryKindOfEmail(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"postfix", "exim", "opensmtpd"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := startMailServer(t, name)
			s := newSender(t, server, 1)
			want := map[string]wanted{} // by recipient
			to := func(local string, w wanted) (email string) {
				email = local + "@users.example"
				want[email] = w
				return email
			}
			s.DB.Exec(t, "update clients set name = $2 where client_id = $1", s.Partner.ID, partnerName)

			for _, tag := range locale.Default().Tags() {
				email := to("code-"+strings.ToLower(tag), wanted{language: tag, text: partnerName, code: true})
				s.user(t, email, tag)
				s.code(t, email, tag, partnerName)
			}
			spent := to("account", wanted{language: "de", text: "Code", code: true})
			s.user(t, spent, "de")
			s.code(t, spent, "de", "")
			s.code(t, "nobody@users.example", "de", partnerName)

			receipt := func(local, language, kind, by, state string, w wanted) {
				w.language = language
				user := s.user(t, to(local, w), language)
				s.DB.Exec(t, `insert into connections (user_id, client_id, grant_id, version, state, scopes, history_from, authorized_at,
						refresh_generation, refresh_hash, refresh_deadline)
					values ($1, $2, gen_random_uuid(), 7, $3, $4, '2026-11-21', connect_now(), 1,
						case when $3 = 'authorized' then sha256('x') end, connect_now() + interval '90 days')`,
					user.ID, s.Partner.ID, state, int16(scope.All))
				s.DB.Exec(t, `insert into notices (recipient, kind, data) values ($1, $2,
					jsonb_build_object('client_id', $3::text, 'version', 7, 'by', $4::text, 'browser', 'Firefox (Linux)'))`, user.ID, kind, s.Partner.ID.String(), by)
			}
			receipt("begun", "pl", "connection_begun", "", "authorized", wanted{subject: partnerName, text: "listopada 2026"})
			for by, language := range map[string]string{"partner": "fr", "replay": "nb", "operator": "sv", "lapse": "it"} {
				receipt("ended-"+by, language, "connection_ended", by, "disconnected", wanted{subject: partnerName, text: partnerName})
			}
			receipt("browser", "de", "new_browser", "", "authorized", wanted{subject: "Neue Anmeldung", text: "Firefox (Linux)"})

			partner := func(kind, what string) {
				other := s.DB.Client(t)
				s.DB.Exec(t, "update clients set name = $2, contact_email = $3 where client_id = $1", other.ID, partnerName,
					to("partner-"+what, wanted{language: "en", subject: partnerName, text: "partner:łucja"}))
				s.DB.Exec(t, `insert into notices (recipient, kind, data) values ($1, $2,
					jsonb_build_object('by', 'partner:łucja', 'what', $3::text, 'state', $3::text, 'answer', 'Später – vielleicht.'))`, other.ID, kind, what)
			}
			for _, what := range []string{"webhook_address", "webhook_removed", "webhook_secret", "client_secret"} {
				partner("partner_change", what)
			}
			partner("partner_answer", "approved")
			partner("partner_answer", "refused")

			emails := server.read(t, len(want))
			for _, email := range emails {
				t.Log(email.Headers["To"], email.Headers["Subject"])
				address := strings.Trim(email.Headers["To"], "<>")
				w, asked := want[address]
				if !asked {
					t.Errorf("an email to %s, who was sent none", address)
					continue
				}
				delete(want, address)
				s.check(t, email, w)
			}
			for address := range want {
				t.Errorf("%s got no email", address)
			}

			// Codes that work no more.
			s.DB.Exec(t, "update sign_in_limits set failed = 100")
			s.code(t, spent, "de", partnerName)
			all := server.read(t, len(emails)+1)
			for _, email := range all {
				if address := strings.Trim(email.Headers["To"], "<>"); address == spent && !codeLine.MatchString(strings.Join(email.content("text/plain"), "")) {
					s.check(t, email, wanted{language: "de", text: "/account/link/"})
					all = nil
				}
			}
			if all != nil {
				t.Error("no email with a link alone")
			}
			wait.Until(t, "nothing waits", func() bool {
				return pgtest.Value[bool](t, s.DB, "select (select count(*) from code_emails) + (select count(*) from notices) = 0")
			})
			if log := s.log.String(); strings.Contains(log, "could not be sent") {
				t.Errorf("the log has:\n%s", log)
			}
		})
	}
}

// TestWhatMailServersDo: each lacks something or says no, for now or for good.
func TestWhatMailServersDo(t *testing.T) {
	t.Parallel()
	server := startMailServer(t, "postfix")
	t.Run("all", func(t *testing.T) {
		for _, test := range []struct {
			name      string
			service   int
			to        string
			delivered bool
			log       string // what is logged of the refusal
		}{
			{"SMTPUTF8", 1, "søren@users.example", true, ""},
			{"without SMTPUTF8", 2, "ada@users.example", true, ""},
			{"without SMTPUTF8, to an address that needs it", 2, "søren@users.example", false, `"ERROR".*"the mail server refused RCPT TO","smtp_code":553,"smtp_status":"5\.6\.7"`},
			{"without 8BITMIME", 3, "ada@users.example", true, ""},
			{"without PIPELINING", 4, "ada@users.example", true, ""},
			{"too large", 5, "ada@users.example", false, `"ERROR".*"the mail server refused DATA","smtp_code":552,"smtp_status":"5\.3\.4"`},
			{"AUTH LOGIN alone", 6, "ada@users.example", true, ""},
			{"greylisting", 7, "ada@users.example", true, `"WARN".*"the mail server refused RCPT TO","smtp_code":451,"smtp_status":"4\.7\.1"`},
			{"closing", 8, "ada@users.example", true, `"WARN".*"the mail server refused RCPT TO","smtp_code":421,"smtp_status":"4\.3\.2"`},
		} {
			t.Run(test.name, func(t *testing.T) {
				t.Parallel()
				s := newSender(t, server, test.service)
				local, domain, _ := strings.Cut(test.to, "@")
				email := fmt.Sprintf("%s+%d-%t@%s", local, test.service, test.delivered, domain)
				s.user(t, email, "pl")
				s.code(t, email, "pl", partnerName)
				// Delivered or given up: what waits for another attempt is still in the table.
				wait.Until(t, "nothing waits", func() bool { return pgtest.Value[bool](t, s.DB, "select count(*) = 0 from code_emails") })
				log := s.log.String()
				if refusals := strings.Count(log, "could not be sent"); (test.log != "") != (refusals == 1) || !regexp.MustCompile(test.log).MatchString(log) {
					t.Errorf("%d refusals, want %q in:\n%s", refusals, test.log, log)
				}
				got := s.App.Accounts.Counts()
				if sent, failed := got.EmailsSent == 1, got.EmailsFailed == 1; sent != test.delivered || failed == test.delivered {
					t.Errorf("sent %v, failed %v", sent, failed)
				}
			})
		}
	})
	for _, email := range server.read(t, 7) {
		if len(email.Wrong) > 0 || !codeLine.MatchString(strings.Join(email.content("text/plain"), "")) {
			t.Errorf("%s: %q", email.Headers["Subject"], email.Wrong)
		}
	}
}
