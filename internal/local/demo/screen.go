package demo

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// screen is what there is to open, in one screen.
func (d *demo) screen() string {
	a := d.addresses
	kept := "Everything is kept in " + short(a.Dir) + " and found again by the next start; its secrets are files that only you can read."
	if !a.Kept {
		kept = "Nothing of this is kept."
	}
	alex, robin := d.people[0], d.people[1]
	state := alex.name + " is not connected there at present."
	if d.partner.Connected(alex.key) {
		state = alex.name + " has been connected there for a while: steps and rides are drawn."
	}
	return fmt.Sprintf(`
The demo is running. Ctrl-C stops it.

  Open first     %s    an example partner, Stride Club
  Caught mail    %s    every mail ends here: the sign-in codes
  The service    %s/.well-known/oauth-authorization-server
  For its users  %s/account    a user sees who reads, and disconnects
  Its health     %s/readyz

%s
To connect somebody yourself, choose %s there, then Connect; sign in as %s.

Your browser will warn of the certificate once: it comes from the demo's own
authority, %s. Go on, or trust that file.

To use the commands on the demo's data: . %s
%s
`, a.Partner, a.Mail, a.Service, a.Service, a.Private, state, robin.name, robin.email, short(a.Certificate), short(a.Environment), wrap(kept))
}

// short is the path from here, where that is shorter.
func short(path string) string {
	here, err := os.Getwd()
	if err != nil {
		return path
	}
	if relative, err := filepath.Rel(here, path); err == nil && len(relative) < len(path) {
		return relative
	}
	return path
}

// wrap breaks a text after 78 columns at most.
func wrap(text string) string {
	var out strings.Builder
	column := 0
	for _, word := range strings.Fields(text) {
		switch {
		case column == 0:
		case column+1+len(word) > 78:
			out.WriteByte('\n')
			column = 0
		default:
			out.WriteByte(' ')
			column++
		}
		out.WriteString(word)
		column += len(word)
	}
	return out.String()
}
