package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/app/settings"
	"connect-svc/internal/domain/webhook"
	"connect-svc/internal/foundation/text"
	"github.com/alecthomas/kong"
	"github.com/google/uuid"
)

// userOrEmail is a flag or an argument that names a user by the id or the address.
type userOrEmail struct {
	id    uuid.UUID
	email string // empty: by id
}

func (u *userOrEmail) UnmarshalText(text []byte) (err error) {
	if strings.Contains(string(text), "@") {
		u.email = string(text)
	} else if u.id, err = uuid.ParseBytes(text); err != nil {
		return errors.New("must be a user's id, a UUID, or e-mail address")
	}
	return nil
}

func (u userOrEmail) read(p *program, api *operatorAPI) (operatorapi.User, error) {
	if u.email == "" {
		return decode[operatorapi.User](api.ReadUser(p.ctx, u.id))
	}
	page, err := decode[operatorapi.UserPage](api.ListUsers(p.ctx, &operatorapi.ListUsersParams{Email: &u.email}))
	if err == nil && len(page.Data) == 0 {
		err = errors.New("there is no such user")
	}
	if err != nil {
		return operatorapi.User{}, err
	}
	return page.Data[0], nil
}

// readID is the id of a user who may not be named.
func (u *userOrEmail) readID(p *program, api *operatorAPI) (*uuid.UUID, error) {
	if u == nil {
		return nil, nil
	}
	user, err := u.read(p, api)
	return &user.UserId, err
}

// givenID and givenEmail are what was typed, nil if it was the other.
func (u *userOrEmail) givenID() *uuid.UUID {
	if u == nil || u.email != "" {
		return nil
	}
	return &u.id
}

func (u *userOrEmail) givenEmail() *string {
	if u == nil {
		return nil
	}
	return param(u.email)
}

func (c userUpdateCommand) AfterApply() error {
	if c.Email == nil && c.Timezone == nil && c.RegisteredOn == nil {
		return usagef("nothing to change: give --email, --timezone or --registered-on")
	}
	return nil
}

// deletedUser is what programs read of a deletion, for which the operation has no answer.
type deletedUser struct {
	ConnectionsEnded int64     `json:"connections_ended"`
	UserID           uuid.UUID `json:"user_id"`
}

func (c userDeleteCommand) answer(_ *program, _ *operatorAPI, user operatorapi.User, preview operatorapi.UserPreview) (deletedUser, error) {
	return deletedUser{preview.Connections, user.UserId}, nil
}

// answer is the connection that was ended.
func (c connectionDisconnectCommand) answer(p *program, api *operatorAPI, user operatorapi.User, _ operatorapi.ConnectionPreview) (operatorapi.FoundConnection, error) {
	ended, err := decode[operatorapi.FoundConnectionPage](api.FindConnections(p.ctx, &operatorapi.FindConnectionsParams{
		UserId: &user.UserId, ClientId: c.Client.id(),
	}))
	if err != nil {
		return operatorapi.FoundConnection{}, err
	}
	return ended.Data[0], nil
}

func (c userActivityCommand) AfterApply() error {
	if c.To.Before(c.From.Time) || !c.To.Before(c.From.AddDate(0, 0, 366)) {
		return usagef("--to: must be from 0 to 365 days after --from")
	}
	return nil
}

