package usage

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/page"
	"connect-svc/internal/testing/pgtest"
	"connect-svc/internal/testing/wait"
)

func (u *Usage) flushErrors(t *testing.T) {
	t.Helper()
	u.errors[true].Flush(t.Context())
	u.errors[false].Flush(t.Context())
}

// Equal refusals are one row, whatever their number. A client keeps the last 300 of a kind, and nobody who only names it can push one out.
func TestErrorsOfAClient(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client, stranger := db.Client(t).ID, uuid.New()
	network := 0
	refuse := func(reason string, authenticated bool, client uuid.UUID) {
		network++
		from := netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 0, byte(network >> 8), byte(network)}), 32)
		u.AddError(ErrorKind{ClientID: client, Authenticated: authenticated, Operation: "requestToken", Code: "invalid_grant", Reason: reason, Status: 400}, uuid.New(), uuid.Nil, from)
	}
	for range 5000 {
		refuse("code has expired", true, client)
	}
	refuse("a made-up id", false, stranger)
	u.flushErrors(t)
	got, err := u.Errors(t.Context(), client, ErrorFilter{}, page.Key{}, 2000)
	if err != nil || len(got) != 1 || got[0].Requests != 5000 || got[0].Reason != "code has expired" || got[0].Status != 400 {
		t.Fatalf("%+v, %v", got, err)
	}
	if _, err := u.Errors(t.Context(), stranger, ErrorFilter{}, page.Key{}, 2000); err == nil {
		t.Error("a client that does not exist has errors")
	}
	for i := range 1020 { // a multiple of trimAfter
		db.Clock.Advance(time.Second)
		refuse(fmt.Sprint("reason ", i), true, client)
	}
	u.flushErrors(t)
	for i := range maxErrors[false] + 50 {
		db.Clock.Advance(time.Second)
		refuse(fmt.Sprint("named ", i), false, client)
	}
	u.flushErrors(t)
	if n := pgtest.Value[int64](t, db, "select count(*) from client_errors where authenticated"); n != 300 {
		t.Errorf("%d errors of its own, want 300", n)
	}
	if n := pgtest.Value[int64](t, db, "select count(*) from client_errors where not authenticated"); n != 50 {
		t.Errorf("%d errors of those that named it, want 50", n)
	}
	if got, err = u.Errors(t.Context(), client, ErrorFilter{}, page.Key{}, 2000); err != nil || len(got) != 350 || got[50].Reason != "reason 1019" {
		t.Errorf("%d errors, %v", len(got), err)
	}
}

// A night of 429s leaves the last night's refusals of another kind where they are, and those that are not kept are counted for as long.
func TestFrequentErrors(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client := db.Client(t).ID
	refuse := func(operation string, status int, code, reason string, times int) {
		for range times {
			u.AddError(ErrorKind{ClientID: client, Authenticated: true, Operation: operation, Code: code, Reason: reason, Status: status}, uuid.New(), uuid.Nil, netip.Prefix{})
		}
	}
	refuse("requestToken", 400, "invalid_grant", "the connection is revoked", 3)
	u.flushErrors(t)
	lost := db.Now()
	db.Clock.Advance(24 * time.Hour)
	for range 400 { // of some seconds each
		db.Clock.Advance(5 * time.Second)
		refuse("listDailyActivity", 429, "rate_limited", "more requests than the rate policy allows", 10)
		u.flushErrors(t)
	}
	refuse("listCyclingActivities", 429, "rate_limited", "more requests than the rate policy allows", 1)
	u.flushErrors(t)

	got, err := u.ErrorCounts(t.Context(), client)
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	often := got[1]
	if often.Requests != 4000 || often.Listed < 3000 || often.Listed >= int64(3000+10*trimAfter[true]) || often.LastAt.Sub(often.ListedSince).Round(5*time.Minute) != 25*time.Minute {
		t.Errorf("of the frequent kind: %+v", often)
	}
	if rare := got[2]; rare.Operation != "requestToken" || rare.Requests != 3 || rare.Listed != 3 || !rare.ListedSince.IsZero() || rare.LastAt.After(lost) {
		t.Errorf("of the rare kind: %+v", rare)
	}
	rare, err := u.Errors(t.Context(), client, ErrorFilter{Code: "invalid_grant"}, page.Key{}, 10)
	if err != nil || len(rare) != 1 || rare[0].Requests != 3 {
		t.Errorf("the rare ones: %+v, %v", rare, err)
	}

	db.Clock.Advance(retention - 12*time.Hour)
	if err := u.Sweep(t.Context(), db.Now()); err != nil {
		t.Fatal(err)
	}
	if got, err := u.ErrorCounts(t.Context(), client); err != nil || len(got) != 2 || got[1].Requests != 4000 {
		t.Errorf("after 35 days of the rare kind: %+v, %v", got, err)
	}
	db.Clock.Advance(48 * time.Hour)
	if err := u.Sweep(t.Context(), db.Now()); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int64](t, db, "select count(*) from client_error_counts"); n != 0 {
		t.Errorf("%d counts of long ago are left", n)
	}
}

