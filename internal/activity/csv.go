package activity

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Columns of the two files.
var (
	stepsColumns = []string{"user_id", "date", "steps"}
	ridesColumns = []string{"user_id", "source_id", "recorded_start_time", "recorded_end_time", "distance_meters"}
)

// maxRowBytes bounds the memory that a file takes: a quote that is never closed makes one row of all that follows.
const maxRowBytes = 1 << 20

var (
	errText    = errors.New("must be UTF-8 without NUL")
	errLongRow = errors.New("must be shorter than 1 MiB: is a closing quote missing?")
)

// csvFile reads a file of comma-separated values (RFC 4180) row by row, with or without a byte order mark.
type csvFile struct {
	file    *limitedReader
	reader  *csv.Reader
	columns []string
	line    int // of the last row
}

// openCSV reads the header, which must name the columns in their order.
func openCSV(file io.Reader, columns []string) (*csvFile, error) {
	limited := &limitedReader{file: file, left: maxRowBytes}
	buffered := bufio.NewReaderSize(limited, 1<<16)
	const byteOrderMark = "\xef\xbb\xbf"
	if start, _ := buffered.Peek(len(byteOrderMark)); string(start) == byteOrderMark {
		_, _ = buffered.Discard(len(byteOrderMark)) // it is in the buffer
	}
	f := &csvFile{file: limited, reader: csv.NewReader(buffered), columns: columns}
	f.reader.ReuseRecord = true
	f.reader.FieldsPerRecord = -1 // next counts the fields, for an error in our words
	header, _, err := f.next()
	if bad := (*RowError)(nil); err != nil && !errors.Is(err, io.EOF) && !errors.As(err, &bad) {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	if !slices.Equal(header, columns) {
		return nil, &RowError{Line: 1, Err: fmt.Errorf("the header must be %s", strings.Join(columns, ","))}
	}
	return f, nil
}

// next is the next row and its line, until [io.EOF]. The row is valid until the next call. A [RowError] says that the
// line is no row of this file.
func (f *csvFile) next() (row []string, line int, err error) {
	f.file.left = maxRowBytes
	row, err = f.reader.Read()
	var malformed *csv.ParseError
	switch {
	case errors.Is(err, errLongRow):
		return nil, 0, &RowError{Line: f.line + 1, Err: errLongRow}
	case errors.As(err, &malformed):
		return nil, 0, &RowError{Line: malformed.StartLine, Err: malformed.Err}
	case err != nil:
		return nil, 0, err
	}
	f.line, _ = f.reader.FieldPos(0)
	if len(row) != len(f.columns) {
		return nil, 0, &RowError{Line: f.line, Err: fmt.Errorf("must have %d columns, has %d", len(f.columns), len(row))}
	}
	for i, field := range row {
		if !isText(field) {
			return nil, 0, &RowError{Line: f.line, Column: f.columns[i], Err: errText}
		}
	}
	return row, f.line, nil
}

// limitedReader counts what is read, and fails where one row takes more of the file than left.
type limitedReader struct {
	file io.Reader
	left int
	read int64
}

func (r *limitedReader) Read(into []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLongRow
	}
	n, err := r.file.Read(into)
	r.left -= n
	r.read += int64(n)
	return n, err
}

func parseStepsRow(row []string) (StepsRecord, *RowError) {
	user, err := parseUser(row[0])
	if err != nil {
		return StepsRecord{}, &RowError{Column: "user_id", Err: errUser}
	}
	date, err := parseDate(row[1])
	if err != nil {
		return StepsRecord{}, &RowError{Column: "date", Err: errDate}
	}
	steps, err := parseCount(row[2])
	if err != nil {
		return StepsRecord{}, &RowError{Column: "steps", Err: errCount}
	}
	record := StepsRecord{UserID: user, Date: date, Steps: steps}
	return record, record.check()
}

func parseRideRow(row []string) (RideRecord, *RowError) {
	user, err := parseUser(row[0])
	if err != nil {
		return RideRecord{}, &RowError{Column: "user_id", Err: errUser}
	}
	start, err := parseClock(row[2])
	if err != nil {
		return RideRecord{}, &RowError{Column: "recorded_start_time", Err: errClock}
	}
	end, err := parseClock(row[3])
	if err != nil {
		end = time.Time{} // unknown (decisions, section 1)
	}
	meters, err := parseCount(row[4])
	if err != nil {
		return RideRecord{}, &RowError{Column: "distance_meters", Err: errCount}
	}
	record := RideRecord{UserID: user, SourceID: row[1], Start: start, End: end, DistanceMeters: meters}
	return record, record.check()
}

// parseUser reads a UUID in its usual form alone; [uuid.Parse] knows more of them.
func parseUser(text string) (uuid.UUID, error) {
	if len(text) != 36 {
		return uuid.UUID{}, errUser
	}
	return uuid.Parse(text)
}

func parseCount(text string) (int, error) {
	n, err := strconv.ParseUint(text, 10, 31)
	return int(n), err //nolint:gosec // 31 bits
}

// clockLayout also reads up to nine fractional digits.
const clockLayout = "2006-01-02T15:04:05"

// clockShape keeps out what [time.Parse] takes beyond it: hours of one digit, a comma, more fractional digits.
var clockShape = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?$`)

func parseClock(text string) (time.Time, error) {
	if !clockShape.MatchString(text) {
		return time.Time{}, errClock
	}
	return time.Parse(clockLayout, text)
}
