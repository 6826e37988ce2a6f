package console

import (
	"html/template"

	"connect-svc/internal/locale"
	"connect-svc/internal/refusal"
)

// field of a form.
type field struct {
	Name, Type string // as in HTML; the type textarea stands for that element
	Label      template.HTML
	Hint       template.HTML // empty: none
	Value      string
	Problem    template.HTML // with the value; empty: none
	Optional   bool
	Max        int // characters; 0: no limit

	Choices []choice // if there are any, the field is a list
}

// refuse sets the field's problem if wrong names the field.
func (f *field) refuse(in *locale.Locale, wrong *refusal.FieldError) {
	if wrong != nil && wrong.Field == f.Name {
		f.Problem = in.HTML("console.wrong", "Problem", wrong.Problem)
	}
}

// choice is an option of a field.
type choice struct{ Value, Text string }

// HasProblem reports whether the form or one of its fields has a problem.
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
