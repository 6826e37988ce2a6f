package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/api/operator"
	"connect-svc/internal/page"
	"connect-svc/internal/webhook"
)

type webhookCommands struct {
	output
	List   webhookListCommand   `cmd:"" help:"List the events of the last 30 days, oldest first." example:"connect-svc webhook list --client 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --state failed"`
	Show   webhookShowCommand   `cmd:"" help:"Show an event with every delivery attempt and its response." example:"connect-svc webhook show msg_4f1f7d3e52a44c8e9c6c7b0a8f0d9f21"`
	Replay webhookReplayCommand `cmd:"" help:"Deliver an event again, with the same webhook-id." detail:"Its retry schedule starts over." example:"connect-svc webhook replay msg_4f1f7d3e52a44c8e9c6c7b0a8f0d9f21"`
	Test   webhookTestCommand   `cmd:"" help:"Send a client a signed sample event and show the response." detail:"The exit status is 1 if the event is not accepted." example:"connect-svc webhook test --client 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --type activity.updated"`
	Verify webhookVerifyCommand `cmd:"" help:"Check whether a received call came from the service." detail:"If it did not, this says why, and the exit status is 1." example:"connect-svc webhook verify --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw --headers headers.txt --body body.json"`
}

// eventJSON is an event as the operator API has it, with the instants as they are stored, its version as a number, and null where
// its type has no data sets.
type eventJSON struct {
	operatorapi.WebhookEvent
	Version       int64                              `json:"connection_version"`
	Datasets      []operatorapi.WebhookEventDatasets `json:"datasets"`
	CreatedAt     time.Time                          `json:"created_at"`
	NextAttemptAt *time.Time                         `json:"next_attempt_at"`
}

func toEventJSON(e webhook.Event) eventJSON {
	row := eventJSON{operator.EventBody(e), e.ConnectionVersion, nil, e.CreatedAt.UTC(), timeOrNull(e.NextAttemptAt)}
	if e.Type == webhook.ActivityUpdated {
		row.Datasets = row.WebhookEvent.Datasets
	}
	return row
}

// about sums up what an event says.
func about(e webhook.Event) string {
	if e.Type != webhook.ActivityUpdated {
		return e.Reason
	}
	return fmt.Sprintf("%s, %s to %s", strings.ReplaceAll(e.Datasets.String(), ":read", ""),
		e.FirstDate.Format(time.DateOnly), e.LastDate.Format(time.DateOnly))
}

// next is when an event is attempted next.
func next(e webhook.Event) string {
	switch {
	case e.NextAttemptAt.IsZero():
		return "-"
	case e.NextAttemptAt.Before(time.Now()):
		return "now"
	default:
		return e.NextAttemptAt.UTC().Format(time.RFC3339)
	}
}

type webhookListCommand struct {
	databaseSetting
	Client uuid.UUID     `placeholder:"UUID" help:"Only events for this client."`
	State  webhook.State `enum:",pending,delivered,failed" default:"" placeholder:"STATE" help:"Only events in this state: pending, delivered or failed."`
}

func (c webhookListCommand) Run(p *program, group *webhookCommands, db *database) error {
	if c.Client != uuid.Nil {
		if _, err := db.clients().Get(p.ctx, c.Client); err != nil {
			return err
		}
	}
	rows := paged(func(after page.Key) ([]webhook.Event, error) {
		return db.webhooks().Events(p.ctx, webhook.Filter{ClientID: c.Client, State: c.State, After: after, Limit: listPage})
	}, webhook.Event.Key)
	return stream(group.output, p, rows, toEventJSON, "CREATED\tWEBHOOK ID\tCLIENT ID\tTYPE\tSTATE\tATTEMPTS\tNEXT ATTEMPT\tABOUT",
		func(w io.Writer, e webhook.Event) {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", e.CreatedAt.UTC().Format(time.RFC3339), e.MessageID(),
				e.ClientID, e.Type, e.State, e.AttemptCount, next(e), about(e))
		})
}

// eventID is the argument of the commands on one event.
type eventID struct {
	ID messageID `arg:"" help:"The event's webhook-id, msg_…"`
}

type messageID struct{ uuid.UUID }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (m *messageID) UnmarshalText(text []byte) (err error) {
	if m.UUID, err = webhook.ParseEventID(string(text)); err != nil {
		return errors.New("must be a webhook-id such as msg_4f1f7d3e52a44c8e9c6c7b0a8f0d9f21")
	}
	return nil
}

// attemptJSON is an attempt as the operator API has it, with the instant as it is stored. A sample has no number.
type attemptJSON struct {
	operatorapi.WebhookAttempt
	Attempt int       `json:"attempt,omitempty"`
	At      time.Time `json:"at"`
}

func toAttemptJSON(a webhook.Attempt) attemptJSON {
	return attemptJSON{operator.AttemptBody(a), a.Number, a.At.UTC()}
}

// status is the response's status for people.
func (a attemptJSON) status() string {
	if a.Status == nil {
		return "-"
	}
	return fmt.Sprint(*a.Status)
}

// printable is text from somebody else without control characters, which a terminal would obey.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
}

type eventDetailJSON struct {
	eventJSON
	Body json.RawMessage `json:"body"` // the bytes that every attempt sends
	Log  []attemptJSON   `json:"log"`
}

