package audit

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
)

// csvColumns is the first line of a file.
var csvColumns = []string{"at", "actor", "action", "user_id", "client_id", "connection_version", "detail"}

// WriteCSV writes all events that match a filter to w, newest first, under a line of column names. Times are in UTC, as in
// RFC 3339; missing values are empty. Spreadsheets take no cell for a formula.
//
// The rows are read in parts. within returns the context of each statement, so that a file of any length holds no connection for
// long. If there is an error, a part of the file may have been written.
func (l *Log) WriteCSV(
	ctx context.Context, w io.Writer, filter Filter, within func(context.Context) (context.Context, context.CancelFunc),
) error {
	const act = "audit log: csv"
	file := csv.NewWriter(w)
	if err := file.Write(csvColumns); err != nil {
		return postgres.Wrap(act, err)
	}
	for before := newestFirst.begin(filter, page.Key{}); before != (page.Key{}); {
		var part Page
		limited, cancel := within(ctx)
		err := l.inOrder(limited, newestFirst, func(read func(Filter, page.Key, int) (Page, error)) (err error) {
			part, err = read(filter, before, l.bounds.file)
			return err
		})
		cancel()
		if err != nil {
			return postgres.Wrap(act, err)
		}
		if err := file.WriteAll(postgres.Map(part.Events, Event.cells)); err != nil {
			return postgres.Wrap(act, err)
		}
		before = part.Next
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
