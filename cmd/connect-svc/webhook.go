package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/google/uuid"

	"connect-svc/internal/client"
	"connect-svc/internal/webhook"
)

type webhookCommands struct {
	output
	List   webhookListCommand   `cmd:"" help:"List the events of the last 30 days, oldest first." example:"connect-svc webhook list --client 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --state failed"`
	Show   webhookShowCommand   `cmd:"" help:"Show what an event says, and each try to deliver it with what was answered." example:"connect-svc webhook show msg_4f1f7d3e52a44c8e9c6c7b0a8f0d9f21"`
	Replay webhookReplayCommand `cmd:"" help:"Deliver an event once more, with the same webhook-id; its tries begin again." example:"connect-svc webhook replay msg_4f1f7d3e52a44c8e9c6c7b0a8f0d9f21"`
	Test   webhookTestCommand   `cmd:"" help:"Send a client a made-up event, signed like a real one, and show what it answers. Exit status 1 where it does not take it." example:"connect-svc webhook test --client 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11 --type activity.updated"`
	Verify webhookVerifyCommand `cmd:"" help:"Tell whether a call that somebody received came from the service, and if not why. Exit status 0 or 1." example:"connect-svc webhook verify --secret whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw --headers headers.txt --body body.json"`
}

// eventJSON has null where a type of event does not have a field, and where no try is due.
type eventJSON struct {
	WebhookID string        `json:"webhook_id"`
	ClientID  uuid.UUID     `json:"client_id"`
	Type      string        `json:"type"`
	GrantID   uuid.UUID     `json:"grant_id"`
	Version   int64         `json:"connection_version"`
	Reason    *string       `json:"reason"`
	Datasets  []string      `json:"datasets"`
	From      *string       `json:"from"`
	To        *string       `json:"to"`
	CreatedAt time.Time     `json:"created_at"`
	State     webhook.State `json:"state"`
	Tries     int           `json:"tries"`
	NextTryAt *time.Time    `json:"next_try_at"`
}

func toEventJSON(e webhook.Event) eventJSON {
	row := eventJSON{
		WebhookID: e.MessageID(),
		ClientID:  e.ClientID,
		Type:      e.Type,
		GrantID:   e.GrantID,
		Version:   e.ConnectionVersion,
		CreatedAt: e.CreatedAt.UTC(),
		State:     e.State,
		Tries:     e.TryCount,
		NextTryAt: timeOrNull(e.NextTryAt),
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

// about is what an event says, in a few words.
func (e eventJSON) about() string {
	if e.Reason != nil {
		return *e.Reason
	}
	return fmt.Sprintf("%s, %s to %s", strings.Join(e.Datasets, " "), *e.From, *e.To)
}

func (e eventJSON) next() string {
	switch {
	case e.State != webhook.Pending:
		return "-"
	case e.NextTryAt == nil:
		return "now"
	default:
		return e.NextTryAt.Format(time.RFC3339)
	}
}

type webhookListCommand struct {
	databaseSetting
	Client uuid.UUID     `placeholder:"UUID" help:"Only events for this client."`
	State  webhook.State `enum:",pending,delivered,failed" default:"" placeholder:"STATE" help:"Only events in this state: pending, delivered or failed."`
}

func (c webhookListCommand) Run(p *program, group *webhookCommands) error {
	return c.inWebhooks(p, nil, func(webhooks *webhook.Webhooks, clients *client.Registry) error {
		if c.Client != uuid.Nil {
			if _, err := clients.Get(p.ctx, c.Client); err != nil {
				return err
			}
		}
		const page = 1000
		rows, filter := []eventJSON{}, webhook.Filter{ClientID: c.Client, State: c.State, Limit: page}
		for {
			events, err := webhooks.Events(p.ctx, filter)
			if err != nil {
				return err
			}
			for _, event := range events {
				rows = append(rows, toEventJSON(event))
			}
			if len(events) < page {
				break
			}
			filter.After = events[page-1].Position()
		}
		return group.print(p, rows, func(w io.Writer) {
			fmt.Fprintln(w, "CREATED\tWEBHOOK ID\tCLIENT ID\tTYPE\tSTATE\tTRIES\tNEXT TRY\tABOUT")
			for _, row := range rows {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", row.CreatedAt.Format(time.RFC3339), row.WebhookID,
					row.ClientID, row.Type, row.State, row.Tries, row.next(), row.about())
			}
		})
	})
}

// eventID is the argument of the commands on one event.
type eventID struct {
	ID string `arg:"" help:"The event's webhook-id, msg_…"`
}

// parse refuses what is no webhook-id as a mistake of the command line.
func (e eventID) parse() (uuid.UUID, error) {
	id, err := webhook.ParseEventID(e.ID)
	if err != nil {
		return id, usagef("<id>: must be a webhook-id such as msg_4f1f7d3e52a44c8e9c6c7b0a8f0d9f21")
	}
	return id, nil
}

// tryJSON has null where there was no answer.
type tryJSON struct {
	Try        int       `json:"try,omitempty"` // there is none of a sample
	At         time.Time `json:"at"`
	Timestamp  int64     `json:"webhook_timestamp"` // the header of that name
	DurationMS int64     `json:"duration_ms"`
	Status     *int      `json:"status"`
	Fault      string    `json:"fault"`  // why there was no answer, or what was wrong with it
	Answer     string    `json:"answer"` // its first 8,192 bytes
}

func toTryJSON(t webhook.Try) tryJSON {
	row := tryJSON{
		Try: t.Number, At: t.At.UTC(), Timestamp: t.At.Unix(), DurationMS: t.Duration.Milliseconds(), Fault: t.Fault,
		Answer: strings.ToValidUTF8(string(t.Answer), "\uFFFD"),
	}
	if t.Status != 0 {
		row.Status = &t.Status
	}
	return row
}

// status is that of the answer, for people.
func (t tryJSON) status() string {
	if t.Status == nil {
		return "-"
	}
	return fmt.Sprint(*t.Status)
}

// printable is what somebody else sent, without what a terminal would take for orders.
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
	Body json.RawMessage `json:"body"` // the bytes that every try sends
	Log  []tryJSON       `json:"log"`
}

