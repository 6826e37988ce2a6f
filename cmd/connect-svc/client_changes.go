package main

import (
	"fmt"
	"io"
	"net/http"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
)

type clientChangeRequestsCommand struct{}

func (c clientChangeRequestsCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	return group.list(p, rows(func(cursor *string) (*http.Response, error) {
		return api.ListChangeRequests(p.ctx, &operatorapi.ListChangeRequestsParams{Limit: new(pageRows), Cursor: cursor})
	}), "requested_at request_id client_id name requested_by")
}

type clientChangeRequestCommand struct {
	clientID
	Approve *uuid.UUID `xor:"act" placeholder:"REQUEST_ID" help:"Approve this request: the registration changes."`
	Refuse  *uuid.UUID `xor:"act" placeholder:"REQUEST_ID" help:"Refuse this request, with --answer."`
	Answer  string     `placeholder:"TEXT" help:"What the partner reads: 1 to 500 characters in one line."`
}

func (c clientChangeRequestCommand) AfterApply() error {
	if (c.Refuse != nil) != (c.Answer != "") {
		return usagef("--answer: is for --refuse, which needs one")
	}
	return nil
}

func (c clientChangeRequestCommand) Run(p *program, group *clientCommands, api *operatorAPI) error {
	var response *http.Response
	var err error
	switch {
	case c.Approve != nil:
		response, err = api.ApproveChangeRequest(p.ctx, c.ID.UUID, operatorapi.ChangeApproval{RequestId: *c.Approve})
	case c.Refuse != nil:
		response, err = api.RefuseChangeRequest(p.ctx, c.ID.UUID, operatorapi.ChangeRefusal{RequestId: *c.Refuse, Answer: c.Answer})
	default:
		response, err = api.ReadChangeRequest(p.ctx, c.ID.UUID)
	}
	found, err := decode[operatorapi.ChangeRequest](response, err)
	if err != nil {
		return err
	}
	return group.print(p, found, func(w io.Writer) {
		fields(w, found, "request_id client_id state requested_by requested_at answered_by answered_at answer")
		heading(w, len(found.Changes), "FIELD\tNOW\tREQUESTED")
		for _, one := range found.Changes {
			fmt.Fprintf(w, "%s\t%s\t%s\n", one.Field, one.Before, one.After)
		}
	})
}
