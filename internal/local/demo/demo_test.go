package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"connect-svc/internal/foundation/postgres/migrate"
	"connect-svc/internal/local/embedded"
	"connect-svc/internal/testing/browsertest"
	"connect-svc/internal/testing/process"
	"connect-svc/internal/testing/wait"
)

// running is a demo that a test started.
type running struct {
	Addresses
	stop func() error
	out  *strings.Builder
}

// start runs a demo and waits until it serves.
func start(t *testing.T, config Config) *running {
	t.Helper()
	r := &running{out: new(strings.Builder)}
	started, ended := make(chan Addresses, 1), make(chan error, 1)
	config.Out, config.Started = r.out, func(a Addresses) { started <- a }
	ctx, cancel := context.WithCancel(context.Background())
	go func() { ended <- process.Rebind(func() error { return Run(ctx, config) }) }()
	stopped := false
	r.stop = func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-ended
	}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Errorf("the demo ended with: %v", err)
		}
	})
	select {
	case r.Addresses = <-started:
	case err := <-ended:
		stopped = true
		t.Fatalf("the demo did not start: %v", err)
	}
	return r
}

// freePorts finds two neighbours, below those that the system hands out by itself.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		port := 20000 + rand.IntN(10000)
		first, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		second, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+1)))
		_ = first.Close()
		if err == nil {
			_ = second.Close()
			return port
		}
	}
	t.Fatal("no free ports")
	return 0
}

// visitor is a person with a browser, who finds nothing broken on any page.
type visitor struct {
	*browsertest.Tab
	t      *testing.T
	r      *running
	emails int // that were asked for
}

func visit(t *testing.T, r *running) *visitor {
	t.Helper()
	tab := browsertest.Share(t, nil).NewTab(t)
	tab.AnyCertificate() // testHosts checks the demo's own
	v := &visitor{Tab: tab, t: t, r: r}
	t.Cleanup(func() {
		if problems := tab.Problems(); len(problems) > 0 {
			t.Errorf("problems of the pages: %q", problems)
		}
	})
	if status := v.Open(r.Partner); status != http.StatusOK {
		t.Fatalf("the partner's page: %d", status)
	}
	return v
}

// press clicks something that leads to another page.
func (v *visitor) press(selector string) {
	v.t.Helper()
	if status := v.Submit(chromedp.Click(chromedp.CSS(selector))); status != http.StatusOK {
		v.t.Fatalf("after %s: status %d", selector, status)
	}
}

// whole is a credential that is not masked (specification 2.9).
var whole = regexp.MustCompile(`(svci_|svcc_|svca_|svcr2_|cc1_|whsec_)[\w-]{5}`)

// expect fails unless the title of the card says this, and if there is a credential on the page.
func (v *visitor) expect(heading string) {
	v.t.Helper()
	var page string
	v.Evaluate("document.documentElement.outerHTML", &page)
	if found := whole.FindString(page); found != "" {
		v.t.Errorf("the page holds %s…", found)
	}
	var got string
	v.Evaluate("document.querySelector('h1').innerText", &got)
	if got != heading {
		v.t.Fatalf("the page says %q, want %q", got, heading)
	}
}

func (v *visitor) count(selector string) (n int) {
	v.t.Helper()
	v.Evaluate("document.querySelectorAll('"+selector+"').length", &n)
	return n
}

// waitForCall waits until the page lists a call to the partner's webhook that was verified.
func (v *visitor) waitForCall(kind, member, detail string) {
	v.t.Helper()
	v.Do(chromedp.WaitVisible(chromedp.Search(fmt.Sprintf(
		`//ol[@class="calls"]/li[.//code=%q and contains(., %q) and contains(., "✓ verified") and contains(., %q)]`, kind, member, detail))))
}

// check looks for what makes a page hard to use, by all rules of axe-core or by those named.
func (v *visitor) check(name string, rules ...string) {
	v.t.Helper()
	faults := v.LayoutFaults()
	if v.r != nil { // the page of the mails loads itself every three seconds: axe-core would not come to an end
		faults = append(faults, v.Violations(rules...)...)
	}
	for _, fault := range faults {
		v.t.Errorf("%s: %s", name, fault)
	}
}

