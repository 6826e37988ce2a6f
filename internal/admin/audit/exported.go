package audit

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"github.com/google/uuid"
)

type entry struct {
	At, Actor, Action string
	UserID            string `json:"user_id"`
	ClientID          string `json:"client_id"`
	ConnectionVersion string `json:"connection_version"`
	Detail            json.RawMessage
}

// ReadExport returns the events of a file, in its order: a JSON array as `connect-svc audit list --output json` prints it, or what
// [Log.WriteCSV] writes. The events have no ID. The error of a bad file ends the sequence.
func ReadExport(file io.Reader) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		reader := bufio.NewReader(file)
		start := intake.Start(reader)
		next := readCSV(reader, start)
		if bytes.HasPrefix(start, []byte("[")) {
			next = readJSON(reader)
		}
		for n := 1; ; n++ {
			read, err := next()
			if errors.Is(err, io.EOF) {
				return
			}
			event := Event{}
			if err == nil {
				event, err = read.event()
			}
			if err != nil {
				err = fmt.Errorf("audit log: entry %d of the file: %w", n, err)
			}
			if !yield(event, err) || err != nil {
				return
			}
		}
	}
}

func readJSON(file io.Reader) func() (entry, error) {
	decoder := json.NewDecoder(file)
	_, begin := decoder.Token()
	return func() (read entry, err error) {
		switch {
		case begin != nil:
			return read, begin
		case decoder.More():
			return read, unexpected(decoder.Decode(&read))
		}
		if _, err := decoder.Token(); err != nil {
			return read, unexpected(err)
		}
		if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
			return read, errors.New("something follows the list")
		}
		return read, io.EOF
	}
}

// unexpected tells a file that is cut off from one that ends.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func readCSV(file io.Reader, start []byte) func() (entry, error) {
	rows := csv.NewReader(file)
	rows.ReuseRecord = true
	var columns []string
	return func() (entry, error) {
		if columns == nil {
			header, err := rows.Read()
			if columns = slices.Clone(header); err != nil {
				return entry{}, unexpected(err) // an empty file is of an export that failed
			}
			if !slices.Equal(columns, csvColumns) {
				if err := intake.Foreign(start); err != nil {
					return entry{}, fmt.Errorf("the file %w", err)
				}
				return entry{}, errors.New("the first line must be " + strings.Join(csvColumns, ","))
			}
		}
		row, err := rows.Read()
		if err != nil {
			return entry{}, err
		}
		return entry{row[0], row[1], row[2], row[3], row[4], row[5], json.RawMessage(row[6])}, nil
	}
}

func (e entry) event() (event Event, err error) {
	event = Event{Actor: e.Actor, Action: e.Action, Detail: withNames(e.Detail)}
	var at, user, client, version error
	event.At, at = time.Parse(time.RFC3339, e.At)
	if e.UserID != "" {
		event.UserID, user = uuid.Parse(e.UserID)
	}
	if e.ClientID != "" {
		event.ClientID, client = uuid.Parse(e.ClientID)
	}
	if e.ConnectionVersion != "" {
		event.ConnectionVersion, version = strconv.ParseInt(e.ConnectionVersion, 10, 64)
	}
	if !json.Valid(e.Detail) {
		err = errors.New("detail is not JSON")
	}
	return event, cmp.Or(at, user, client, version, err)
}

// csvColumns is the first line of a file.
var csvColumns = []string{"at", "actor", "action", "user_id", "client_id", "connection_version", "detail"}

// WriteCSV writes all events that match a filter to w, newest first, under a line of column names. Times are in UTC, as in
// RFC 3339; missing values are empty. Spreadsheets take no cell for a formula.
//
// The rows are read in parts. within returns the context of each statement, so that a file of any length holds no connection for
// long. If there is an error, a part of the file may have been written.
func (l *Log) WriteCSV(ctx context.Context, w io.Writer, filter Filter, within func(context.Context) (context.Context, context.CancelFunc)) error {
	const act = "audit log: csv"
	file := csv.NewWriter(w)
	if err := file.Write(csvColumns); err != nil {
		return postgres.Wrap(act, err)
	}
	return postgres.Wrap(act, l.Each(ctx, filter, within, func(_ context.Context, part []Event) error {
		return file.WriteAll(postgres.Map(part, Event.cells))
	}))
}

// Each calls act with all events that match a filter, newest first, in parts, of which some may be empty. Each part has the context of its
// statement, which within returns.
func (l *Log) Each(
	ctx context.Context, filter Filter, within func(context.Context) (context.Context, context.CancelFunc),
	act func(context.Context, []Event) error,
) error {
	for before := newestFirst.begin(filter, page.Key{}); before != (page.Key{}); {
		err := func() error {
			limited, cancel := within(ctx)
			defer cancel()
			var part Page
			err := l.inOrder(limited, newestFirst, func(read func(Filter, page.Key, int) (Page, error)) (err error) {
				part, err = read(filter, before, l.bounds.file)
				return err
			})
			if before = part.Next; err == nil {
				err = act(limited, part.Events)
			}
			return err
		}()
		if err != nil {
			return err
		}
	}
	return nil
}

func (e Event) cells() []string {
	id := func(id uuid.UUID) string {
		if id == uuid.Nil {
			return ""
		}
		return id.String()
	}
	version := ""
	if e.ConnectionVersion != 0 {
		version = strconv.FormatInt(e.ConnectionVersion, 10)
	}
	cells := []string{e.At.UTC().Format(time.RFC3339Nano), e.Actor, e.Action, id(e.UserID), id(e.ClientID), version, string(e.Detail)}
	for i, cell := range cells {
		cells[i] = defuse(cell)
	}
	return cells
}

// defuse makes a spreadsheet take a cell for text that it would take for a formula.
func defuse(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}
