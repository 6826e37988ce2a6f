package client

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	clientdb "connect-svc/gen/db/client"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/page"
	"connect-svc/internal/foundation/postgres"
	"connect-svc/internal/foundation/refusal"
	"connect-svc/internal/foundation/work"
)

// ChangeState is the state of a request for a change.
type ChangeState string

// The states of a request for a change.
const (
	ChangeOpen     ChangeState = "open"
	ChangeApproved ChangeState = "approved"
	ChangeRefused  ChangeState = "refused"
)

// MaxAnswer is the most characters of an answer.
const MaxAnswer = 500

// ErrNoChangeRequest means that a client has no open request with this id: it was replaced, withdrawn or answered, or never made.
var ErrNoChangeRequest = errors.New("client: no such request for a change is open")

// ChangeRequest asks the operator to change a registration. A client has one at a time.
type ChangeRequest struct {
	ID          uuid.UUID
	ClientID    uuid.UUID
	State       ChangeState
	RequestedBy string // an actor
	RequestedAt time.Time
	AnsweredBy  string // an actor; empty while it is open, like the next two
	AnsweredAt  time.Time
	Answer      string // up to [MaxAnswer] characters

	wanted []byte      // the fields that change, in JSON
	logo   *brand.Logo // nil if it does not change
}

// Wanted returns a registration as the request would change it.
func (c ChangeRequest) Wanted(current Registration) (Registration, error) {
	if c.logo != nil {
		current.Logo = *c.logo
	}
	err := json.Unmarshal(c.wanted, &current)
	return current, err
}

func requestOf(row clientdb.ChangeRequest) ChangeRequest {
	c := ChangeRequest{
		ID: row.RequestID, ClientID: row.ClientID, State: ChangeState(row.State), RequestedBy: row.RequestedBy, RequestedAt: row.RequestedAt,
		AnsweredBy: postgres.Value(row.AnsweredBy), AnsweredAt: postgres.Value(row.AnsweredAt), Answer: row.Answer, wanted: row.Wanted,
	}
	if row.Logo != nil {
		c.logo = &brand.Logo{Name: *row.Logo, Content: row.LogoContent}
	}
	return c
}

// FieldChange is a field with its value before and after a change, as text.
type FieldChange struct{ Field, Before, After string } // Field: as in a refusal.Field, or "logo"

// Compare returns the fields in which two registrations differ.
func Compare(before, after Registration) (changes []FieldChange) {
	fields := func(r Registration) [][2]string {
		return [][2]string{
			{"name", r.Name}, {"callback", r.CallbackURL}, {"scope", r.Scopes.String()}, {"contact-email", r.ContactEmail},
			{"homepage", r.HomepageURL}, {"privacy-url", r.PrivacyURL}, {"terms-url", r.TermsURL}, {"logo", r.Logo.Name},
			{"requests-per-minute", strconv.Itoa(r.Policy.RequestsPerMinute)}, {"burst", strconv.Itoa(r.Policy.Burst)},
			{"concurrent-reads", strconv.Itoa(r.Policy.ConcurrentReads)}, {"webhook-parallel", strconv.Itoa(r.WebhookParallel)},
		}
	}
	to := fields(after)
	for i, old := range fields(before) {
		if old != to[i] {
			changes = append(changes, FieldChange{old[0], old[1], to[i][1]})
		}
	}
	return changes
}

// overlay returns the values of one JSON object that another one does not have, or nil.
func overlay(before, after any) any {
	object, ok := before.(map[string]any)
	if to, both := after.(map[string]any); ok && both {
		changed := map[string]any{}
		for name, value := range to {
			if value = overlay(object[name], value); value != nil {
				changed[name] = value
			}
		}
		if len(changed) == 0 {
			return nil
		}
		return changed
	}
	if reflect.DeepEqual(before, after) {
		return nil
	}
	return after
}

// inJSON returns a registration as the values of JSON.
func inJSON(r Registration) (values map[string]any, err error) {
	text, err := json.Marshal(r)
	if err == nil {
		err = json.Unmarshal(text, &values)
	}
	return values, err
}

