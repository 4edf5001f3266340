# Every task of this repository is a target of this file; .ci/run calls test and verify.
# It needs Go, make, git and a C compiler (for the race detector). Tools are Go modules pinned in
# tools/go.mod, built on first use and kept in Go's build cache.

TOOL    := go tool -modfile=$(CURDIR)/tools/go.mod
# config/test is left out: Helm and Prometheus take minutes to compile. It has its own targets.
MODULES := . $(filter-out config/test,$(patsubst ./%/go.mod,%,$(shell find . -mindepth 2 -name go.mod -not -path './.*')))
# Those with Go code; tools has only versions of programs.
CODE    := $(filter-out tools,$(MODULES))
TIMEOUT ?= 40m
# Arguments for the hub of make demo, as in: make demo ARGS='--clusters 3'.
ARGS    ?=
# The image that make image builds and dist/install.yaml runs.
IMG     ?= ghcr.io/clusterfx/hub:latest
# The package that make image compiles: set it for a hub of your own.
PROGRAM ?= ./cmd/hub
# For make e2e-kind: the image of kind's nodes (default: the image of kind's release), and the image of the hub.
export KIND_NODE_IMAGE HUB_IMAGE
# How many inputs make fuzz gives to each target. A duration may fail: at its end go may be in the middle of an input.
FUZZTIME ?= 500000x
# The database of vulnerabilities in Go modules for make vuln.
VULNDB  ?= https://vuln.go.dev
# Which mutants make mutants tries, as in: make mutants MUTANTS='gate fence'. Default: all.
MUTANTS ?=
# Which benchmarks make bench runs, and where; ARGS are their flags. The peer multicluster-runtime is in a Go module of its own.
BENCH   ?= .
PACKAGE ?= ./registry
MODULE  ?= .
REMOTES ?= 200

.DEFAULT_GOAL := help
.PHONY: help build controlplane test test-fleets test-examples test-all test-touched test-tunnel test-cost fuzz vuln test-config mutants e2e-kind bench bench-scale bench-table demo dist release test-release test-versions test-upgrade image push generate fmt lint verify

help: ## Print this help.
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

build: ## Compile everything.
	go build ./...

# More versions of kube-apiserver, such as 1.31, or all.
KUBERNETES ?=
controlplane: ## Build the Kubernetes binaries that tests and demo run (once, some minutes; KUBERNETES=1.31: also that kube-apiserver).
	@cd e2e/controlplane && go run . $(KUBERNETES)

# A test that fails is run twice more, alone. If it passes then, the run is green and prints FLAKE: repair the test in the same
# change or in the next one. See tools/tested.sh.
export SUM = $(TOOL) gotestsum --format pkgname-and-test-fails --hide-summary skipped
# Lends API servers to all test binaries of a run.
export SERVERS = go run ./e2e/servers $(COST)
# The packages whose tests can start an API server, those that take longest first, since go test runs packages in the order of
# its arguments. The race detector doubles what they cost: make test-all has it.
LONGEST = ./cmd/hub ./registry ./modules/objectsync ./reconcilers/cluster ./cmd/hub/app ./hubtest ./reconcilers/guard ./reconcilers/syncer
OURS   := github.com/clusterfx/clusterfx
# The packages with tests, with :fleet if these can start an API server. The first use lists them for all.
TESTS   = $(eval TESTS := $(shell go list -test -f '{{.ImportPath}}{{range .Deps}}{{if eq . "$(OURS)/e2e/fleet"}}:fleet{{end}}{{end}}' ./... | sed -nE 's/\.test(:fleet)?$$/\1/p'))$(TESTS)
FLEETS  = $(OURS)/e2e/fleet $(patsubst %:fleet,%,$(filter %:fleet,$(TESTS)))
# How many packages are tested at once: tests with API servers wait a third of their time.
AT_ONCE ?= 3

# A program with the race detector sleeps for a second before it exits, in case another thread reports a race. The tests
# of a package have ended by then.
test test-examples test-all test-touched: export GORACE ?= atexit_sleep_ms=20
# Fewer collections, for the compiler and the tests: memory for processor time. The lint of verify runs go vet.
test test-examples test-all verify: export GOGC ?= 200
# $(call nested,FLAGS) tests the nested modules.
nested = @set -e; for m in $(filter-out .,$(CODE)); do \
		if [ -n "$$(find "$$m" -name '*_test.go')" ]; then (set -x; cd "$$m" && go test -vet=off $(1) ./...); fi; \
	done

