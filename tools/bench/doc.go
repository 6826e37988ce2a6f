// Command connect-bench measures connect-svc on this machine beside what PostgreSQL and net/http can do alone there.
// `make bench` runs it.
//
// Everything runs at once on one machine, in processes of their own: PostgreSQL with its default durability, the real
// `connect-svc serve` (with TLS, with TLS and the Redis limiter, and plain), a Redis, the load generator, and a net/http
// server that answers a constant. Nothing else is measured at the same time; but since other work on the machine comes
// and goes, an operation and its limit are measured right after each other, in several rounds, and what is compared are
// the medians.
//
// What is sent is real: registered clients, users and rows made in bulk by SQL, codes and tokens by internal/oauth. The
// limits send the statements of sql/, read from there by name, through pgbench's prepared mode.
//
// `make bench-isolation` asks something else of the same stage: whether what one caller does is felt by the others. It has
// bounds, and fails where they are broken. The others are a process of their own in each of its measurements, so that
// their generator costs the same with the trouble and without; the trouble comes from the program that measures.
//
//	connect-bench [-seconds 2] [-rounds 3] …   measure, print, write bin/bench.json
//	connect-bench isolation [-only regexp] …   whether callers feel each other; write bin/isolation.json
//	connect-bench compare OLD NEW              what has changed between two files
//	connect-bench load, others, constant       the other processes; connect-bench starts them
package main
