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

// ridesResponse is the success of ReadCyclingActivities. It is the one response that is not generated: encoding/json
// would take more than a quarter of the request's CPU to reflect on ten fields of up to 500 rows (BenchmarkRides). A test compares
// its bytes with those of the generated type.
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

// A body is written in parts of about the size of a TLS record.
const (
	maxPart = 15 << 10
	maxRide = 512
)

// appendRide appends a row (specification 2.7). No text in it needs an escape.
func appendRide(b []byte, ride activity.Ride) []byte {
	b = append(b, `{"date":"`...)
	b = appendDate(b, ride.StartTime)
	b = append(b, `","distance_meters":`...)
	b = strconv.AppendInt(b, ride.DistanceMeters, 10)
	b = append(b, `,"granularity":"`+partnerapi.CyclingActivityGranularityUnknown+`","id":"`...)
	b = append(b, ride.ID...)
	b = append(b, `","manual":null,"recorded_end_time":`...)
	if ride.EndTime == nil {
		b = append(b, "null"...)
	} else {
		b = append(appendClock(append(b, '"'), *ride.EndTime), '"')
	}
	b = append(b, `,"recorded_start_time":"`...)
	b = appendClock(b, ride.StartTime)
	return append(b, `","source":"`+partnerapi.SourceSvc+`","timezone":null,"updated_at":null}`...)
}

// appendDate appends YYYY-MM-DD; years have four digits in the database. The layouts of package time are read anew for
// each value.
func appendDate(b []byte, at time.Time) []byte {
	year, month, day := at.Date()
	b = append(appendDigits(appendDigits(b, year/100), year%100), '-')
	b = append(appendDigits(b, int(month)), '-')
	return appendDigits(b, day)
}

// appendClock appends YYYY-MM-DDTHH:mm:ss.ffffff (specification 2.7): always six fractional digits, never a zone.
func appendClock(b []byte, at time.Time) []byte {
	hour, minute, second := at.Clock()
	b = append(appendDate(b, at), 'T')
	b = append(appendDigits(b, hour), ':')
	b = append(appendDigits(b, minute), ':')
	b = append(appendDigits(b, second), '.')
	micro := at.Nanosecond() / 1000
	return appendDigits(appendDigits(appendDigits(b, micro/10_000), micro/100%100), micro%100)
}

// appendDigits appends a number from 0 to 99.
func appendDigits(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }
