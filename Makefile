# Every target that a person calls has its help beside its name: `make help`.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Which faults `make mutants` tries (a regular expression; empty: all).
MUTANTS ?=

# How many seconds `make test-long` gives all fuzz tests together, how many sequences it plays against the models and the
# documents, and how long the whole service is under load while what it uses is measured.
FUZZSECONDS ?= 600
RAPIDCHECKS ?= 1000
SOAK ?= 1m

# How long `make test-outage` takes PostgreSQL away.
OUTAGE ?= 60s

# How many processes `make test-requests` runs, and how many sequences of eight requests or so each of them sends.
PROCESSES ?= 2
SEQUENCES ?= 10000

# How long `make bench` measures each operation and each limit, how often, on how many connections, which of them (a
# regular expression; empty: all), and with how many rows of daily steps. PROFILES=directory takes CPU profiles, too.
# `make bench-isolation` and `make test-floods` take BENCH_ONLY for their cases.
BENCH_SECONDS ?= 1
BENCH_ROUNDS ?= 3
BENCH_CONNECTIONS ?= 1,8,32
BENCH_ONLY ?=
BENCH_STEPS_ROWS ?= 1000000
PROFILES ?=

# The service that the site of `make docs` is for.
BASE_URL ?= https://connect.example.com

# What `connect-svc version` prints: see .ci/version. Empty, it is what the Go tool knows.
VERSION ?= $(shell .ci/version 2>/dev/null)
COMMIT ?= $(shell .ci/version commit 2>/dev/null)

# The service; what partners use and copy; and the workshop, whose dependencies are not the service's.
MODULES := . sdk/go sdk/examples/partner tools

# The build tags of tests that `make test` leaves out.
TAGS := check,citus,faults,release,timed

# Go keeps what it has compiled under what went into it. Without the clone's folder in that (-trimpath), another clone compiles
# nothing again; and what is checked is compiled as `make build` does it.
AS_BUILT = CGO_ENABLED=0 GOFLAGS="$$(go env GOFLAGS) -trimpath"

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: PGO = off
demo: build ## run everything on this machine, with sample data and an example partner (Ctrl-C stops it)
	@exec bin/connect-svc demo $(ARGS)

# `make check` has go vet look at all of it, and linking takes less time without what a debugger needs. Many tests wait for a
# browser or a database most of the time: more of them run at once than there are processors.
TESTFLAGS := -vet=off -trimpath -ldflags='-s -w' -p 4 -parallel 4 -timeout 30m

# Go tests packages in the order in which they are named. Those that take longest come first, so that none is left alone at the end.
LONGEST := ./cmd/connect-svc ./internal/edge/console ./internal/edge/pages ./internal/edge/developers ./internal/local/...

# Only the program that is handed out is compiled with its profile, cmd/connect-svc/default.pgo: all its packages are compiled once more for it.
export GOFLAGS := $(strip $(shell go env GOFLAGS) -pgo=off)
PGO ?= auto

# What `make test` adds to them: `make test TESTARGS='-count 1 -shuffle on'`. CI and `make test-busy` add -race. The race
# detector doubles the time of the tests and of their compilation, so a contributor's `make test` runs without it.
TESTARGS ?=

# The race detector has each process wait for a second at its end, of which there are many: tests, and programs that they start.
export GORACE := atexit_sleep_ms=50

.PHONY: test
test: tools ## all tests of the service and of the Go SDK; TESTARGS=-race, as in CI, for the race detector
	@for module in sdk/go sdk/examples/partner; do (cd $$module && go test $(TESTFLAGS) $(TESTARGS) ./...); done
	@# With the race detector a collection costs much: fewer of them, for more memory.
	@GOGC=400 go test $(TESTFLAGS) $(TESTARGS) $(LONGEST) ./...
	@# Go remembers results, but not the table that these tests write.
	@[ -e bin/contract-coverage.txt ] || go test $(TESTFLAGS) -count 1 ./internal/edge/partner
	@cat bin/contract-coverage.txt

