package main

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"connect-svc/internal/client"
	"connect-svc/internal/scope"
)

type clientCommands struct {
	output
	databaseSetting
	Create       clientCreateCommand       `cmd:"" help:"Register a client and show its secret, once." example:"connect-svc client create --name 'Walk Rewards' --callback https://partner.example/callback --scope daily_steps:read --scope cycling_daily:read"`
	List         clientListCommand         `cmd:"" help:"List all clients, oldest first." example:"connect-svc client list"`
	Show         clientShowCommand         `cmd:"" help:"Show one client." example:"connect-svc client show 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	RotateSecret clientRotateSecretCommand `cmd:"" help:"Replace a client's secret and show the new one, once. The old one ends at once." example:"connect-svc client rotate-secret 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Disable      clientDisableCommand      `cmd:"" help:"Make a client unusable. Its connections are kept." example:"connect-svc client disable 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
	Enable       clientEnableCommand       `cmd:"" help:"Make a disabled client usable again." example:"connect-svc client enable 0b7e7a52-7f0c-4f57-9b51-6d0c3b8f2a11"`
}

// inRegistry runs act with the registrations in the database. A wrong field is the caller's mistake.
func (c clientCommands) inRegistry(p *program, act func(*client.Registry) error) error {
	return c.inDatabase(p, func(pool *pgxpool.Pool) error {
		err := act(client.NewRegistry(pool))
		var wrong *client.FieldError
		if errors.As(err, &wrong) {
			return usagef("--%s: %s", wrong.Field, wrong.Problem)
		}
		return err
	})
}

type clientCreateCommand struct {
	Name              string   `required:"" help:"The company's name, shown to users."`
	Callback          string   `required:"" placeholder:"URL" help:"The one HTTPS callback, compared as an exact string."`
	Scope             []string `required:"" sep:"none" help:"A scope that the client may ask for; repeat the flag for more."`
	RequestsPerMinute int      `default:"600" placeholder:"N" help:"Activity requests a minute, sustained (default ${default})."`
	Burst             int      `default:"60" placeholder:"N" help:"Activity requests back to back (default ${default})."`
	ConcurrentReads   int      `default:"10" placeholder:"N" help:"Activity requests at the same time (default ${default})."`
	ContactEmail      string   `placeholder:"EMAIL" help:"Whom to write to at the company."`
	Homepage          string   `placeholder:"URL" help:"The company's site, shown to users."`
}

type clientSecretJSON struct {
	ClientID     uuid.UUID `json:"client_id"`
	ClientSecret string    `json:"client_secret"`
}

func (c clientCreateCommand) Run(p *program, group *clientCommands) error {
	scopes, err := scope.Parse(strings.Join(c.Scope, " "))
	if err != nil {
		return usagef("--scope: must be one or more of %s, each once", strings.Join(scope.All.Names(), ", "))
	}
	return group.inRegistry(p, func(clients *client.Registry) error {
		created, secret, err := clients.Create(p.ctx, client.Registration{
			Name:        c.Name,
			CallbackURL: c.Callback,
			Scopes:      scopes,
			Policy: client.Policy{
				RequestsPerMinute: c.RequestsPerMinute,
				Burst:             c.Burst,
				ConcurrentReads:   c.ConcurrentReads,
			},
			ContactEmail: c.ContactEmail,
			HomepageURL:  c.Homepage,
		})
		if err != nil {
			return err
		}
		return group.showSecret(p, created.ID, secret)
	})
}

func (c clientCommands) showSecret(p *program, id uuid.UUID, secret string) error {
	return c.print(p, clientSecretJSON{id, secret}, func(w io.Writer) {
		fmt.Fprintf(w, "client id\t%s\n", id)
		fmt.Fprintf(w, "client secret\t%s\n", secret)
		fmt.Fprintln(w, "Keep the secret now: it is stored nowhere and cannot be shown again.")
	})
}

