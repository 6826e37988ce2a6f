package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/activity"
)

// What is written by hand is what encoding/json makes of the types that are generated from the document.
func TestAnswersAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	// Also texts that the service never writes: with quotes, controls, and what is no UTF-8.
	texts := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
		rapid.StringMatching(`ca_[A-Za-z0-9_-]{43}`))
	days := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 2_900_000).Draw(t, "day"))
	})
	const clock = "2006-01-02T15:04:05.000000" // specification 2.7
	clocks := rapid.Custom(func(t *rapid.T) time.Time {
		return days.Draw(t, "date").Add(time.Duration(rapid.Int64Range(0, 24*60*60*1_000_000-1).Draw(t, "microseconds")) * time.Microsecond)
	})
	rapid.Check(t, func(t *rapid.T) {
		text := func() string { return texts.Draw(t, "text") }
		number := func() int64 { return rapid.Int64().Draw(t, "number") }
		optional := func() *string { return rapid.Ptr(texts, true).Draw(t, "optional") }
		from, to := date(days.Draw(t, "from")), date(days.Draw(t, "to"))
		basis, source := partnerapi.DateBasis(text()), partnerapi.Source(text())
		n := rapid.IntRange(0, 3).Draw(t, "rows")
		steps, daily := make([]partnerapi.DailySteps, n), make([]partnerapi.CyclingDay, n)
		rides, described := make([]activity.Ride, n), make([]partnerapi.CyclingActivity, n)
		for i := range n {
			day := date(days.Draw(t, "day"))
			steps[i] = partnerapi.DailySteps{Date: day, Steps: number()}
			daily[i] = partnerapi.CyclingDay{Date: day, DistanceMeters: number(), Source: source}
			rides[i] = activity.Ride{ID: text(), StartTime: clocks.Draw(t, "start"), DistanceMeters: number()}
			described[i] = partnerapi.CyclingActivity{
				Date: date(rides[i].StartTime), DistanceMeters: rides[i].DistanceMeters, Source: partnerapi.SourceSvc, Id: rides[i].ID,
				RecordedStartTime: rides[i].StartTime.Format(clock), Granularity: partnerapi.CyclingActivityGranularityUnknown,
			}
			if rapid.Bool().Draw(t, "ended") {
				end := clocks.Draw(t, "end")
				shown := end.Format(clock)
				rides[i].EndTime, described[i].RecordedEndTime = &end, &shown
			}
		}
		stepsMeta := partnerapi.DailyActivityMeta{From: from, To: to, DateBasis: basis, Source: source, SnapshotAt: text()}
		dailyMeta := partnerapi.CyclingDailyMeta{From: from, To: to, DateBasis: basis, SnapshotAt: text()}
		ridesMeta := partnerapi.CyclingActivitiesMeta{
			From: from, To: to, DateBasis: basis, SnapshotAt: text(), NextCursor: optional(),
			TimeBasis: partnerapi.CyclingActivitiesMetaTimeBasis(text()),
		}
		check := func(got []byte, body any) {
			t.Helper()
			var want bytes.Buffer
			if err := json.NewEncoder(&want).Encode(body); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want.Bytes()) {
				t.Fatalf("got  %s\nwant %s", got, want.Bytes())
			}
		}
		tokens := partnerapi.TokenResponse{
			AccessToken: text(), ConnectionVersion: text(), ExpiresIn: int(number()), GrantId: uuid.New(), HistoryFrom: from,
			RefreshToken: text(), Scope: text(), TokenType: partnerapi.TokenResponseTokenType(text()),
		}
		check(appendTokens(nil, tokens), tokens)
		check(appendDailySteps(nil, steps, stepsMeta), partnerapi.DailyActivity{Data: steps, Meta: stepsMeta})
		check(appendCyclingDaily(nil, daily, dailyMeta), partnerapi.CyclingDaily{Data: daily, Meta: dailyMeta})
		check(appendCyclingActivities(nil, slices.Values(rides), ridesMeta), partnerapi.CyclingActivities{Data: described, Meta: ridesMeta})
	})
}

// broken is the stream of a caller who has gone.
type broken struct{ http.ResponseWriter }

func (broken) Write([]byte) (int, error) { return 0, errors.New("stream closed") }

// After a write that failed net/http may still be sending what it was given: the buffer must not become the body of
// somebody else's answer.
func TestBodyOfABrokenAnswerIsNotUsedAgain(t *testing.T) {
	t.Parallel()
	answer := jsonAnswer{[]byte("of the one who has gone"), new([]byte)}
	if err := answer.write(broken{httptest.NewRecorder()}); err == nil {
		t.Error("no error")
	}
	if len(*answer.buffer) > 0 {
		t.Errorf("%q was given back", *answer.buffer)
	}
}

func benchmarkPage() ([]activity.Ride, partnerapi.CyclingActivitiesMeta) {
	start := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	end := start.Add(40 * time.Minute)
	rides := make([]activity.Ride, 500)
	for i := range rides {
		rides[i] = activity.Ride{ID: "ca_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", StartTime: start, EndTime: &end, DistanceMeters: 12840}
	}
	return rides, partnerapi.CyclingActivitiesMeta{SnapshotAt: "2026-03-10T12:00:00.000Z"}
}

func BenchmarkJSON(b *testing.B) {
	rides, meta := benchmarkPage()
	b.Run("by-hand", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			appendCyclingActivities(make([]byte, 0, 768+288*len(rides)), slices.Values(rides), meta)
		}
	})
	b.Run("by-reflection", func(b *testing.B) {
		b.ReportAllocs()
		described := make([]partnerapi.CyclingActivity, len(rides))
		for i, ride := range rides {
			end := ride.EndTime.Format(time.RFC3339)
			described[i] = partnerapi.CyclingActivity{Id: ride.ID, Date: date(ride.StartTime), RecordedStartTime: end, RecordedEndTime: &end}
		}
		for b.Loop() {
			var buffer bytes.Buffer
			if err := json.NewEncoder(&buffer).Encode(partnerapi.CyclingActivities{Data: described, Meta: meta}); err != nil {
				b.Fatal(err)
			}
		}
	})
}
