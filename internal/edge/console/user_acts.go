package console

import (
	"cmp"
	"errors"
	"html/template"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/domain/activity"
	"connect-svc/internal/edge/preview"
	"connect-svc/internal/edge/site"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/text"
	"connect-svc/internal/foundation/work"
	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
)

// amount writes a number of things: 2 corrections. Text console.count.{what} has its forms.
func (w writer) amount(unit string, n int) string {
	text := w.Number(n)
	if n > preview.CountedTo {
		text = w.Text("console.count.more", "Number", w.Number(preview.CountedTo))
	}
	return w.Text("console.count."+unit, "Count", n, "Number", text)
}

// exportUser sends a copy of the user's data.
func (c *console) exportUser(w http.ResponseWriter, r *http.Request, user account.User) error {
	ctx, cancel := work.Within(r.Context(), work.CallerOf(r.Context()), c.Limits.Batch)
	defer cancel()
	return site.Attach(ctx, w, "user-"+user.ID.String()+".json", "application/json", func(file io.Writer) error {
		return c.WriteCopy(ctx, file, user, "console")
	})
}

func (c *console) confirmDeleteUser(r *http.Request, say writer, user account.User, _ refused) (confirmation, error) {
	ends, err := c.EffectsOnUser(r.Context(), user)
	return confirmation{
		Names: []any{"Email", user.Email},
		Says: []template.HTML{
			say.HTML("console.user.delete.connections", "Count", ends.Connections),
			say.HTML("console.user.delete.data", "Days", say.amount("days", ends.Stored.Days), "Rides", say.amount("rides", ends.Stored.Rides),
				"Corrections", say.amount("corrections", ends.Stored.Adjustments)),
		},
		Grave: true, Back: userPath(user.ID),
	}, err
}

func (c *console) deleteUser(_ http.ResponseWriter, r *http.Request, user account.User) error {
	_, err := c.Accounts.DeleteUser(r.Context(), user.ID)
	return outcome(err, usersPath, "user_deleted")
}

func (c *console) confirmLiftLimits(_ *http.Request, say writer, user account.User, _ refused) (confirmation, error) {
	return confirmation{
		Names: []any{"Email", user.Email}, Says: []template.HTML{say.HTML("console.sign_ins.lift.says")},
		Back: userPath(user.ID),
	}, nil
}

func (c *console) liftLimits(_ http.ResponseWriter, r *http.Request, user account.User) error {
	return outcome(c.Accounts.LiftSignInLimits(r.Context(), user.ID), userPath(user.ID), "limits_lifted")
}

// was prefixes the names of hidden fields. Each field of the form is sent with its value when the form was shown, so that the change does
// not overwrite somebody else's.
const was = "was_"

func (c *console) askChangeUser(r *http.Request, say writer, user account.User, no refused) (confirmation, error) {
	ends, err := c.EffectsOnUser(r.Context(), user)
	x := confirmation{
		Names: []any{"Email", user.Email},
		Says: []template.HTML{
			say.HTML("console.user.change.ends", "Sessions", say.amount("sessions", ends.Sessions), "SignIns", say.amount("sign_ins", ends.SignIns),
				"Requests", say.amount("requests", int(ends.Requests)), "Browsers", say.amount("browsers", ends.Browsers)),
			say.HTML("console.user.change.stays"),
		},
		Back: userPath(user.ID),
		Fields: []field{
			{Name: "email", Type: "email", Label: say.HTML("console.users.email"), Max: text.MaxAddress, Value: user.Email},
			{Name: "timezone", Type: "text", Label: say.HTML("console.users.timezone"), Hint: say.HTML("console.user.change.timezone"), Max: 64,
				Value: user.Timezone},
			{Name: "registered_on", Type: "date", Label: say.HTML("console.users.registered"), Hint: say.HTML("console.user.change.registered"),
				Value: user.RegisteredOn.Format(time.DateOnly)},
		},
	}
	for _, f := range x.Fields {
		x.Hidden = append(x.Hidden, named{was + f.Name, cmp.Or(no.form[was+f.Name], f.Value)})
	}
	if errors.Is(no, account.ErrEmailTaken) {
		x.Fields[0].Problem = say.HTML("console.user.change.taken")
	}
	return x, err
}