// picture keeps what the page looks like in light, dark, and on a narrow screen, for a person to look at.
func (v *visitor) picture(name string) {
	v.t.Helper()
	shoot := func(kind string) {
		if browsertest.Pictures() {
			v.Screenshot(filepath.Join(v.t.ArtifactDir(), name+"-"+kind+".png"))
		}
	}
	v.Media("prefers-color-scheme", "dark")
	shoot("dark")
	v.check(name+", dark", "color-contrast", "link-in-text-block") // what colors decide
	v.Media("prefers-color-scheme", "light")
	shoot("light")
	v.check(name + ", light")
	v.Do(chromedp.EmulateViewport(320, 640))
	shoot("320")
	v.check(name+", 320 pixels", "target-size") // what the width decides, beside the layout
	v.Do(chromedp.EmulateViewport(1024, 800))
}

// opensWithCharts checks that the charts are what one sees first, that a table has their figures, and that the requests are
// folded away below them.
func (v *visitor) opensWithCharts() {
	v.t.Helper()
	v.Do(chromedp.EmulateViewport(1280, 800))
	var seen struct {
		Drawn, Table  [][]string // of each day: steps and distance
		Bottom, Trace float64
		Open          bool
	}
	v.Evaluate(`(() => {
		const titles = (of) => Array.from(document.querySelectorAll(of + " ~ figure title"), (t) => t.textContent.split(": "));
		const rides = titles("#rides").map(([, value]) => value);
		const figures = Array.from(document.querySelectorAll("figure"), (f) => f.getBoundingClientRect().bottom);
		const happened = document.querySelector("#happened");
		return {
			Drawn: titles("#steps").map((day, i) => [...day, rides[i]]),
			Table: Array.from(document.querySelectorAll("#figures tbody tr"), (row) => Array.from(row.cells, (c) => c.textContent)),
			Bottom: Math.max(...figures), Trace: happened.getBoundingClientRect().top, Open: happened.open,
		};
	})()`, &seen)
	if len(seen.Drawn) != 31 {
		v.t.Errorf("%d days are drawn", len(seen.Drawn))
	}
	if diff := cmp.Diff(seen.Drawn, seen.Table); diff != "" {
		v.t.Errorf("the table is not what is drawn (-drawn +table):\n%s", diff)
	}
	if seen.Bottom > 800 {
		v.t.Errorf("the charts end at %g, below the window", seen.Bottom)
	}
	if seen.Open || seen.Trace < seen.Bottom {
		v.t.Errorf("the requests are not folded below the charts: %+v", seen)
	}
	v.Do(chromedp.EmulateViewport(1024, 800))
}

// signIn goes from the service's sign-in page to its question, with the code of the caught mail.
func (v *visitor) signIn(email string) {
	v.t.Helper()
	v.Submit(chromedp.SetValue(chromedp.CSS("input[name=email]"), email), chromedp.Click(chromedp.CSS("main form button")))
	mail := v.NewTab()
	mail.Open(v.r.Mail)
	v.emails++
	mail.Do(chromedp.WaitVisible(chromedp.CSS(fmt.Sprintf("article:nth-last-child(%d of :has(output)) output", v.emails)))) // the page loads itself until then
	var stopped bool
	mail.Evaluate("window.stop(), true", &stopped) // what is looked at next must not reload
	var code, to string
	mail.Evaluate("document.querySelector('article .code output').innerText", &code)
	mail.Evaluate("document.querySelector('article:has(output) .meta strong').innerText", &to)
	if to != email || len(code) != 6 {
		v.t.Fatalf("the newest email is to %q with the code %q", to, code)
	}
	(&visitor{Tab: mail, t: v.t}).picture("mail")
	if problems := mail.Problems(); len(problems) > 0 {
		v.t.Errorf("problems of the mail page: %q", problems)
	}
	v.Submit(chromedp.SendKeys(chromedp.CSS("input[name=code]"), code), chromedp.Click(chromedp.CSS("main form button")))
}

