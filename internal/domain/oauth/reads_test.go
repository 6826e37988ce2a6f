package oauth

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"connect-svc/internal/domain/client"
	"connect-svc/internal/foundation/scope"
	"connect-svc/internal/testing/pgtest"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
)

// lastReads compares what is recorded with reads at clock times of the fixture's day.
func (f *fixture) lastReads(t *testing.T, want ...Read) {
	t.Helper()
	about := cmpopts.EquateApproxTime(10 * time.Minute)
	if diff := cmp.Diff(want, f.ofUser(t)[0].Reads, about, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("last reads (-want +got):\n%s", diff)
	}
}

// clockAt is a time of the day of start.
func clockAt(hour, minute int) time.Time { return time.Date(2026, 3, 10, hour, minute, 0, 0, time.UTC) }

// The first read of each dataset in an hour of the clock is recorded, and further ones write nothing.
func TestLastRead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.connect(t, scope.All)
	f.works(t, tokens) // but reads nothing
	f.lastReads(t)
	f.reads(t, tokens, scope.CyclingDaily)
	f.lastReads(t, Read{scope.CyclingDaily, clockAt(12, 0)})

	f.db.SetTime(clockAt(12, 45))
	tokens = f.refresh(t, tokens)
	f.asks(t, tokens, scope.CyclingDaily)
	if waiting, _ := f.Server.reads.Waiting(); waiting != 0 {
		t.Error("a second read of the hour is written")
	}
	f.asks(t, tokens, scope.DailySteps)
	f.asks(t, tokens, scope.CyclingActivities)
	f.asks(t, tokens, scope.CyclingActivities)
	if waiting, _ := f.Server.reads.Waiting(); waiting != 1 {
		t.Errorf("%d statements for two datasets", waiting)
	}
	f.Server.reads.Flush(t.Context())
	of12 := []Read{{scope.DailySteps, clockAt(12, 45)}, {scope.CyclingActivities, clockAt(12, 45)}, {scope.CyclingDaily, clockAt(12, 0)}}
	f.lastReads(t, of12...)

	f.db.SetTime(clockAt(13, 15)) // less than an hour later, but of another one
	f.dead(t, tokens)             // expired: not a read
	tokens = f.refresh(t, tokens)
	f.reads(t, tokens, scope.CyclingActivities)
	f.lastReads(t, Read{scope.CyclingActivities, clockAt(13, 15)}, of12[0], of12[2])
	if got := f.ofUser(t)[0].Reads[0].Hour(); !got.Equal(clockAt(13, 0)) {
		t.Errorf("the hour is %v", got)
	}
}

// Two servers that both found a read to be due write it once, and what came first does not undo what came later.
func TestReadOfSeveralServers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.connect(t, scope.All)
	f.asks(t, tokens, scope.DailySteps|scope.CyclingDaily)
	other := New(f.db.Pool, f.keys, f.settings)
	record := func(at time.Time) string {
		t.Helper()
		f.db.SetTime(at)
		tokens = f.refresh(t, tokens)
		access, err := other.Authenticate(t.Context(), tokens.AccessToken)
		if err != nil {
			t.Fatal(err)
		}
		other.RecordRead(&access, scope.DailySteps)
		other.reads.Flush(t.Context())
		return pgtest.Value[string](t, f.db, "select steps_read_at::text from connections")
	}
	record(clockAt(12, 20))
	later := record(clockAt(13, 30))
	f.Server.reads.Flush(t.Context()) // of 12:00
	if got := pgtest.Value[string](t, f.db, "select steps_read_at::text from connections"); got != later {
		t.Errorf("%s, then %s", later, got)
	}
	f.lastReads(t, Read{scope.DailySteps, clockAt(13, 30)}, Read{scope.CyclingDaily, clockAt(12, 0)})

	f.asks(t, tokens, scope.CyclingActivities)
	f.asks(t, tokens, scope.CyclingActivities)
	access, err := other.Authenticate(t.Context(), tokens.AccessToken)
	if err != nil {
		t.Fatal(err)
	}
	f.db.SetTime(clockAt(13, 32))
	f.Server.reads.Flush(t.Context())
	first := pgtest.Value[string](t, f.db, "select rides_read_at::text from connections")
	access.Now = clockAt(13, 34)
	other.RecordRead(&access, scope.CyclingActivities)
	other.reads.Flush(t.Context())
	if got := pgtest.Value[string](t, f.db, "select rides_read_at::text from connections"); got != first {
		t.Errorf("written twice in an hour: %s, then %s", first, got)
	}
}

