package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"connect-svc/internal/brand"
	"connect-svc/internal/scope"
	"connect-svc/internal/webhook"
)

// date is a flag in the form YYYY-MM-DD: midnight in UTC.
type date struct{ time.Time }

func (d date) String() string { return d.Format(time.DateOnly) }

// UnmarshalText implements [encoding.TextUnmarshaler], as kong wants it.
func (d *date) UnmarshalText(text []byte) (err error) {
	if d.Time, err = time.Parse(time.DateOnly, string(text)); err != nil {
		return errors.New("must be a date in the form YYYY-MM-DD")
	}
	return nil
}

// instant is a flag that is a day, which stands for its midnight in UTC, or a time of RFC 3339.
type instant struct{ time.Time }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (i *instant) UnmarshalText(text []byte) error {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, string(text)); err == nil {
			i.Time = at
			return nil
		}
	}
	return errors.New("must be YYYY-MM-DD or a time such as 2026-01-31T08:00:00Z")
}

// since is an instant, or a duration back from now.
type since struct{ instant }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *since) UnmarshalText(text []byte) error {
	if back, err := time.ParseDuration(string(text)); err == nil && back > 0 {
		s.Time = time.Now().Add(-back)
		return nil
	}
	if s.instant.UnmarshalText(text) != nil {
		return errors.New("must be a duration such as 24h, a day such as 2026-11-20 or a time such as 2026-11-20T10:00:00Z")
	}
	return nil
}

// scopes is a flag that is given once for each scope.
type scopes struct{ scope.Set }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (s *scopes) UnmarshalText(text []byte) error {
	added, err := scope.Parse(string(text))
	if err != nil || s.Set&added != 0 {
		return fmt.Errorf("must be one or more of %s, each once", strings.Join(scope.All.Names(), ", "))
	}
	s.Set |= added
	return nil
}

// logoFile is a flag that names a file; an empty one is no logo.
type logoFile struct{ brand.Logo }

// UnmarshalText implements [encoding.TextUnmarshaler].
func (l *logoFile) UnmarshalText(name []byte) (err error) {
	if len(name) == 0 {
		l.Logo = brand.Logo{}
		return nil
	}
	if l.Logo, err = readLogo(string(name)); err != nil {
		return fmt.Errorf("%s %w", name, err)
	}
	return nil
}

// webhookURL is a flag or an argument that may be empty.
type webhookURL string

// UnmarshalText implements [encoding.TextUnmarshaler].
func (u *webhookURL) UnmarshalText(text []byte) error {
	*u = webhookURL(text)
	if wrong, found := errors.AsType[*webhook.URLError](webhook.ValidateURL(string(text))); found && len(text) > 0 {
		return errors.New(wrong.Problem)
	}
	return nil
}

// timeOrNull is at in UTC, or null in JSON for the zero time.
func timeOrNull(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	at = at.UTC()
	return &at
}
