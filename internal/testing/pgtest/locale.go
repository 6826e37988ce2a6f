package pgtest

import (
	"context"
	"testing"

	"connect-svc/internal/foundation/postgres/migrate"
)

// Locales are the kinds of databases that operators make, by what `create database` says. lower() and the order of texts differ on all of them:
// in C only ASCII has cases, and in Turkish the small I is ı.
var Locales = map[string]string{
	"C SQL_ASCII": "encoding 'SQL_ASCII' locale 'C'",
	"C UTF8":      "encoding 'UTF8' locale 'C'",
	"tr-TR ICU":   "encoding 'UTF8' locale 'C' locale_provider icu icu_locale 'tr-TR'",
	"en-US ICU":   "encoding 'UTF8' locale 'C' locale_provider icu icu_locale 'en-US'",
}

// NewIn gives t a migrated database of a kind of [Locales].
func NewIn(t testing.TB, kind string) *DB {
	t.Helper()
	return NewWith(t, Locales[kind])
}

// NewWith gives t a migrated database that `create database` makes with options.
func NewWith(t testing.TB, options string) *DB {
	t.Helper()
	NotOnCluster(t, "all nodes of a cluster have one locale")
	db := create(t, "template0 "+options)
	if _, err := migrate.Apply(context.Background(), db.URL, migrate.Up); err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	return db
}
