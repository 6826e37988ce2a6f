package partner

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/domain/activity"
)

// generatedRides is the response that would be given if it were made of the types that are generated from the document.
func generatedRides(rides []activity.Ride, meta partnerapi.CyclingActivitiesMeta) partnerapi.ReadCyclingActivities200JSONResponse {
	const clock = "2006-01-02T15:04:05.000000" // specification 2.7
	data := make([]partnerapi.CyclingActivity, len(rides))
	for i, ride := range rides {
		data[i] = partnerapi.CyclingActivity{
			Id:                ride.ID,
			Date:              date(ride.StartTime),
			DistanceMeters:    ride.DistanceMeters,
			RecordedStartTime: ride.StartTime.Format(clock),
			Granularity:       partnerapi.CyclingActivityGranularityUnknown,
			Source:            partnerapi.SourceSvc,
		}
		if ride.EndTime != nil {
			end := ride.EndTime.Format(clock)
			data[i].RecordedEndTime = &end
		}
	}
	return partnerapi.ReadCyclingActivities200JSONResponse{Data: data, Meta: meta}
}

// generatedSteps and generatedCycling are the same for daily reads.
func generatedSteps(days []activity.Steps, meta partnerapi.DailyActivityMeta) partnerapi.ReadDailyActivity200JSONResponse {
	data := make([]partnerapi.DailySteps, len(days))
	for i, day := range days {
		data[i] = partnerapi.DailySteps{Date: date(day.Date), Steps: day.Steps}
	}
	return partnerapi.ReadDailyActivity200JSONResponse{Data: data, Meta: meta}
}

func generatedCycling(days []activity.CyclingDay, meta partnerapi.CyclingDailyMeta) partnerapi.ReadCyclingDaily200JSONResponse {
	data := make([]partnerapi.CyclingDay, len(days))
	for i, day := range days {
		data[i] = partnerapi.CyclingDay{Date: date(day.Date), DistanceMeters: day.DistanceMeters, Source: partnerapi.SourceSvc}
	}
	return partnerapi.ReadCyclingDaily200JSONResponse{Data: data, Meta: meta}
}

// The hand-written encoder writes the same as encoding/json with the generated types.
func TestRowsAreThoseOfTheDocument(t *testing.T) {
	t.Parallel()
	// Also texts that the service never writes: with quotes, control characters and invalid UTF-8. An id is never one of these.
	texts := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	ids := rapid.StringMatching(`ca_[A-Za-z0-9_-]{43}`)
	days := rapid.Custom(func(t *rapid.T) time.Time {
		return time.Date(1900, 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, rapid.IntRange(0, 2_900_000).Draw(t, "day"))
	})
	clocks := rapid.Custom(func(t *rapid.T) time.Time {
		return days.Draw(t, "date").Add(time.Duration(rapid.Int64Range(0, 24*60*60*1_000_000-1).Draw(t, "microseconds")) * time.Microsecond)
	})
	rapid.Check(t, func(t *rapid.T) {
		rides := make([]activity.Ride, rapid.OneOf(rapid.IntRange(0, 3), rapid.IntRange(50, 70)).Draw(t, "rides")) // in one part, or two
		for i := range rides {
			rides[i] = activity.Ride{
				ID:             ids.Draw(t, "id"),
				StartTime:      clocks.Draw(t, "start"),
				EndTime:        rapid.Ptr(clocks, true).Draw(t, "end"),
				DistanceMeters: rapid.Int64().Draw(t, "meters"),
			}
		}
		meta := partnerapi.CyclingActivitiesMeta{
			From:       date(days.Draw(t, "from")),
			To:         date(days.Draw(t, "to")),
			DateBasis:  partnerapi.DateBasis(texts.Draw(t, "date basis")),
			TimeBasis:  partnerapi.CyclingActivitiesMetaTimeBasis(texts.Draw(t, "time basis")),
			SnapshotAt: texts.Draw(t, "snapshot"),
			NextCursor: rapid.Ptr(texts, true).Draw(t, "cursor"),
		}
		sameResponse(t, rowsResponse[activity.Ride]{slices.Values(rides), appendRide, meta}.VisitReadCyclingActivitiesResponse,
			generatedRides(rides, meta).VisitReadCyclingActivitiesResponse)

		steps := make([]activity.Steps, rapid.IntRange(0, 31).Draw(t, "days"))
		cycling := make([]activity.CyclingDay, len(steps))
		for i := range steps {
			steps[i] = activity.Steps{Date: days.Draw(t, "date"), Steps: rapid.Int64().Draw(t, "steps")}
			cycling[i] = activity.CyclingDay{Date: steps[i].Date, DistanceMeters: steps[i].Steps}
		}
		ofSteps := partnerapi.DailyActivityMeta{From: meta.From, To: meta.To, DateBasis: meta.DateBasis, SnapshotAt: meta.SnapshotAt}
		sameResponse(t, rowsResponse[activity.Steps]{slices.Values(steps), appendSteps, ofSteps}.VisitReadDailyActivityResponse,
			generatedSteps(steps, ofSteps).VisitReadDailyActivityResponse)
		ofCycling := partnerapi.CyclingDailyMeta{From: meta.From, To: meta.To, DateBasis: meta.DateBasis, SnapshotAt: meta.SnapshotAt}
		sameResponse(t, rowsResponse[activity.CyclingDay]{slices.Values(cycling), appendCyclingDay, ofCycling}.VisitReadCyclingDailyResponse,
			generatedCycling(cycling, ofCycling).VisitReadCyclingDailyResponse)
	})
}