# What needs no API server runs first, with the race detector: a broken build or rule fails within three minutes.
test: controlplane ## Show each promise once, at the lowest level that can (ten minutes): real API servers, without the slow tests.
	go build ./...
	@go test -short -race -vet=off -timeout $(TIMEOUT) $(filter-out %:fleet $(FLEETS),$(TESTS))
	@$(SERVERS) $(MAKE) --no-print-directory --jobs 2 SERVERS= test-fleets test-examples

# With the pool of SERVERS, which the modules beside this one use, too.
test-fleets:
	@tools/tested.sh "$(LONGEST) $(filter-out $(LONGEST:./%=$(OURS)/%),$(FLEETS))" -short -p $(AT_ONCE) -timeout $(TIMEOUT)

test-tunnel: controlplane ## Run the tests that use hubtest with remotes behind tunnels: hubtest, the modules, entities, objects of the hub.
	HUBTEST_VIA=Tunnel $(SERVERS) go test -short -vet=off -count 1 -p 1 -timeout $(TIMEOUT) ./hubtest ./modules ./modules/objectsync ./reconcilers/entity/... ./registry/hubobjects

test-examples: controlplane ## Test the Go modules in this repository that are not the main one: examples/dns and others.
	$(call nested,-short -timeout $(TIMEOUT))

test-all: controlplane ## Run everything with the race detector: also the slow tests and the whole fault suite (hours; before a release).
	tools/tested.sh ./... -race -p 2 -timeout 4h
	$(call nested,-race -timeout $(TIMEOUT))

BASE    ?=
# How long make test-touched may take, in seconds.
BUDGET  ?= 900
test-touched: controlplane ## Run the slow tests, too, of the packages that depend on a change (BASE: since which commit; BUDGET: seconds).
	@tools/touched.sh "$(BUDGET)" $(BASE)

test-cost: COST = -cost
test-cost: test ## Like make test, and print the processor time of each package with API servers.

# Without the instrumentation of "go test -fuzz", which compiles every dependency once more, in minutes. To look for longer,
# guided by coverage: go test ./registry/internal/meter -run '^$$' -fuzz '^FuzzJSONMeter$$'
fuzz: ## Feed the meters of responses with random inputs (FUZZTIME: how many inputs per target, as 500000x).
	@set -e; dir=$$(mktemp -d); trap 'rm -rf "$$dir"' EXIT; go test -c -o "$$dir/meter.test" ./registry/internal/meter; \
	cd registry/internal/meter; for f in FuzzJSONMeter FuzzProtobufMeter; do \
		"$$dir/meter.test" -test.run '^$$' -test.fuzz "^$$f\$$" -test.fuzztime $(FUZZTIME) -test.fuzzcachedir "$$dir/cache"; \
	done

vuln: ## Look for known vulnerabilities in the code that runs, if their database can be reached (VULNDB: its URL).
	@if $(TOOL) govulncheck -mode query -format json -db $(VULNDB) stdlib@v1.20.0 >/dev/null 2>&1; then \
		set -e; for m in $(CODE); do (set -x; cd "$$m" && $(TOOL) govulncheck -db $(VULNDB) ./...); done; \
	else \
		echo "SKIPPED govulncheck: cannot reach the vulnerability database at $(VULNDB); nothing was checked"; \
	fi

test-config: ## Check the chart, the alerts and the dashboards with Helm and Prometheus (some minutes to compile).
	cd config/test && $(TOOL) golangci-lint run ./... && go test -count 1 ./... && go mod tidy -diff

mutants: controlplane ## Break the code in one place after another, and check that the tests notice (an hour and more; MUTANTS: lists or words).
	$(SERVERS) go run ./e2e/mutants $(MUTANTS)

e2e-kind: controlplane ## Install a hub in kind and test it (Docker, 4 GB; KIND_NODE_IMAGE, HUB_IMAGE: images).
	@docker version >/dev/null 2>&1 || { echo 'make e2e-kind needs a Docker daemon that this user may talk to' >&2; exit 1; }
	go test -tags e2e -count 1 -timeout 30m -run '^TestKind' ./e2e/fleet
	go test -tags e2e -count 1 -timeout 30m -v ./e2e/kind

bench: controlplane ## Repeat the measurements of docs/performance.md.
	go test -C $(MODULE) -run '^$$' -bench '$(BENCH)' -benchtime 1x -timeout 30m $(PACKAGE) $(if $(ARGS),-args $(ARGS))

# A registry with many remotes, and the peers.
ENGAGE = go test -run NONE -bench Engage/remotes=$(REMOTES)/$(1) -benchtime 1x -timeout 30m ./registry -args -remotes $(REMOTES) -bodies differ
PEERS  = go test -C modules/multiclusterruntime -run NONE -bench Remotes -benchtime 1x -timeout 30m . -args -remotes $(REMOTES) -objects 100

