package console

import (
	"errors"
	"html/template"
	"net/http"
	"time"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/edge/preview"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
)

// amount writes a number of things: 2 corrections. Text console.count.{what} has its forms.
func (w writer) amount(what string, n int) string {
	text := w.number(n)
	if n > preview.CountedTo {
		text = w.Text("console.count.more", "Number", w.number(preview.CountedTo))
	}
	return w.Text("console.count."+what, "Count", n, "Number", text)
}

func (c *console) previews() preview.Domains {
	return preview.Domains{Accounts: c.Accounts, Activity: c.Activity, OAuth: c.OAuth, Usage: c.Usage, Webhooks: c.Webhooks}
}

func (c *console) confirmDeleteUser(r *http.Request, in writer, user account.User, _ refused) (confirmation, error) {
	ends, err := c.previews().User(r.Context(), user)
	return confirmation{
		Names: []any{"Email", user.Email},
		Says: []template.HTML{
			in.HTML("console.user.delete.connections", "Count", ends.Connections),
			in.HTML("console.user.delete.data", "Days", in.amount("days", ends.Stored.Days), "Rides", in.amount("rides", ends.Stored.Rides),
				"Corrections", in.amount("corrections", ends.Stored.Adjustments)),
		},
		Grave: true, Back: userPath(user.ID),
	}, err
}

func (c *console) deleteUser(_ http.ResponseWriter, r *http.Request, user account.User) error {
	_, err := c.Accounts.DeleteUser(r.Context(), user.ID)
	return outcome(err, usersPath, "user_deleted")
}

func (c *console) confirmLiftLimits(_ *http.Request, in writer, user account.User, _ refused) (confirmation, error) {
	return confirmation{
		Names: []any{"Email", user.Email}, Says: []template.HTML{in.HTML("console.sign_ins.lift.says")},
		Back: userPath(user.ID),
	}, nil
}

func (c *console) liftLimits(_ http.ResponseWriter, r *http.Request, user account.User) error {
	return outcome(c.Accounts.LiftSignInLimits(r.Context(), user.ID), userPath(user.ID), "limits_lifted")
}

// was prefixes the names of hidden fields. Each field of the form is sent with its value when the form was shown, so that the change does
// not overwrite somebody else's.
const was = "was_"

func (c *console) askChangeUser(r *http.Request, in writer, user account.User, no refused) (confirmation, error) {
	ends, err := c.previews().User(r.Context(), user)
	x := confirmation{
		Names: []any{"Email", user.Email},
		Says: []template.HTML{
			in.HTML("console.user.change.ends", "Sessions", in.amount("sessions", ends.Sessions), "SignIns", in.amount("sign_ins", ends.SignIns),
				"Requests", in.amount("requests", int(ends.Requests)), "Browsers", in.amount("browsers", ends.Browsers)),
			in.HTML("console.user.change.stays"),
		},
		Back: userPath(user.ID),
		Fields: []field{
			{Name: "email", Type: "email", Label: in.HTML("console.users.email"), Max: text.MaxAddress, Value: user.Email},
			{Name: "timezone", Type: "text", Label: in.HTML("console.users.timezone"), Hint: in.HTML("console.user.change.timezone"), Max: 64,
				Value: user.Timezone},
			{Name: "registered_on", Type: "date", Label: in.HTML("console.users.registered"), Hint: in.HTML("console.user.change.registered"),
				Value: user.RegisteredOn.Format(time.DateOnly)},
		},
	}
	for _, f := range x.Fields {
		before := f.Value
		if no.form != nil {
			before = no.form[was+f.Name]
		}
		x.Hidden = append(x.Hidden, named{was + f.Name, before})
	}
	if errors.Is(no, account.ErrEmailTaken) {
		x.Fields[0].Problem = in.HTML("console.user.change.taken")
	}
	return x, err
}

func (c *console) changeUser(w http.ResponseWriter, r *http.Request, user account.User) error {
	form, err := site.ReadForm(w, r, "email", "timezone", "registered_on", was+"email", was+"timezone", was+"registered_on")
	if err != nil {
		return err
	}
	change := userChange(form)
	if change == (account.UserChange{}) {
		return site.Redirect(userPath(user.ID))
	}
	_, err = c.Accounts.ChangeUser(r.Context(), user.ID, change)
	if _, wrong := errors.AsType[*refusal.FieldError](err); wrong || errors.Is(err, account.ErrEmailTaken) {
		return refused{form, err}
	}
	return outcome(err, userPath(user.ID), "user_changed")
}

// userChange returns the fields that differ from before. A malformed date is zero, which the domain refuses.
func userChange(form map[string]string) (change account.UserChange) {
	changed := func(name string) *string {
		if form[name] == form[was+name] {
			return nil
		}
		return new(form[name])
	}
	change.Email, change.Timezone = changed("email"), changed("timezone")
	if date := changed("registered_on"); date != nil {
		day, _ := time.Parse(time.DateOnly, *date)
		change.RegisteredOn = &day
	}
	return change
}
