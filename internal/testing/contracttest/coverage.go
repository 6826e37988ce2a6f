package contracttest

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"

	"github.com/getkin/kin-openapi/openapi3"
)

// outcome is one documented way in which an operation ends: a status and, of an error, which one.
type outcome struct {
	operation, status, code string
}

// saw counts a response that was as documented.
func (d *document) saw(request *http.Request, status int, body []byte) {
	operation := d.route(request)
	if operation == nil {
		return
	}
	o := outcome{operation.OperationID, strconv.Itoa(status), ""}
	var failure map[string]any
	if status >= 400 && json.Unmarshal(body, &failure) == nil {
		o.code = codeOf(failure)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.seen == nil {
		d.seen = map[outcome]int{}
	}
	d.seen[o]++
}

// outcomes are all that the document has, in order.
func (d *document) outcomes() ([]outcome, error) {
	var all []outcome
	for _, item := range d.spec.Paths.Map() {
		for _, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				codes, err := codes(status, response.Value)
				if err != nil {
					return nil, fmt.Errorf("%s %s: %w", operation.OperationID, status, err)
				}
				for _, code := range codes {
					all = append(all, outcome{operation.OperationID, status, code})
				}
			}
		}
	}
	slices.SortFunc(all, func(a, b outcome) int {
		return cmp.Or(cmp.Compare(a.operation, b.operation), cmp.Compare(a.status, b.status), cmp.Compare(a.code, b.code))
	})
	return all, nil
}

// Documented are all answers of the document, in order, such as "createUser 409 email-taken".
func (c Contract) Documented(t testing.TB) (answers []string) {
	t.Helper()
	document, err := c()
	if err != nil {
		t.Fatal(err)
	}
	all, err := document.outcomes()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range all {
		answers = append(answers, strings.TrimSpace(o.operation+" "+o.status+" "+o.code))
	}
	slices.Sort(answers)
	return answers
}

// ErrorCode is the code of an error of any of the documents, or the last part of a problem's type; empty for none.
func ErrorCode(body []byte) string {
	var failure map[string]any
	if json.Unmarshal(body, &failure) != nil {
		return ""
	}
	return codeOf(failure)
}

// codes are those of the errors that a response has as examples. A success has one without a name.
func codes(status string, response *openapi3.Response) (codes []string, err error) {
	if status < "4" {
		return []string{""}, nil
	}
	examples, err := examplesOf(response)
	if err == nil && len(examples) == 0 {
		err = errors.New("an error without examples")
	}
	for _, failure := range examples {
		codes = append(codes, codeOf(failure))
	}
	return codes, err
}

// report is the table of all outcomes, and those that did not come.
func (d *document) report() (table string, missing []outcome, err error) {
	all, err := d.outcomes()
	if err != nil {
		return "", nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "operation\tstatus\terror\tresponses")
	for _, o := range all {
		fmt.Fprintf(columns, "%s\t%s\t%s\t%d\n", o.operation, o.status, o.code, d.seen[o])
		if d.seen[o] == 0 {
			missing = append(missing, o)
		}
	}
	_ = columns.Flush() // into memory
	return text.String(), missing, nil
}

// tableFile is where Covered writes to, from the folder of a package, in which its tests run.
const tableFile = "../../../bin/contract-coverage.txt"

// Covered fails when a documented response never came through [Contract.Transport] in this process. It writes the table of all of
// them to bin/contract-coverage.txt. It is for the end of the tests of the package that claims to produce them all, as
// pgtest.Main runs it.
func Covered() error {
	document, err := Partner()
	if err != nil {
		return err
	}
	text, missing, err := document.report()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(tableFile), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(tableFile, []byte(text), 0o644); err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("%d documented responses were not produced: %v\n%s", len(missing), missing, text)
	}
	return nil
}