// RequestChange asks for a change of a registration, which nothing but [Registry.ApproveChange] makes. change receives the registration as
// the open request would change it, if there is one: the new request takes its place. It is validated as in [Registry.Update]. If nothing
// would change, the open request is withdrawn. If change changes nothing, the open request stays as it is. asked reports whether a request is
// open afterwards. Errors: refusal.Field, refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (r *Registry) RequestChange(ctx context.Context, id uuid.UUID, change func(*Registration)) (asked bool, err error) {
	err = r.inRequest(ctx, id, func(queries *clientdb.Queries, c Client) error {
		present, err := queries.GetChangeRequest(ctx, id)
		if err != nil && !errors.Is(err, pgx.ErrNoRows) {
			return err
		}
		wanted := c.Registration
		open := err == nil && ChangeState(present.State) == ChangeOpen
		if open {
			if wanted, err = requestOf(present).Wanted(wanted); err != nil {
				return err
			}
		}
		before := wanted
		change(&wanted)
		if asked = open; len(Compare(before, wanted)) == 0 {
			return nil
		}
		if err := wanted.validate(); err != nil {
			return err
		}
		if asked = len(Compare(c.Registration, wanted)) > 0; !asked {
			if open {
				return withdraw(ctx, queries, id, present.RequestID)
			}
			return nil
		}
		current, err := inJSON(c.Registration)
		if err != nil {
			return err
		}
		to, err := inJSON(wanted)
		if err != nil {
			return err
		}
		text, err := json.Marshal(overlay(current, to))
		if err != nil {
			return err
		}
		if string(text) == "null" { // only the logo changes
			text = []byte("{}")
		}
		put := clientdb.PutChangeRequestParams{
			ClientID: id, RequestID: uuid.New(), Wanted: text, RequestedBy: work.Actor(ctx),
		}
		if wanted.Logo.Name != c.Logo.Name {
			put.Logo, put.LogoContent = &wanted.Logo.Name, append([]byte{}, wanted.Logo.Content...)
		}
		if err := queries.PutChangeRequest(ctx, put); err != nil {
			return err
		}
		return audit(ctx, queries, id, "client.change_requested", differences(c.Registration, wanted))
	})
	return asked, err
}

// inRequest runs an act on the request of a client, which is locked.
func (r *Registry) inRequest(ctx context.Context, id uuid.UUID, act func(*clientdb.Queries, Client) error) error {
	err := postgres.InTxAgain(ctx, r.pool, func(tx pgx.Tx) error {
		queries := r.queries.WithTx(tx)
		client, err := lock(ctx, queries, id)
		if err != nil {
			return postgres.NoRowsAs(err, refusal.ErrClientNotFound)
		}
		return act(queries, client)
	})
	return clientError(id, postgres.NoRowsAs(err, ErrNoChangeRequest))
}

// WithdrawChange ends an open request without an answer. Errors: ErrNoChangeRequest, refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (r *Registry) WithdrawChange(ctx context.Context, id, requestID uuid.UUID) error {
	return r.inRequest(ctx, id, func(queries *clientdb.Queries, _ Client) error { return withdraw(ctx, queries, id, requestID) })
}

func withdraw(ctx context.Context, queries *clientdb.Queries, id, requestID uuid.UUID) error {
	n, err := queries.DeleteChangeRequest(ctx, clientdb.DeleteChangeRequestParams{ClientID: id, RequestID: requestID})
	if err == nil && n == 0 {
		err = ErrNoChangeRequest
	}
	if err != nil {
		return err
	}
	return audit(ctx, queries, id, "client.change_withdrawn", map[string]any{})
}

// ApproveChange makes the change of an open request, by the rules and the statements of [Registry.Update]. If it breaks a rule by now, it is
// refused instead, and the answer says why. Errors: ErrNoChangeRequest, refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (r *Registry) ApproveChange(ctx context.Context, id, requestID uuid.UUID) (answered ChangeRequest, err error) {
	err = r.inRequest(ctx, id, func(queries *clientdb.Queries, c Client) error {
		row, err := queries.GetChangeRequest(ctx, id)
		if err != nil {
			return err
		}
		request := requestOf(row)
		if request.ID != requestID || request.State != ChangeOpen {
			return ErrNoChangeRequest
		}
		wanted, err := request.Wanted(c.Registration)
		if err != nil {
			return err
		}
		err = update(ctx, queries, &c, func(current *Registration) { *current = wanted }, map[string]any{"requested_by": request.RequestedBy})
		if broken, ok := errors.AsType[refusal.Field](err); ok {
			answered, err = answerChange(ctx, queries, request, ChangeRefused, broken.Path+" "+broken.Problem)
		} else if err == nil {
			answered, err = answerChange(ctx, queries, request, ChangeApproved, "")
		}
		return err
	})
	return answered, err
}

