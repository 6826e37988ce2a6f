package demo

import (
	"fmt"
	"os"
	"path/filepath"
)

// screen is what there is to open, in one screen.
func (d *demo) screen() string {
	a := d.addresses
	kept := "Nothing of this is kept."
	if !d.config.Ephemeral {
		kept = "Everything is kept in " + short(a.Dir) + " and found again by the next start;\nits secrets are files that only you can read."
	}
	alex, robin := d.people[0], d.people[1]
	state := alex.name + " is not connected there at present."
	if d.partner.Connected(alex.key) {
		state = alex.name + " has been connected there for a while: steps and rides are drawn."
	}
	return fmt.Sprintf(`
The demo is running. Ctrl-C stops it.

  Open first    %-34s  an example partner, Stride Club
  Caught mail   %-34s  every email ends up here, with its sign-in code
  Account       %-34s  users see who reads their data, and disconnect
  Developers    %-34s  the site for partners: quick start, guides, reference
  Usage         %-34s  what each client asked for, in charts
  Health        %-34s  whether the service is ready

%s
To connect somebody yourself, choose %s there, then Connect; sign in as %s.

Your browser warns you about the certificate once: it comes from the demo's own
authority, %s. Go on, or trust that file.

To use the commands on the demo's data: . %s
%s
`, a.Partner, a.Mail, a.Service+"/account", a.Service+"/developers/", a.Private+"/usage", a.Private+"/readyz", state, robin.name, robin.email, short(d.authority.File), short(d.path("environment")), kept)
}

// short is the path from the working directory, if that is shorter.
func short(path string) string {
	here, _ := os.Getwd()
	if relative, err := filepath.Rel(here, path); err == nil && len(relative) < len(path) {
		return relative
	}
	return path
}
