package console

import (
	"cmp"
	"errors"
	"html/template"
	"net/http"

	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/refusal"
)

// confirmation is the page that asks to confirm an act, and its form. The form is posted to the path of the page.
type confirmation struct {
	Title  string          // of the page and its heading
	Names  []any           // in the heading, if its text is that of the act
	Says   []template.HTML // what will happen, one paragraph each
	Action string          // the text of the button
	Grave  bool            // the act removes something
	Back   string          // the path of the page before
	Fields []field         // empty if there is only a button
	Hidden []named         // hidden fields

	Problem template.HTML // of the whole form, or empty
}

// field of a form.
type field struct {
	Name, Type string // as in HTML; the type textarea stands for that element
	Label      template.HTML
	Hint       template.HTML // empty if there is none
	Value      string
	Problem    template.HTML // with the value, or empty
	Optional   bool
	Max        int // characters, or 0 for no limit

	Choices []choice // if there are any, the field is a list
}

// choice is an option of a field.
type choice struct{ Value, Text string }

// named is a hidden field, or a secret.
type named struct{ Name, Value string }

// refused is the error of an act whose form has a problem. The page that asks for the act shows the form again.
type refused struct {
	form map[string]string
	error
}

// Unwrap returns the problem.
func (r refused) Unwrap() error { return r.error }

// problem returns what is wrong with the field of a name, or nothing.
func (r refused) problem(in writer, name string) template.HTML {
	if wrong, is := errors.AsType[*refusal.FieldError](r.error); is && wrong.Field == name {
		return in.HTML("console.wrong", "Problem", wrong.Problem)
	}
	return ""
}

// asking returns the page that asks for an act. no is empty, or has the form that was refused, whose values the fields get.
type asking[T any] = func(r *http.Request, in writer, one T, no refused) (confirmation, error)

// previewed has the page that asks for an act, and the act. Its heading and its button are the texts of its name, unless ask sets them. If the act
// returns a [refused], it shows the page again.
func previewed[T any](c *console, text string, subject func(*http.Request) (T, error), ask asking[T], act site.About[T]) handlers {
	show := func(w http.ResponseWriter, r *http.Request, about T, no refused) error {
		in := c.writer(r)
		x, err := ask(r, in, about, no)
		if err != nil {
			return err
		}
		if x.Title == "" {
			x.Title = in.Text("console."+text+".heading", x.Names...)
		}
		if x.Action == "" {
			x.Action = in.Text("console." + text + ".act")
		}
		if no.form == nil {
			return c.write(w, r, "confirm", x)
		}
		for i, f := range x.Fields {
			x.Fields[i].Value, x.Fields[i].Problem = no.form[f.Name], cmp.Or(f.Problem, no.problem(in, f.Name))
		}
		return c.refuse(w, r, "confirm", x)
	}
	return given(subject, func(w http.ResponseWriter, r *http.Request, about T) error {
		return show(w, r, about, refused{})
	}, func(w http.ResponseWriter, r *http.Request, about T) error {
		err := act(w, r, about)
		no, is := errors.AsType[refused](err)
		if !is {
			return err
		}
		if about, err = subject(r); err != nil { // the act may have found it changed
			return err
		}
		return show(w, r, about, no)
	})
}
