// Package settings reads the service's settings. It owns which settings there are ([Service]), what each type of them accepts
// (types.go), and where they come from: the command line, then the environment, then the file of --config ([Source]).
//
// A flag with the tag `setting` is a setting: it can also be given as an environment variable, see [Variable]. It is optional if
// it has neither a default nor the tag's value "required". kong reads the flags; [Source.Options] makes it read settings.
//
// # Invariants
//
//   - Every problem is reported, in one line that names the setting, what was wrong and what is accepted
//     (connect-svc.TestAllBadSettingsAreTold).
//   - The value of a secret is in no problem (connect-svc.TestAllBadSettingsAreTold).
package settings

import (
	"errors"
	"os"

	"connect-svc/internal/domain/account"
	"connect-svc/internal/foundation/brand"
	"connect-svc/internal/foundation/credential"
	"connect-svc/internal/foundation/locale"
)

// Database is the setting of every command that works on the database.
type Database struct {
	DatabaseURLFile string `setting:"" again:"" type:"secret file" name:"database-url-file" placeholder:"FILE" help:"A file with the database URL in it."`
	DatabaseURL     string `setting:"required" again:"" type:"database" placeholder:"URL" help:"PostgreSQL 15 or newer (15 to 18 are tested): postgres://user:password@host:port/name (required)."`
}

// Replicas is the setting of the read replicas.
type Replicas struct {
	DatabaseReadURLFile string `setting:"" type:"secret file" name:"database-read-url-file" placeholder:"FILE" help:"A file with that URL in it."`
	DatabaseReadURL     string `setting:"" type:"replicas" placeholder:"URL" help:"Streaming replicas that may answer activity reads: postgres://user:password@host,host/name. Empty: the primary."`
}

// Keyset is the setting of the commands that seal or open the signing secrets of webhooks.
type Keyset struct {
	KeysetFile *credential.Keyring `setting:"required" type:"keyset" placeholder:"FILE" help:"The service's keyset, which seals secrets and hashes addresses."`
}

// Ring returns the keyset.
func (s Keyset) Ring() *credential.Keyring { return s.KeysetFile }

// OptionalKeyset is that of the commands that may have to.
type OptionalKeyset struct {
	KeysetFile *credential.Keyring `setting:"" type:"keyset" placeholder:"FILE" help:"The service's keyset, which seals webhook signing secrets."`
}

// Ring returns the keyset, nil if there is none.
func (s OptionalKeyset) Ring() *credential.Keyring { return s.KeysetFile }

// OptionalMailServer is that of the commands that write addresses of users.
type OptionalMailServer struct {
	SMTPURLFile string `setting:"" type:"secret file" name:"smtp-url-file" placeholder:"FILE" help:"A file with the mail server's URL in it."`
	SMTPURL     string `setting:"" type:"mail server" name:"smtp-url" placeholder:"URL" help:"The service's mail server, which is asked whether it offers SMTPUTF8 if an address is not ASCII before the @."`
}

// Mailer returns the mail server, nil if there is none.
func (s OptionalMailServer) Mailer() *account.Mailer {
	mailer, _ := account.NewMailer(s.SMTPURL, anySender) // nil: there is no URL, or its problem was reported
	return mailer
}

// OnlyIf drops the keyset if it is not needed, and reports that it is missing if it is.
func (s *OptionalKeyset) OnlyIf(needed bool, source *Source) {
	switch {
	case !needed:
		s.KeysetFile = nil
	case s.KeysetFile == nil && !source.Refused("keyset-file"):
		source.Problems = append(source.Problems, Refuse("keyset-file", "is not set", types["keyset"].accepted))
	}
}

// Look has the settings of how the pages and emails look to users.
type Look struct {
	Brand brand.Brand       `embed:"" prefix:"brand-"`
	Texts *locale.Catalogue `setting:"" again:"" type:"texts" placeholder:"FOLDER" name:"texts-dir" help:"Folder of files such as de.toml, whose texts replace the built-in ones, and add languages to the pages, the emails and the console."` // nil: the program's own
}

// ReadLogo reads a file that holds a logo, and returns its content, too.
func ReadLogo(name string) (content []byte, logo brand.Logo, err error) {
	if content, err = os.ReadFile(name); err != nil {
		return nil, logo, errors.New("is not a file that can be read")
	}
	logo, err = brand.ReadLogo(content)
	return content, logo, err
}