// The whole way of a person, and what the next start finds of it.
func TestDemo(t *testing.T) {
	t.Parallel()
	config := Config{Dir: filepath.Join(t.TempDir(), "demo"), Port: freePorts(t), Every: 50 * time.Millisecond, Window: time.Second, Limits: wait.Patient}
	r := start(t, config)
	t.Cleanup(func() { removeDatabase(t, config.Dir) })
	screen := r.out.String()
	if strings.Count(screen, "\n") > 24 {
		t.Errorf("more than a screen:\n%s", screen)
	}
	v := visit(t, r)
	for _, address := range []string{r.Mail, r.Service + "/account", r.Service + "/developers/", r.Private + "/console", r.Partner} {
		if !strings.Contains(screen, address+" ") {
			t.Errorf("the screen does not name %s:\n%s", address, screen)
		}
		if status := v.Open(address); status != http.StatusOK {
			t.Errorf("%s: status %d", address, status)
		}
	}

	link := regexp.MustCompile(`https://\S+/open/\S+`).FindString(screen)
	v.Open(link)
	v.Submit(chromedp.Click(chromedp.CSS("main button")))
	if v.Evaluate("document.title", &link); link != "Stride Club · Partner pages · Activity Connect" {
		t.Errorf("the engineers' link leads to %q", link)
	}

	// One click leads into the console.
	v.Open(r.Private + "/console")
	v.Submit(chromedp.Click(chromedp.CSS("main button")))
	v.picture("console")
	v.Open(r.Private + "/console/users")
	var users []string
	v.Evaluate("Array.from(document.querySelectorAll('tbody th'), (user) => user.innerText)", &users)
	if len(users) != 2 {
		t.Errorf("the console shows the users %q", users)
	}

	v.Open(r.Partner)
	v.expect("Alex is connected")
	// In one look: the page loads itself again as the day goes on.
	var days []string
	v.Evaluate("Array.from(document.querySelectorAll('#steps ~ figure rect'), (day) => day.getAttribute('class'))", &days)
	bars, absent := 0, 0
	for _, day := range days {
		switch day {
		case "bar":
			bars++
		case "absent":
			absent++
		}
	}
	if bars < 20 || absent < 2 || bars+absent != 31 || len(days) != 31 {
		t.Errorf("Alex has %d bars and %d absent days, of %d; want 31", bars, absent, len(days))
	}
	if rides := v.count(".rides tbody tr"); rides < 11 {
		t.Errorf("%d rides: fewer than three pages of five", rides)
	}
	v.opensWithCharts()
	v.waitForCall("activity.updated", "Alex", "daily_steps")
	v.picture("alex")

	v.press("button[value=robin]")
	v.expect("Robin is not connected")
	v.picture("robin-before")
	v.press("#connect")
	v.press(".cancel button")
	v.expect("Robin is not connected")
	v.picture("robin-denied")

	v.press("#connect")
	v.signIn("robin@example.com")
	v.press("button[value=allow]")
	v.expect("Robin is connected")
	if location := v.Location(); location != r.Partner+"/" {
		t.Errorf("after Allow the browser is at %s", location)
	}
	if closed := v.count("#steps ~ figure rect.closed"); closed != 1 {
		t.Errorf("days before the consent are not closed: %d", closed)
	}
	v.picture("robin-connected")
	var opened int
	v.Evaluate("Array.from(document.querySelectorAll('#happened, .exchange'), (e) => e.open = true).length - 1", &opened)
	if opened < 7 { // to the service, back, the exchange, and four reads
		t.Errorf("only %d requests are shown", opened)
	}
	v.picture("robin-opened")

	// The day goes on: a later look sees more.
	steps := func() (n int) {
		t.Helper()
		v.Open(r.Partner)
		v.Evaluate("Number(document.querySelector('#steps ~ .total strong').innerText.replaceAll(',', ''))", &n)
		return n
	}
	for before, tries := steps(), 0; steps() <= before; tries++ {
		if tries == 100 {
			t.Fatal("today's steps stay as they are")
		}
	}

	v.press("#refresh")
	v.expect("Robin is connected")
	v.press("#revoke")
	v.expect("Robin needs to connect again")
	v.waitForCall("connection.revoked", "Robin", "refresh_token_revoked. About a connection that is over")
	v.picture("robin-revoked")
	v.press("#connect")
	v.signIn("robin@example.com")
	v.press("button[value=allow]")
	v.expect("Robin is connected")
	v.Do(chromedp.Click(chromedp.CSS("#disconnect")))
	v.press("#disconnect-now")
	v.expect("Robin is not connected")
	v.press("#connect")
	v.signIn("robin@example.com")
	v.press("button[value=allow]")
	v.expect("Robin is connected")

	// Robin disconnects the partner at the service. Its page learns that by itself.
	account := &visitor{Tab: v.NewTab(), t: t, r: r, emails: v.emails}
	account.Open(r.Service + "/account")
	account.signIn("robin@example.com")
	account.press("a.other")
	account.press("main form button")
	v.Do(chromedp.WaitVisible(chromedp.CSS("#connect")))
	v.expect("Robin needs to connect again")
	v.waitForCall("connection.revoked", "Robin", "user_disconnected. The keys were thrown away.")
	v.picture("robin-disconnected")
	v.emails = account.emails
	account.Open(r.Mail)
	account.Do(chromedp.WaitVisible(chromedp.CSS(`iframe[title="Stride Club can now see your activity"]`))) // receipts come, too
	v.press("#connect")
	v.signIn("robin@example.com")
	v.press("button[value=allow]")
	v.expect("Robin is connected")

	checkFiles(t, config.Dir)
	v.Do(chromedp.Navigate("about:blank")) // its page would ask for more
	if err := r.stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}
	again := visit(t, start(t, config))
	again.expect("Alex is connected")
	again.press("button[value=robin]")
	again.expect("Robin is connected")
	again.press("#refresh")
	again.expect("Robin is connected")
	again.waitForCall("activity.updated", "Robin", "daily_steps")
	if n := again.count("rect.bar"); n < 1 {
		t.Errorf("%d bars after a restart", n)
	}
}

