// Command commands writes the commands of connect-svc that call an operation of the operator API. Usage: commands OPERATOR.YAML FILE.GO
//
// The document has an x-cli at each operation that is a command, or a list of them, and one at its root: groups and their commands in the
// order of --help, commands that call no operation, and flags that several commands have. The keys of a command:
//
//	command, help, detail, example, unhurried   as in the command line, and what its --help says
//	flags      names of shared flags, or flags; see [flag]. A flag is the parameter or the field of the body that is called like it, unless it has
//	           another field. One with settings stands for the settings of that name
//	with       parameters and fields that are called otherwise: the name of a flag, or = and a constant
//	row        the field of the body that has all others in its only row, and the field of the answer that tells what became of it
//	when       the flag whose presence makes a command call this operation in place of the one that has its flags
//	preview    the operation that is read before the question
//	confirm    the question, which completes "This will …". With a preview and without it the command has a method question
//	scripted   scripts run the command without --yes: there is a question at a terminal alone
//	unless     a flag, a duration: if it is set, the command does not ask
//	thing      what is removed, for the question without a preview and for people
//	then       the operation whose answer is shown after one that answers nothing. Without it the command has a method answer
//	columns    of the table of a list
//	fields, note, notes   of an object for people; notes is a function of the answer
//	view       the function that writes the answer for people
//	say        the sentence for people
//	print      the command has a method that prints the answer
//	hand       the command's type is written by hand
//
// An operation with a command that changes something has an x-undo: what undoes it, or none. If there is none, each of its commands asks.
//
// In a sentence {x} is the flag x, {+x} with its sign, {x thing} counts things. {user.…}, {preview.…} and {answer.…} are fields of what was read.
// Checks of several flags are methods AfterApply beside the generated file.
package main

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"go/format"
	"maps"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/template"

	"github.com/getkin/kin-openapi/openapi3"
)

//go:embed commands.tmpl
var file string

func main() {
	code, err := commands(os.Args[1])
	if err == nil {
		err = os.WriteFile(os.Args[2], code, 0o644) //nolint:gosec // code
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "commands:", err)
		os.Exit(1)
	}
}

// root is the x-cli of the document.
type root struct {
	Groups []struct {
		Name, Help string
		Commands   []string
		Apart      bool // each command has the settings of the database for itself
	}
	Commands []*command
	Flags    map[string]flag
}

// operation of the document.
type operation struct {
	ID         string
	parameters []*openapi3.Parameter
	changes    bool
	undo       string // x-undo, which each operation with a command has, unless it is a GET: what undoes it, or none
	body       *openapi3.Schema
	Answer     string // the name of its schema, empty if it answers nothing
}

type document struct {
	root
	operations map[string]operation
	commands   map[string]*command
}

