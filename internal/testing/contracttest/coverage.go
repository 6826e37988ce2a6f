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
	"sync"
	"text/tabwriter"

	"github.com/getkin/kin-openapi/openapi3"
)

// outcome is one documented way in which an operation ends: a status and, of an error, which one.
type outcome struct {
	operation, status, code string
}

// coverage counts the outcomes that came and were as documented.
type coverage struct {
	mu    sync.Mutex
	times map[outcome]int
}

// saw counts an answer that was as documented.
func (d *document) saw(request *http.Request, status int, body []byte) {
	route := d.route(request)
	if route == nil {
		return
	}
	o := outcome{route.Operation.OperationID, strconv.Itoa(status), ""}
	if status >= 400 {
		o.code = codeOf(body)
	}
	d.seen.mu.Lock()
	defer d.seen.mu.Unlock()
	if d.seen.times == nil {
		d.seen.times = map[outcome]int{}
	}
	d.seen.times[o]++
}

// codeOf is what tells an error from others: the code of either shape, or the type of a problem.
func codeOf(body []byte) string {
	var problem struct{ Type string }
	if json.Unmarshal(body, &problem) == nil && problem.Type != "" {
		return problem.Type[strings.LastIndex(problem.Type, ":")+1:]
	}
	got, err := parseFailure(body)
	if err != nil {
		return ""
	}
	return got.oauthCode + got.activityCode
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

// codes are those of the errors that an answer has as examples; what is no error has one without a name.
func codes(status string, response *openapi3.Response) ([]string, error) {
	if status < "4" {
		return []string{""}, nil
	}
	var all []string
	for _, content := range response.Content {
		for _, example := range content.Examples {
			text, err := json.Marshal(example.Value.Value)
			if err != nil {
				return nil, err
			}
			all = append(all, codeOf(text))
		}
	}
	if len(all) == 0 {
		return nil, errors.New("an error without examples")
	}
	return all, nil
}

// report is the table of all outcomes, and those that did not come.
func (d *document) report() (table string, missing []outcome, err error) {
	all, err := d.outcomes()
	if err != nil {
		return "", nil, err
	}
	d.seen.mu.Lock()
	defer d.seen.mu.Unlock()
	var text strings.Builder
	columns := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(columns, "operation\tstatus\terror\tanswers")
	for _, o := range all {
		fmt.Fprintf(columns, "%s\t%s\t%s\t%d\n", o.operation, o.status, o.code, d.seen.times[o])
		if d.seen.times[o] == 0 {
			missing = append(missing, o)
		}
	}
	_ = columns.Flush() // into memory
	return text.String(), missing, nil
}

// Covered is an error when an answer that the document has never came through [Transport] in this process, and writes the
// table of all of them to bin/contract-coverage.txt. It is for the end of the tests of the package that claims to
// produce them all (see pgtest.Main).
func Covered() error {
	document, err := load()
	if err != nil {
		return err
	}
	table, missing, err := document.report()
	if err != nil {
		return err
	}
	root, err := repository()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(root, "bin"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(root, "bin", "contract-coverage.txt"), []byte(table), 0o644); err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("%d documented answers were not produced: %v\n%s", len(missing), missing, table)
	}
	return nil
}

// repository is the folder that holds go.mod. A test runs in the folder of its package.
func repository() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the folder of the test")
		}
	}
	return "", err
}
