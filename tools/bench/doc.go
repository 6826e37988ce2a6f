// Command connect-bench measures connect-svc on this machine beside what PostgreSQL and net/http can do alone there.
// `make bench` runs it.
//
//	connect-bench [--seconds 2] [--rounds 3] …   measure, print, write bin/bench.txt
//	connect-bench costs                          what operations and users cost; write bin/costs.txt
//	connect-bench constant                       a process that connect-bench starts itself
//
// # What runs
//
// Everything runs at once on one machine, in processes of their own: PostgreSQL with its default durability, the real
// `connect-svc serve` (with TLS, with TLS and the Redis limiter, and plain), a Redis, a net/http server whose responses are
// constant, and this program, which sends the requests. Requests are real: registered clients, users and rows are inserted in
// bulk by SQL, codes and tokens are issued by internal/domain/oauth.
//
// # What is compared
//
// A limit is what a request needs at least: its statements, read from sql/ by name and sent to PostgreSQL by pgbench in its
// prepared mode, or a constant response of the same size. Operations and limits are closed loops: each connection sends one
// request after the other. Other work on the machine comes and goes. So an operation and its limit are measured right
// after each other, in several rounds. Each line of bin/bench.txt is one measurement, with its ratios to the limit, in the format
// of Go's benchmarks: benchstat, Go's own tool for it, finds the medians and compares two files.
//
// Refreshes and reads of steps also have a bare handler, which sends the same statements with pgx and a constant response with net/http. The
// distance from the limit to it is the cost of a server in Go, and the distance from it to the service is ours.
//
// # Isolation
//
// Measurements that have bounds are tests, on the same stage: TestIsolation asks whether one caller's trouble reaches the others, TestFloods the
// same of requests without credentials, and TestDay plays an operator's calls in a large world. The others are an open loop in a process of their own, so that sending their requests costs the same with
// the trouble and without it. The trouble comes from this process.
package main