// Equal refusals keep the ids of the last requests.
func TestRequestIDsOfErrors(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client := db.Client(t).ID
	var ids []uuid.UUID
	for range mostRequestIDs + 3 {
		ids = append(ids, uuid.New())
		u.AddError(ErrorKind{ClientID: client, Authenticated: true, Operation: "requestToken", Code: "invalid_grant", Reason: "code has expired", Status: 400},
			ids[len(ids)-1], uuid.Nil, netip.Prefix{})
	}
	u.flushErrors(t)
	got, err := u.Errors(t.Context(), client, ErrorFilter{}, page.Key{}, 10)
	if err != nil || len(got) != 1 || !slices.Equal(got[0].RequestIDs, ids[3:]) {
		t.Errorf("%+v, %v", got, err)
	}
}

// Equal refusals keep the grants of the connections, each once, and are found by them. A grant that the directory no longer has goes at the next
// sweep: its user was deleted while a server held the refusal.
func TestGrantsOfErrors(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client := db.Client(t).ID
	var grants []uuid.UUID
	for range mostGrantIDs + 1 {
		grants = append(grants, uuid.New())
	}
	db.Exec(t, "insert into grant_directory select unnest($1::uuid[]), gen_random_uuid(), $2", grants, client)
	refuse := func(grant uuid.UUID) {
		u.AddError(ErrorKind{ClientID: client, Authenticated: true, Operation: "requestToken", Code: "invalid_grant", Reason: "code has expired", Status: 400},
			uuid.New(), grant, netip.Prefix{})
	}
	refuse(uuid.Nil)
	u.AddError(ErrorKind{ClientID: client, Authenticated: true, Operation: "listDailyActivity", Code: "rate_limited", Reason: "x", Status: 429}, uuid.New(), grants[0], netip.Prefix{})
	for range 2 {
		for _, grant := range grants {
			refuse(grant)
		}
	}
	u.flushErrors(t)
	found := func(grant uuid.UUID) []ClientError {
		t.Helper()
		got, err := u.Errors(t.Context(), client, ErrorFilter{GrantID: grant}, page.Key{}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := found(grants[0]); len(got) != 1 || got[0].Requests != int64(1+2*len(grants)) || !slices.Equal(got[0].GrantIDs, grants[:mostGrantIDs]) {
		t.Errorf("%d errors of a grant", len(got))
	}
	if got := found(uuid.New()); len(got) != 0 {
		t.Errorf("%d errors of an unknown grant", len(got))
	}
	db.Exec(t, "delete from grant_directory where grant_id = $1", grants[1])
	if err := u.Sweep(t.Context(), db.Now()); err != nil {
		t.Fatal(err)
	}
	if gone, left := found(grants[1]), found(grants[2]); len(gone) != 0 || len(left) != 1 || len(left[0].GrantIDs) != mostGrantIDs-1 {
		t.Errorf("of a deleted user %d errors are left, of another one %d", len(gone), len(left))
	}
}

// One network names a client so often: it pushes out a few errors of others, in each hour, and no more.
func TestErrorsOfANetwork(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client := db.Client(t).ID
	partner, stranger := netip.MustParsePrefix("192.0.2.1/32"), netip.MustParsePrefix("192.0.2.2/32")
	refuse := func(reason string, from netip.Prefix) {
		u.AddError(ErrorKind{ClientID: client, Authenticated: false, Operation: "requestToken", Code: "invalid_client", Reason: reason, Status: 401}, uuid.New(), uuid.Nil, from)
	}
	kept := func() (all, own int64) {
		u.flushErrors(t)
		return pgtest.Value[int64](t, db, "select coalesce(sum(requests), 0)::bigint from client_errors"),
			pgtest.Value[int64](t, db, "select count(*) from client_errors where reason = 'own'")
	}
	for range 3 {
		refuse("own", partner)
	}
	for i := range 144 {
		db.Clock.Advance(time.Second)
		refuse(fmt.Sprint("reason ", i), stranger)
		kept()
	}
	if all, own := kept(); all != 3+unprovenErrors || own != 1 {
		t.Errorf("%d errors are kept, %d of the partner's", all, own)
	}
	for range 5000 { // equal ones are one, while it waits
		refuse("again", partner)
	}
	if all, _ := kept(); all != 3+unprovenErrors+5000 {
		t.Errorf("%d errors are kept", all)
	}
	db.Clock.Advance(time.Hour)
	refuse("later", stranger)
	if all, _ := kept(); all != 3+unprovenErrors+5000+1 {
		t.Errorf("an hour later %d errors are kept", all)
	}
	u.unproven.errors = map[unprovenKey]int{}
	for i := range maxUnproven {
		u.unproven.errors[unprovenKey{uuid.New(), netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 32)}] = 1
	}
	refuse("one too many", partner)
	if all, _ := kept(); all != 3+unprovenErrors+5000+1 {
		t.Errorf("%d errors are kept, though too much is remembered", all)
	}
}

// A stranger who names clients that do not exist keeps no refusal of another network from being written.
func TestErrorsOfUnknownClients(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	refuse := func(client uuid.UUID, from string) {
		u.AddError(ErrorKind{ClientID: client, Authenticated: false, Operation: "requestToken", Code: "invalid_client", Reason: "wrong", Status: 401}, uuid.New(), uuid.Nil, netip.MustParsePrefix(from))
	}
	for range 1000 {
		refuse(uuid.New(), "192.0.2.2/32")
	}
	refuse(db.Client(t).ID, "192.0.2.1/32")
	u.flushErrors(t)
	if n := pgtest.Value[int64](t, db, "select count(*) from client_errors"); n != 1 {
		t.Errorf("%d errors are kept, want the one of a client", n)
	}
}

// Errors wait while the database is away, and are swept when they are old.
func TestErrorsWait(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client := db.Client(t)
	db.Exec(t, "alter table client_errors rename to away")
	for range 2 {
		u.AddError(ErrorKind{ClientID: client.ID, Authenticated: true, Operation: "requestToken", Code: "invalid_grant", Reason: "wrong", Status: 400}, uuid.New(), uuid.Nil, netip.Prefix{})
		u.flushErrors(t)
	}
	db.Exec(t, "alter table away rename to client_errors")
	u.flushErrors(t)
	if n := pgtest.Value[int64](t, db, "select sum(requests)::bigint from client_errors"); n != 2 {
		t.Errorf("%d errors are written", n)
	}
	db.Clock.Advance(retention + time.Hour)
	if err := u.Sweep(t.Context(), db.Now()); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int64](t, db, "select count(*) from client_errors"); n != 0 {
		t.Errorf("%d old errors are left", n)
	}
}

