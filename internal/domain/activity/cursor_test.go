package activity_test

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"connect-svc/internal/domain/activity"
	"connect-svc/internal/foundation/credential"
)

// traverse reads all pages of a query and returns the distances in their order, which name the rides of these tests.
func traverse(w world, t tester, reader activity.Reader, dates activity.Range, limit int) []int {
	var seen []int
	for cursor := ""; ; {
		page, err := w.CyclingPage(t.Context(), reader, dates, limit, cursor)
		if err != nil {
			t.Fatalf("page after %d rides: %v", len(seen), err)
		}
		for ride := range page.Rides() {
			seen = append(seen, int(ride.DistanceMeters))
		}
		if page.NextCursor == "" {
			return seen
		}
		if page.Len() != limit {
			t.Fatalf("a page that is not the last has %d rides, want %d", page.Len(), limit)
		}
		cursor = page.NextCursor
	}
}

// 4.9: the pages are the whole list, in its order, nothing skipped and nothing repeated, wherever rides start at the
// same time and whatever the limit.
func TestPagesAreTheWholeList(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rapid.Check(t, func(t *rapid.T) {
		user := w.newUser(t, "UTC")
		// Few different starts, around both ends of the range, and names that sort differently in most collations.
		start := rapid.Custom(func(t *rapid.T) time.Time {
			return rapid.SampledFrom([]time.Time{
				clock("2026-03-31T23:59:59.999999"), clock("2026-04-01T00:00:00"), clock("2026-04-01T00:00:00.000001"),
				clock("2026-04-02T08:00:00"), clock("2026-04-30T23:59:59.999999"), clock("2026-05-01T00:00:00"),
			}).Draw(t, "start")
		})
		names := rapid.SliceOfNDistinct(rapid.StringMatching(`[aAbB_ é-]{1,4}`), 0, 40, rapid.ID[string]).Draw(t, "names")
		rides := make([]activity.RideRecord, len(names))
		for i, name := range names {
			rides[i] = activity.RideRecord{UserID: user, SourceID: name, Start: start.Draw(t, "ride"), DistanceMeters: i}
		}
		if _, err := w.Put(t.Context(), activity.Batch{CyclingActivities: rides}); err != nil {
			t.Fatal(err)
		}
		limit := rapid.IntRange(1, 12).Draw(t, "limit")

		var want []int
		slices.SortFunc(rides, func(a, b activity.RideRecord) int {
			return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.SourceID, b.SourceID))
		})
		for _, ride := range rides {
			if !ride.Start.Before(april.From) && ride.Start.Before(day("2026-05-01")) {
				want = append(want, ride.DistanceMeters)
			}
		}
		if got := traverse(w, t, w.reader(user), april, limit); !slices.Equal(got, want) {
			t.Fatalf("pages of %d: %v\nwant %v", limit, got, want)
		}
	})
}

// 2.8, 4.9: next_cursor is null on the last page and on no other.
func TestNextCursor(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rides, limit int
		wantPages    []int
	}{
		{rides: 0, limit: 1, wantPages: []int{0}},
		{rides: 1, limit: 1, wantPages: []int{1}},
		{rides: 2, limit: 1, wantPages: []int{1, 1}},
		{rides: 4, limit: 5, wantPages: []int{4}},
		{rides: 5, limit: 5, wantPages: []int{5}},
		{rides: 6, limit: 5, wantPages: []int{5, 1}},
		{rides: 501, limit: 500, wantPages: []int{500, 1}},
	} {
		t.Run(fmt.Sprintf("4.9 %d rides, limit %d", test.rides, test.limit), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			reader := w.reader(w.newUser(t, "UTC"))
			w.putRides(t, ridesAtOneTime(reader.UserID, test.rides)...)
			var pages []int
			for cursor := ""; ; {
				page, err := w.CyclingPage(t.Context(), reader, april, test.limit, cursor)
				if err != nil {
					t.Fatal(err)
				}
				pages = append(pages, page.Len())
				if cursor = page.NextCursor; cursor == "" {
					break
				}
			}
			if !slices.Equal(pages, test.wantPages) {
				t.Errorf("pages of %v rides, want %v", pages, test.wantPages)
			}
		})
	}
}

func ridesAtOneTime(user uuid.UUID, n int) []activity.RideRecord {
	rides := make([]activity.RideRecord, n)
	for i := range rides {
		rides[i] = activity.RideRecord{
			UserID: user, SourceID: fmt.Sprintf("%04d", i), Start: clock("2026-04-02T08:00:00"), DistanceMeters: i,
		}
	}
	return rides
}

