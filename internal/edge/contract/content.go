package contract

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/sync/semaphore"

	"connect-svc/internal/foundation/refusal"
)

// Limits of bodies and of errors about them.
const (
	MaxBody   = 16 << 20 // bytes: 10,000 rows with room for notes
	maxValues = 100_000  // in a body: 10,000 rows have 60,000
	maxDepth  = 8        // lists and objects within each other: the rows of a batch are the third
	maxNames  = 64       // in an object: no document has more than a dozen
	maxName   = 100      // bytes of an unknown field's name that an error repeats
	maxWhere  = 500      // bytes of the pointer to a wrong place, as the documents say; steps after them are left out
)

// checkBody reads the body, validates it against the document, and puts it back.
func (op *Operation) checkBody(r *http.Request) error {
	body, err := ReadBody(r, jsonType, MaxBody)
	if err != nil {
		return err
	}
	if !utf8.Valid(body) {
		return ErrMalformed
	}
	if err := scan(body); err != nil {
		return err
	}
	content, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return ErrMalformed
	}
	if err := op.checkContent(content); err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	return nil
}

// errEncoding is the error of a body that is compressed, but not with gzip.
var errEncoding = errors.New("another content coding")

// Encoding is the failure of a body whose coding is not taken. Edges that take gzip list it.
var Encoding = Failure{Err: errEncoding, Code: "unsupported-encoding", Text: "The body must be uncompressed, or in gzip.", Status: 415}

// unpack has a body in gzip be read unpacked, at first without reading it. Its length is not known then. Error: errEncoding.
func unpack(r *http.Request) error {
	switch codings := r.Header.Values("Content-Encoding"); {
	case len(codings) == 0:
		return nil
	case len(codings) > 1 || !strings.EqualFold(codings[0], "gzip"):
		return errEncoding
	}
	r.Body, r.ContentLength = &gunzip{Closer: r.Body, packed: bufio.NewReader(r.Body)}, -1
	return nil
}

// gunzip is a body of one gzip member, which is all of it.
type gunzip struct {
	io.Closer
	packed *bufio.Reader
	reader *gzip.Reader
}

func (g *gunzip) Read(into []byte) (n int, err error) {
	if g.reader == nil {
		if g.reader, err = gzip.NewReader(g.packed); err != nil {
			return 0, ErrMalformed
		}
		g.reader.Multistream(false)
	}
	n, err = g.reader.Read(into)
	if errors.Is(err, io.EOF) {
		if _, more := g.packed.ReadByte(); !errors.Is(more, io.EOF) {
			err = ErrMalformed
		}
	}
	return n, err
}

// scan reads the body without keeping it. It refuses bodies that are wider or deeper than any document before they take memory, because
// later steps may take the square of the depth. It also refuses repeated fields, which are ambiguous, and texts that the decoder repairs,
// because two of them would become one.
func scan(body []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	type container struct {
		isObject bool
		isValue  bool     // the next token of an object is the value of a field
		names    []string // that the object has had
		item     int      // the index of the list's latest one
	}
	var open []container
	for values := 0; ; {
		before := decoder.InputOffset()
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return ErrMalformed
		}
		if token == json.Delim('}') || token == json.Delim(']') {
			open = open[:len(open)-1]
			continue
		}
		if len(open) > 0 && open[len(open)-1].isObject {
			inner := &open[len(open)-1]
			inner.isValue = !inner.isValue
			if inner.isValue { // this is the field's name
				name, _ := token.(string)
				if len(inner.names) == maxNames || slices.Contains(inner.names, name) {
					return ErrMalformed
				}
				inner.names = append(inner.names, name)
				continue
			}
		}
		if values++; values > maxValues {
			return ErrTooLarge
		}
		if len(open) > 0 {
			open[len(open)-1].item++
		}
		if text, _ := token.(string); strings.ContainsRune(text, utf8.RuneError) && hasHalfPair(body[before:decoder.InputOffset()]) {
			var path []string
			for _, inner := range open {
				step := strconv.Itoa(inner.item)
				if inner.isObject {
					step = inner.names[len(inner.names)-1]
				}
				if len(step) > maxName {
					return wrong(path, "has a field that is not known")
				}
				path = append(path, step)
			}
			return wrong(path, "must be Unicode: it has half of a surrogate pair")
		}
		if token == json.Delim('{') || token == json.Delim('[') {
			if len(open) == maxDepth {
				return ErrMalformed
			}
			open = append(open, container{isObject: token == json.Delim('{'), item: -1})
		}
	}
}

// hasHalfPair reports whether a text of JSON has a high or a low surrogate without the other one (RFC 8259, section 8.2). The decoder
// makes it U+FFFD.
func hasHalfPair(text []byte) bool {
	for i := 0; i < len(text); i++ {
		if text[i] != '\\' {
			continue
		}
		first, size := escapedUnit(text[i:]), 2
		if utf16.IsSurrogate(first) {
			if utf16.DecodeRune(first, escapedUnit(text[i+6:])) == utf8.RuneError {
				return true
			}
			size = 12
		}
		i += size - 1
	}
	return false
}

// escapedUnit is the unit of UTF-16 that an escape \uXXXX at the start of the text stands for, or 0.
func escapedUnit(text []byte) rune {
	if len(text) < 6 || text[0] != '\\' || text[1] != 'u' {
		return 0
	}
	unit, _ := strconv.ParseUint(string(text[2:6]), 16, 16) // the decoder has accepted it
	return rune(unit)
}

