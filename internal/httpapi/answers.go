package httpapi

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"connect-svc/gen/partnerapi"
)

// The bodies of the reads are written by hand: encoding/json looks at each field of each row by reflection, and calls
// each date's own method. That they are what it would write is tested with the generated types.

// readAnswer is a successful answer to a read or to discovery: one of the answers of each of these generated operations.
type readAnswer struct{ body []byte }

func (a readAnswer) write(w http.ResponseWriter) error {
	h := w.Header() // headers and admit have set the others
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(a.body))}
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(a.body)
	return err
}

var jsonType = []string{"application/json"}

// VisitGetAuthorizationServerMetadataResponse implements partnerapi.GetAuthorizationServerMetadataResponseObject.
func (a readAnswer) VisitGetAuthorizationServerMetadataResponse(w http.ResponseWriter) error {
	return a.write(w)
}

// VisitReadDailyActivityResponse implements partnerapi.ReadDailyActivityResponseObject.
func (a readAnswer) VisitReadDailyActivityResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitReadCyclingDailyResponse implements partnerapi.ReadCyclingDailyResponseObject.
func (a readAnswer) VisitReadCyclingDailyResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitReadCyclingActivitiesResponse implements partnerapi.ReadCyclingActivitiesResponseObject.
func (a readAnswer) VisitReadCyclingActivitiesResponse(w http.ResponseWriter) error {
	return a.write(w)
}

// appendText appends a string. Those of the service itself need no escapes; any other goes through encoding/json.
func appendText(b []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c >= 0x7f || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			encoded, err := json.Marshal(text)
			if err != nil {
				panic(err) // a string can always be encoded
			}
			return append(b, encoded...)
		}
	}
	b = append(b, '"')
	b = append(b, text...)
	return append(b, '"')
}

func appendDate(b []byte, day time.Time) []byte {
	b = append(b, '"')
	b = day.AppendFormat(b, time.DateOnly)
	return append(b, '"')
}

func appendDailySteps(b []byte, rows []partnerapi.DailySteps, meta partnerapi.DailyActivityMeta) []byte {
	b = append(b, `{"data":[`...)
	for i, row := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"date":`...)
		b = appendDate(b, row.Date.Time)
		b = append(b, `,"steps":`...)
		b = strconv.AppendInt(b, row.Steps, 10)
		b = append(b, `,"updated_at":null}`...)
	}
	b = append(b, `],"meta":{"date_basis":`...)
	b = appendText(b, string(meta.DateBasis))
	b = append(b, `,"from":`...)
	b = appendDate(b, meta.From.Time)
	b = append(b, `,"snapshot_at":`...)
	b = appendText(b, meta.SnapshotAt)
	b = append(b, `,"source":`...)
	b = appendText(b, string(meta.Source))
	b = append(b, `,"to":`...)
	b = appendDate(b, meta.To.Time)
	return append(b, "}}\n"...)
}

func appendCyclingDaily(b []byte, rows []partnerapi.CyclingDay, meta partnerapi.CyclingDailyMeta) []byte {
	b = append(b, `{"data":[`...)
	for i, row := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"date":`...)
		b = appendDate(b, row.Date.Time)
		b = append(b, `,"distance_meters":`...)
		b = strconv.AppendInt(b, row.DistanceMeters, 10)
		b = append(b, `,"source":`...)
		b = appendText(b, string(row.Source))
		b = append(b, `,"updated_at":null}`...)
	}
	b = append(b, `],"meta":{"date_basis":`...)
	b = appendText(b, string(meta.DateBasis))
	b = append(b, `,"from":`...)
	b = appendDate(b, meta.From.Time)
	b = append(b, `,"snapshot_at":`...)
	b = appendText(b, meta.SnapshotAt)
	b = append(b, `,"to":`...)
	b = appendDate(b, meta.To.Time)
	return append(b, "}}\n"...)
}

func appendCyclingActivities(b []byte, rows []partnerapi.CyclingActivity, meta partnerapi.CyclingActivitiesMeta) []byte {
	b = append(b, `{"data":[`...)
	for i, row := range rows {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"date":`...)
		b = appendDate(b, row.Date.Time)
		b = append(b, `,"distance_meters":`...)
		b = strconv.AppendInt(b, row.DistanceMeters, 10)
		b = append(b, `,"granularity":`...)
		b = appendText(b, string(row.Granularity))
		b = append(b, `,"id":`...)
		b = appendText(b, row.Id)
		b = append(b, `,"manual":null,"recorded_end_time":`...)
		b = appendOptional(b, row.RecordedEndTime)
		b = append(b, `,"recorded_start_time":`...)
		b = appendText(b, row.RecordedStartTime)
		b = append(b, `,"source":`...)
		b = appendText(b, string(row.Source))
		b = append(b, `,"timezone":null,"updated_at":null}`...)
	}
	b = append(b, `],"meta":{"date_basis":`...)
	b = appendText(b, string(meta.DateBasis))
	b = append(b, `,"from":`...)
	b = appendDate(b, meta.From.Time)
	b = append(b, `,"next_cursor":`...)
	b = appendOptional(b, meta.NextCursor)
	b = append(b, `,"snapshot_at":`...)
	b = appendText(b, meta.SnapshotAt)
	b = append(b, `,"time_basis":`...)
	b = appendText(b, string(meta.TimeBasis))
	b = append(b, `,"to":`...)
	b = appendDate(b, meta.To.Time)
	return append(b, "}}\n"...)
}

func appendOptional(b []byte, text *string) []byte {
	if text == nil {
		return append(b, "null"...)
	}
	return appendText(b, *text)
}
