package console

import (
	"errors"
	"html/template"
	"net/http"
	"time"

	"connect-svc/internal/account"
	"connect-svc/internal/mailbox"
	"connect-svc/internal/refusal"
	"connect-svc/internal/web/site"
)

// countedTo is the largest count of a user's rows.
const countedTo = 10_000

// amount writes a number of things: 2 corrections. Text console.count.{what} has its forms.
func (w writer) amount(what string, n int) string {
	text := w.number(n)
	if n > countedTo {
		text = w.Text("console.count.more", "Number", w.number(countedTo))
	}
	return w.Text("console.count."+what, "Count", n, "Number", text)
}

func (c *console) confirmDeleteUser(w http.ResponseWriter, r *http.Request, user account.User) error {
	connections, err := c.OAuth.ConnectionsOfUser(r.Context(), user.ID)
	if err != nil {
		return err
	}
	stored, err := c.Activity.Count(r.Context(), user.ID, countedTo+1)
	if err != nil {
		return err
	}
	in := newWriter(c.site.Locale(r))
	return c.confirm(w, r, "users", confirmation{
		Title: in.Text("console.user.delete.heading", "Email", user.Email),
		Says: []template.HTML{
			in.HTML("console.user.delete.connections", "Count", len(connections)),
			in.HTML("console.user.delete.data", "Days", in.amount("days", stored.Days), "Rides", in.amount("rides", stored.Rides),
				"Corrections", in.amount("corrections", stored.Adjustments)),
		},
		Action: in.Text("console.user.delete.act"), Grave: true, Back: userPath(user.ID),
	})
}

func (c *console) deleteUser(_ http.ResponseWriter, r *http.Request, user account.User) error {
	_, err := c.Accounts.DeleteUser(r.Context(), user.ID)
	return outcome(err, usersPath, "user_deleted")
}

// userFields lists the fields of the form. Each is sent with its value when the form was shown, so that the change does not overwrite
// somebody else's.
var userFields = []string{"email", "timezone", "registered_on"}

func userValues(user account.User) map[string]string {
	return map[string]string{"email": user.Email, "timezone": user.Timezone, "registered_on": user.RegisteredOn.Format(time.DateOnly)}
}

func (c *console) showChangeUser(w http.ResponseWriter, r *http.Request, user account.User) error {
	values := userValues(user)
	return c.askChangeUser(w, r, user, values, values, nil)
}

// askChangeUser shows the form with values, and the reason why one was refused, if any.
func (c *console) askChangeUser(w http.ResponseWriter, r *http.Request, user account.User, values, before map[string]string, refused error) error {
	ends, err := c.Accounts.CountEndings(r.Context(), user)
	if err != nil {
		return err
	}
	requests, err := c.OAuth.CountRequests(r.Context(), user.ID)
	if err != nil {
		return err
	}
	in := newWriter(c.site.Locale(r))
	x := confirmation{
		Title: in.Text("console.user.change.heading", "Email", user.Email),
		Says: []template.HTML{
			in.HTML("console.user.change.ends", "Sessions", in.amount("sessions", ends.Sessions), "SignIns", in.amount("sign_ins", ends.SignIns),
				"Requests", in.amount("requests", int(requests)), "Browsers", in.amount("browsers", ends.Browsers)),
			in.HTML("console.user.change.stays"),
		},
		Action: in.Text("console.user.change.act"), Back: userPath(user.ID),
		Fields: []field{
			{Name: "email", Type: "email", Label: in.HTML("console.users.email"), Max: mailbox.MaxLength},
			{Name: "timezone", Type: "text", Label: in.HTML("console.users.timezone"), Hint: in.HTML("console.user.change.timezone"), Max: 64},
			{Name: "registered_on", Type: "date", Label: in.HTML("console.users.registered"), Hint: in.HTML("console.user.change.registered")},
		},
	}
	wrong, _ := errors.AsType[*refusal.FieldError](refused)
	for i, f := range x.Fields {
		x.Fields[i].Value = values[f.Name]
		x.Fields[i].refuse(in.Locale, wrong)
		x.Hidden = append(x.Hidden, choice{"was_" + f.Name, before[f.Name]})
	}
	if errors.Is(refused, account.ErrEmailTaken) {
		x.Fields[0].Problem = in.HTML("console.user.change.taken")
	}
	return c.confirm(w, r, "users", x)
}

func (c *console) changeUser(w http.ResponseWriter, r *http.Request, user account.User) error {
	form, err := site.ReadForm(w, r, append([]string{"was_email", "was_timezone", "was_registered_on"}, userFields...)...)
	if err != nil {
		return err
	}
	values, before := map[string]string{}, map[string]string{}
	for _, name := range userFields {
		values[name], before[name] = form[name], form["was_"+name]
	}
	change, changes := userChange(values, before)
	if !changes {
		return site.Redirect(userPath(user.ID))
	}
	_, err = c.Accounts.ChangeUser(r.Context(), user.ID, change)
	if _, wrong := errors.AsType[*refusal.FieldError](err); wrong || errors.Is(err, account.ErrEmailTaken) {
		return c.askChangeUser(w, r, user, values, before, err)
	}
	return outcome(err, userPath(user.ID), "user_changed")
}

// userChange returns the fields that differ from before. A malformed date is zero, which the domain refuses.
func userChange(values, before map[string]string) (change account.UserChange, changes bool) {
	changed := func(name string) *string {
		if values[name] == before[name] {
			return nil
		}
		changes = true
		return new(values[name])
	}
	change.Email, change.Timezone = changed("email"), changed("timezone")
	if date := changed("registered_on"); date != nil {
		day, _ := time.Parse(time.DateOnly, *date)
		change.RegisteredOn = &day
	}
	return change, changes
}