func writeActivity(w io.Writer, activity operatorapi.UserActivity) {
	fmt.Fprintln(w, "DATE\tSTEPS\tCORRECTED\tPARTNERS SEE\tMETRES\tCORRECTED\tPARTNERS SEE")
	for _, day := range activity.Days {
		fmt.Fprintf(w, "%s\t%s\t%+d\t%s\t%s\t%+d\t%s\n", day.Date, given(day.Steps.Recorded), day.Steps.Adjusted, given(day.Steps.Seen),
			given(day.Cycling.Recorded), day.Cycling.Adjusted, given(day.Cycling.Seen))
	}
	heading(w, len(activity.Rides), "RIDE\tEND\tMETRES\tSOURCE ID")
	for _, ride := range activity.Rides {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\n", ride.RecordedStartTime, given(ride.RecordedEndTime), ride.DistanceMeters, cell(ride.SourceId))
	}
	heading(w, len(activity.Adjustments), "CORRECTION OF\tDATASET\tDELTA\tAT\tBY\tADJUSTMENT ID\tNOTE")
	for _, adjustment := range activity.Adjustments {
		fmt.Fprintf(w, "%s\t%s\t%+d\t%s\t%s\t%s\t%s\n", adjustment.Date, adjustment.Dataset, adjustment.Delta, adjustment.CreatedAt, given(adjustment.Actor), adjustment.AdjustmentId, cell(adjustment.Note))
	}
	heading(w, len(activity.RemovedAdjustments), "REMOVED OF\tDATASET\tAT\tBY\tADJUSTMENT ID")
	for _, adjustment := range activity.RemovedAdjustments {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", adjustment.Date, adjustment.Dataset, adjustment.At, adjustment.Actor, adjustment.AdjustmentId)
	}
	heading(w, len(activity.Readers), "READER\tSTEPS FROM\tCYCLING FROM\tNAME")
	for _, reader := range activity.Readers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", reader.ClientId, given(reader.StepsFrom), given(reader.CyclingFrom), cell(reader.ClientName))
	}
	if !activity.Complete {
		fmt.Fprintln(w, "\nThere are more rides or corrections than these: ask for fewer dates.")
	}
}

// given is a value for people that may be missing.
func given[T any](value *T) string {
	if value == nil {
		return "-"
	}
	return fmt.Sprint(*value)
}

// userSignInsCommand shows those of an address, which may have no account, or of a user.
type userSignInsCommand struct {
	ID userOrEmail `arg:"" help:"The user's id or e-mail address."`
	settings.Keyset
}

func (c userSignInsCommand) Run(p *program, group *userCommands, api *operatorAPI) error {
	list := func() (*http.Response, error) { return api.ListUserSignIns(p.ctx, c.ID.id) }
	if c.ID.email != "" {
		list = func() (*http.Response, error) {
			return api.ListSignIns(p.ctx, &operatorapi.ListSignInsParams{Email: c.ID.email})
		}
	}
	log, err := decode[operatorapi.SignInLog](list())
	if err != nil {
		return err
	}
	return group.print(p, log, func(w io.Writer) { writeSignIns(w, log) })
}

// userExportCommand writes the copy as it comes, so that no copy is too long for memory.
type userExportCommand struct {
	ID userOrEmail `arg:"" help:"The user's id or e-mail address."`
	settings.Keyset
}

func (c userExportCommand) Run(p *program, api *operatorAPI) error {
	user, err := c.ID.read(p, api)
	if err != nil {
		return err
	}
	api.to = p.stdout
	_, err = api.ExportUser(p.ctx, user.UserId)
	return err
}

// signInTexts say what happened, for people.
var signInTexts = map[operatorapi.SignInEventEvent]string{
	operatorapi.SignInEventEventAsked:     "asked for a code",
	operatorapi.SignInEventEventRefused:   "refused by the limit of ",
	operatorapi.SignInEventEventSent:      "the mail server has taken the email",
	operatorapi.SignInEventEventNoAccount: "no email, because the address has no account",
	operatorapi.SignInEventEventDelayed:   "the mail server has not taken the email yet",
	operatorapi.SignInEventEventFailed:    "the email was given up",
	operatorapi.SignInEventEventWrong:     "wrong code, attempt",
	operatorapi.SignInEventEventSpent:     "a code after its last attempt",
	operatorapi.SignInEventEventExpired:   "a code after 10 minutes",
	operatorapi.SignInEventEventSignedIn:  "signed in",
	operatorapi.SignInEventEventLifted:    "the limits were lifted by",
}