func (c *console) changeUser(w http.ResponseWriter, r *http.Request, user account.User) error {
	form, err := site.ReadForm(w, r, "email", "timezone", "registered_on", was+"email", was+"timezone", was+"registered_on")
	if err != nil {
		return err
	}
	is := map[string]string{"email": user.Email, "timezone": user.Timezone, "registered_on": user.RegisteredOn.Format(time.DateOnly)}
	changed := func(name string) *string {
		if form[name] == form[was+name] {
			return nil
		}
		if now := is[name]; form[was+name] != now && !strings.EqualFold(form[name], now) {
			form[was+name] = now
			err = refusal.Field{Path: name, Problem: "was changed after you opened the form. Send the form again to replace what it is now"}
		}
		return new(form[name])
	}
	change := account.UserChange{Email: changed("email"), Timezone: changed("timezone")}
	if date := changed("registered_on"); date != nil {
		day, _ := time.Parse(time.DateOnly, *date) // one that is malformed is zero, which the domain refuses
		change.RegisteredOn = &day
	}
	if change == (account.UserChange{}) {
		return site.Redirect(userPath(user.ID))
	}
	if err == nil {
		_, err = c.Accounts.ChangeUser(r.Context(), user.ID, change)
	}
	if errors.Is(err, refusal.ErrFields) || errors.Is(err, account.ErrEmailTaken) {
		return refused{form, err}
	}
	return outcome(err, userPath(user.ID), "user_changed")
}

// datasets lists the datasets that support can correct.
var datasets = []activity.Adjusted{activity.AdjustedSteps, activity.AdjustedCycling}

func (c *console) askAdjustment(_ *http.Request, say writer, user account.User, _ refused) (confirmation, error) {
	x := confirmation{
		Names: []any{"Email", user.Email}, Says: []template.HTML{say.HTML("console.adjust.says")},
		Action: say.Text("console.adjust.look"), Back: userPath(user.ID),
		Fields: []field{
			{Name: "dataset", Label: say.HTML("console.adjust.dataset"), Value: string(activity.AdjustedSteps)},
			{Name: "date", Type: "date", Label: say.HTML("console.adjust.date")},
			{Name: "delta", Type: "text", Label: say.HTML("console.adjust.delta"), Hint: say.HTML("console.adjust.delta_hint"), Max: 12},
			{Name: "note", Type: "textarea", Label: say.HTML("console.adjust.note"), Hint: say.HTML("console.adjust.note_hint", "Most", say.Number(activity.MaxNote)), Max: activity.MaxNote, Optional: true},
		},
	}
	for _, dataset := range datasets {
		x.Fields[0].Choices = append(x.Fields[0].Choices, choice{string(dataset), say.Text("console.dataset." + string(dataset))})
	}
	return x, nil
}

// adjust takes the form in two steps. The first shows the day's total before and after. The second sends an id that was made for
// that page, so a form that is sent twice makes one correction.
func (c *console) adjust(w http.ResponseWriter, r *http.Request, user account.User) error {
	form, err := site.ReadLongForm(w, r, "dataset", "date", "delta", "note", "correction", "total")
	if err != nil {
		return err
	}
	dataset := activity.Adjusted(form["dataset"])
	if !slices.Contains(datasets, dataset) {
		return site.ErrBadForm
	}
	// A field that cannot be read is zero, which the domain refuses.
	date, _ := time.Parse(time.DateOnly, form["date"])
	delta, err := strconv.Atoi(strings.ReplaceAll(form["delta"], "−", "-"))
	if err != nil {
		delta = 0 // not the largest number
	}
	// Browsers send a line break as two characters. The limit counts it as one.
	record := activity.AdjustmentRecord{UserID: user.ID, Date: date, Delta: delta, Note: strings.ReplaceAll(form["note"], "\r\n", "\n")}
	if err := activity.CheckAdjustment(record); err != nil {
		return refused{form, err}
	}
	if form["correction"] == "" {
		record.ID = uuid.New()
		return c.confirmAdjustment(w, r, user, dataset, record, "")
	}
	if record.ID, err = uuid.Parse(form["correction"]); err != nil || record.ID == uuid.Nil {
		return site.ErrBadForm
	}
	if _, err := c.Activity.GetAdjustment(r.Context(), dataset, user.ID, record.ID); err == nil {
		return done(userPath(user.ID), "activity_adjusted") // by the first click
	} else if !errors.Is(err, activity.ErrNoAdjustment) {
		return err
	}
	day, err := c.Activity.Day(r.Context(), dataset, user.ID, record.Date)
	if err != nil {
		return err
	}
	if form["total"] != totalOf(day) { // the operator has not seen this total
		return c.confirmAdjustment(w, r, user, dataset, record, "console.adjust.moved")
	}
	_, err = c.Activity.Adjust(r.Context(), dataset, record)
	if errors.Is(err, refusal.ErrFields) { // the date is too late in the user's time zone
		return refused{form, err}
	}
	return outcome(err, userPath(user.ID), "activity_adjusted")
}

