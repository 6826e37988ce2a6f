//go:build faults

package storm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/testing/history"
)

const (
	lives   = 4 // users at a time, each with a connection to two partners
	callers = 2 // backends of a partner that act on one connection
	feeds   = 4 // users whose connections last, and whose activity comes in batches
	walks   = 2 // users whose steps are written and read
	rows    = 20
)

// hotPolicy is what the hot client has.
var hotPolicy = client.Policy{RequestsPerMinute: 120, Burst: 20, ConcurrentReads: 3}

// narrowPolicy is what the client has that reads at the bound of its places.
var narrowPolicy = client.Policy{RequestsPerMinute: 1_000_000, Burst: 100_000, ConcurrentReads: 3}

// nobody is the user, or the client, of an act that concerns none.
var nobody uuid.UUID

// feed is a user whose connection lasts, with what was written for it.
type feed struct{ *connection }

// prepare makes what there is before the first fault.
func (s *storm) prepare() {
	s.Helper()
	s.newClients()
	s.stop = s.Context()
	conn, err := s.database.connect(s.Context())
	if err == nil {
		err = errors.Join(s.audit.allow(s.Context(), conn), conn.QueryRow(s.Context(), "select count(*) from users").Scan(&s.before), conn.Close(s.Context()))
	}
	if err != nil {
		s.Fatal(err)
	}
	for range feeds {
		s.feeds = append(s.feeds, &feed{s.lasting(s.steady)})
	}
	for range 3 {
		s.ghosts = append(s.ghosts, s.lasting(s.steady).user.id)
	}
	for range walks {
		s.walks = append(s.walks, newWalk(s.lasting(s.steady)))
	}
	if s.paused != nil {
		s.pauses.connection = s.lasting(s.paused)
		s.pauses.grant = s.pauses.connection.grant
	}
	// Changes are announced from the first readable day on: each batch has a day of its own.
	if err := s.database.exec(s.Context(), "update connections set history_from = $1 where client_id = $2", firstDay, s.steady.id); err != nil {
		s.Fatal(err)
	}
}

func (s *storm) newConnection(u *user, p *partner) *connection {
	c := &connection{storm: s, user: u, partner: p}
	s.book.add(c)
	return c
}

// startLoad lets everybody act until the storm is over.
func (s *storm) startLoad(all *sync.WaitGroup) {
	chances := uint64(100)
	run := func(act func(chance *rand.Rand)) {
		chances++
		chance := rand.New(rand.NewPCG(s.seed, chances))
		all.Go(func() {
			for s.stop.Err() == nil {
				act(chance)
			}
		})
	}
	for range lives {
		run(s.life)
	}
	run(s.toggle)
	run(s.batch)
	run(s.importFile)
	run(s.attemptInVain)
	for _, w := range s.walks {
		run(w.write)
		for caller := range 2 {
			run(func(chance *rand.Rand) { w.look(caller, chance) })
		}
	}
	suspect := s.newUser(s.Context())
	run(func(chance *rand.Rand) { s.misuse(suspect, chance) })
	run(s.rotate)
	for range 2 {
		run(s.present)
	}
	run(s.watchLeases)
	hot := s.newConnection(s.newUser(s.Context()), s.hot)
	hot.connect(0)
	for n := range hotPolicy.ConcurrentReads + 2 {
		run(func(chance *rand.Rand) { s.ask(hot, n, chance) })
	}
	if s.paused != nil {
		for _, act := range []func(*rand.Rand){s.pause, s.tell, s.engineer, s.requestChanges, s.pass} {
			run(act)
		}
	}
}

// life is a user who comes, is connected to two partners, and goes, or is deleted.
func (s *storm) life(chance *rand.Rand) {
	u := s.newUser(s.stop)
	if u == nil {
		return
	}
	ctx, end := context.WithTimeout(s.stop, between(chance, 15, 40))
	defer end()
	both := []*connection{s.newConnection(u, s.steady), s.newConnection(u, s.flighty)}
	var all sync.WaitGroup
	for _, c := range both {
		for caller := range callers {
			own := rand.New(rand.NewPCG(chance.Uint64(), 0))
			all.Go(func() {
				for ctx.Err() == nil {
					c.step(caller, own)
					await(ctx, c.pause(own))
				}
			})
		}
	}
	own := rand.New(rand.NewPCG(chance.Uint64(), 0))
	all.Go(func() {
		for ctx.Err() == nil {
			s.lookAfter(u, own)
			await(ctx, between(own, 0.5, 3))
		}
	})
	if leaves := between(chance, 5, 60); leaves < 40*time.Second {
		await(ctx, leaves)
		s.deleteUser(u, both)
	}
	all.Wait()
}