// RefuseChange answers an open request, and changes nothing else. Errors: refusal.Field, ErrNoChangeRequest,
// refusal.ErrClientNotFound, refusal.ErrClientOffboarded.
func (r *Registry) RefuseChange(ctx context.Context, id, requestID uuid.UUID, answer string) (answered ChangeRequest, err error) {
	if answer = strings.TrimSpace(answer); answer == "" || utf8.RuneCountInString(answer) > MaxAnswer || strings.ContainsFunc(answer, unseen) {
		return answered, refusal.Field{Path: "answer", Problem: "must be 1 to 500 characters in one line"}
	}
	err = r.inRequest(ctx, id, func(queries *clientdb.Queries, _ Client) error {
		row, err := queries.GetChangeRequest(ctx, id)
		if err != nil {
			return err
		}
		if row.RequestID != requestID {
			return ErrNoChangeRequest
		}
		answered, err = answerChange(ctx, queries, requestOf(row), ChangeRefused, answer)
		return err
	})
	return answered, err
}

// answerChange answers a request. Error: pgx.ErrNoRows.
func answerChange(ctx context.Context, queries *clientdb.Queries, request ChangeRequest, state ChangeState, answer string) (ChangeRequest, error) {
	row, err := queries.AnswerChangeRequest(ctx, clientdb.AnswerChangeRequestParams{
		ClientID: request.ClientID, RequestID: request.ID, State: string(state), AnsweredBy: work.Actor(ctx), Answer: answer,
	})
	if err != nil {
		return ChangeRequest{}, err
	}
	if err := queries.TellAnswer(ctx, clientdb.TellAnswerParams{
		ClientID: request.ClientID, RequestedBy: request.RequestedBy, State: string(state), Answer: answer,
	}); err != nil {
		return ChangeRequest{}, err
	}
	detail := map[string]any{"requested_by": request.RequestedBy}
	if answer != "" {
		detail["answer"] = answer
	}
	return requestOf(row), audit(ctx, queries, request.ClientID, "client.change_"+string(state), detail)
}

// ChangeRequest returns the last request of a client with its answer, if it has one. Error: ErrNoChangeRequest.
func (r *Registry) ChangeRequest(ctx context.Context, id uuid.UUID) (ChangeRequest, error) {
	row, err := r.queries.GetChangeRequest(ctx, id)
	return requestOf(row), clientError(id, postgres.NoRowsAs(err, ErrNoChangeRequest))
}

// OpenChange is an open request in a list.
type OpenChange struct {
	ID, ClientID uuid.UUID
	Name         string // of the client
	RequestedBy  string
	RequestedAt  time.Time
}

// Key returns the request's key in the list.
func (c OpenChange) Key() page.Key { return page.Key{At: c.RequestedAt, ID: c.ClientID} }

// OpenChanges returns at most limit open requests after a key, oldest first.
func (r *Registry) OpenChanges(ctx context.Context, after page.Key, limit int) ([]OpenChange, error) {
	rows, err := r.queries.ListChangeRequests(ctx, clientdb.ListChangeRequestsParams{AfterTime: after.At, AfterID: after.ID, MaxRows: int32(limit)})
	return postgres.Map(rows, func(row clientdb.ListChangeRequestsRow) OpenChange {
		return OpenChange{row.RequestID, row.ClientID, row.Name, row.RequestedBy, row.RequestedAt}
	}), postgres.Wrap("list requests for changes", err)
}

// CountChanges counts the open requests.
func (r *Registry) CountChanges(ctx context.Context) (int64, error) {
	n, err := r.queries.CountChangeRequests(ctx)
	return n, postgres.Wrap("count requests for changes", err)
}
