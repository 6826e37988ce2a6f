package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/alecthomas/kong"
	"github.com/google/uuid"

	"connect-svc/gen/operatorapi"
	"connect-svc/internal/foundation/text"
)

func writeFound(w io.Writer, list operatorapi.FoundList) {
	if len(list.Data) == 0 {
		fmt.Fprintln(w, "Nothing has this address, name or id.")
	}
	for _, found := range list.Data {
		fmt.Fprintf(w, "%s\t%s\n", strings.ReplaceAll(string(found.Kind), "_", " "), cell(found.Name))
		fields(w, found, "user_id client_id webhook_id at detail")
	}
}

// clientRef is a flag or an argument that names a client by its id or its name. ProvideAPI resolves names, before a command runs.
type clientRef struct {
	uuid.UUID
	name string // empty: by id
}

func (c *clientRef) UnmarshalText(text []byte) (err error) {
	if c.UUID, err = uuid.ParseBytes(text); err != nil {
		c.name = strings.TrimSpace(string(text))
	}
	if c.name == "" && err != nil {
		return errors.New("must be a client's id, a UUID, or name")
	}
	return nil
}

func (c *clientRef) id() *uuid.UUID {
	if c == nil {
		return nil
	}
	return &c.UUID
}

// resolveClients replaces the names of clients among the flags and arguments of a command by their ids.
func (a *operatorAPI) resolveClients(p *program, command *kong.Node) error {
	values := command.Positional
	for _, flag := range command.Flags {
		values = append(values, flag.Value)
	}
	for _, value := range values {
		var ref *clientRef
		switch target := value.Target.Addr().Interface().(type) {
		case *clientRef:
			ref = target
		case **clientRef:
			ref = *target
		}
		if ref == nil || ref.name == "" {
			continue
		}
		found, err := decode[operatorapi.FoundList](a.Find(p.ctx, &operatorapi.FindParams{Text: ref.name}))
		if err != nil {
			return err
		}
		var ids []string
		for _, one := range found.Data {
			if one.Kind == operatorapi.FoundKindClient && text.Fold(one.Name) == text.Fold(ref.name) {
				ref.UUID = *one.ClientId
				ids = append(ids, ref.String())
			}
		}
		switch {
		case len(ids) == 0:
			return fmt.Errorf("there is no client %q; `connect-svc find` finds a part of a name", printable(ref.name))
		case len(ids) > 1:
			return fmt.Errorf("several clients are called %q: %s", printable(ref.name), strings.Join(ids, " "))
		}
	}
	return nil
}