// lookAfter is what the service's own app does for a user.
func (s *storm) lookAfter(u *user, chance *rand.Rand) {
	switch chance.IntN(3) {
	case 0:
		u.mu.Lock()
		defer u.mu.Unlock()
		email := newEmail()
		acknowledged := s.audit.ask("user.changed", u.id, nobody)
		if got := s.operate("change address", http.MethodPatch, "/users/"+u.id.String(), map[string]any{"email": email}); got.status == http.StatusOK {
			acknowledged()
			u.email = email
		} else if got.unknown() { // the app asks what it is
			u.maybe = append(u.maybe, email)
			for s.stop.Err() == nil {
				var is struct{ Email string }
				got := s.operate("read user", http.MethodGet, "/users/"+u.id.String(), nil)
				if !got.unknown() {
					if got.status == http.StatusOK && got.json(&is) == nil {
						u.email = is.Email
					}
					break
				}
				await(s.stop, 300*time.Millisecond)
			}
		}
	case 1:
		s.operate("list connections", http.MethodGet, "/users/"+u.id.String()+"/connections", nil)
	default:
		day := time.Now().UTC().Format(time.DateOnly)
		got := s.operate("write a day", http.MethodPost, "/activity", map[string]any{
			"daily_steps": []any{map[string]any{"user_id": u.id, "date": day, "steps": chance.IntN(20000)}},
			"cycling_activities": []any{
				map[string]any{"user_id": u.id, "source_id": fmt.Sprint("ride-", chance.IntN(4)), "recorded_start_time": day + "T07:45:00", "distance_meters": chance.IntN(30000)},
			},
		})
		if got.status != http.StatusOK && got.status != http.StatusUnprocessableEntity && !got.unknown() { // the user may be gone
			s.Errorf("a batch is answered %d %s", got.status, got.body)
		}
	}
}

// deleteUser asks until the user is gone. That is one act, however often it was asked for: who finds the user gone after that did
// it before.
func (s *storm) deleteUser(u *user, connections []*connection) {
	u.mu.Lock()
	u.leaving = true
	u.mu.Unlock()
	acknowledged := s.audit.ask("user.deleted", u.id, nobody)
	op := history.Op{Act: history.DeleteUser, Answer: history.Unknown, Caller: callers, Call: s.now()}
	for s.stop.Err() == nil && op.Answer == history.Unknown {
		got := s.operate("delete user", http.MethodDelete, "/users/"+u.id.String(), nil)
		switch {
		case got.status == http.StatusNoContent || got.status == http.StatusNotFound:
			op.Answer, op.Return = history.Done, s.now()
			acknowledged()
			u.deleted = true
		case !got.unknown():
			s.Errorf("the deletion of a user is answered %d", got.status)
			return
		default:
			await(s.stop, 300*time.Millisecond)
		}
	}
	for _, c := range connections {
		c.mu.Lock()
		c.ops = append(c.ops, op)
		c.mu.Unlock()
	}
}

// toggle has a command disable the flighty client and enable it again, past all faults of the network and until it is done. All its
// connections have the two acts in their histories.
func (s *storm) toggle(chance *rand.Rand) {
	await(s.stop, between(chance, 4, 12))
	for _, act := range []history.Act{history.DisableClient, history.EnableClient} {
		op := history.Op{Act: act, Answer: history.Done, Caller: callers + 1, Call: s.now()}
		acknowledged := s.audit.ask(map[history.Act]string{history.DisableClient: "client.disabled", history.EnableClient: "client.enabled"}[act], nobody, s.flighty.id)
		for err := s.setStatus(act); err != nil && s.Context().Err() == nil; err = s.setStatus(act) {
			await(s.Context(), 100*time.Millisecond)
		}
		op.Return = s.now()
		acknowledged()
		s.book.toggled(op)
		s.sum.answer(string(act), "OK", time.Duration(op.Return-op.Call))
		if act == history.DisableClient {
			await(context.Background(), between(chance, 0.1, 1.5))
		}
	}
}

func (s *storm) setStatus(act history.Act) error {
	ctx, cancel := context.WithTimeout(s.Context(), 20*time.Second)
	defer cancel()
	verb := map[history.Act]string{history.DisableClient: "disable", history.EnableClient: "enable"}[act]
	program, done := s.programs.any()
	defer done()
	_, err := s.command(ctx, s.env, program, "client", verb, s.flighty.id.String())
	return err
}