type clientJSON struct {
	ClientID          uuid.UUID     `json:"client_id"`
	Name              string        `json:"name"`
	Status            client.Status `json:"status"`
	CallbackURL       string        `json:"callback_url"`
	Scopes            []string      `json:"scopes"`
	RequestsPerMinute int           `json:"requests_per_minute"`
	Burst             int           `json:"burst"`
	ConcurrentReads   int           `json:"concurrent_reads"`
	ContactEmail      string        `json:"contact_email"`
	HomepageURL       string        `json:"homepage_url"`
	CreatedAt         time.Time     `json:"created_at"`
}

func toClientJSON(c client.Client) clientJSON {
	return clientJSON{
		ClientID:          c.ID,
		Name:              c.Name,
		Status:            c.Status,
		CallbackURL:       c.CallbackURL,
		Scopes:            c.Scopes.Names(),
		RequestsPerMinute: c.Policy.RequestsPerMinute,
		Burst:             c.Policy.Burst,
		ConcurrentReads:   c.Policy.ConcurrentReads,
		ContactEmail:      c.ContactEmail,
		HomepageURL:       c.HomepageURL,
		CreatedAt:         c.CreatedAt.UTC(),
	}
}

type clientListCommand struct{}

func (clientListCommand) Run(p *program, group *clientCommands) error {
	return group.inRegistry(p, func(clients *client.Registry) error {
		list, err := clients.List(p.ctx)
		if err != nil {
			return err
		}
		rows := make([]clientJSON, len(list))
		for i, c := range list {
			rows[i] = toClientJSON(c)
		}
		return group.print(p, rows, func(w io.Writer) {
			fmt.Fprintln(w, "CLIENT ID\tSTATUS\tNAME\tSCOPES")
			for _, c := range list {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", c.ID, c.Status, c.Name, c.Scopes)
			}
		})
	})
}

// clientID is the argument of the commands on one client.
type clientID struct {
	ID uuid.UUID `arg:"" help:"The client's id."`
}

type clientShowCommand struct{ clientID }

func (c clientShowCommand) Run(p *program, group *clientCommands) error {
	return group.inRegistry(p, func(clients *client.Registry) error { return group.show(p, clients, c.ID) })
}

type clientDisableCommand struct{ clientID }

func (c clientDisableCommand) Run(p *program, group *clientCommands) error {
	return group.inRegistry(p, func(clients *client.Registry) error {
		if err := clients.Disable(p.ctx, c.ID); err != nil {
			return err
		}
		return group.show(p, clients, c.ID)
	})
}

type clientEnableCommand struct{ clientID }

func (c clientEnableCommand) Run(p *program, group *clientCommands) error {
	return group.inRegistry(p, func(clients *client.Registry) error {
		if err := clients.Enable(p.ctx, c.ID); err != nil {
			return err
		}
		return group.show(p, clients, c.ID)
	})
}

type clientRotateSecretCommand struct{ clientID }

func (c clientRotateSecretCommand) Run(p *program, group *clientCommands) error {
	return group.inRegistry(p, func(clients *client.Registry) error {
		secret, err := clients.RotateSecret(p.ctx, c.ID)
		if err != nil {
			return err
		}
		return group.showSecret(p, c.ID, secret)
	})
}

func (c clientCommands) show(p *program, clients *client.Registry, id uuid.UUID) error {
	found, err := clients.Get(p.ctx, id)
	if err != nil {
		return err
	}
	row := toClientJSON(found)
	return c.print(p, row, func(w io.Writer) {
		fmt.Fprintf(w, "client id\t%s\n", row.ClientID)
		fmt.Fprintf(w, "name\t%s\n", row.Name)
		fmt.Fprintf(w, "status\t%s\n", row.Status)
		fmt.Fprintf(w, "callback\t%s\n", row.CallbackURL)
		fmt.Fprintf(w, "scopes\t%s\n", found.Scopes)
		fmt.Fprintf(w, "requests per minute\t%d\n", row.RequestsPerMinute)
		fmt.Fprintf(w, "burst\t%d\n", row.Burst)
		fmt.Fprintf(w, "concurrent reads\t%d\n", row.ConcurrentReads)
		fmt.Fprintf(w, "contact\t%s\n", row.ContactEmail)
		fmt.Fprintf(w, "homepage\t%s\n", row.HomepageURL)
		fmt.Fprintf(w, "created\t%s\n", row.CreatedAt.Format(time.RFC3339))
	})
}
