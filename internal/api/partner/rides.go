package partner

import (
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"time"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/activity"
)

// ridesResponse is the success of ReadCyclingActivities, the only response that is not generated: for ten fields of up to 500 rows the
// reflection of encoding/json would take more than a quarter of the request's CPU (BenchmarkRides). A test compares its bytes with
// those of the generated type.
type ridesResponse struct {
	rides iter.Seq[activity.Ride]
	meta  partnerapi.CyclingActivitiesMeta
}

var _ partnerapi.ReadCyclingActivitiesResponseObject = ridesResponse{}

// VisitReadCyclingActivitiesResponse writes the response.
func (a ridesResponse) VisitReadCyclingActivitiesResponse(w http.ResponseWriter) error {
	meta, err := json.Marshal(a.meta)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json") // the guard has set the others
	w.WriteHeader(http.StatusOK)
	part := append(make([]byte, 0, maxPart+maxRide), `{"data":[`...)
	first := true
	for ride := range a.rides {
		if !first {
			part = append(part, ',')
		}
		first = false
		if part = appendRide(part, ride); len(part) >= maxPart {
			if _, err := w.Write(part); err != nil {
				return err
			}
			part = part[:0]
		}
	}
	part = append(append(append(part, `],"meta":`...), meta...), "}\n"...)
	_, err = w.Write(part)
	return err
}

// A part of the body has about the size of a TLS record.
const (
	maxPart = 15 << 10
	maxRide = 512
)

// clock is the format of specification 2.7. It always has six fractional digits, and never a zone.
const clock = "2006-01-02T15:04:05.000000"

// appendRide appends a row (specification 2.7). No text in it needs an escape.
func appendRide(b []byte, ride activity.Ride) []byte {
	b = append(b, `{"date":"`...)
	b = ride.StartTime.AppendFormat(b, time.DateOnly)
	b = append(b, `","distance_meters":`...)
	b = strconv.AppendInt(b, ride.DistanceMeters, 10)
	b = append(b, `,"granularity":"`+partnerapi.CyclingActivityGranularityUnknown+`","id":"`...)
	b = append(b, ride.ID...)
	b = append(b, `","manual":null,"recorded_end_time":`...)
	if ride.EndTime == nil {
		b = append(b, "null"...)
	} else {
		b = append(ride.EndTime.AppendFormat(append(b, '"'), clock), '"')
	}
	b = append(b, `,"recorded_start_time":"`...)
	b = ride.StartTime.AppendFormat(b, clock)
	return append(b, `","source":"`+partnerapi.SourceSvc+`","timezone":null,"updated_at":null}`...)
}
