// Package contracttest checks every response that a test receives against the document, api/openapi.yaml: its status, each of
// its headers, its body, and that an error is word for word one of those that the document gives as examples. Anything undocumented
// fails the test.
//
//	client := &http.Client{Transport: contracttest.Partner.Transport(t, server.Client().Transport)}
//
// A request for an operation that the document lacks must get a 404, in the shape that belongs to its path (decisions, section 2).
// The document does not cover pages for browsers; they pass unchecked.
//
// [Operator] does the same with api/operator.yaml, [Sandbox] with api/sandbox.yaml.
//
// The package does not use the checks of internal/edge/contract: it tests them.
package contracttest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
)

// outcomeOf is one documented way in which an operation ends: its status and, of an error, which one.
func outcomeOf(operation, status, code string) string {
	return operation + " " + status + " " + code
}

// saw counts a response that was as documented.
func (d *document) saw(request *http.Request, status int, body []byte) {
	operation := d.route(request)
	if operation == nil {
		return
	}
	code := ""
	if status >= 400 {
		code = ErrorCode(body)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen[outcomeOf(operation.OperationID, strconv.Itoa(status), code)]++
}

// outcomes are all that the document has, in order.
func (d *document) outcomes() (all []string, err error) {
	for _, item := range d.spec.Paths.Map() {
		for _, operation := range item.Operations() {
			for status, response := range operation.Responses.Map() {
				if status < "4" {
					all = append(all, outcomeOf(operation.OperationID, status, ""))
					continue
				}
				examples, err := examplesOf(response.Value)
				if err != nil || len(examples) == 0 {
					return nil, fmt.Errorf("%s %s: an error without examples: %w", operation.OperationID, status, err)
				}
				for _, failure := range examples {
					all = append(all, outcomeOf(operation.OperationID, status, codeOf(failure)))
				}
			}
		}
	}
	slices.Sort(all)
	return all, nil
}

// Documented are all answers of the document, in order, such as "createUser 409 email-taken".
func (c Contract) Documented(t testing.TB) []string {
	t.Helper()
	all, err := c().outcomes()
	if err != nil {
		t.Fatal(err)
	}
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// ErrorCode is the code of an error of any of the documents, or the last part of a problem's type; empty for none.
func ErrorCode(body []byte) string {
	var failure map[string]any
	if json.Unmarshal(body, &failure) != nil {
		return ""
	}
	return codeOf(failure)
}

// report is the table of all outcomes, and those that did not come.
func (d *document) report() (table string, missing []string, err error) {
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
		fmt.Fprintf(columns, "%s\t%d\n", strings.ReplaceAll(o, " ", "\t"), d.seen[o])
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
	text, missing, err := Partner().report()
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