// 3.3, 7.4: a cursor works for the query that it came from, and for 15 minutes from the first page.
func TestCursorIsBound(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	reader := w.reader(w.newUser(t, "UTC"))
	w.putRides(t, ridesAtOneTime(reader.UserID, 10)...)
	first, err := w.CyclingPage(t.Context(), reader, april, 2, "")
	if err != nil {
		t.Fatal(err)
	}
	later := reader
	later.Now = reader.Now.Add(10 * time.Minute)
	second, err := w.CyclingPage(t.Context(), later, april, 2, first.NextCursor)
	if err != nil {
		t.Fatal(err)
	}

	type query struct {
		reader activity.Reader
		dates  activity.Range
		limit  int
		cursor string
	}
	for _, test := range []struct {
		name   string
		change func(*query)
		valid  bool
	}{
		{"3.3 the same query", func(*query) {}, true},
		{"3.3 again, a page can be read twice", func(*query) {}, true},
		{"3.3 another from", func(q *query) { q.dates.From = day("2026-04-02") }, false},
		{"3.3 another to", func(q *query) { q.dates.To = day("2026-04-29") }, false},
		{"3.3 another limit", func(q *query) { q.limit = 3 }, false},
		{"3.3 an older connection version", func(q *query) { q.reader.ConnectionVersion = 2 }, false},
		{"7.4 another user", func(q *query) { q.reader.UserID = uuid.New() }, false},
		{"7.4 another client", func(q *query) { q.reader.ClientID = uuid.New() }, false},
		{"3.3 just before 15 minutes", func(q *query) {
			q.reader.Now = reader.Now.Add(15*time.Minute - time.Microsecond)
		}, true},
		{"3.3 after 15 minutes", func(q *query) { q.reader.Now = reader.Now.Add(15 * time.Minute) }, false},
		{"3.3 a later page, just before 15 minutes from the first", func(q *query) {
			q.cursor, q.reader.Now = second.NextCursor, reader.Now.Add(15*time.Minute-time.Microsecond)
		}, true},
		{"3.3 a later page does not start anew", func(q *query) {
			q.cursor, q.reader.Now = second.NextCursor, reader.Now.Add(15*time.Minute)
		}, false},
		{"7.4 no prefix", func(q *query) { q.cursor = strings.TrimPrefix(q.cursor, "cc1_") }, false},
		{"7.4 prefix alone", func(q *query) { q.cursor = "cc1_" }, false},
		{"7.4 cut off", func(q *query) { q.cursor = q.cursor[:len(q.cursor)-1] }, false},
		{"7.4 longer", func(q *query) { q.cursor += "A" }, false},
		{"7.4 padded", func(q *query) { q.cursor += "=" }, false},
		{"7.4 line break", func(q *query) { q.cursor += "\n" }, false},
		{"7.4 made up", func(q *query) { q.cursor = "cc1_" + strings.Repeat("A", 300) }, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			q := query{reader, april, 2, first.NextCursor}
			test.change(&q)
			page, err := w.CyclingPage(t.Context(), q.reader, q.dates, q.limit, q.cursor)
			if test.valid && (err != nil || page.Len() != 2) {
				t.Errorf("CyclingPage: %v, %v", page, err)
			}
			if !test.valid && !errors.Is(err, activity.ErrInvalidCursor) {
				t.Errorf("CyclingPage: error %v, want ErrInvalidCursor", err)
			}
		})
	}
}

// 7.4: an altered cursor is refused, wherever it was altered.
func TestAlteredCursor(t *testing.T) {
	t.Parallel()
	keys := credential.NewTestKeyring()
	w := newWorld(t)
	sealing := activity.New(w.Pool, keys, activity.Settings{CursorLifetime: 15 * time.Minute})
	// Without a database: a cursor that passes panics.
	opening := activity.New(w.Pool, keys, activity.Settings{CursorLifetime: 15 * time.Minute})
	reader := w.reader(w.newUser(t, "UTC"))
	rides := ridesAtOneTime(reader.UserID, 2)
	rides[0].SourceID = strings.Repeat("0", 128)
	w.putRides(t, rides...)
	page, err := sealing.CyclingPage(t.Context(), reader, april, 1, "")
	if err != nil {
		t.Fatal(err)
	}
	cursor := page.NextCursor
	if len(cursor) > 400 || !strings.HasPrefix(cursor, "cc1_") {
		t.Fatalf("cursor of %d characters: %s", len(cursor), cursor)
	}
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	for i := range cursor {
		for _, c := range alphabet + "=\n\x00" {
			altered := cursor[:i] + string(c) + cursor[i+1:]
			if altered == cursor {
				continue
			}
			if _, err := opening.CyclingPage(t.Context(), reader, april, 1, altered); !errors.Is(err, activity.ErrInvalidCursor) {
				t.Fatalf("character %d altered to %q: error %v, want ErrInvalidCursor", i, c, err)
			}
		}
	}
	for _, kind := range []credential.Kind{credential.AuthorizationCode, credential.AccessToken, credential.RefreshToken} {
		payload, err := keys.Open(credential.Cursor, cursor)
		if err != nil {
			t.Fatal(err)
		}
		other, err := keys.Seal(kind, payload)
		if err != nil {
			t.Fatal(err)
		}
		_, body, _ := strings.Cut(other, "_")
		if _, err := opening.CyclingPage(t.Context(), reader, april, 1, "cc1_"+body); !errors.Is(err, activity.ErrInvalidCursor) {
			t.Errorf("a %s as cursor: error %v, want ErrInvalidCursor", kind, err)
		}
	}
}

func FuzzCursor(f *testing.F) {
	// Without a database: a cursor that passes panics.
	a := activity.New(nil, credential.NewTestKeyring(), activity.Settings{CursorLifetime: 15 * time.Minute})
	f.Add("cc1_")
	f.Add("cc1_AAAA")
	f.Add(strings.Repeat("c", 5000))
	f.Fuzz(func(t *testing.T, cursor string) {
		if cursor == "" {
			return // the first page
		}
		if _, err := a.CyclingPage(t.Context(), activity.Reader{}, april, 1, cursor); !errors.Is(err, activity.ErrInvalidCursor) {
			t.Errorf("error %v, want ErrInvalidCursor", err)
		}
	})
}