var firstDay = time.Date(2021, time.January, 1, 0, 0, 0, 0, time.UTC)

// delivery is rides that are written together, all with a day of their own.
type delivery struct {
	name  string
	day   time.Time
	rows  int
	began time.Duration
	acked bool // it was said to be there
	never bool // it was refused
}

func (s *storm) newDelivery(rows int) *delivery {
	return s.book.deliver(rows, time.Since(s.began))
}

func (d *delivery) ride(u uuid.UUID, n int) map[string]any {
	return map[string]any{
		"user_id": u, "source_id": fmt.Sprintf("%s-%d", d.name, n), "distance_meters": 1000,
		"recorded_start_time": fmt.Sprintf("%sT%02d:00:00", d.day.Format(time.DateOnly), n%24),
	}
}

// batch writes rides of all feeds in one request of the operator API.
func (s *storm) batch(chance *rand.Rand) {
	d := s.newDelivery(rows)
	var rides []any
	for n := range d.rows {
		rides = append(rides, d.ride(s.feeds[n%feeds].user.id, n))
	}
	got := s.operate("batch", http.MethodPost, "/activity", map[string]any{"cycling_activities": rides})
	switch {
	case got.status == http.StatusOK:
		s.book.acknowledge(d)
	case !got.unknown():
		s.Errorf("a batch is answered %d %s", got.status, got.body)
	}
	await(s.stop, between(chance, 0.1, 0.6))
}

// importFile has the command line import rides, and sometimes kills it.
func (s *storm) importFile(chance *rand.Rand) {
	d := s.newDelivery(10 * rows)
	var file strings.Builder
	file.WriteString("user_id,source_id,recorded_start_time,recorded_end_time,distance_meters\n")
	for n := range d.rows {
		ride := d.ride(s.feeds[n%feeds].user.id, n)
		fmt.Fprintf(&file, "%s,%s,%s,,%d\n", ride["user_id"], ride["source_id"], ride["recorded_start_time"], ride["distance_meters"])
	}
	if s.importRows(chance, "import", "cycling-activities", file.String()) {
		s.book.acknowledge(d)
	}
	await(s.stop, between(chance, 0.5, 2))
}

// attemptInVain is what must leave no trace: a batch that is refused as a whole, and a disconnect that is rolled back.
func (s *storm) attemptInVain(chance *rand.Rand) {
	ghost := s.ghosts[chance.IntN(len(s.ghosts))]
	d := s.newDelivery(2)
	got := s.operate("refused batch", http.MethodPost, "/activity", map[string]any{
		"cycling_activities": []any{d.ride(ghost, 0), d.ride(uuid.New(), 1)},
	})
	if got.status != http.StatusUnprocessableEntity && !got.unknown() {
		s.Errorf("a batch with an unknown user is answered %d", got.status)
	}
	s.book.refuse(d)
	func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		conn, err := s.database.connect(ctx)
		if err != nil {
			return // PostgreSQL is away
		}
		defer func() { _ = conn.Close(context.Background()) }()
		tx, err := conn.Begin(ctx)
		if err != nil {
			return
		}
		if _, err := tx.Exec(ctx, endByHand, ghost); err == nil {
			await(ctx, between(chance, 0, 0.3))
		}
		_ = tx.Rollback(ctx)
	}()
	await(s.stop, between(chance, 0.3, 1.5))
}

// endByHand is a disconnect by the statements of a test.
const endByHand = `with ended as (
		update connections set state = 'disconnected', version = version + 1, refresh_hash = null where user_id = $1
		returning user_id, client_id, grant_id
	)
	insert into webhook_events (user_id, client_id, type, grant_id, connection_version, reason)
	select user_id, client_id, 'connection.revoked', grant_id, 1, 'client_disconnected' from ended`

// ask is the hot client: more reads than it may.
func (s *storm) ask(c *connection, caller int, chance *rand.Rand) {
	last, some := c.token(0)
	if c.connects(caller, !some || time.Since(last.at) > tokenAge) {
		return
	}
	if some {
		sent := time.Now()
		body := c.read(caller, last, "daily-activity")
		if bytes.HasPrefix(body, []byte(`{"data"`)) {
			s.book.admit(sent, time.Now())
		}
	}
	await(s.stop, between(chance, 0.02, 0.15))
}
