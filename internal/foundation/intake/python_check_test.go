//go:build check

package intake

import (
	"bytes"
	"os/exec"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Files that Python's csv module writes in the ways of spreadsheets and of Unix, with and without a byte order mark, have the rows that were
// written.
func TestPythonWrites(t *testing.T) {
	t.Parallel()
	const program = `
import csv, io, sys
text = io.StringIO()
writer = csv.writer(text, dialect=sys.argv[1])
writer.writerow(["name", "fault"])
for name in ["plain", "a,b", 'a "word"', "a\nb", "Zoë", " spaces ", "'", "é"]:
    writer.writerow([name, "good"])
sys.stdout.buffer.write(text.getvalue().encode(sys.argv[2]))
`
	for _, dialect := range []string{"excel", "unix"} {
		for _, encoding := range []string{"utf-8", "utf-8-sig"} {
			command := exec.CommandContext(t.Context(), "/usr/bin/python3", "-c", program, dialect, encoding)
			var problem bytes.Buffer
			command.Stderr = &problem
			file, err := command.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, problem.String())
			}
			good, reader, _ := read(t, string(file))
			want := []string{"2 plain", "3 a,b", `4 a "word"`, "5 a\nb", "7 Zoë", "8  spaces ", "9 '", "10 é"}
			if diff := cmp.Diff(want, good); diff != "" || reader.Bad().Count != 0 || reader.Err() != nil {
				t.Errorf("%s, %s: %d bad rows, %v (-want +got):\n%s", dialect, encoding, reader.Bad().Count, reader.Err(), diff)
			}
		}
	}
}