type webhookShowCommand struct {
	databaseSetting
	eventID
}

func (c webhookShowCommand) Run(p *program, group *webhookCommands) error {
	id, err := c.parse()
	if err != nil {
		return err
	}
	return c.inWebhooks(p, nil, func(webhooks *webhook.Webhooks, _ *client.Registry) error {
		event, err := webhooks.Event(p.ctx, id)
		if err != nil {
			return err
		}
		body, err := event.Body()
		if err != nil {
			return err
		}
		row := eventDetailJSON{eventJSON: toEventJSON(event), Body: body, Log: []tryJSON{}}
		for _, try := range event.Tries {
			row.Log = append(row.Log, toTryJSON(try))
		}
		return group.print(p, row, row.write)
	})
}

func (e eventDetailJSON) write(w io.Writer) {
	fmt.Fprintf(w, "webhook id\t%s\n", e.WebhookID)
	fmt.Fprintf(w, "client id\t%s\n", e.ClientID)
	fmt.Fprintf(w, "type\t%s\n", e.Type)
	fmt.Fprintf(w, "created\t%s\n", e.CreatedAt.Format(time.RFC3339))
	fmt.Fprintf(w, "state\t%s\n", e.State)
	fmt.Fprintf(w, "next try\t%s\n", e.next())
	fmt.Fprintf(w, "body\t%s\n", e.Body)
	if len(e.Log) == 0 {
		return
	}
	fmt.Fprintln(w, "\nTRY\tAT\tTIMESTAMP\tTOOK\tSTATUS\tFAULT")
	for _, try := range e.Log {
		fmt.Fprintf(w, "%d\t%s\t%d\t%d ms\t%s\t%s\n",
			try.Try, try.At.Format(time.RFC3339), try.Timestamp, try.DurationMS, try.status(), try.Fault)
	}
	for _, try := range e.Log {
		if try.Answer != "" {
			fmt.Fprintf(w, "\nAnswer to try %d:\n%s\n", try.Try, strings.TrimRight(printable(try.Answer), "\n "))
		}
	}
}

type webhookReplayCommand struct {
	databaseSetting
	eventID
}

func (c webhookReplayCommand) Run(p *program, group *webhookCommands) error {
	id, err := c.parse()
	if err != nil {
		return err
	}
	return c.inWebhooks(p, nil, func(webhooks *webhook.Webhooks, _ *client.Registry) error {
		if err := webhooks.Replay(p.ctx, id); err != nil {
			return err
		}
		event, err := webhooks.Event(p.ctx, id)
		if err != nil {
			return err
		}
		row := toEventJSON(event)
		return group.print(p, row, func(w io.Writer) {
			fmt.Fprintf(w, "%s is sent once more: `connect-svc webhook show %s` tells what becomes of it\n", row.WebhookID, row.WebhookID)
		})
	})
}
