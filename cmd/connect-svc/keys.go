package main

import (
	"fmt"
	"io"

	"connect-svc/internal/admin/operators"
	"connect-svc/internal/foundation/credential"
)

type keysCommands struct {
	output
	Create keysCreateCommand `cmd:"" help:"Create a new keyset file." example:"connect-svc keys create --out keyset.json"`
	Rotate keysRotateCommand `cmd:"" help:"Seal with a new key; what older keys sealed still opens." example:"connect-svc keys rotate keyset.json"`
	Adopt  keysAdoptCommand  `cmd:"" help:"Replace a database's keyset; what other keys sealed is lost." example:"connect-svc keys adopt keyset.json"`
	List   keysListCommand   `cmd:"" help:"List a keyset's keys, without the key material." example:"connect-svc keys list keyset.json"`
}

type keysCreateCommand struct {
	Out string `required:"" help:"The file to create. It must not exist yet." placeholder:"FILE"`
}

func (c keysCreateCommand) Run(p *program, group *keysCommands) error {
	if err := credential.CreateKeyset(c.Out); err != nil {
		return err
	}
	return group.show(p, c.Out)
}

// keysetFile is the argument of the commands on a keyset.
type keysetFile struct {
	File string `arg:"" help:"The keyset file."`
}

type (
	keysRotateCommand struct{ keysetFile }
	keysListCommand   struct{ keysetFile }
	keysAdoptCommand  struct {
		databaseSetting
		confirmation
		keysetFile
	}
)

func (c keysRotateCommand) Run(p *program, group *keysCommands) error {
	if err := credential.RotateKeyset(c.File); err != nil {
		return err
	}
	return group.show(p, c.File)
}

func (c keysAdoptCommand) Run(p *program, group *keysCommands, api *operatorAPI) error {
	keys, err := credential.LoadKeyring(c.File)
	if err != nil {
		return err
	}
	if err := c.confirm(p, "make "+c.File+" the database's keyset: every token and webhook secret sealed with a key it lacks is lost, "+
		"and servers with another keyset will not start"); err != nil {
		return err
	}
	if err := keys.AdoptMarks(p.ctx, api.pool); err != nil {
		return err
	}
	return group.show(p, c.File)
}

func (c keysListCommand) Run(p *program, group *keysCommands) error { return group.show(p, c.File) }

func (c keysCommands) show(p *program, file string) error {
	ring, err := credential.LoadKeyring(file)
	if err != nil {
		return err
	}
	return c.print(p, map[string]any{"file": file, "keys": ring.Keys()}, func(w io.Writer) {
		fmt.Fprintln(w, "KEY ID\tSTATUS")
		for _, key := range ring.Keys() {
			fmt.Fprintf(w, "%d\t%s\n", key.ID, key.Status)
		}
	})
}

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
