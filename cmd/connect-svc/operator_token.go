package main

import (
	"fmt"
	"io"

	"connect-svc/internal/admin/operators"
)

type operatorTokenCommands struct {
	output
	Create operatorTokenCreateCommand `cmd:"" help:"Create a token and print it once." detail:"Beside it stands its line for CONNECT_OPERATOR_TOKENS_FILE. The service knows the token once the line is in that file and it was sent SIGHUP or restarted. Whoever holds the token is called NAME in the audit log." example:"connect-svc operator-token create --name ada --read-only"`
}

type operatorTokenCreateCommand struct {
	Name     string `required:"" placeholder:"NAME" help:"Who holds the token, as the audit log calls them: up to 64 letters, digits, dots, hyphens and underscores."`
	ReadOnly bool   `help:"The token may look at everything and change nothing."`
}

type operatorTokenJSON struct {
	Name     string `json:"name"`
	ReadOnly bool   `json:"read_only"`
	Token    string `json:"token"`
	Line     string `json:"line"`
}

func (c operatorTokenCreateCommand) Run(p *program, group *operatorTokenCommands) error {
	token, line, err := operators.Create(operators.Operator{Name: c.Name, ReadOnly: c.ReadOnly})
	if err != nil {
		return usagef("--name: %w", err)
	}
	return group.print(p, operatorTokenJSON{c.Name, c.ReadOnly, token, line}, func(w io.Writer) {
		fmt.Fprintf(w, "token\t%s\n", token)
		fmt.Fprintf(w, "line\t%s\n", line)
		fmt.Fprintln(w, "Save the token now: it is not stored and cannot be shown again.")
	})
}
