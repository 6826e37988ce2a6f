package intake

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"connect-svc/internal/foundation/refusal"
)

// read reads a file of two columns, a name and "good" or a fault, and returns the good rows with their lines.
func read(t *testing.T, text string) (good []string, reader *Reader, reports []Progress) {
	t.Helper()
	reader, err := NewReader(strings.NewReader(text), []string{"name", "fault"}, "", func(p Progress) { reports = append(reports, p) },
		func(values []any, row []string, line int) ([]any, []refusal.Field) {
			if row[1] != "good" {
				return nil, []refusal.Field{{Path: "fault", Problem: row[1]}}
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
		"line breaks": {head + "\"a\nb\",good\r\n\r\n\"a\r\nb\",good\r\n\"a\rb\",good\n\"a\n\r\n\",good\nc,good\r", []string{"2 a\nb", "7 a\rb"},
			[]string{"line 5, column name: must not have CR LF within: a reader of CSV makes it LF",
				"line 8, column name: must not have CR LF within: a reader of CSV makes it LF", "line 11: must not end with CR alone"}, false},
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
	if _, err := NewReader(iotest.ErrReader(broken), []string{"name"}, "", nil, nil); !errors.Is(err, broken) {
		t.Errorf("a file that cannot be read: %v", err)
	}
}

// A file may leave out the optional column, and a row has it in any case.
func TestOptionalColumn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]string{
		"name,at\na,1\nb,\nc\n":          {"a 1", "b "},
		"\xef\xbb\xbf\"name\",at\na,1\n": {"a 1"},
		"name\na\nb,1\n":                 {"a "},
		"at,name\n":                      nil,
		"name,at,at\n":                   nil,
	} {
		var good []string
		reader, err := NewReader(strings.NewReader(text), []string{"name"}, "at", nil, func(_ []any, row []string, _ int) ([]any, []refusal.Field) {
			good = append(good, row[0]+" "+row[1])
			return nil, nil
		})
		if (err == nil) != (want != nil) {
			t.Errorf("%q: %v", text, err)
		}
		for reader != nil && reader.Next() {
		}
		if diff := cmp.Diff(want, good); diff != "" {
			t.Errorf("%q (-want +got):\n%s", text, diff)
		}
	}
}

// A file in another form than comma-separated UTF-8 is refused by the name of what it is.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	const plain = "name,fault\na,good\n"
	wide := func(order binary.AppendByteOrder, mark string) string {
		text := []byte(mark)
		for _, unit := range utf16.Encode([]rune(plain)) {
			text = order.AppendUint16(text, unit)
		}
		return string(text)
	}
	for name, test := range map[string]struct{ text, want string }{
		"semicolons":               {"name;fault\na;good\n", "must have commas between columns, not semicolons"},
		"semicolons after a mark":  {"\xef\xbb\xbf\"name\";\"fault\"\n", "must have commas between columns, not semicolons"},
		"tabs":                     {"name\tfault\na\tgood\n", "must have commas between columns, not tabs"},
		"bars":                     {"name|fault\na|good\n", "must have commas between columns, not bars"},
		"sep=":                     {"sep=,\r\n" + plain, "must begin with the header, not with sep="},
		"SEP= after a mark":        {"\xef\xbb\xbf\"SEP=;\"\n" + plain, "must begin with the header, not with sep="},
		"UTF-16, little-endian":    {wide(binary.LittleEndian, "\xff\xfe"), "must be UTF-8, not UTF-16"},
		"UTF-16, big-endian":       {wide(binary.BigEndian, "\xfe\xff"), "must be UTF-8, not UTF-16"},
		"UTF-16 without a mark":    {wide(binary.LittleEndian, ""), "must be UTF-8, not UTF-16"},
		"a spreadsheet":            {"PK\x03\x04name", "must be CSV, not a spreadsheet or a ZIP file"},
		"compressed":               {"\x1f\x8b\x08", "must be CSV, not compressed"},
		"line ends of CR":          {"name,fault\ra,good\r", "must have lines that end with LF or CR LF, not with CR"},
		"a mark twice":             {"\xef\xbb\xbf\xef\xbb\xbf" + plain, "the header must be name,fault"},
		"no header":                {"a,good\n", "the header must be name,fault"},
		"spaces":                   {"name, fault\n", "the header must be name,fault"},
		"nothing":                  {"", "the header must be name,fault"},
		"semicolons in one column": {"name,fault;x\n", "the header must be name,fault"},
	} {
		_, err := NewReader(strings.NewReader(test.text), []string{"name", "fault"}, "", nil, nil)
		if err == nil || err.Error() != "line 1: "+test.want {
			t.Errorf("%s: %v, want line 1: %s", name, err, test.want)
		}
	}
}
