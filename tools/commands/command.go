package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/getkin/kin-openapi/openapi3"
)

// command is the x-cli of an operation.
type command struct {
	Path                      string `json:"command"`
	Help, Detail, Example     string
	Unhurried                 bool
	Flags                     []json.RawMessage
	With                      map[string]string
	Row, When, Preview        string
	Unless                    string
	Confirm, Thing, Then, Say string
	Columns, Fields           string
	Note, Notes, View         string
	Print, Hand, Scripted     bool

	operation
	all      []flag
	of       string     // the type of its group, empty if it stands alone
	Variants []*command // the operations with a when
	document *document
	Database bool // it has the settings of the database
}

// flag is a flag or an argument.
type flag struct {
	Name, Field, Type, Default, Placeholder, Help, Tags, Settings string
	Argument, Required                                            bool
}

// resolve gives the flags of a command what the operation says of them.
func (c *command) resolve(list []json.RawMessage) error {
	for _, raw := range list {
		var f flag
		var shared string
		var several []json.RawMessage
		switch raw[0] {
		case '"':
			_ = json.Unmarshal(raw, &shared) // it is a string
			var known bool
			if f, known = c.document.Flags[shared]; !known {
				return fmt.Errorf("there is no shared flag %q", shared)
			}
			f.Name = cmp.Or(f.Name, shared)
		case '[':
			_ = json.Unmarshal(raw, &several)
			if err := c.resolve(several); err != nil {
				return err
			}
			continue
		default:
			if err := strictly(raw, &f); err != nil {
				return err
			}
		}
		f.Field = cmp.Or(f.Field, strings.ReplaceAll(f.Name, "-", "_"))
		if schema, required := c.field(f.Field); schema != nil {
			f.Type, f.Required = cmp.Or(f.Type, typeOf(schema)), f.Required || required
		}
		f.Type = cmp.Or(f.Type, "string")
		c.all = append(c.all, f)
	}
	return nil
}

// field is the schema of a parameter or of a field of the body, and whether it is required.
func (c *command) field(name string) (*openapi3.SchemaRef, bool) {
	for _, p := range c.parameters {
		if p.Name == name {
			return p.Schema, p.Required
		}
	}
	body := c.body
	if c.Row != "" {
		body = body.Properties[c.Row].Value.Items.Value
	}
	if body == nil || body.Properties[name] == nil {
		return nil, false
	}
	return body.Properties[name], slices.Contains(body.Required, name)
}

func typeOf(schema *openapi3.SchemaRef) string {
	switch name := nameOf(schema); {
	case name == "Id", schema.Value.Format == "uuid":
		return "uuid"
	case name == "CalendarDate":
		return "date"
	case name == "GivenInstant":
		return "instant"
	case schema.Value.Type.Is("array"):
		return "scopes"
	case schema.Value.Type.Is("integer"):
		return "int32"
	case schema.Value.Type.Is("boolean"):
		return "bool"
	}
	return "string"
}

// goTypes are the types of flags in Go. Those of the second list have a value for "not given" in themselves.
var (
	goTypes = map[string]string{
		"uuid": "uuid.UUID", "duration": "time.Duration", "client": "clientRef", "user": "userOrEmail", "unread user": "userOrEmail", "event": "messageID",
		"logo": "logoFile", "text": "string",
	}
	empty = []string{"bool", "instant", "since", "duration", "scopes", "text"}
)

func (f flag) pointer() bool {
	return !f.Required && !f.Argument && f.Default == "" && !slices.Contains(empty, f.Type)
}

// Go is the flag as a field of a struct.
func (f flag) Go() string {
	if f.Settings != "" {
		return "settings." + f.Settings
	}
	name := cmp.Or(goTypes[f.Type], f.Type)
	if strings.ToUpper(f.Type[:1]) == f.Type[:1] {
		name = "operatorapi." + f.Type
	}
	if f.pointer() {
		name = "*" + name
	}
	tags := f.Tags
	tag := func(name, value string, has bool) {
		if has {
			tags += " " + name + ":" + strconv.Quote(value)
		}
	}
	tag("arg", "", f.Argument)
	tag("required", "", f.Required && !f.Argument && !strings.Contains(f.Tags, "setting:"))
	tag("default", f.Default, f.Default != "")
	tag("placeholder", f.Placeholder, f.Placeholder != "")
	tag("help", f.Help, true)
	return camel(f.Name) + " " + name + " `" + strings.TrimSpace(tags) + "`"
}

