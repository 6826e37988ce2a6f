package httpapi

import (
	"encoding/json"
	"iter"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"connect-svc/gen/partnerapi"
	"connect-svc/internal/activity"
)

// The bodies of successes are written by hand: encoding/json looks at each field of each row by reflection, and calls
// each date's own method. That they are what it would write is tested with the generated types.

// jsonAnswer is a success with a body: one of the answers of each of these generated operations.
type jsonAnswer struct {
	body   []byte
	buffer *[]byte // is given back once the body is written; nil where others use the body, too
}

func (a jsonAnswer) write(w http.ResponseWriter) error {
	h := w.Header() // the guard has set the others
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(a.body))}
	w.WriteHeader(http.StatusOK)
	_, err := w.Write(a.body)
	if a.buffer != nil && err == nil { // else a stream of HTTP/2 that was reset may still be reading it
		*a.buffer = a.body
		buffers.Put(a.buffer)
	}
	return err
}

// buffers are for bodies: one of 500 rides is 170 kB, which would otherwise be made, cleared and collected for each.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// newBody makes the answer with what put appends to an empty body of about size bytes.
func newBody(size int, put func([]byte) []byte) jsonAnswer {
	buffer := buffers.Get().(*[]byte) //nolint:errcheck // nothing else is in the pool
	return jsonAnswer{put(slices.Grow((*buffer)[:0], size)), buffer}
}

var jsonType = []string{"application/json"}

// VisitGetAuthorizationServerMetadataResponse implements partnerapi.GetAuthorizationServerMetadataResponseObject.
func (a jsonAnswer) VisitGetAuthorizationServerMetadataResponse(w http.ResponseWriter) error {
	return a.write(w)
}

// VisitRequestTokenResponse implements partnerapi.RequestTokenResponseObject.
func (a jsonAnswer) VisitRequestTokenResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitReadDailyActivityResponse implements partnerapi.ReadDailyActivityResponseObject.
func (a jsonAnswer) VisitReadDailyActivityResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitReadCyclingDailyResponse implements partnerapi.ReadCyclingDailyResponseObject.
func (a jsonAnswer) VisitReadCyclingDailyResponse(w http.ResponseWriter) error { return a.write(w) }

// VisitReadCyclingActivitiesResponse implements partnerapi.ReadCyclingActivitiesResponseObject.
func (a jsonAnswer) VisitReadCyclingActivitiesResponse(w http.ResponseWriter) error {
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
	return append(appendDay(append(b, '"'), day), '"')
}

// appendClock appends a recorded clock time (specification 2.7): always six fractional digits, never a zone.
func appendClock(b []byte, at time.Time) []byte {
	b = appendDay(append(b, '"'), at)
	hour, minute, second := at.Clock()
	b = append(b, 'T')
	b = append(appendDigits(b, hour), ':')
	b = append(appendDigits(b, minute), ':')
	b = append(appendDigits(b, second), '.')
	micro := at.Nanosecond() / 1000
	b = appendDigits(appendDigits(appendDigits(b, micro/10_000), micro/100%100), micro%100)
	return append(b, '"')
}

// appendDay appends YYYY-MM-DD. The layouts of package time are read anew for each value.
func appendDay(b []byte, at time.Time) []byte {
	year, month, day := at.Date()
	if year < 0 || year > 9999 {
		return at.AppendFormat(b, time.DateOnly)
	}
	b = append(appendDigits(appendDigits(b, year/100), year%100), '-')
	b = append(appendDigits(b, int(month)), '-')
	return appendDigits(b, day)
}

// appendDigits appends a number from 0 to 99.
func appendDigits(b []byte, n int) []byte { return append(b, byte('0'+n/10), byte('0'+n%10)) }

func appendTokens(b []byte, tokens partnerapi.TokenResponse) []byte {
	b = append(b, `{"access_token":`...)
	b = appendText(b, tokens.AccessToken)
	b = append(b, `,"connection_version":`...)
	b = appendText(b, tokens.ConnectionVersion)
	b = append(b, `,"expires_in":`...)
	b = strconv.AppendInt(b, int64(tokens.ExpiresIn), 10)
	b = append(b, `,"grant_id":"`...)
	b = append(b, tokens.GrantId.String()...)
	b = append(b, `","history_from":`...)
	b = appendDate(b, tokens.HistoryFrom.Time)
	b = append(b, `,"refresh_token":`...)
	b = appendText(b, tokens.RefreshToken)
	b = append(b, `,"scope":`...)
	b = appendText(b, tokens.Scope)
	b = append(b, `,"token_type":`...)
	b = appendText(b, string(tokens.TokenType))
	return append(b, "}\n"...)
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

func appendCyclingActivities(b []byte, rides iter.Seq[activity.Ride], meta partnerapi.CyclingActivitiesMeta) []byte {
	b = append(b, `{"data":[`...)
	for ride := range rides {
		if b[len(b)-1] != '[' {
			b = append(b, ',')
		}
		b = append(b, `{"date":`...)
		b = appendDate(b, ride.StartTime)
		b = append(b, `,"distance_meters":`...)
		b = strconv.AppendInt(b, ride.DistanceMeters, 10)
		b = append(b, `,"granularity":"`+string(partnerapi.CyclingActivityGranularityUnknown)+`","id":`...)
		b = appendText(b, ride.ID)
		b = append(b, `,"manual":null,"recorded_end_time":`...)
		if ride.EndTime == nil {
			b = append(b, "null"...)
		} else {
			b = appendClock(b, *ride.EndTime)
		}
		b = append(b, `,"recorded_start_time":`...)
		b = appendClock(b, ride.StartTime)
		b = append(b, `,"source":"`+string(partnerapi.SourceSvc)+`","timezone":null,"updated_at":null}`...)
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