.PHONY: check
check: ## all else that CI runs: linters, generated code, six platforms, compatibility, packages, images, other people's tools, four PostgreSQLs
	@.ci/tools check
	@# Some of it waits or uses one processor: two at a time.
	@$(MAKE) --jobs 2 --output-sync lint verify vet platforms lint-api size
	@# Compiled as `make build` does it: the program is built once for all of them.
	@$(AS_BUILT) .ci/tagged check -vet=off -p 2 -parallel 4 -timeout 30m
	@cd tools && $(AS_BUILT) go test -tags check -vet=off -p 2 -parallel 4 -timeout 30m ./...
	@$(AS_BUILT) $(MAKE) test-postgres ON_POSTGRES='./sql ./internal/domain/oauth ./internal/domain/account ./internal/domain/activity'

.PHONY: test-busy
test-busy: tools ## all tests three times beside four busy processes, and once with GOMAXPROCS=1: none depends on the machine's speed
	@.ci/busy

.PHONY: test-long
test-long: tools ## what CI has no time for: promised time limits, an install on an empty Debian (as root), ten minutes of fuzzing, long model tests, fault storms, floods, a hot client, a soak test, and all tests three times
	.ci/long $(FUZZSECONDS) $(RAPIDCHECKS) $(SOAK)
	@for module in $(MODULES); do (cd $$module && go test -race -count 3 -timeout 60m ./...); done

.PHONY: test-faults
test-faults: tools ## a storm of faults around three servers; CONNECT_TEST_FAULTS_FOR=3m sets how long, CONNECT_TEST_FAULTS_SEED=n repeats one, CONNECT_TEST_FAULTS_PACE=3 has three times the faults; MUTANTS=all builds broken services instead, and a test or a storm must find each
	@if [ -n '$(MUTANTS)' ]; then exec go run -C tools ./mutants -storm -only '$(MUTANTS:all=)' "$(CURDIR)"; fi; \
	go test -tags faults -count 1 -timeout 0 -v -run '^TestStorm$$' ./internal/testing/storm

.PHONY: test-outage
test-outage: tools ## take PostgreSQL away for a minute behind HAProxy and nginx, while both SDKs refresh 200 connections: all must still refresh; OUTAGE=20s is shorter
	go test -tags faults -count 1 -timeout 30m -v -run '^TestOutage$$' ./internal/testing/e2e/restart -outage $(OUTAGE)

.PHONY: test-alerts
test-alerts: tools ## bring about the cause of every alert, without requests where it is a stop, and measure with Debian's Prometheus when it fires and that it ends: a quarter of an hour
	@command -v prometheus >/dev/null || { echo "there is no prometheus: install Debian's package prometheus" >&2; exit 2; }
	go test -tags faults -count 1 -timeout 45m -v -run '^TestAlertsAreProvoked$$' ./internal/testing/e2e/observability

.PHONY: test-upgrade
test-upgrade: tools ## upgrade and downgrade three servers under load on two million rows, from the last release to a made-up next one; CONNECT_TEST_UPGRADE_ROWS=n takes fewer
	go test -tags faults -count 1 -timeout 30m -v -run '^TestUpgrade$$' ./internal/testing/storm

.PHONY: test-requests
test-requests: tools ## requests generated from the partner API document, PROCESSES (2) at a time, and from the routes of all other edges: SEQUENCES (10000) each
	.ci/requests $(PROCESSES) $(SEQUENCES)

.PHONY: size
size: ## count lines, files, functions and exported names of the service, the SDKs, the tools, the helpers of tests and the tests, and fail if a bound is passed
	@go run -C tools -trimpath ./size "$(CURDIR)"

.PHONY: mutants
mutants: tools ## build the service with one deliberate fault after the other and check that a named test finds each; MUTANTS=refresh takes those whose names match
	@go run -C tools ./mutants -only '$(MUTANTS)' "$(CURDIR)"

# What `make test-postgres` tests; `make check` does a part of it. The programs have no pg_basebackup, which e2e/cluster needs.
ON_POSTGRES ?= ./sql ./internal/domain/oauth ./internal/domain/account ./internal/domain/activity ./internal/domain/webhook ./internal/domain/ratelimit ./internal/foundation/postgres/... \
	./internal/admin/usage ./internal/domain/client ./internal/admin/audit ./internal/admin/portal ./internal/app \
	./internal/testing/e2e/isolation ./internal/testing/e2e/observability ./internal/testing/e2e/restart