// commands returns the source of the commands of a document.
func commands(path string) ([]byte, error) {
	parsed, err := openapi3.NewLoader().LoadFromFile(path)
	if err != nil {
		return nil, err
	}
	d := &document{operations: map[string]operation{}, commands: map[string]*command{}}
	if err := extension(parsed.Extensions, &d.root); err != nil {
		return nil, err
	}
	var variants []*command
	for _, c := range d.Commands {
		d.commands[c.Path] = c
	}
	for _, item := range parsed.Paths.InMatchingOrder() {
		for method, op := range parsed.Paths.Value(item).Operations() {
			o := operationOf(parsed.Paths.Value(item), op)
			o.changes = method != http.MethodGet
			o.undo, _ = op.Extensions["x-undo"].(string)
			d.operations[o.ID] = o
			var list []*command
			if err := extension(op.Extensions, &list); err != nil {
				return nil, fmt.Errorf("%s: %w", o.ID, err)
			}
			for _, c := range list {
				c.operation, c.document = o, d
				if err := c.asksIfGone(); err != nil {
					return nil, err
				}
				if c.When != "" {
					variants = append(variants, c)
				} else {
					d.commands[c.Path] = c
				}
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(d.commands)) {
		c := d.commands[path]
		if err := c.resolve(c.Flags); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
	}
	slices.SortFunc(variants, func(a, b *command) int { return cmp.Compare(a.ID, b.ID) })
	for _, v := range variants {
		c := d.commands[v.Path]
		v.all, v.of = c.all, c.of
		c.Variants = append(c.Variants, v)
	}
	return d.write()
}

// extension reads an x-cli. An object stands for a list of one.
func extension(extensions map[string]any, value any) error {
	text, err := json.Marshal(extensions["x-cli"])
	if err != nil || string(text) == "null" {
		return err
	}
	if _, isList := value.(*[]*command); isList && text[0] != '[' {
		text = slices.Concat([]byte("["), text, []byte("]"))
	}
	return strictly(text, value)
}

func strictly(text []byte, value any) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	return decoder.Decode(value)
}

func operationOf(item *openapi3.PathItem, op *openapi3.Operation) operation {
	o := operation{ID: op.OperationID}
	for _, p := range slices.Concat(item.Parameters, op.Parameters) {
		o.parameters = append(o.parameters, p.Value)
	}
	if op.RequestBody != nil {
		o.body = op.RequestBody.Value.Content.Get("application/json").Schema.Value
	}
	for status, response := range op.Responses.Map() {
		if content := response.Value.Content.Get("application/json"); status[0] == '2' && content != nil {
			o.Answer = nameOf(content.Schema)
		}
	}
	return o
}

func nameOf(schema *openapi3.SchemaRef) string {
	return schema.Ref[strings.LastIndex(schema.Ref, "/")+1:]
}

// member is a command or a group as a field of its group.
type member struct{ Name, Type, Tags string }

type group struct {
	Name, Type string
	Top, Apart bool
	Members    []member
}

func (d *document) write() ([]byte, error) {
	var groups []group
	help := map[string]string{}
	for _, g := range d.Groups {
		help[g.Name] = g.Help
	}
	for _, g := range d.Groups {
		made := group{Name: g.Name, Type: lower(g.Name) + "Commands", Top: !strings.Contains(g.Name, " "), Apart: g.Apart}
		for _, name := range g.Commands {
			path := g.Name + " " + name
			c := d.commands[path]
			if c == nil {
				text, is := help[path]
				if !is {
					return nil, fmt.Errorf("there is no command %q", path)
				}
				made.Members = append(made.Members, member{camel(name), lower(path) + "Commands", `cmd:"" help:` + strconv.Quote(text)})
				continue
			}
			first, _, _ := strings.Cut(g.Name, " ")
			c.of, c.Database = lower(first)+"Commands", g.Apart
			for _, v := range c.Variants {
				v.of = c.of
			}
			tags := `cmd:""`
			if c.Unhurried {
				tags += ` unhurried:""`
			}
			tags += ` help:` + strconv.Quote(c.Help)
			if c.Detail != "" {
				tags += ` detail:` + strconv.Quote(c.Detail)
			}
			made.Members = append(made.Members, member{camel(name), c.Type(), tags + ` example:` + strconv.Quote(c.Example)})
		}
		groups = append(groups, made)
	}
	var list []*command
	for _, path := range slices.Sorted(maps.Keys(d.commands)) {
		if c := d.commands[path]; !c.Hand {
			if c.of == "" && strings.Contains(path, " ") {
				return nil, fmt.Errorf("%s: no group lists it", path)
			}
			c.Database = c.Database || c.of == ""
			list = append(list, c)
		}
	}
	var out bytes.Buffer
	if err := template.Must(template.New("").Parse(file)).Execute(&out, map[string]any{"Groups": groups, "Commands": list}); err != nil {
		return nil, err
	}
	code, err := format.Source(out.Bytes())
	if err != nil {
		return out.Bytes(), fmt.Errorf("%w in\n%s", err, &out)
	}
	return code, nil
}