// totalOf returns a day's total for a hidden field, empty if the day has none.
func totalOf(day activity.Day) string {
	if !day.IsRecorded {
		return ""
	}
	return strconv.FormatInt(day.Total(), 10)
}

// confirmAdjustment shows how a correction changes a day.
func (c *console) confirmAdjustment(
	w http.ResponseWriter, r *http.Request, user account.User, dataset activity.Adjusted, record activity.AdjustmentRecord, problem string,
) error {
	say := c.writer(r)
	x, day, err := c.changeOf(r, say, user, dataset, record, record.Delta)
	if err != nil {
		return err
	}
	x.Says[0] = say.HTML("console.adjust.of", "Email", user.Email, "Delta", say.signed(record.Delta))
	x.Action = say.Text("console.adjust.act")
	x.Hidden = []named{
		{"dataset", string(dataset)}, {"date", record.Date.Format(time.DateOnly)}, {"delta", strconv.Itoa(record.Delta)},
		{"note", record.Note}, {"correction", record.ID.String()}, {"total", totalOf(day)},
	}
	if !day.IsRecorded {
		x.Says[1] = say.HTML("console.adjust.nothing")
	}
	if problem == "" {
		return c.write(w, r, "confirm", x)
	}
	x.Problem = say.HTML(problem)
	return c.refuse(w, r, "confirm", x)
}

// changeOf returns the page that confirms a change of a day by delta. The caller sets the first paragraph and the button.
func (c *console) changeOf(
	r *http.Request, say writer, user account.User, dataset activity.Adjusted, record activity.AdjustmentRecord, delta int,
) (x confirmation, day activity.Day, err error) {
	becomes, err := c.EffectsOfCorrection(r.Context(), user, dataset, record.Date, delta)
	key := "console.adjust.change." + string(dataset) // 12,345 → 10,345 steps on 2026-03-09
	if !becomes.Before.IsRecorded {
		key = "console.adjust.unrecorded." + string(dataset)
	}
	x = confirmation{
		Title: say.Text(key, "Before", say.Number(becomes.Before.Total()), "After", say.Number(becomes.After.Total()), "Date", record.Date.Format(time.DateOnly)),
		Back:  userPath(user.ID),
		Says:  []template.HTML{"", say.HTML("console.adjust.seen", "Count", becomes.Readers)},
	}
	if record.Note != "" {
		x.Says = append(x.Says, say.HTML("console.adjust.with_note", "Note", record.Note))
	}
	return x, becomes.Before, err
}

// adjustmentOf returns the correction in the path.
func (c *console) adjustmentOf(r *http.Request) (activity.Adjustment, error) {
	user, unknown := site.PathID(r, "user")
	id, err := site.PathID(r, "correction")
	if err = cmp.Or(unknown, err); err != nil {
		return activity.Adjustment{}, err
	}
	dataset := activity.Adjusted(chi.URLParam(r, "dataset"))
	if !slices.Contains(datasets, dataset) {
		return activity.Adjustment{}, site.ErrNotFound
	}
	return c.Activity.GetAdjustment(r.Context(), dataset, user, id)
}

func (c *console) confirmRemoveAdjustment(r *http.Request, say writer, user account.User, _ refused) (confirmation, error) {
	adjustment, err := c.adjustmentOf(r)
	if err != nil {
		return confirmation{}, err
	}
	x, _, err := c.changeOf(r, say, user, adjustment.Dataset, adjustment.AdjustmentRecord, -adjustment.Delta)
	if err != nil {
		return x, err
	}
	x.Says[0] = say.HTML("console.adjust.remove.says", "Email", user.Email, "Delta", say.signed(adjustment.Delta), "At", instant(adjustment.CreatedAt))
	x.Action, x.Grave = say.Text("console.adjust.remove.act"), true
	return x, nil
}

// removeAdjustment removes a correction. A second click finds it removed, and succeeds.
func (c *console) removeAdjustment(_ http.ResponseWriter, r *http.Request, user account.User) error {
	adjustment, err := c.adjustmentOf(r)
	if err == nil {
		_, err = c.Activity.RemoveAdjustment(r.Context(), adjustment.Dataset, user.ID, adjustment.ID)
	} else if errors.Is(err, activity.ErrNoAdjustment) {
		err = nil
	}
	return outcome(err, userPath(user.ID), "adjustment_removed")
}