.PHONY: test-postgres
test-postgres: tools ## the tests of the domains and of the whole service on each PostgreSQL that is supported, which .ci/postgres fetches; ON_POSTGRES=./sql takes fewer
	@for major in $$(.ci/postgres); do echo "PostgreSQL $$major"; \
		PATH="$$(.ci/postgres $$major):$$PATH" CONNECT_TEST_POSTGRES=$$major go test $(TESTFLAGS) $(TESTARGS) $(ON_POSTGRES); done
	@echo "a database with other settings, a schema and a role of its own"
	@# Those that are left out make roles or change a table of PostgreSQL's own, which only a superuser may.
	@CONNECT_TEST_STRANGE=yes go test $(TESTFLAGS) $(TESTARGS) -skip '^(TestImportSetsForeignKeyAside|TestChangesAreNotedForWhoMayRead|TestSearchUsesIndexes)$$' \
		$(filter-out ./internal/foundation/postgres/... ./internal/app ./internal/testing/%,$(ON_POSTGRES))

.PHONY: test-citus
test-citus: tools ## the tests on a Citus cluster; CONNECT_TEST_CITUS_URLS lists its nodes, coordinator first
	@[ -n "$${CONNECT_TEST_CITUS_URLS:-}" ] || { echo "set CONNECT_TEST_CITUS_URLS to the URLs of a Citus cluster on this machine, the coordinator's first" >&2; exit 2; }
	go test -tags citus -count 1 -timeout 30m -v -run OnACluster ./sql
	go test -tags citus -count 1 -timeout 30m -v -run 'UnderLoad|BetweenNodes|OnACluster' ./internal/testing/e2e/cluster
	@# Not beside those that let a node crash.
	go test -count 1 -timeout 30m ./internal/domain/account ./internal/domain/activity ./internal/edge/operator ./internal/edge/partner \
		./internal/app ./internal/testing/e2e/... ./internal/admin/audit ./internal/domain/client ./internal/admin/lookup ./internal/domain/oauth ./internal/admin/operators ./internal/admin/servers ./internal/admin/usage \
		./internal/edge/console ./internal/edge/pages ./internal/domain/webhook

.PHONY: prove
prove: tools ## all tests and measurements on a quiet machine, and docs/proof.md of what came of it: many hours, as root, going on where it was interrupted; PROVE='alerts day' takes some
	@.ci/prove $(PROVE)

# Medians of the rounds, and what differs: of three rounds that is where all are above, or all below, those of the other.
BENCHSTAT = go run -C tools golang.org/x/perf/cmd/benchstat -alpha 0.15 -confidence 0.7

.PHONY: bench
bench: tools build ## measure throughput and latency next to bare PostgreSQL and net/http: ten minutes, writes bin/bench.txt
	@go build -C tools -trimpath -o ../bin/connect-bench ./bench
	@[ -z "$(PROFILES)" ] || go build -trimpath -tags profile -o bin/connect-svc-profile ./cmd/connect-svc
	bin/connect-bench --seconds $(BENCH_SECONDS) --rounds $(BENCH_ROUNDS) --connections $(BENCH_CONNECTIONS) --only '$(BENCH_ONLY)' \
		--steps-rows $(BENCH_STEPS_ROWS) $(if $(PROFILES),--profiles $(PROFILES) --program bin/connect-svc-profile)
	@$(BENCHSTAT) -col /of -filter '.unit:(rate/s OR rate_ratio OR p99_ms OR p99_ratio OR cpu_ms_per_request OR database_cpu_ms_per_request)' "$(CURDIR)/bin/bench.txt"
	go test -run '^$$' -bench . -benchtime 3x ./internal/domain/activity ./internal/domain/account
	go test -run '^$$' -bench . ./internal/foundation/credential ./internal/edge/partner ./internal/domain/ratelimit
	go test -run '^$$' -bench Burst -benchtime 1x -count 3 ./internal/domain/webhook
	go test -run '^$$' -bench Waiting -benchtime 50x ./internal/domain/webhook
	go test -run '^$$' -bench Import -benchtime 1x ./internal/domain/webhook

