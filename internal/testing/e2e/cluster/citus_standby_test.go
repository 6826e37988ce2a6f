//go:build citus

package cluster_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/app"
	"connect-svc/internal/domain/oauth"
	"connect-svc/internal/testing/e2e"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

// back is how soon the users of a node are served again after its primary was lost.
const back = 30 * time.Second

// The primary of a node is lost under load, and its standby takes its place, as Patroni does it. Nothing that was acknowledged is lost. The
// node's users are served again in time, and all others all the time.
func TestStandbyUnderLoad(t *testing.T) {
	for lost, name := range []string{"coordinator", "worker"} {
		t.Run(name, func(t *testing.T) { loseAPrimary(t, lost) })
	}
}

func loseAPrimary(t *testing.T, lost int) {
	db := pgtest.New(t)
	others := slices.Delete(slices.Clone(db.URLs), lost, lost+1)
	f := newFleet(t, db, func(config *app.Config) { config.DatabaseURL = others[0] })
	f.join(t, others[1])
	hasUsers := pgtest.Value[bool](t, db, "select shouldhaveshards from pg_dist_node where nodeport = $1::text::int", addressOf(t, db.URLs[lost]).Port())
	isIts := func(user pgtest.User) bool { return nodeOf(t, db, "users", user.ID) == lost || !hasUsers }
	theirs := f.newLoadOf(t, 6, func(user pgtest.User) bool { return nodeOf(t, db, "users", user.ID) != lost })
	loads := []*load{theirs}
	if hasUsers {
		loads = append(loads, f.newLoadOf(t, 6, isIts))
	}
	s := newStandby(t, db, lost)
	own := f.first // the server of the node itself, which knows both addresses
	own.DatabaseURL = s.both
	a, err := app.Open(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	fronts := append(slices.Clone(f.fronts), e2e.NewFront(t, &e2e.Service{App: a}, false))
	var spare []oauth.Tokens // of the node's users, or of any if it has none; nobody knows what becomes of a refresh without an answer, so that each is refreshed once
	for range 100 {
		_, tokens := f.newConnectionOf(t, isIts)
		spare = append(spare, tokens)
	}
	for _, l := range loads {
		l.await(100)
		l.report(t, "before the loss")
	}

	began := time.Now()
	s.crash(t)
	theirs.await(60)
	s.takeOver(t)
	for n, front := range fronts {
		wait.Until(t, "the node's users are read", func() bool {
			return front.Read(t.Context(), t, spare[len(spare)-1]).Status == http.StatusOK
		})
		wait.Until(t, "the node's users are refreshed", func() bool {
			token := spare[0].RefreshToken
			spare = spare[1:]
			return front.Refresh(t.Context(), t, f.Partner, token).Status == http.StatusOK
		})
		took := time.Since(began)
		t.Logf("server %d serves the node's users %s after the loss", n, took.Round(time.Millisecond))
		if took > back {
			t.Errorf("that is later than %s", back)
		}
	}
	for _, l := range loads {
		l.await(100)
		for answer, n := range l.report(t, "from the loss on") {
			if l == theirs && !strings.HasSuffix(answer, " 200") {
				t.Errorf("users of other nodes: %s, %d times", answer, n)
			}
		}
		l.stop()
	}
	s.moveHome(t)
	for _, l := range loads {
		f.settle(t, l)
	}
}

// standby is a synchronous standby of a node.
type standby struct {
	machine
	db     *pgtest.DB
	node   int    // of the cluster; the coordinator is 0
	folder string // of its data
	port   int
	both   string // the node's URL, with the addresses of primary and standby
	placed bool   // it has taken the node's place
}

// newStandby starts a standby of a node, for as long as the test runs.
func newStandby(t *testing.T, db *pgtest.DB, node int) *standby {
	t.Helper()
	s := &standby{machine: machineOf(t, db.URLs[node]), db: db, node: node}
	s.folder = s.data + "-standby"
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = free.Addr().(*net.TCPAddr).Port
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	primary := addressOf(t, db.URLs[node])
	s.both = strings.Replace(db.URLs[node], primary.Host, fmt.Sprintf("%s,127.0.0.1:%d", primary.Host, s.port), 1) + "&target_session_attrs=read-write"
	s.run(t, "pg_basebackup", "-D", s.folder, "-h", primary.Hostname(), "-p", primary.Port(), "-U", primary.User.Username(), "-R", "-c", "fast")
	t.Cleanup(func() { s.moveHome(t) })
	s.run(t, "pg_ctl", "start", "-w", "-D", s.folder, "-l", s.folder+"/log", "-o", "-p "+strconv.Itoa(s.port))
	conn := session(t, db.URLs[node])
	for _, statement := range []string{"alter system set synchronous_standby_names = '*'", "select pg_reload_conf()"} {
		if _, err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	wait.Until(t, "the standby is synchronous", func() bool {
		var synchronous bool
		err := conn.QueryRow(t.Context(), "select exists (select from pg_stat_replication where sync_state = 'sync')").Scan(&synchronous)
		return err == nil && synchronous
	})
	return s
}

func addressOf(t *testing.T, node string) *url.URL {
	t.Helper()
	address, err := url.Parse(node)
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// crash loses the primary.
func (s *standby) crash(t *testing.T) {
	t.Helper()
	s.run(t, "pg_ctl", "stop", "-w", "-m", "immediate", "-D", s.data)
}

// takeOver makes the standby the primary, and tells the cluster its address.
func (s *standby) takeOver(t *testing.T) {
	t.Helper()
	s.run(t, "pg_ctl", "promote", "-w", "-D", s.folder)
	s.placed = true
	s.tell(t, addressOf(t, s.db.URLs[s.node]).Port(), strconv.Itoa(s.port))
}

// tell tells the cluster that the node has another port. The coordinator knows where it is.
func (s *standby) tell(t *testing.T, from, to string) {
	t.Helper()
	at := addressOf(t, s.db.URLs[0])
	if s.node == 0 {
		at.Host = net.JoinHostPort(at.Hostname(), to)
	}
	if _, err := session(t, at.String()).Exec(context.WithoutCancel(t.Context()), `select citus_update_node(nodeid, nodename, $2::text::int, true, 1000)
		from pg_dist_node where nodeport = $1::text::int`, from, to); err != nil {
		t.Fatal(err)
	}
}

// moveHome gives the node the data of the standby that has taken its place, at its own address, and removes what is left. It may be called
// again.
func (s *standby) moveHome(t *testing.T) {
	t.Helper()
	if s.folder == "" {
		return
	}
	folder := s.folder
	s.folder = ""
	home := addressOf(t, s.db.URLs[s.node])
	s.run(t, "pg_ctl", "stop", "-w", "-m", "fast", "-D", folder)
	if s.placed {
		for _, err := range []error{os.Rename(s.data, s.data+"-lost"), os.Rename(folder, s.data), os.RemoveAll(s.data + "-lost")} {
			if err != nil {
				t.Fatal(err)
			}
		}
		s.run(t, "pg_ctl", "start", "-w", "-l", s.data+"/restarted.log", "-D", s.data)
		s.tell(t, strconv.Itoa(s.port), home.Port())
		for _, url := range s.db.URLs { // releases the locks that the crash left
			if _, err := session(t, url).Exec(context.WithoutCancel(t.Context()), "select recover_prepared_transactions()"); err != nil {
				t.Error(err)
			}
		}
		return
	}
	conn := session(t, s.db.URLs[s.node])
	for _, statement := range []string{"alter system reset synchronous_standby_names", "select pg_reload_conf()"} {
		if _, err := conn.Exec(context.WithoutCancel(t.Context()), statement); err != nil {
			t.Error(err)
		}
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Error(err)
	}
}