// checkContent returns a [refusal.Fields] with one error for each wrong place.
func (op *Operation) checkContent(content any) error {
	// Check numbers first: JSON Schema accepts 1.0 and 1e3 as integers, and the generated binding does not.
	if fields := checkNumbers(content, nil, nil); len(fields) > 0 {
		return refusal.Join(fields)
	}
	if invalid, ok := errors.AsType[*jsonschema.ValidationError](op.Validate(content)); ok {
		fields := describe(invalid, nil)
		slices.SortFunc(fields, func(a, b refusal.Field) int { return cmp.Compare(a.Problem, b.Problem) }) // so that the first one is always the same
		return refusal.Join(fields)
	}
	return nil
}

var digits = regexp.MustCompile(`^-?(0|[1-9][0-9]{0,18})$`)

func checkNumbers(content any, path []string, fields []refusal.Field) []refusal.Field {
	if len(fields) == refusal.MaxNamed { // these are the first, because it visits values in the order of the pointers
		return fields
	}
	switch content := content.(type) {
	case json.Number:
		if !digits.MatchString(content.String()) {
			fields = append(fields, wrong(path, "must be a whole number in digits"))
		}
	case []any:
		for i, item := range content {
			fields = checkNumbers(item, append(slices.Clip(path), strconv.Itoa(i)), fields)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(content)) {
			if len(name) > maxName { // the schema refuses the field without its name
				continue
			}
			fields = checkNumbers(content[name], append(slices.Clip(path), name), fields)
		}
	}
	return fields
}

// describe describes what a schema refused in our own words, because those of the library repeat the value.
func describe(invalid *jsonschema.ValidationError, fields []refusal.Field) []refusal.Field {
	for _, cause := range invalid.Causes {
		fields = describe(cause, fields)
	}
	if len(invalid.Causes) > 0 {
		return fields
	}
	at := invalid.InstanceLocation
	add := func(problem string, args ...any) []refusal.Field {
		return append(fields, wrong(at, fmt.Sprintf(problem, args...)))
	}
	switch reason := invalid.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range reason.Missing {
			fields = append(fields, wrong(append(slices.Clip(at), name), "is required"))
		}
		return fields
	case *kind.AdditionalProperties:
		for _, name := range reason.Properties {
			if len(name) > maxName {
				fields = add("has a field that is not known")
				continue
			}
			fields = append(fields, wrong(append(slices.Clip(at), name), "is not known"))
		}
		return fields
	case *kind.Type:
		return add("must be of type %s", strings.Join(reason.Want, " or "))
	case *kind.Enum:
		var words []string
		for _, word := range reason.Want {
			words = append(words, fmt.Sprint(word))
		}
		return add("must be one of %s", strings.Join(words, ", "))
	case *kind.MinProperties:
		return add("must not be empty")
	case *kind.MinLength:
		if reason.Want == 1 {
			return add("must not be empty")
		}
		return add("must have at least %d characters", reason.Want)
	case *kind.MaxLength:
		return add("must have at most %d characters", reason.Want)
	case *kind.UniqueItems:
		return add("must not have a value twice")
	case *kind.MaxItems:
		return add("must have at most %d rows", reason.Want)
	case *kind.Minimum:
		return add("must be at least %s", reason.Want.RatString())
	case *kind.Maximum:
		return add("must be at most %s", reason.Want.RatString())
	case *kind.Format:
		return add("must be a %s", reason.Want)
	case *kind.Pattern:
		return add("must match %s", reason.Want)
	}
	return add("is not as documented")
}

var escaped = strings.NewReplacer("~", "~0", "/", "~1") // made once: it costs 50 kB

// wrong returns the error of the field at a path in the body. It never repeats the value.
func wrong(path []string, problem string) refusal.Field {
	var pointer strings.Builder
	for _, segment := range path {
		if segment = "/" + escaped.Replace(segment); pointer.Len()+len(segment) > maxWhere {
			break
		}
		pointer.WriteString(segment)
	}
	return refusal.Field{Path: pointer.String(), Problem: problem}
}

// freeBody is the length of bodies that cost almost nothing, such as one row. They never wait.
const freeBody = 4 << 10

// cost returns the maximum memory that a request takes for a body of a length, as measured. A text exists up to five times. Values also
// take memory when they are parsed. Short values, such as rows without fields, take the most for their length, and maxValues limits
// their number.
func cost(length int64) int64 {
	if length < 0 || length > MaxBody { // a chunked body has no length
		length = MaxBody
	}
	return 5*length + min(256*length, 40<<20)
}

// Budget limits the memory that concurrent large bodies take in all edges that share it.
type Budget struct {
	bytes    int64
	free     *semaphore.Weighted
	patience time.Duration
}

// NewBudget returns a budget of a number of bytes. If too few are free, requests wait in the order of arrival for at most patience.
func NewBudget(bytes int64, patience time.Duration) *Budget {
	return &Budget{bytes, semaphore.NewWeighted(bytes), patience}
}

var errBusy = errors.New("no memory for the body")

// Busy is the failure of a body that got no memory in time. Edges with a budget list it.
var Busy = Failure{Err: errBusy, Code: "busy", Text: "Too much is being written just now.", Status: 503, RetryAfter: "5"}

// enter waits until there is memory for the body, before it is read. Call leave after the response. A body that costs more than the
// whole budget takes all of it.
func (b *Budget) enter(r *http.Request) (leave func(), err error) {
	if b == nil || r.ContentLength >= 0 && r.ContentLength <= freeBody {
		return func() {}, nil
	}
	needed := min(cost(r.ContentLength), b.bytes)
	ctx, cancel := context.WithTimeout(r.Context(), b.patience)
	defer cancel()
	if b.free.Acquire(ctx, needed) != nil {
		// If the connection closed while the caller still sends, it would not get the response.
		_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, MaxBody))
		return nil, errBusy
	}
	return func() { b.free.Release(needed) }, nil
}