func writeSignIns(w io.Writer, log operatorapi.SignInLog) {
	for _, event := range log.Data {
		text := signInTexts[event.Event]
		switch {
		case event.Limit != nil && event.Until != nil:
			text += strings.ReplaceAll(string(*event.Limit), "_", " ") + " until " + *event.Until
		case event.Waiting:
			text += "; its email waits for the mail server"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", event.At, text, cell(event.Detail))
	}
	if len(log.Data) == 0 {
		fmt.Fprintln(w, "No sign-in of this address within 7 days.")
	}
	if log.NextCodeAt != nil {
		fmt.Fprintf(w, "The limit of the address admits the next code at %s.\n", *log.NextCodeAt)
	}
	if !log.CodesWork {
		fmt.Fprintln(w, "Too many wrong codes: only the links of emails work.")
	}
}

func writeFound(w io.Writer, list operatorapi.FoundList) {
	if len(list.Data) == 0 {
		fmt.Fprintln(w, "Nothing has this address, name or id.")
	}
	for _, match := range list.Data {
		fmt.Fprintf(w, "%s\t%s\n", strings.ReplaceAll(string(match.Kind), "_", " "), cell(match.Name))
		fields(w, match, "user_id client_id webhook_id at detail")
	}
}

// clientRef is a flag or an argument that names a client by its id or its name, or the operator, who has a webhook like a client. ProvideAPI
// resolves names, before a command runs.
type clientRef struct {
	uuid.UUID
	name string // empty: by id
}

func (c *clientRef) UnmarshalText(text []byte) (err error) {
	if c.UUID, err = uuid.ParseBytes(text); err != nil {
		c.name = strings.TrimSpace(string(text))
	}
	if c.name == "" && err != nil {
		return errors.New("must be a client's id, a UUID, or name")
	}
	return nil
}

func (c *clientRef) id() *uuid.UUID {
	if c == nil {
		return nil
	}
	return &c.UUID
}

// resolveClients replaces the names of clients among the flags and arguments of a command by their ids.
func (a *operatorAPI) resolveClients(p *program, command *kong.Node) error {
	values := command.Positional
	for _, flag := range command.Flags {
		values = append(values, flag.Value)
	}
	for _, value := range values {
		var ref *clientRef
		switch target := value.Target.Addr().Interface().(type) {
		case *clientRef:
			ref = target
		case **clientRef:
			ref = *target
		}
		if ref == nil || ref.name == "" {
			continue
		}
		matches, err := decode[operatorapi.FoundList](a.Find(p.ctx, &operatorapi.FindParams{Text: ref.name}))
		if err != nil {
			return err
		}
		var ids []string
		for _, match := range matches.Data {
			if match.Kind == operatorapi.FoundKindClient && text.Fold(match.Name) == text.Fold(ref.name) {
				ref.UUID = *match.ClientId
				ids = append(ids, ref.String())
			}
		}
		switch {
		case len(ids) == 0 && ref.name == "operator":
			ref.UUID = webhook.Operator
		case len(ids) == 0:
			return fmt.Errorf("there is no client %q; `connect-svc find` finds a part of a name", printable(ref.name))
		case len(ids) > 1:
			return fmt.Errorf("several clients are called %q: %s", printable(ref.name), strings.Join(ids, " "))
		}
	}
	return nil
}

func (c removeAdjustmentCommand) question(user operatorapi.User, preview operatorapi.AdjustmentPreview) string {
	text := fmt.Sprintf("remove the adjustment %s of user %s (%s)", c.ID, user.UserId, user.Email)
	for _, removal := range preview.Data {
		total := "nothing recorded"
		if removal.Before != nil {
			total = fmt.Sprintf("%d → %d", *removal.Before, *removal.After)
		}
		text += fmt.Sprintf(": %+d of %s on %s (%s, %s can read this day)", removal.Delta, removal.Dataset, removal.Date, total, count(removal.Readers, "partner"))
	}
	return text
}

func (c removeStepsCommand) question(user operatorapi.User, preview operatorapi.ActivityBatchResult) string {
	return fmt.Sprintf("remove the steps of %s of user %s (%s): %s", c.Date, user.UserId, user.Email, count(preview.DailyStepsRemovals.Removed, "recorded day"))
}

func (c removeRideCommand) question(user operatorapi.User, preview operatorapi.ActivityBatchResult) string {
	return fmt.Sprintf("remove the ride %s of user %s (%s): %s", c.SourceID, user.UserId, user.Email, count(preview.Removals.Removed, "recorded ride"))
}
