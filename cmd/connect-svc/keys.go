package main

import (
	"fmt"
	"io"

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
	keys, err := credential.ListKeyset(file)
	if err != nil {
		return err
	}
	return c.print(p, map[string]any{"file": file, "keys": keys}, func(w io.Writer) {
		fmt.Fprintln(w, "KEY ID\tSTATUS")
		for _, key := range keys {
			fmt.Fprintf(w, "%d\t%s\n", key.ID, key.Status)
		}
	})
}
