package httpapi

import (
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"time"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/activity"
)

// ridesResponse is the success of ReadCyclingActivities. It is the one response that is not generated: encoding/json looks
// at each of the ten fields of up to 500 rows by reflection, which is more than a quarter of what the whole request costs
// (BenchmarkRides). A test holds its bytes against those of the generated type.
type ridesResponse struct {
	rides iter.Seq[activity.Ride]
	count int
	meta  partnerapi.CyclingActivitiesMeta
}

var _ partnerapi.ReadCyclingActivitiesResponseObject = ridesResponse{}

// VisitReadCyclingActivitiesResponse writes the response.
func (a ridesResponse) VisitReadCyclingActivitiesResponse(w http.ResponseWriter) error {
	meta, err := json.Marshal(a.meta)
	if err != nil {
		return err
	}
	body := append(make([]byte, 0, 768+288*a.count), `{"data":[`...)
	for ride := range a.rides {
		if body[len(body)-1] != '[' {
			body = append(body, ',')
		}
		body = appendRide(body, ride)
	}
	body = append(append(append(body, `],"meta":`...), meta...), "}\n"...)
	h := w.Header() // the guard has set the others
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(http.StatusOK)
	_, err = w.Write(body)
	return err
}

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
