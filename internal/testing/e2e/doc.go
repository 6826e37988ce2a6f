// Package e2e has the fixture of the tests of the whole service: TLS in front of all that package app puts together, a mail server, a
// partner and a user, and the faults that a test plants between them. Every answer that a backend gets is held against the contract.
//
// The tests are in a package for each promise of docs/reliability.md and docs/threat-model.md:
//
//   - isolation: one caller's trouble is its own; the rate policy is one for all servers
//   - restart: PostgreSQL, PgBouncer, proxies and servers go and come back; migrations run beside traffic; a soak
//   - standstill: whatever hangs, answers come in time (measured: build tag timed)
//   - cluster: read replicas, and Citus (build tag citus)
//   - backup: backup and restore, keysets
//   - sdk: the SDKs and other people's OAuth clients (some have the build tag check)
//   - mail: emails reach their recipients whole through other people's mail servers (build tag check)
//   - users: what becomes of users who are changed or deleted
//   - observability: metrics, alerts, traces, usage
package e2e