type webhookShowCommand struct {
	databaseSetting
	eventID
}

func (c webhookShowCommand) Run(p *program, group *webhookCommands, db *database) error {
	event, err := db.webhooks().Event(p.ctx, c.ID.UUID)
	if err != nil {
		return err
	}
	body, err := event.Body()
	if err != nil {
		return err
	}
	row := eventDetailJSON{eventJSON: toEventJSON(event), Body: body, Log: []attemptJSON{}}
	for _, attempt := range event.Attempts {
		row.Log = append(row.Log, toAttemptJSON(attempt))
	}
	return group.print(p, row, func(w io.Writer) { row.write(w, event) })
}

func (e eventDetailJSON) write(w io.Writer, event webhook.Event) {
	fmt.Fprintf(w, "webhook id\t%s\n", e.WebhookId)
	fmt.Fprintf(w, "client id\t%s\n", e.ClientId)
	fmt.Fprintf(w, "type\t%s\n", e.Type)
	fmt.Fprintf(w, "created\t%s\n", e.CreatedAt.Format(time.RFC3339))
	fmt.Fprintf(w, "state\t%s\n", e.State)
	fmt.Fprintf(w, "next attempt\t%s\n", next(event))
	fmt.Fprintf(w, "body\t%s\n", e.Body)
	if len(e.Log) == 0 {
		return
	}
	fmt.Fprintln(w, "\nATTEMPT\tAT\tTIMESTAMP\tTOOK\tSTATUS\tFAULT")
	for _, a := range e.Log {
		fmt.Fprintf(w, "%d\t%s\t%d\t%d ms\t%s\t%s\n",
			a.Attempt, a.At.Format(time.RFC3339), a.WebhookTimestamp, a.DurationMs, a.status(), a.Fault)
	}
	for _, a := range e.Log {
		if a.Response != "" {
			fmt.Fprintf(w, "\nResponse to attempt %d:\n%s\n", a.Attempt, strings.TrimRight(printable(a.Response), "\n "))
		}
	}
}

type webhookReplayCommand struct {
	databaseSetting
	eventID
}

func (c webhookReplayCommand) Run(p *program, group *webhookCommands, db *database) error {
	webhooks := db.webhooks()
	if err := webhooks.Replay(p.ctx, c.ID.UUID); err != nil {
		return err
	}
	event, err := webhooks.Event(p.ctx, c.ID.UUID)
	if err != nil {
		return err
	}
	row := toEventJSON(event)
	return group.say(p, row, "%s will be delivered again: `connect-svc webhook show %s` shows the outcome", row.WebhookId, row.WebhookId)
}

type webhookTestCommand struct {
	databaseSetting
	sealingSetting
	WebhookAllowCIDRs []netip.Prefix `setting:"" type:"networks" name:"webhook-allow-cidrs" placeholder:"CIDR,…" help:"Private or loopback networks that webhooks may reach. For development only."`
	Client            uuid.UUID      `required:"" placeholder:"UUID" help:"The client's id."`
	Type              string         `default:"connection.revoked" placeholder:"TYPE" help:"Event type: connection.revoked or activity.updated (default ${default})."`
}

type sampleJSON struct {
	ClientID  uuid.UUID `json:"client_id"`
	Type      string    `json:"type"`
	Delivered bool      `json:"delivered"`
	attemptJSON
}

// AfterApply implements a hook of kong.
func (c webhookTestCommand) AfterApply() error {
	if c.Type != webhook.ConnectionRevoked && c.Type != webhook.ActivityUpdated {
		return usagef("--type: must be %s or %s", webhook.ConnectionRevoked, webhook.ActivityUpdated)
	}
	return nil
}

func (c webhookTestCommand) Run(p *program, group *webhookCommands, db *database) error {
	webhooks, err := db.sealing(p, c.KeysetFile, webhook.Settings{AllowedNetworks: c.WebhookAllowCIDRs})
	if err != nil {
		return err
	}
	if _, err := db.clients().Get(p.ctx, c.Client); err != nil {
		return err
	}
	attempt, err := webhooks.SendSample(p.ctx, c.Client, c.Type)
	if err != nil {
		return err
	}
	row := sampleJSON{ClientID: c.Client, Type: c.Type, Delivered: attempt.Success(), attemptJSON: toAttemptJSON(attempt)}
	var failure error
	if !row.Delivered {
		failure = fmt.Errorf("not delivered: %s", row.problem())
		if group.Output == "text" && row.Response == "" {
			return failure
		}
	}
	return errors.Join(group.print(p, row, row.write), failure)
}

// problem is why the receiver did not accept the event.
func (s sampleJSON) problem() string {
	switch {
	case s.Status == nil:
		return s.Fault
	case s.Fault == "":
		return "the receiver answered " + s.status()
	default:
		return "the receiver answered " + s.status() + ": " + s.Fault
	}
}

func (s sampleJSON) write(w io.Writer) {
	fmt.Fprintf(w, "type\t%s\n", s.Type)
	fmt.Fprintf(w, "answered\t%s after %d ms\n", s.status(), s.DurationMs)
	if s.Response != "" {
		fmt.Fprintf(w, "response\t%s\n", printable(s.Response))
	}
}