.PHONY: pgo
pgo: tools ## take the profile with which the program is compiled, of the operations of `make bench`: three minutes, writes cmd/connect-svc/default.pgo
	@go build -C tools -trimpath -o ../bin/connect-bench ./bench
	@# A profile has the path of the program that it is of.
	@made=$$(mktemp -d) && go build -trimpath -tags profile -o $$made/connect-svc ./cmd/connect-svc && \
		bin/connect-bench --seconds 3 --rounds 1 --connections 8 --steps-rows 100000 --out $$made/bench.txt --program $$made/connect-svc --profiles $$made && \
		go tool pprof -proto -output cmd/connect-svc/default.pgo $$made/*.pprof && rm -r $$made

# Measurements that have bounds. They are started at the top of the checkout, and find bin/connect-svc there.
BENCH_TEST = go test -C tools -tags faults -vet=off -trimpath -count 1 -timeout 0 -v ./bench -run

.PHONY: bench-isolation
bench-isolation: tools build ## measure whether one caller's trouble reaches others: two minutes, writes bin/isolation.json; fails if it does
	$(BENCH_TEST) '^TestIsolation$$/$(BENCH_ONLY)' -seconds 6

.PHONY: bench-costs
bench-costs: tools build ## measure what operations use (CPU of service, PostgreSQL and Redis, write-ahead log) and what users cost: three minutes, writes bin/costs.txt
	@go build -C tools -trimpath -o ../bin/connect-bench ./bench
	bin/connect-bench costs --seconds 2

.PHONY: bench-burst
bench-burst: tools build ## refresh 5,000 connections of one partner at once at two servers, beside others: one minute, writes bin/burst.json; fails if one fails or it reaches the others
	$(BENCH_TEST) '^TestIsolation$$/^burst$$' -seconds 6 -out bin/burst.json

.PHONY: test-floods
test-floods: tools build ## flood every public route without credentials, beside partners and users, and besiege a server: half an hour, writes bin/floods.json; fails if it reaches them
	$(BENCH_TEST) '^TestFloods$$/$(BENCH_ONLY)'
	go test -tags faults -vet=off -trimpath -count 1 -timeout 60m -v -run '^TestSieges$$/$(BENCH_ONLY)' ./internal/testing/e2e/restart

.PHONY: test-goodput
test-goodput: tools build ## freeze PostgreSQL under load, and ask for three times what can be done, directly and through PgBouncer: an hour; fails unless good answers come back within ten seconds
	$(BENCH_TEST) '^TestGoodput$$/$(BENCH_ONLY)'

.PHONY: test-day
test-day: tools build ## play an operator's day with 2,000,000 users and 10,000 partners, and fill a small disk, as root, by hand: ten minutes, writes bin/day.txt; fails if a step fails or is slow
	$(BENCH_TEST) '^TestDay$$'
	go test -tags faults -vet=off -trimpath -count 1 -v -run '^TestFullDisk$$' ./cmd/connect-svc

.PHONY: bench-compare
bench-compare: ## compare bin/bench.txt with an older one: make bench-compare OLD=file.txt
	@[ -n "$(OLD)" ] || { echo "usage: make bench-compare OLD=file.txt" >&2; exit 2; }
	@$(BENCHSTAT) -filter '/of:service .unit:(rate/s OR rate_ratio OR p99_ratio OR cpu_ms_per_request OR allocs_per_request OR peak_rss_mib)' \
		old="$(abspath $(OLD))" new="$(CURDIR)/bin/bench.txt"

.PHONY: vet
vet: ## gofmt, go vet, a tidy go.mod, and modules that match go.sum
	@unformatted=$$(gofmt -l $$(git ls-files --cached --others --exclude-standard '*.go')); \
	if [ -n "$$unformatted" ]; then echo "not formatted (gofmt -w): $$unformatted" >&2; exit 1; fi
	@for module in $(MODULES); do echo "go vet in $$module"; (cd $$module && go mod tidy -diff && $(AS_BUILT) go vet -tags $(TAGS) ./...); done
	@# Not in tools, where the command trips over the module that is this folder.
	@for module in . sdk/go sdk/examples/partner; do (cd $$module && go mod verify); done

.PHONY: lint
lint: ## golangci-lint, including the import rules
	@# It is pinned in a module file of its own, so that its dependencies are not ours.
	@$(AS_BUILT) go build -modfile=.golangci/go.mod -o bin/golangci-lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@for module in $(MODULES); do (cd $$module && $(AS_BUILT) "$(CURDIR)/bin/golangci-lint" run --allow-parallel-runners --build-tags $(TAGS) ./...); done

.PHONY: vulncheck
vulncheck: ## known vulnerabilities in code that is called: make vulncheck VULNDB=file:///folder, a copy of the Go vulnerability database
	@[ -n "$(VULNDB)" ] || { echo "set VULNDB to the URL of a copy of the Go vulnerability database, such as file:///srv/vulndb" >&2; exit 2; }
	@mkdir -p bin && go build -C tools -o ../bin/govulncheck golang.org/x/vuln/cmd/govulncheck
	@for module in $(MODULES); do echo "govulncheck in $$module"; (cd $$module && "$(CURDIR)/bin/govulncheck" -db "$(VULNDB)" ./...); done

.PHONY: lint-api
lint-api: ## lint the OpenAPI documents and the workflows with Redocly and Spectral
	api/lint.sh

.PHONY: compat
compat: ## list changes in api/openapi.yaml that break clients of released versions; `make check` does this, too
	go test -C tools -count 1 -v -run TestReleased ./compat

.PHONY: generate
generate: ## regenerate gen/, the generated parts of sdk/ and cmd/, and docs/settings.md
	.ci/generate
	go test ./cmd/connect-svc -count 1 -run '^TestSettingsDocument$$' -update-settings

# What `make cross` does, without making code: six builds take minutes where nothing is built yet.
.PHONY: platforms
platforms:
	@$(AS_BUILT) go run -C tools ./platforms "$(CURDIR)" ./cmd/connect-svc

.PHONY: cross
cross: ## check that the program builds for Linux, macOS and Windows, on amd64 and arm64
	@for os in linux darwin windows; do for arch in amd64 arm64; do echo "go build for $$os/$$arch"; \
		CGO_ENABLED=0 GOOS=$$os GOARCH=$$arch go build -o /dev/null ./cmd/connect-svc || exit 1; done; done

.PHONY: verify
verify: ## check that generated code is what `make generate` produces, and that a changed SDK has a new version
	@copy=$$(mktemp -d); trap 'rm -rf "$$copy"' EXIT; \
	cp -R api sql migrations gen sdk *.yaml "$$copy"; \
	.ci/generate "$$copy"; \
	diff -r gen "$$copy/gen" && diff -r sdk "$$copy/sdk" && diff cmd/connect-svc/acts.gen.go "$$copy/cmd/connect-svc/acts.gen.go" || \
		{ echo "what is generated is not what its sources make: run make generate and commit" >&2; exit 1; }
	@go test -run '^TestReleased$$' ./internal/edge/developers

.PHONY: sdk-release
sdk-release: ## keep what the SDKs are now as the version of sdk/typescript/package.json, for ever: sdk/released
	go test -count 1 -run '^TestReleased$$' ./internal/edge/developers -args -release

.PHONY: docs
docs: ## build the developers' site of a service, BASE_URL, as static files: bin/developers/index.html
	@rm -rf bin/developers
	go run ./internal/edge/developers/build bin/developers '$(BASE_URL)'

.PHONY: pages
pages: tools ## draw all pages and emails side by side, in two languages, light and dark: bin/pages/*.png
	go test -count=1 ./internal/edge/pages -run '^TestChromiumPictures$$' -pages "$(CURDIR)/bin/pages"

BUILD = CGO_ENABLED=0 go build -pgo=$(PGO) -trimpath -buildvcs=auto -ldflags '-s -w -X main.version=$(VERSION) -X main.commit=$(COMMIT)'

.PHONY: build
build: ## build bin/connect-svc, reproducibly: the same commit gives the same bytes anywhere
	GOOS=$(SYSTEM) GOARCH=$(ARCH) $(BUILD) -o bin/connect-svc ./cmd/connect-svc

# What `make build`, `make packages` and `make image` are for: a system that Go knows, and amd64 or arm64.
HOST := $(shell go env GOARCH)
ARCH ?= $(HOST)
SYSTEM ?= $(shell go env GOOS)
MAINTAINER ?= the operator of connect-svc <root@localhost>
export SOURCE_DATE_EPOCH ?= $(or $(shell git log -1 --format=%ct 2>/dev/null),0)

# The program as the service hands it out for sandboxes, which packages and the service's image have beside the program: a third of its size.
.PHONY: archive
archive: build
	@name=connect-svc_$(SYSTEM)_$(ARCH); rm -rf bin/programs && mkdir -p bin/programs/$$name && cp bin/connect-svc bin/programs/$$name/ && cd bin/programs && \
		tar --sort=name --format=ustar --owner=0 --group=0 --numeric-owner --mode='u=rwX,go=rX' --mtime=@$(SOURCE_DATE_EPOCH) -c $$name | gzip -9n >$$name.tar.gz && \
		rm -r $$name && sha256sum $$name.tar.gz >SHA256SUMS

.PHONY: packages
packages: sbom archive ## build a .deb and an .rpm with a systemd unit, completion and a manual page: bin/*.deb, bin/*.rpm
	@mkdir -p bin/package && rm -f bin/*.deb bin/*.rpm
	@# What the program says of itself it says here, whatever machine the packages are for.
	@if [ $(ARCH) = $(HOST) ]; then cp bin/connect-svc bin/package/; else $(BUILD) -o bin/package/ ./cmd/connect-svc; fi
	@bin/package/connect-svc man | gzip -9n >bin/package/connect-svc.1.gz
	@for shell in bash zsh fish; do bin/package/connect-svc completion $$shell | sed "s|$(CURDIR)/bin/package/connect-svc|/usr/bin/connect-svc|g" >bin/package/connect-svc.$$shell; done
	@.ci/documents bin/package/doc
	@go build -C tools -o ../bin/nfpm github.com/goreleaser/nfpm/v2/cmd/nfpm
	@for packager in deb rpm; do ARCH=$(ARCH) VERSION=$(VERSION) MAINTAINER='$(MAINTAINER)' \
		bin/nfpm package --config deploy/package/nfpm.yaml --packager $$packager --target bin; done

.PHONY: try-install
try-install: packages ## as root, from an empty Debian with the .deb to a partner's first read, as docs/install.md says, timed; needs a Debian mirror
	@.ci/tools debootstrap
	@deploy/package/try-on-debian.sh

# The Debian whose PostgreSQL the sandbox's image has: this machine, or for another architecture what apt fetches.
DEBIAN ?= $(if $(filter $(HOST),$(ARCH)),,bin/debian-$(ARCH))

.PHONY: image
image: sbom archive ## build OCI images, of the service and of the sandbox, without a container engine: bin/image, bin/image-sandbox
	@go build -C tools -o ../bin/connect-image ./image
	@[ -z '$(DEBIAN)' ] || .ci/debian $(ARCH) '$(DEBIAN)'
	@for kind in '' --sandbox; do bin/connect-image $$kind --root '$(DEBIAN)' --program bin/connect-svc --programs bin/programs --bill bin/connect-svc.cdx.json --version $(VERSION) \
		--commit '$(COMMIT)' --arch $(ARCH) bin/image$${kind#-}; done

.PHONY: sbom
sbom: build ## write the bill of materials of bin/connect-svc as CycloneDX JSON: bin/connect-svc.cdx.json
	go run -C tools ./sbom "$(CURDIR)/bin/connect-svc" '$(VERSION)' >bin/connect-svc.cdx.json

# SNAPSHOT=1 makes one of any commit, with a version that says so. KEY is a file with a secret key of minisign's, to sign it.
SNAPSHOT ?=
KEY ?=

.PHONY: release
release: ## make a release from a clean checkout at its tag, reproducibly: programs, packages, images, SDKs, bills, notes, checksums: bin/release
	@.ci/release '$(SNAPSHOT)' '$(KEY)'

.PHONY: tools
tools: ## find what the tests need (PostgreSQL, Redis, PgBouncer, HAProxy, nginx, Chromium, Node.js), or install it
	@.ci/tools