// Every file that holds a secret belongs to its owner alone.
func checkFiles(t *testing.T, dir string) {
	t.Helper()
	public := []string{"ca.pem", "server.pem", "postgres", "postgres.lock"}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var secret int
	for _, entry := range entries {
		info, err := entry.Info()
		if err != nil {
			t.Fatal(err)
		}
		if slices.Contains(public, entry.Name()) {
			continue
		}
		secret++
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v", entry.Name(), info.Mode())
		}
	}
	if secret < 6 {
		t.Errorf("only %d files with secrets: %v", secret, entries)
	}
	log, err := os.ReadFile(filepath.Join(dir, "service.log"))
	if err != nil || len(log) == 0 {
		t.Fatalf("log: %v", err)
	}
	for _, never := range []string{"svca_", "svcr2_", "svcc_", "svci_", "whsec_", "robin@example.com"} {
		if strings.Contains(string(log), never) {
			t.Errorf("the log holds %s", never)
		}
	}
}

// removeDatabase removes what may lie outside the directory of a test that root runs.
func removeDatabase(t *testing.T, dir string) {
	if place, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres")); err == nil {
		if err := os.RemoveAll(place); err != nil {
			t.Error(err)
		}
	}
}

func TestEphemeralKeepsNothing(t *testing.T) {
	t.Parallel()
	r := start(t, Config{Ephemeral: true, Dir: filepath.Join(t.TempDir(), "unused"), Limits: wait.Patient})
	if _, err := os.Stat(filepath.Join(r.Dir, "partner.json")); err != nil {
		t.Errorf("while it runs: %v", err)
	}
	testHosts(t, r)
	if err := r.stop(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(r.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", r.Dir, err)
	}
}

// A demo refuses the database of another program, and says where it is.
func TestDatabaseOfAnotherProgram(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	t.Cleanup(func() { removeDatabase(t, dir) })
	database, err := embedded.Start(t.Context(), embedded.Config{Dir: filepath.Join(dir, "postgres"), Limits: wait.Patient})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := migrate.Apply(t.Context(), database.URL(), migrate.Up); err != nil {
		t.Fatal(err)
	}
	conn, err := pgx.Connect(t.Context(), database.URL())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "update goose_db_version set checksum = 'another' where version_id = 1"); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(conn.Close(t.Context()), database.Stop()); err != nil {
		t.Fatal(err)
	}
	err = Run(t.Context(), Config{Dir: dir, Port: freePorts(t), Out: io.Discard, Limits: wait.Patient})
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, "postgres")) || !strings.Contains(err.Error(), "0001") {
		t.Errorf("error: %v", err)
	}
}

func TestTakenPort(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	port := portOf(taken)
	dir := t.TempDir()
	err = Run(context.Background(), Config{Dir: dir, Port: port, Out: io.Discard})
	if err == nil || !strings.Contains(err.Error(), "port "+strconv.Itoa(port)) || strings.Contains(err.Error(), "\n") {
		t.Errorf("error: %v", err)
	}
	if files, _ := fs.Glob(os.DirFS(dir), "*.pem"); len(files) > 0 {
		t.Errorf("made before it failed: %v", files)
	}
}
