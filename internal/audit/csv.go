package audit

import (
	"context"
	"encoding/csv"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"connect-svc/internal/page"
	"connect-svc/internal/postgres"
)

// csvColumns are the first line of a file.
var csvColumns = []string{"at", "actor", "action", "user_id", "client_id", "connection_version", "detail"}

// WriteCSV writes all events that fit a filter to w, newest first, under a line of column names. Times are in UTC, as in
// RFC 3339; what an event does not have is empty. No cell is taken for a formula by a spreadsheet.
//
// The rows are asked for in parts: before each, within gives the context of its statement, so that a file of any length holds no
// connection for long. An error may come when a part of the file has been written.
func (l *Log) WriteCSV(
	ctx context.Context, w io.Writer, filter Filter, within func(context.Context) (context.Context, context.CancelFunc),
) error {
	return postgres.Wrap("audit log: csv", l.writeCSV(ctx, csv.NewWriter(w), filter, within))
}

func (l *Log) writeCSV(
	ctx context.Context, file *csv.Writer, filter Filter, within func(context.Context) (context.Context, context.CancelFunc),
) error {
	if err := file.Write(csvColumns); err != nil {
		return err
	}
	for before := newestFirst.begin(filter, page.Key{}); before != (page.Key{}); {
		var part slice
		limited, cancel := within(ctx)
		err := l.inOrder(limited, newestFirst, func(look func(Filter, page.Key, int) (slice, error)) (err error) {
			part, err = look(filter, before, l.bounds.file)
			return err
		})
		cancel()
		if err != nil {
			return err
		}
		if err := file.WriteAll(postgres.Map(part.found, Event.cells)); err != nil {
			return err
		}
		before = part.next
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

// defuse has a spreadsheet take a cell for text, which would take it for a formula.
func defuse(cell string) string {
	if cell != "" && strings.ContainsRune("=+-@\t\r", rune(cell[0])) {
		return "'" + cell
	}
	return cell
}