// A read that waits while its connection ends, or begins anew, is not recorded. The next connection does not show
// the reads of the one before.
func TestReadsOfWhatHasEnded(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	ways := map[string]func(t *testing.T, tokens Tokens){
		"disconnected": func(t *testing.T, _ Tokens) {
			if err := f.DisconnectUser(t.Context(), f.user, f.client.ID); err != nil {
				t.Fatal(err)
			}
			if all, err := f.Connection(t.Context(), f.user, f.client.ID); err != nil || len(all.Reads) != 0 {
				t.Errorf("of what has ended: %+v, %v", all.Reads, err)
			}
			f.connect(t, scope.All)
		},
		"authorized again": func(t *testing.T, _ Tokens) { f.connect(t, scope.All) },
	}
	for _, way := range []string{"authorized again", "disconnected"} {
		tokens := f.connect(t, scope.All)
		f.asks(t, tokens, scope.CyclingDaily)
		ways[way](t, tokens)
		f.Server.reads.Flush(t.Context())
		f.lastReads(t)
	}

	f.reads(t, f.connect(t, scope.All), scope.DailySteps)
	if err := f.DisconnectUser(t.Context(), f.user, f.client.ID); err != nil {
		t.Fatal(err)
	}
	f.reads(t, f.connect(t, scope.All), scope.CyclingActivities) // within the same hour
	f.lastReads(t, Read{scope.CyclingActivities, clockAt(12, 0)})

	tokens := f.connect(t, scope.All)
	f.reads(t, tokens, scope.DailySteps)
	if err := f.Revoke(t.Context(), f.as(f.client.ID), tokens.RefreshToken); err != nil {
		t.Fatal(err)
	}
	f.lastReads(t, Read{scope.DailySteps, clockAt(12, 0)}, Read{scope.CyclingActivities, clockAt(12, 0)})
}

// A server of 1.0.0 records when a client read, and not what.
func TestReadsOfOlderServers(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	tokens := f.connect(t, scope.All)
	older := func(at time.Time) { f.db.Exec(t, "update connections set last_read_at = $1", at) }
	older(clockAt(9, 0))
	f.lastReads(t, Read{0, clockAt(9, 0)})
	f.reads(t, tokens, scope.DailySteps)
	f.lastReads(t, Read{scope.DailySteps, clockAt(12, 0)})
	older(clockAt(12, 30))
	f.lastReads(t, Read{0, clockAt(12, 30)}, Read{scope.DailySteps, clockAt(12, 0)})
	f.db.SetTime(clockAt(12, 40))
	f.reads(t, f.refresh(t, tokens), scope.CyclingDaily)
	f.lastReads(t, Read{scope.CyclingDaily, clockAt(12, 40)}, Read{scope.DailySteps, clockAt(12, 0)})
}

// A record that fails waits and keeps no other one from being written. A row that another act has locked is left to the next read.
func TestReadsThatCannotBeRecorded(t *testing.T) {
	pgtest.NotOnCluster(t, "the trigger and the lock are those of a shard")
	t.Parallel()
	f := newFixture(t)
	first, tokens := f.user, f.connect(t, scope.All)
	f.user = f.newUser(t, "UTC")
	others := f.connect(t, scope.All)
	f.db.Exec(t, `create function refuse() returns trigger language plpgsql as 'begin raise exception ''refused''; end'`)
	f.db.Exec(t, `create trigger refuse before update on connections for each row when (old.user_id = '`+first.String()+`') execute function refuse()`)
	f.asks(t, tokens, scope.DailySteps)
	f.asks(t, others, scope.DailySteps)
	if f.Server.reads.Flush(t.Context()) {
		t.Error("all were recorded")
	}
	f.lastReads(t, Read{scope.DailySteps, clockAt(12, 0)})
	f.user = first
	f.lastReads(t)
	f.db.Exec(t, "drop trigger refuse on connections")
	if !f.Server.reads.Flush(t.Context()) {
		t.Error("not recorded afterwards")
	}
	f.lastReads(t, Read{scope.DailySteps, clockAt(12, 0)})

	tx, err := f.db.Pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "select from connections for update"); err != nil {
		t.Fatal(err)
	}
	f.asks(t, tokens, scope.CyclingDaily)
	if !f.Server.reads.Flush(t.Context()) { // it would hang
		t.Error("a locked row")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.lastReads(t, Read{scope.DailySteps, clockAt(12, 0)})
	f.reads(t, tokens, scope.CyclingDaily)
	f.lastReads(t, Read{scope.CyclingDaily, clockAt(12, 0)}, Read{scope.DailySteps, clockAt(12, 0)})
}