// A sweep ends in time, however many grants the refused requests of an hour have: a partner that reads with access tokens that have expired has hundreds of
// thousands of them.
func TestSweepOfManyGrants(t *testing.T) {
	t.Parallel()
	u, db, _ := newUsage(t)
	client := db.Client(t)
	// The indexes would only make the test slower.
	db.Exec(t, "drop index client_errors_grants, grant_directory_hash")
	db.Define(t, "create function grant_of(n int) returns uuid language sql immutable return md5(n::text)::uuid")
	db.Exec(t, "insert into grant_directory select grant_of(n), gen_random_uuid(), $1 from generate_series(1, 700000) n", client.ID)
	db.Exec(t, `insert into client_errors (client_id, authenticated, at, operation, status, code, reason, requests, grant_ids)
		select $1, true, $2::timestamptz - n / 500 * interval '1 second', 'listDailyActivity', 401, 'invalid_token', 'x', 500, array_agg(grant_of(n))
		from generate_series(1, 700000) n group by n / 500`, client.ID, db.Now())
	gone := pgtest.Value[uuid.UUID](t, db, "delete from grant_directory where grant_id = grant_of(1) returning grant_id")
	swept := make(chan error, 1)
	go func() { swept <- u.Sweep(t.Context(), db.Now()) }()
	if err := wait.For(t, "the sweep", swept); err != nil {
		t.Fatal(err)
	}
	if n := pgtest.Value[int](t, db, "select sum(cardinality(grant_ids))::int from client_errors where not grant_ids @> array[$1::uuid]", gone); n != 699_999 {
		t.Errorf("%d grants are left", n)
	}
}
