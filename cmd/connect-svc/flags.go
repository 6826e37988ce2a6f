package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	openapi_types "github.com/oapi-codegen/runtime/types"
)

// date is a flag in the form YYYY-MM-DD: midnight in UTC.
type date struct{ openapi_types.Date }

// UnmarshalText implements [encoding.TextUnmarshaler], as kong wants it.
func (d *date) UnmarshalText(text []byte) (err error) {
	if d.Time, err = time.Parse(time.DateOnly, string(text)); err != nil || d.Year() < 1900 {
		return errors.New("must be a date in the form YYYY-MM-DD, from 1900-01-01 to 9999-12-31")
	}
	return nil
}

// param is the date as an optional field, nil if it was not given.
func (d *date) param() *openapi_types.Date {
	if d == nil {
		return nil
	}
	return &d.Date
}

// param is a text as an optional parameter or field, nil if it is empty.
func param(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// instant is a flag that is a day, which stands for its midnight in UTC, or a time of RFC 3339.
type instant struct{ time.Time }

func (i *instant) UnmarshalText(text []byte) error {
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if at, err := time.Parse(layout, string(text)); err == nil {
			i.Time = at
			return nil
		}
	}
	return errors.New("must be YYYY-MM-DD or a time such as 2026-01-31T08:00:00Z")
}

// param is the instant as a parameter of the operator API, nil if it was not given.
func (i instant) param() *string {
	if i.IsZero() {
		return nil
	}
	return new(i.UTC().Format("2006-01-02T15:04:05.999999Z"))
}

// since is an instant, or a duration back from now.
type since struct{ instant }

func (s *since) UnmarshalText(text []byte) error {
	if days, is := strings.CutSuffix(string(text), "d"); is {
		if n, err := strconv.Atoi(days); err == nil && n > 0 {
			s.Time = time.Now().AddDate(0, 0, -n)
			return nil
		}
	}
	if back, err := time.ParseDuration(string(text)); err == nil && back > 0 {
		s.Time = time.Now().Add(-back)
		return nil
	}
	if s.instant.UnmarshalText(text) != nil {
		return errors.New("must be a duration such as 24h or 30d, a day such as 2026-11-20 or a time such as 2026-11-20T10:00:00Z")
	}
	return nil
}