bench-table: controlplane ## Compare clusterfx and its peers, in turns, with benchstat (30 minutes; REMOTES: how many remotes).
	@out=$$(mktemp); trap 'rm -f "$$out"' EXIT; set -e; for turn in 1 2 3 4 5 6; do \
		$(call ENGAGE,floor); $(call ENGAGE,registry); $(PEERS); \
	done | tee "$$out"; $(TOOL) benchstat -col .fullname "$$out"

bench-scale: controlplane ## Measure a fleet that several replicas share, as in docs/operating.md (ARGS='-remotes 2000 -replicas 4').
	go test -run '^$$' -bench Scale -benchtime 1x -timeout 3h -v ./e2e/sharding $(if $(ARGS),-args $(ARGS))

# What is rehearsed is the module quota, first as it runs.
demo: REHEARSED = $(filter --rehearse,$(ARGS))
demo: controlplane ## Start a hub and remotes on this machine, with modules at work.
	go run ./$(if $(REHEARSED),examples/quota,cmd/hub) dev --apply examples/syncing/objects.yaml $(ARGS)$(if $(REHEARSED), --rehearse-config examples/quota/next.yaml)

dist: ## Write dist/install.yaml, all manifests of a management cluster (IMG: image of the hub).
	@mkdir -p dist
	go run ./cmd/hub install --export --image $(IMG) >dist/install.yaml

test-versions: controlplane ## Run a hub and remotes of each Kubernetes that is built, and write the table of docs/operating.md (KUBERNETES=all builds them).
	go test -vet=off -count 1 -timeout 60m -v -run '^TestVersions$$' ./e2e/versions -args -write

# The tag of the release before this one.
RELEASE ?= v0.1.0
test-upgrade: controlplane ## Upgrade a hub from the last release to this commit, and back (RELEASE: its tag).
	go test -vet=off -count 1 -timeout 60m -v -run '^TestUpgrade$$' ./e2e/versions -args -release $(RELEASE)

# VERSION is a tag at HEAD; KEY is a PEM file with an ed25519 key.
release: ## Make the files of a release in dist/VERSION, from its tag (VERSION=v0.1.0; KEY: the file of the key that signs).
	@go -C tools/release run . make -repository '$(CURDIR)' -version '$(VERSION)' -key '$(KEY)'

test-release: controlplane ## Make a release twice and compare the bytes, and use its Go module without a clone (many minutes; of the last commit).
	go test -C tools/release -count 1 -timeout 60m -v -run 'TestRelease_twice|TestZip_guide' . -args -long

image: ## Build the image of the hub for this machine (needs Docker; IMG: its name, PROGRAM: another hub's package).
	docker build --build-arg PROGRAM=$(PROGRAM) -t $(IMG) .

push: image ## Build the image of the hub and push it.
	docker push $(IMG)

generate: controlplane ## Write deepcopy functions, apply configurations, the CRD, the manifest of install and the generated pages, and copy the files of the chart.
	$(TOOL) controller-gen object crd applyconfiguration paths=./api/... output:crd:dir=config/crd
	$(TOOL) crd-ref-docs --config tools/apidocs/config.yaml --templates-dir tools/apidocs --renderer markdown \
		--source-path api/v1alpha1 --output-path docs/api.md --log-level ERROR
	go test ./cmd/hub/internal/command -count 1 -run '^TestDocs_AreFresh$$' -update
	go test ./cmd/hub/internal/tests -count 1 -run '^(TestManifest_IsFresh|TestManifests_HubWorks)$$' -update
	go test ./docs -count 1 -run Generated -update
	cp config/crd/clusterfx.dev_*.yaml config/admission/policy.yaml config/prometheus/rules.yaml config/prometheus/service_monitor.yaml config/chart/files/

fmt: ## Format the code (gofumpt, goimports).
	@set -e; for m in $(CODE); do (cd "$$m" && $(TOOL) golangci-lint fmt); done

lint: ## Check format, style and the import arrows.
	@set -e; for m in $(CODE); do (set -x; cd "$$m" && $(TOOL) golangci-lint run ./...); done

verify: lint vuln fuzz ## Lint, look for vulnerabilities, fuzz; check that generated and module files are fresh, and the tree is clean.
	@set -e; for m in $(MODULES); do (set -x; cd "$$m" && go mod tidy -diff); done
	@$(MAKE) --no-print-directory generate
	@git diff --exit-code HEAD
	@new=$$(git ls-files --others --exclude-standard); \
		if [ -n "$$new" ]; then echo "files that git does not know:"; echo "$$new"; exit 1; fi