// value is the flag as a parameter or a field.
func (f flag) value(required bool) string {
	name := "c." + camel(f.Name)
	switch f.Type {
	case "date":
		if required {
			return name + ".Date"
		}
		return name + ".param()"
	case "instant", "since":
		return name + ".param()"
	case "duration":
		return "new(int32(" + name + " / time.Second))"
	case "client":
		if required {
			return name + ".UUID"
		}
		return name + ".id()"
	case "user":
		if f.pointer() {
			return "user"
		}
		return "user.UserId"
	case "unread user":
		return name + ".givenID()"
	case "event":
		return "string(" + name + ")"
	case "scopes": // a list in all bodies
		return name
	case "logo":
		return "(*string)(" + name + ")"
	case "text":
		if required {
			return name
		}
		return "param(" + name + ")"
	}
	switch {
	case required && f.pointer():
		return "*" + name
	case !required && !f.pointer():
		return "&" + name
	}
	return name
}

// argument is the value of a parameter or of a field, empty if no flag has it.
func (c *command) argument(name string, required bool) string {
	given := c.With[name]
	if constant, is := strings.CutPrefix(given, "="); is {
		return strconv.Quote(constant)
	}
	for _, f := range c.all {
		switch {
		case f.Type == "unread user" && name == "email":
			return "c." + camel(f.Name) + ".givenEmail()"
		case given == f.Name, given == "" && f.Field == name:
			return f.value(required)
		}
	}
	return ""
}

// Call is the call of an operation with what the flags say. A list has its cursor.
func (c *command) Call(id string) (string, error) {
	o, known := c.document.operations[id]
	if !known {
		return "", fmt.Errorf("%s: there is no operation %q", c.Path, id)
	}
	args, query, hasQuery := []string{"p.ctx"}, []string{}, false
	for _, p := range o.parameters {
		switch {
		case p.In == "path":
			value := c.argument(p.Name, true)
			if value == "" {
				return "", fmt.Errorf("%s: no flag is %s", c.Path, p.Name)
			}
			args = append(args, value)
			continue
		case p.Name == "cursor" && c.Columns != "":
			query = append(query, "Cursor: cursor")
		case p.Name == "limit" && c.Columns != "":
			query = append(query, "Limit: new(pageRows)")
		default:
			if value := c.argument(p.Name, p.Required); value != "" {
				query = append(query, camelField(p.Name)+": "+value)
			}
		}
		hasQuery = true
	}
	if hasQuery {
		args = append(args, "&operatorapi."+camelField(id)+"Params{"+strings.Join(query, ", ")+"}")
	}
	if o.body != nil && c.Changes() {
		args = append(args, "c.change()")
	} else if o.body != nil {
		args = append(args, c.Content())
	}
	return "api." + camelField(id) + "(" + strings.Join(args, ", ") + ")", nil
}

// Changes reports whether a command changes some of many fields: its method change returns the body, which tells whether there are any.
func (c *command) Changes() bool { return c.body != nil && c.body.MinProps > 0 && c.Row == "" }

// Content is what the flags make of the body.
func (c *command) Content() string {
	body, open, end := c.body, "operatorapi."+camelField(c.ID)+"JSONRequestBody{", "}"
	if c.Row != "" {
		rows := body.Properties[c.Row].Value.Items
		body = rows.Value
		open += camelField(c.Row) + ": []operatorapi." + nameOf(rows) + "{{"
		end = "}}}"
	}
	var fields []string
	for _, name := range slices.Sorted(maps.Keys(body.Properties)) {
		if value := c.argument(name, slices.Contains(body.Required, name)); value != "" {
			fields = append(fields, camelField(name)+": "+value)
		}
	}
	return open + strings.Join(fields, ", ") + end
}

// user is the flag whose user is read before the act, if there is one.
func (c *command) user() (f flag, is bool) {
	i := slices.IndexFunc(c.all, func(f flag) bool { return f.Type == "user" })
	if i < 0 {
		return f, false
	}
	return c.all[i], true
}

// ReadsUser is the call that reads the user of a command.
func (c *command) ReadsUser() string {
	f, is := c.user()
	switch {
	case !is:
		return ""
	case f.pointer():
		return "c." + camel(f.Name) + ".readID(p, api)"
	}
	return "c." + camel(f.Name) + ".read(p, api)"
}

// Asks reports whether the command asks before it acts.
func (c *command) Asks() bool { return c.Preview != "" || c.Confirm != "" || c.Thing != "" }

// Spared is the condition under which a command that asks does so, empty if it always does.
func (c *command) Spared() (string, error) {
	if c.Unless == "" {
		return "", nil
	}
	if i := slices.IndexFunc(c.all, func(f flag) bool { return f.Name == c.Unless && f.Type == "duration" }); i < 0 {
		return "", fmt.Errorf("%s: there is no duration %q", c.Path, c.Unless)
	}
	return "c." + camel(c.Unless) + " == 0", nil
}

// asksIfGone returns an error for a command whose act has no way back and that does not ask, or whose operation does not say whether there is one.
func (c *command) asksIfGone() error {
	switch {
	case c.changes && c.undo == "":
		return fmt.Errorf("%s: x-undo does not say what undoes %s, or none", c.Path, c.ID)
	case c.undo == "none" && !c.Asks():
		return fmt.Errorf("%s: it cannot be undone, and does not ask", c.Path)
	}
	return nil
}