// When the service stops, what waits is recorded.
func TestRunRecordsWhatIsLeft(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.asks(t, f.connect(t, scope.All), scope.DailySteps)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	f.Run(ctx)
	f.lastReads(t, Read{scope.DailySteps, clockAt(12, 0)})
}

// Each read that is the first of a day (UTC) is told: of the client, and of any client. The day is that of the read, whenever it is recorded.
func TestFirstReadOfADay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	type active struct {
		ClientID uuid.UUID
		Day      int
		First    bool
	}
	var told, want []active
	f.settings.Active = func(clientID uuid.UUID, at time.Time, first bool) {
		told = append(told, active{clientID, at.UTC().Day(), first})
	}
	clients, tokens := []client.Client{f.client, f.newClient(t)}, [2]Tokens{}
	for i, one := range clients {
		f.client = one
		tokens[i] = f.connect(t, scope.All)
	}
	datasets := []scope.Set{scope.DailySteps, scope.CyclingDaily, scope.CyclingActivities}
	for i, step := range []struct {
		after            time.Duration
		client           int
		today, firstUser bool
	}{
		{0, 0, true, true}, {time.Minute, 0, false, false}, {0, 1, true, false}, {2 * time.Hour, 0, false, false},
		{12 * time.Hour, 1, true, true}, {2 * time.Minute, 0, true, false}, // of the next day
		{21*time.Hour + 45*time.Minute, 0, false, false}, {20 * time.Minute, 0, true, true}, // within an hour, but of another day
	} {
		f.db.Clock.Advance(step.after)
		if f.client = clients[step.client]; step.after > time.Minute {
			tokens[step.client] = f.refresh(t, tokens[step.client])
		}
		f.asks(t, tokens[step.client], datasets[i%3])
		if step.today {
			want = append(want, active{f.client.ID, f.db.Now().UTC().Day(), step.firstUser})
		}
		f.Server.reads.Flush(t.Context())
	}
	f.db.SetTime(time.Date(2026, 3, 13, 23, 59, 0, 0, time.UTC))
	f.asks(t, f.refresh(t, tokens[0]), scope.DailySteps)
	f.db.Clock.Advance(2 * time.Minute)
	f.Server.reads.Flush(t.Context())
	want = append(want, active{f.client.ID, 13, true})
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("first reads (-want +got):\n%s", diff)
	}
}

// A user is active once a day with each client, and once in all, however often the connections end and begin anew on that day.
func TestActiveUsersAreCountedOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	told, want := map[string]int{}, map[string]int{}
	f.settings.Active = func(clientID uuid.UUID, at time.Time, first bool) {
		told[clientID.String()+at.UTC().Format(" 02")]++
		if first {
			told["all"+at.UTC().Format(" 02")]++
		}
	}
	random := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same in each run
	users, clients, tokens := []uuid.UUID{f.user, f.newUser(t, "UTC")}, []client.Client{f.client, f.newClient(t)}, map[[2]int]Tokens{}
	seen := map[string]bool{}
	for range 150 {
		pair := [2]int{random.IntN(2), random.IntN(2)}
		f.user, f.client = users[pair[0]], clients[pair[1]]
		_, connected := tokens[pair]
		switch act := random.IntN(5); {
		case !connected:
			tokens[pair] = f.connect(t, scope.All)
		case act == 0:
			if err := f.DisconnectUser(t.Context(), f.user, f.client.ID); err != nil {
				t.Fatal(err)
			}
			delete(tokens, pair)
		case act == 1:
			f.db.Clock.Advance(time.Duration(random.IntN(5)) * time.Hour)
		default:
			tokens[pair] = f.refresh(t, tokens[pair])
			f.asks(t, tokens[pair], []scope.Set{scope.DailySteps, scope.CyclingDaily, scope.CyclingActivities}[random.IntN(3)])
			f.Server.reads.Flush(t.Context())
			for _, who := range []string{f.client.ID.String(), "all"} {
				day := who + f.db.Now().UTC().Format(" 02")
				if key := day + f.user.String(); !seen[key] {
					seen[key] = true
					want[day]++
				}
			}
		}
	}
	if diff := cmp.Diff(want, told); diff != "" {
		t.Errorf("active users (-want +got):\n%s", diff)
	}
}
