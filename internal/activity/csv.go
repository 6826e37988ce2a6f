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

// maxRowBytes of a file bounds the memory that it takes: a quote that is never closed makes one row of all that follows.
const maxRowBytes = 1 << 20

var (
	errText    = errors.New("must be UTF-8 without NUL")
	errLongRow = errors.New("must be shorter than 1 MiB: is a closing quote missing?")
)

// csvFile reads a file of comma-separated values (RFC 4180) row by row. It takes a byte order mark, and line ends of
// either kind.
type csvFile struct {
	limit   *rowLimit
	reader  *csv.Reader
	columns []string
	mark    int64 // bytes of the byte order mark
	line    int   // of the last row
}

// openCSV reads the header, which must name the columns in their order.
func openCSV(file io.Reader, columns []string) (*csvFile, error) {
	limit := &rowLimit{file: file, left: maxRowBytes}
	buffered := bufio.NewReaderSize(limit, 1<<16)
	const byteOrderMark = "\xef\xbb\xbf"
	mark := 0
	if start, err := buffered.Peek(len(byteOrderMark)); err == nil && string(start) == byteOrderMark {
		mark, _ = buffered.Discard(len(byteOrderMark))
	}
	reader := csv.NewReader(buffered)
	reader.ReuseRecord = true
	reader.FieldsPerRecord = -1 // counted here, to say it in our words
	header, err := reader.Read()
	var malformed *csv.ParseError
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, errLongRow) && !errors.As(err, &malformed) {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	if !slices.Equal(header, columns) {
		return nil, &RowError{Line: 1, Err: fmt.Errorf("the header must be %s", strings.Join(columns, ","))}
	}
	return &csvFile{limit: limit, reader: reader, columns: columns, mark: int64(mark), line: 1}, nil
}

// next is the next row and its line, until [io.EOF]. The row is valid until the next call. A [RowError] says that the
// line is no row of this file.
func (f *csvFile) next() (row []string, line int, err error) {
	f.limit.left = maxRowBytes
	row, err = f.reader.Read()
	if errors.Is(err, errLongRow) {
		return nil, 0, &RowError{Line: f.line + 1, Err: errLongRow}
	}
	if malformed := (*csv.ParseError)(nil); errors.As(err, &malformed) {
		return nil, 0, &RowError{Line: malformed.StartLine, Err: malformed.Err}
	}
	if err != nil {
		return nil, 0, err
	}
	line, _ = f.reader.FieldPos(0)
	f.line = line
	if len(row) != len(f.columns) {
		return nil, 0, &RowError{
			Line: line, Err: fmt.Errorf("must have %d columns, has %d", len(f.columns), len(row)),
		}
	}
	for i, field := range row {
		if !isText(field) {
			return nil, 0, &RowError{Line: line, Column: f.columns[i], Err: errText}
		}
	}
	return row, line, nil
}

// rowLimit fails where one row takes more of the file than left.
type rowLimit struct {
	file io.Reader
	left int
}

func (r *rowLimit) Read(into []byte) (int, error) {
	if r.left <= 0 {
		return 0, errLongRow
	}
	n, err := r.file.Read(into)
	r.left -= n
	return n, err
}

// bytes read so far.
func (f *csvFile) bytes() int64 { return f.mark + f.reader.InputOffset() }

func parseStepsRow(row []string) (StepsRecord, *columnError) {
	user, err := parseUser(row[0])
	if err != nil {
		return StepsRecord{}, &columnError{"user_id", errUser}
	}
	date, err := parseDate(row[1])
	if err != nil {
		return StepsRecord{}, &columnError{"date", errDate}
	}
	steps, err := parseCount(row[2])
	if err != nil {
		return StepsRecord{}, &columnError{"steps", errCount}
	}
	record := StepsRecord{UserID: user, Date: date, Steps: steps}
	return record, record.check()
}

func parseRideRow(row []string) (RideRecord, *columnError) {
	user, err := parseUser(row[0])
	if err != nil {
		return RideRecord{}, &columnError{"user_id", errUser}
	}
	start, err := parseClock(row[2])
	if err != nil {
		return RideRecord{}, &columnError{"recorded_start_time", errClock}
	}
	end, err := parseClock(row[3])
	if err != nil {
		end = time.Time{} // unknown (decisions, section 1)
	}
	meters, err := parseCount(row[4])
	if err != nil {
		return RideRecord{}, &columnError{"distance_meters", errCount}
	}
	record := RideRecord{
		UserID: user, SourceID: row[1], Start: start, End: end, DistanceMeters: meters,
	}
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

// clockShape keeps out what [time.Parse] takes beyond it: hours of one digit, a comma, more fractional digits.
var clockShape = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,6})?$`)

func parseClock(text string) (time.Time, error) {
	if !clockShape.MatchString(text) {
		return time.Time{}, errClock
	}
	return time.Parse("2006-01-02T15:04:05", text)
}