func sameResponse(t *rapid.T, byHand, generated func(http.ResponseWriter) error) {
	t.Helper()
	got, want := httptest.NewRecorder(), httptest.NewRecorder()
	if err := byHand(got); err != nil {
		t.Fatal(err)
	}
	if err := generated(want); err != nil {
		t.Fatal(err)
	}
	if got.Body.String() != want.Body.String() {
		t.Fatalf("got  %s\nwant %s", got.Body, want.Body)
	}
	if got.Code != want.Code || got.Header().Get("Content-Type") != want.Header().Get("Content-Type") {
		t.Errorf("%d %v, want %d %v", got.Code, got.Header(), want.Code, want.Header())
	}
}

// nowhere is where a benchmark's answers go.
type nowhere struct{ header http.Header }

func (n nowhere) Header() http.Header       { return n.header }
func (nowhere) Write(p []byte) (int, error) { return len(p), nil }
func (nowhere) WriteHeader(int)             {}

// How long the largest page and a month of steps take to be written, from their rows on.
func BenchmarkRows(b *testing.B) {
	start := time.Date(2026, 3, 10, 12, 0, 0, 0, time.UTC)
	end := start.Add(40 * time.Minute)
	rides := slices.Repeat([]activity.Ride{{
		ID: "ca_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", StartTime: start, EndTime: &end, DistanceMeters: 12840,
	}}, 500)
	ofRides := partnerapi.CyclingActivitiesMeta{
		From:       date(start),
		To:         date(start),
		DateBasis:  partnerapi.DateBasisSvcRecordedDate,
		TimeBasis:  partnerapi.CyclingActivitiesMetaTimeBasisSvcRecordedClock,
		SnapshotAt: start.Format(instant),
	}
	steps := slices.Repeat([]activity.Steps{{Date: start, Steps: 12840}}, 31)
	ofSteps := partnerapi.DailyActivityMeta{
		From: date(start), To: date(start), DateBasis: partnerapi.DateBasisSvcRecordedDate, Source: partnerapi.SourceSvc,
		SnapshotAt: start.Format(instant),
	}
	for _, kind := range []struct {
		name  string
		write func(http.ResponseWriter) error
	}{
		{"rides/by hand", func(w http.ResponseWriter) error {
			return rowsResponse[activity.Ride]{slices.Values(rides), appendRide, ofRides}.write(w)
		}},
		{"rides/generated", func(w http.ResponseWriter) error {
			return generatedRides(rides, ofRides).VisitReadCyclingActivitiesResponse(w)
		}},
		{"steps/by hand", func(w http.ResponseWriter) error {
			return rowsResponse[activity.Steps]{slices.Values(steps), appendSteps, ofSteps}.write(w)
		}},
		{"steps/generated", func(w http.ResponseWriter) error {
			return generatedSteps(steps, ofSteps).VisitReadDailyActivityResponse(w)
		}},
	} {
		b.Run(kind.name, func(b *testing.B) {
			b.ReportAllocs()
			to := nowhere{http.Header{}}
			for b.Loop() {
				if err := kind.write(to); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
