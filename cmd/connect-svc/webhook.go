package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

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

// eventJSON has null where a type of event does not have a field, and no next attempt unless the event is pending.
type eventJSON struct {
	WebhookID     string        `json:"webhook_id"`
	ClientID      uuid.UUID     `json:"client_id"`
	Type          string        `json:"type"`
	GrantID       uuid.UUID     `json:"grant_id"`
	Version       int64         `json:"connection_version"`
	Reason        *string       `json:"reason"`
	Datasets      []string      `json:"datasets"`
	From          *string       `json:"from"`
	To            *string       `json:"to"`
	CreatedAt     time.Time     `json:"created_at"`
	State         webhook.State `json:"state"`
	Attempts      int           `json:"attempts"`
	NextAttemptAt *time.Time    `json:"next_attempt_at"`
}

func toEventJSON(e webhook.Event) eventJSON {
	row := eventJSON{
		WebhookID:     e.MessageID(),
		ClientID:      e.ClientID,
		Type:          e.Type,
		GrantID:       e.GrantID,
		Version:       e.ConnectionVersion,
		CreatedAt:     e.CreatedAt.UTC(),
		State:         e.State,
		Attempts:      e.AttemptCount,
		NextAttemptAt: timeOrNull(e.NextAttemptAt),
	}
	if e.Type == webhook.ActivityUpdated {
		from, to := e.FirstDate.Format(time.DateOnly), e.LastDate.Format(time.DateOnly)
		row.From, row.To = &from, &to
		for _, name := range e.Datasets.Names() {
			row.Datasets = append(row.Datasets, strings.TrimSuffix(name, ":read"))
		}
	} else {
		row.Reason = &e.Reason
	}
	return row
}

// about sums up what an event says.
func (e eventJSON) about() string {
	if e.Reason != nil {
		return *e.Reason
	}
	return fmt.Sprintf("%s, %s to %s", strings.Join(e.Datasets, " "), *e.From, *e.To)
}

func (e eventJSON) next() string {
	switch {
	case e.NextAttemptAt == nil:
		return "-"
	case e.NextAttemptAt.Before(time.Now()):
		return "now"
	default:
		return e.NextAttemptAt.Format(time.RFC3339)
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
	rows := paged(func(after webhook.Position) ([]webhook.Event, error) {
		return db.webhooks().Events(p.ctx, webhook.Filter{ClientID: c.Client, State: c.State, After: after, Limit: listPage})
	}, webhook.Event.Position)
	return stream(group.output, p, rows, toEventJSON, "CREATED\tWEBHOOK ID\tCLIENT ID\tTYPE\tSTATE\tATTEMPTS\tNEXT ATTEMPT\tABOUT",
		func(w io.Writer, row eventJSON) {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", row.CreatedAt.Format(time.RFC3339), row.WebhookID,
				row.ClientID, row.Type, row.State, row.Attempts, row.next(), row.about())
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

// attemptJSON has a null status where there was no response.
type attemptJSON struct {
	Attempt    int       `json:"attempt,omitempty"` // a sample has no number
	At         time.Time `json:"at"`
	Timestamp  int64     `json:"webhook_timestamp"` // the header of that name
	DurationMS int64     `json:"duration_ms"`
	Status     *int      `json:"status"`
	Fault      string    `json:"fault"`    // why there was no response, or what was wrong with it
	Response   string    `json:"response"` // the first 8,192 bytes of its body
}

func toAttemptJSON(a webhook.Attempt) attemptJSON {
	row := attemptJSON{
		Attempt: a.Number, At: a.At.UTC(), Timestamp: a.At.Unix(), DurationMS: a.Duration.Milliseconds(), Fault: a.Fault,
		Response: strings.ToValidUTF8(string(a.Response), "\uFFFD"),
	}
	if a.Status != 0 {
		row.Status = &a.Status
	}
	return row
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
	return group.print(p, row, row.write)
}

func (e eventDetailJSON) write(w io.Writer) {
	fmt.Fprintf(w, "webhook id\t%s\n", e.WebhookID)
	fmt.Fprintf(w, "client id\t%s\n", e.ClientID)
	fmt.Fprintf(w, "type\t%s\n", e.Type)
	fmt.Fprintf(w, "created\t%s\n", e.CreatedAt.Format(time.RFC3339))
	fmt.Fprintf(w, "state\t%s\n", e.State)
	fmt.Fprintf(w, "next attempt\t%s\n", e.next())
	fmt.Fprintf(w, "body\t%s\n", e.Body)
	if len(e.Log) == 0 {
		return
	}
	fmt.Fprintln(w, "\nATTEMPT\tAT\tTIMESTAMP\tTOOK\tSTATUS\tFAULT")
	for _, a := range e.Log {
		fmt.Fprintf(w, "%d\t%s\t%d\t%d ms\t%s\t%s\n",
			a.Attempt, a.At.Format(time.RFC3339), a.Timestamp, a.DurationMS, a.status(), a.Fault)
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
	return group.print(p, row, func(w io.Writer) {
		fmt.Fprintf(w, "%s will be delivered again: `connect-svc webhook show %s` shows the outcome\n", row.WebhookID, row.WebhookID)
	})
}
