package console

import (
	"html/template"

	"connect-svc/internal/locale"
	"connect-svc/internal/refusal"
)

// field of a form.
type field struct {
	Name, Type string // as HTML has them; the type textarea is one for several lines
	Label      template.HTML
	Hint       template.HTML // empty: none
	Value      string
	Problem    template.HTML // what is wrong with the value; empty: nothing
	Optional   bool
	Max        int // characters; 0: no limit of the field's own

	Choices []choice // of a list, in place of a line to write in
}

// refuse sets the problem of the field, if wrong is about it.
func (f *field) refuse(in *locale.Locale, wrong *refusal.FieldError) {
	if wrong != nil && wrong.Field == f.Name {
		f.Problem = in.HTML("console.wrong", "Problem", wrong.Problem)
	}
}

// choice is one of a field's.
type choice struct{ Value, Text string }

// HasProblem says whether something is wrong with the form, or with one of its fields.
func (c confirmation) HasProblem() bool {
	if c.Problem != "" {
		return true
	}
	for _, f := range c.Fields {
		if f.Problem != "" {
			return true
		}
	}
	return false
}
