package intake

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// read reads a file of two columns, a name and "good" or a fault, and returns the good rows with their lines.
func read(t *testing.T, text string) (good []string, reader *Reader, reports []Progress) {
	t.Helper()
	reader, err := NewReader(strings.NewReader(text), []string{"name", "fault"}, func(p Progress) { reports = append(reports, p) },
		func(values []any, row []string, line int) ([]any, []*RowError) {
			if row[1] != "good" {
				return nil, []*RowError{{line, "fault", errors.New(row[1])}}
			}
			return append(values, fmt.Sprint(line, " ", row[0])), nil
		})
	if err != nil {
		t.Fatal(err)
	}
	for reader.Next() {
		values, err := reader.Values()
		if err != nil {
			t.Fatal(err)
		}
		good = append(good, values[0].(string))
	}
	return good, reader, reports
}

// The reader reports a bad row and continues after it, unless it cannot know where the next row begins.
func TestReader(t *testing.T) {
	t.Parallel()
	const head = "\xef\xbb\xbfname,fault\n"
	for name, test := range map[string]struct {
		text  string
		good  []string
		named []string
		cut   bool
	}{
		"empty":     {head, nil, nil, false},
		"good rows": {head + "a,good\n\n\"b\nb\",good", []string{"2 a", "4 b\nb"}, nil, false},
		"bad rows": {head + "a,no\nb,good\nc\nd\xff,good\ne\"e,good\nf,good\n", []string{"3 b", "7 f"},
			[]string{"line 2, column fault: no", "line 4: must have 2 columns, has 1", "line 5, column name: must be UTF-8 without NUL",
				`line 6: bare " in non-quoted-field`}, false},
		"a row without end": {head + "a,good\n\"b," + strings.Repeat("x\n", maxRowBytes) + "c,good\n", []string{"2 a"},
			[]string{"line 3: must be shorter than 1 MiB: is a closing quote missing?"}, true},
	} {
		good, reader, _ := read(t, test.text)
		var named []string
		for _, row := range reader.Bad().Named {
			named = append(named, row.Error())
		}
		if diff := cmp.Diff([][]string{test.good, test.named}, [][]string{good, named}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if reader.Err() != nil || reader.Bad().Cut != test.cut || reader.Rows() != int64(len(good)+len(named)) {
			t.Errorf("%s: %v, cut %t, %d rows", name, reader.Err(), reader.Bad().Cut, reader.Rows())
		}
	}
	_, reader, reports := read(t, head+strings.Repeat("a,good\nb,no\n", 7_500))
	if len(reports) != 1 || reports[0].Rows != 10_000 || reader.Bad().Count != 7_500 {
		t.Errorf("progress %+v, %d bad rows", reports, reader.Bad().Count)
	}
	broken := errors.New("cable cut")
	if _, err := NewReader(iotest.ErrReader(broken), []string{"name"}, nil, nil); !errors.Is(err, broken) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// The first hundred faults by line are kept, in whichever order they are found.
func TestBadRows(t *testing.T) {
	t.Parallel()
	var bad BadRows
	if err := bad.Err(5); err != nil {
		t.Errorf("no bad row: %v", err)
	}
	for line := 2; line <= 400; line += 2 {
		bad.Add(&RowError{Line: line, Column: "a", Err: ErrUUID})
	}
	var odd []*RowError
	for line := 1; line <= 100; line += 2 {
		odd = append(odd, &RowError{Line: line, Err: ErrUUID})
	}
	bad.Found(300, odd...)
	err := bad.Err(1000)
	if got, want := err.Error(), "500 of 1000 rows cannot be taken; the first 100 faults are named"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	lines := make([]int, len(bad.Named))
	for i, row := range bad.Named {
		lines[i] = row.Line
	}
	if !slices.IsSorted(lines) || len(lines) != MaxNamed || lines[99] != 100 || !errors.Is(err, ErrUUID) {
		t.Errorf("lines %v", lines)
	}
}