// Question is the expression of the text to confirm.
func (c *command) Question() string {
	if text := c.Confirm; text != "" {
		return c.Sentence(text)
	}
	if c.Thing != "" && c.Preview == "" {
		return c.Sentence("remove " + c.Thing + " of user {user.user_id} ({user.email})")
	}
	return "c.question(" + c.known("preview") + ")"
}

// known lists the variables that a method by hand gets.
func (c *command) known(names ...string) string {
	var list []string
	if _, is := c.user(); is {
		list = append(list, "user")
	}
	return strings.Join(append(list, names...), ", ")
}

// Known is what the method answer gets after what all get.
func (c *command) Known() string {
	list := []string{"p", "api"}
	if known := c.known(); known != "" {
		list = append(list, known)
	}
	if c.Preview != "" {
		list = append(list, "preview")
	}
	return strings.Join(list, ", ")
}

// Of returns the answer of an operation as a type.
func (c *command) Of(id string) (string, error) {
	answer := c.document.operations[id].Answer
	if answer == "" {
		return "", fmt.Errorf("%s: there is no operation %q that answers", c.Path, id)
	}
	return "operatorapi." + answer, nil
}

var placeholder = regexp.MustCompile(`\{(\+?)([a-z_.-]+)(?: ([a-z]+))?\}`)

// Sentence is the call of fmt.Sprintf for a sentence, or a constant.
func (c *command) Sentence(text string) string {
	pattern, args := c.Parts(text)
	if len(args) == 0 {
		return strconv.Quote(pattern)
	}
	return "fmt.Sprintf(" + strconv.Quote(pattern) + ", " + strings.Join(args, ", ") + ")"
}

// Parts are the pattern of a sentence and its values.
func (c *command) Parts(text string) (pattern string, args []string) {
	pattern = placeholder.ReplaceAllStringFunc(strings.ReplaceAll(text, "%", "%%"), func(token string) string {
		found := placeholder.FindStringSubmatch(token)
		sign, name, thing := found[1], found[2], found[3]
		variable, field, read := strings.Cut(name, ".")
		value := "c." + camel(name)
		if read {
			value = variable + "." + camelField(field)
		}
		for _, f := range c.all {
			if f.Name == name && f.Type == "client" {
				value += ".UUID"
			}
		}
		if thing != "" {
			value = "count(" + value + ", " + strconv.Quote(thing) + ")"
		}
		args = append(args, value)
		if sign != "" {
			return "%+d"
		}
		return "%s"
	})
	return pattern, args
}

// Says is the arguments of say.
func (c *command) Says(text string) string {
	pattern, args := c.Parts(text)
	return strings.Join(append([]string{strconv.Quote(pattern)}, args...), ", ")
}

// Title is the operation as a name in Go.
func (c *command) Title() string { return camelField(c.ID) }

// RowField is the row as a name in Go.
func (c *command) RowField() string { return camelField(c.Row) }

// Present is the condition under which a variant is called.
func (c *command) Present() string {
	for _, f := range c.all {
		if f.Name == c.When && f.pointer() {
			return "c." + camel(f.Name) + " != nil"
		}
	}
	return "c." + camel(c.When)
}

// Out is what prints: the group, or a command that stands alone.
func (c *command) Out() string {
	if c.of == "" {
		return "c"
	}
	return "group"
}

// Type is the name of the command's type.
func (c *command) Type() string { return lower(c.Path) + "Command" }

// Parameters of Run.
func (c *command) Parameters() string {
	if c.of == "" {
		return "p *program, api *operatorAPI"
	}
	return "p *program, group *" + c.of + ", api *operatorAPI"
}

// Embedded are the structs with more flags.
func (c *command) Embedded() (list []string) {
	if c.of == "" {
		list = append(list, "output")
	}
	if c.Database {
		list = append(list, "databaseSetting")
	}
	if c.Asks() {
		list = append(list, "confirmation")
	}
	return list
}

// All are its flags.
func (c *command) All() []flag { return c.all }

// camel is the name of a flag or a command in Go.
func camel(name string) (joined string) {
	for _, word := range strings.FieldsFunc(name, func(r rune) bool { return r == '-' || r == ' ' }) {
		switch word {
		case "id", "url":
			joined += strings.ToUpper(word)
		default:
			joined += strings.ToUpper(word[:1]) + word[1:]
		}
	}
	return joined
}

func lower(name string) string {
	joined := camel(name)
	return strings.ToLower(joined[:1]) + joined[1:]
}

// camelField is the name of a field, a parameter or an operation in the generated client.
func camelField(name string) (joined string) {
	for word := range strings.SplitSeq(name, "_") {
		joined += strings.ToUpper(word[:1]) + word[1:]
	}
	return joined
}
