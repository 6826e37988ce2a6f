package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/app/settings"
)

type userSignInsCommand struct {
	userID
	settings.Keyset
}

func (c userSignInsCommand) Run(p *program, group *userCommands, api *operatorAPI) error {
	if c.ID.email != "" { // which may have no account
		response, err := api.ListSignIns(p.ctx, &operatorapi.ListSignInsParams{Email: c.ID.email})
		return group.showSignIns(p, response, err)
	}
	response, err := api.ListUserSignIns(p.ctx, c.ID.id)
	return group.showSignIns(p, response, err)
}

type userLiftLimitsCommand struct {
	userID
	settings.Keyset
}

func (c userLiftLimitsCommand) Run(p *program, group *userCommands, api *operatorAPI) error {
	user, err := c.ID.read(p, api)
	if err != nil {
		return err
	}
	response, err := api.LiftSignInLimits(p.ctx, user.UserId)
	return group.showSignIns(p, response, err)
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

func (c userCommands) showSignIns(p *program, response *http.Response, err error) error {
	log, err := decode[operatorapi.SignInLog](response, err)
	if err != nil {
		return err
	}
	return c.print(p, log, func(w io.Writer) {
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
	})
}
