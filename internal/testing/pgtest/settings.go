package pgtest

import (
	"context"
	"net/url"
	"os"
)

// strange says whether the databases of the tests are as an operator may have made them, and the service would not. The service's role
// owns the database and has no other rights, its schema is not public, and the database has settings of its own.
func strange() bool { return os.Getenv("CONNECT_TEST_STRANGE") != "" }

const strangeRole = "connect_strange"

// prepare makes a new database a strange one, if the tests are to have such. schema is false for a copy, which has it.
func (n nodes) prepare(ctx context.Context, database string, schema bool) error {
	if !strange() {
		return nil
	}
	if err := n.exec(ctx,
		`do $$ begin create role `+strangeRole+` login password 'strange'; exception when duplicate_object or unique_violation then null; end $$`,
		"alter database "+database+" owner to "+strangeRole,
		"alter database "+database+" set search_path = service, public",
		"alter database "+database+" set default_transaction_isolation = serializable",
		"alter database "+database+" set datestyle = 'SQL, DMY'",
		"alter database "+database+" set intervalstyle = iso_8601",
		"alter database "+database+" set bytea_output = escape",
		"alter database "+database+" set timezone = 'Asia/Kathmandu'",
	); err != nil || !schema {
		return err
	}
	there, err := n.connect(ctx, database)
	if err != nil {
		return err
	}
	defer there.close()
	return there.exec(ctx, "create schema service authorization "+strangeRole)
}

// serviceURL is the address of a database for the service and its tests.
func (n node) serviceURL(database string) string {
	address := urlOf(n.url, database)
	if !strange() {
		return address
	}
	parsed, err := url.Parse(address)
	if err != nil {
		panic(err) // it was connected to
	}
	parsed.User = url.UserPassword(strangeRole, "strange")
	return parsed.String()
}
