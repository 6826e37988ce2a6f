// Package pgtest gives each test a PostgreSQL database of its own, migrated, in a moment: it clones a template.
//
// A package that uses it says so once:
//
//	func TestMain(m *testing.M) { pgtest.Main(m) }
//
// The server is a private one that lasts as long as the test process, or the one that CONNECT_TEST_DATABASE_URL
// names, whose user must be allowed to create databases. A test without a database fails; none is ever skipped.
//
// `make test-postgres` names the major version of a private server in CONNECT_TEST_POSTGRES, with its programs first in PATH. Then tests on
// another version fail.
//
// With CONNECT_TEST_STRANGE the service's role has few rights, its schema is not public, and each database has settings that the service
// would not choose, such as another isolation level.
//
// CONNECT_TEST_CITUS_URLS names the nodes of a Citus cluster instead, the coordinator first. Then each database is spread over
// them, and each connects to another node than the one before. Tests of what only one PostgreSQL has are passed over there
// ([NotOnCluster]).
//
// Tests may all run in parallel: they share nothing but the server. Each database has its own clock ([DB.Clock]),
// which moves SQL and Go code alike.
package pgtest
