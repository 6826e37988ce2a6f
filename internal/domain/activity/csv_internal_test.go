package activity

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"connect-svc/internal/foundation/intake"
	"connect-svc/internal/foundation/refusal"
)

// Each row of any file is taken as it is, or refused with its line.

func FuzzStepsFile(f *testing.F) {
	f.Add("3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a01,2026-04-01,1000,\n")
	f.Add("3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a01,2026-04-01,1000,2026-04-01T22:00:00.5+02:00\n")
	f.Add("3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a01,2026-04-31,-1\r\n\"x")
	f.Fuzz(func(t *testing.T, rows string) {
		readAll(t, stepsColumns, rows, func(row []string) rowErrors {
			record, err := parseStepsRow(row, fuzzNow)
			if err != nil {
				return err
			}
			if said := record.UserID.String(); said != strings.ToLower(row[0]) {
				t.Errorf("user %q became %s", row[0], said)
			}
			if said := record.Date.Format(time.DateOnly); said != row[1] {
				t.Errorf("date %q became %s", row[1], said)
			}
			checkInstant(t, row[3], record.ObservedAt)
			if said := fmt.Sprint(record.Steps); said != withoutZeros(row[2]) {
				t.Errorf("steps %q became %s", row[2], said)
			}
			return nil
		})
	})
}

func FuzzRidesFile(f *testing.F) {
	f.Add("3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a01,r1,2026-04-01T08:00:00,2026-04-01T09:00:00.123456,1000,2026-04-01T22:00:00Z\n")
	f.Add("3f0a4bd6-9d5c-4d8a-9a53-7d1f6f1f8a01,\"a\nb\",2026-04-01T08:00:00.5,,0,\n")
	f.Fuzz(func(t *testing.T, rows string) {
		readAll(t, ridesColumns, rows, func(row []string) rowErrors {
			record, err := parseRideRow(row, fuzzNow)
			if err != nil {
				return err
			}
			if record.SourceID != row[1] || record.SourceID == "" || strings.Contains(record.SourceID, "\x00") {
				t.Errorf("source id %q became %q", row[1], record.SourceID)
			}
			if said := record.Start.Format("2006-01-02T15:04:05.000000"); !sameClock(row[2], said) {
				t.Errorf("start %q became %s", row[2], said)
			}
			if end := record.end(); end != nil && (!sameClock(row[3], end.Format("2006-01-02T15:04:05.000000")) || end.Before(record.Start)) {
				t.Errorf("end %q became %s", row[3], end)
			}
			checkInstant(t, row[5], record.ObservedAt)
			if said := fmt.Sprint(record.DistanceMeters); said != withoutZeros(row[4]) {
				t.Errorf("distance %q became %s", row[4], said)
			}
			return nil
		})
	})
}

// fuzzNow is when all fuzzed files are read.
var fuzzNow = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

func checkInstant(t *testing.T, text string, taken time.Time) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if (err != nil) != (text == "") || err == nil && !taken.Equal(earlier(at, fuzzNow)) || err != nil && !taken.IsZero() {
		t.Errorf("observed_at %q became %s", text, taken)
	}
}

// readAll goes on after a bad row, as an import does.
func readAll(t *testing.T, columns []string, rows string, parse func(row []string) rowErrors) {
	last, seen := 1, 0
	inOrder := func(line int) {
		if line <= last {
			t.Fatalf("line %d after line %d", line, last)
		}
		last = line
	}
	var reader *intake.Reader
	malformed := func() {
		for _, row := range reader.Bad().Named[seen:] {
			inOrder(row.Row)
			seen++
		}
	}
	file := strings.NewReader(strings.Join(columns, ",") + ",observed_at\n" + rows)
	reader, err := intake.NewReader(file, columns, "observed_at", nil, func(_ []any, row []string, line int) ([]any, []refusal.Field) {
		malformed()
		inOrder(line)
		parse(row)
		return nil, nil
	})
	if err != nil {
		t.Fatalf("a file with its header: %v", err)
	}
	for reader.Next() {
	}
	malformed()
	if err := reader.Err(); err != nil {
		t.Fatalf("after line %d: %v", last, err)
	}
}

// sameClock compares a clock time as it was given with one of six fractional digits.
func sameClock(given, formatted string) bool {
	if !strings.Contains(given, ".") {
		given += "."
	}
	return given+strings.Repeat("0", len(formatted)-min(len(given), len(formatted))) == formatted
}

func withoutZeros(digits string) string {
	if short := strings.TrimLeft(digits, "0"); short != "" {
		return short
	}
	return "0"
}
