package demo

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"connect-svc/internal/admin/portal"
	"connect-svc/internal/edge/console"
)

func (d *demo) screen(ctx context.Context) string {
	a := d.addresses
	kept := "Everything is deleted when the demo stops."
	if !d.config.Ephemeral {
		kept = "Everything is kept in " + short(a.Dir) + " for the next start;\nits secrets are files that only you can read."
	}
	alex, robin := d.people[0], d.people[1]
	state := alex.name + " is not connected at present."
	if d.partner.Connected(ctx, alex.key) {
		state = alex.name + " is already connected: a month of steps and rides is there to see."
	}
	engineers := "Stride Club's engineers cannot see its pages, as Stride Club is disabled."
	if _, secret, err := d.service.Portal.CreateLink(ctx, portal.NewLink{ClientID: d.partnerID, Valid: portal.MaxValid, Replace: true}); err == nil {
		engineers = "Stride Club's engineers see its refused requests and webhooks. This link opens once:\n" + a.Service + portal.LinkPath(d.partnerID, secret)
	}
	return fmt.Sprintf(`
The demo is running. Ctrl-C stops it.

  Open first    %-35s  an example partner, Stride Club
  Caught mail   %-35s  every email ends up here, with its sign-in code
  Account       %-35s  users see who reads their data, and disconnect
  Developers    %-35s  the site for partners: quick start, guides, reference
  Console       %-35s  the operator's: users, partners, the service; press Sign in
  Health        %-35s  whether the service is ready

%s
To connect someone yourself, choose %s there, then Connect; sign in as %s.

%s

Your browser warns you about the certificate once: it comes from the demo's own
authority, %s. Go on, or trust that file.

To use the commands on the demo's data: . %s
%s
`, a.Partner, a.Mail, a.Service+"/account", a.Service+"/developers/", a.Private+console.Path, a.Private+"/readyz", state, robin.name, robin.email, engineers, short(d.authority.File), short(d.path("environment")), kept)
}

// short returns the path relative to the working directory, if that is shorter.
func short(path string) string {
	here, _ := os.Getwd()
	if relative, err := filepath.Rel(here, path); err == nil && len(relative) < len(path) {
		return relative
	}
	return path
}
