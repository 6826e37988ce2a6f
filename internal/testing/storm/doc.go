// Package storm lets three servers run on a private PostgreSQL while everything around them fails: `make test-faults`. Its
// tests have the build tag `faults`, because they take minutes; nothing else is in it. TestUpgrade has the same load and the same
// checks. It has no faults: meanwhile the servers are replaced by those of other versions (`make test-upgrade`).
//
//	clients ──▶ proxy ──▶ server ──▶ proxy ──▶ (PgBouncer) ──▶ proxy ──▶ PostgreSQL ··▶ replica that takes over
//	                        │ ├────▶ proxy ──▶ (replica that is read)
//	                        │ └────▶ proxy ──▶ (Redis)
//	                        └──▶ receivers of webhooks
//
// Clients do everything that partners, users and the operator can, and note what they were told. Two streams of faults come
// from one seed: of processes, of the database and of its clock, one after the other, and beside them of the network. At the end
// everything heals, and what was noted is held against what is there:
//
//   - the history of each connection must have an order that explains it (package history), down to the last event and audit entry;
//   - each event arrived, always as the same bytes, and none besides;
//   - each import and batch is whole or not there, and there if it was acknowledged;
//   - no more reads were admitted than the rate policy allows, and no more ran at one time;
//   - no server ended by itself, no log holds a credential, nothing is left under way.
//
// Each other ledger has a file of its own, with those who act and the check: audit entries, users, daily steps, one-time codes, overlaps of
// secrets, receipts, partners' pages and the changes requested there, pauses of webhooks, and figures of days. The last fault loses commits (lost_test.go): it comes after the check of everything else.
//
// The seed decides the faults. How they meet the requests is up to the machine, so that a run with the same seed is
// alike, and not the same.
package storm
