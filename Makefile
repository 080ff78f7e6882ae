# Everything a person or a machine does with this repository, one target each.
SHELL := /usr/bin/env bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

GO ?= go
JOBS ?= 2
BIN := $(CURDIR)/bin
# The libraries insist on a semantic version.
VERSION ?= v0.1.0-$(shell git describe --always --dirty 2>/dev/null || echo unknown)
COMMANDS := $(notdir $(wildcard cmd/*))
LDFLAGS := -s -w -X k8s.io/component-base/version.gitVersion=$(VERSION)
# What make acceptance runs, and how often.
RUN ?= .
COUNT ?= 1
GOTESTFLAGS ?= -vet=off -timeout 20m -ldflags=-w

.PHONY: help
help: ## List the targets.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-12s %s\n", $$1, $$2}'

.PHONY: demo
demo: build ## Start a control plane, a controller, an API server and a proxy fleet, and show a checkpoint.
	@hack/demo.sh up

.PHONY: demo-outage
demo-outage: ## On the running demo: break what it renders from, kill the controllers, see a new proxy start, repair.
	@hack/demo-outage.sh

.PHONY: demo-env
demo-env: ## Print shell lines that point kubectl at the demo: eval "$(make -s demo-env)".
	@hack/demo.sh env

.PHONY: demo-down
demo-down: ## Stop the demo and delete everything it made.
	@hack/demo.sh down

.PHONY: test
test: build test-unit test-sim test-cluster test-integration conformance ## Run every test that CI runs.

.PHONY: test-unit
test-unit: ## Run the unit tests, with the race detector.
	@echo "test: unit tests with the race detector (the first build takes some minutes)"
	$(GO) test -p $(JOBS) -race $(GOTESTFLAGS) $$($(GO) list ./... | grep -v -e /test/integration -e /test/acceptance -e /test/conformance -e /test/aggregation -e /test/sim -e /pkg/agent/server -e /generated/)
	@echo "test: the agent against HAProxy, with the race detector"
	$(GO) test -race $(GOTESTFLAGS) ./pkg/agent/server

SCHEDULES ?= 3000
SEED ?= 1

.PHONY: test-sim
test-sim: ## Run the simulation and its named histories as CI does.
	$(GO) test -count=1 $(GOTESTFLAGS) -run '^TestScenarios$$' ./test/sim
	@$(MAKE) --no-print-directory sim

.PHONY: sim
sim: ## Simulate controllers in virtual time: make sim SCHEDULES=100000 SEED=1; a failure leaves a trace in _output/sim.
	@echo "sim: $(SCHEDULES) schedules from seed $(SEED)"
	$(GO) test -p $(JOBS) -count=1 $(GOTESTFLAGS) -timeout $$(( 10 + $(SCHEDULES) / 300 ))m -v -run '^TestSchedules$$' ./test/sim -schedules $(SCHEDULES) -seed $(SEED)

.PHONY: mutants
mutants: ## Take one guard after another out of the controllers and see the simulation notice.
	$(GO) run ./test/mutants

.PHONY: test-cluster
test-cluster: build ## Test the development cluster by itself.
	@echo "test: development cluster"
	cd test/cluster && $(GO) test -p $(JOBS) $(GOTESTFLAGS) ./internal/...
	cd test/cluster && DEVCLUSTER_BIN=$(BIN)/devcluster $(GO) test -count=1 $(GOTESTFLAGS) ./e2e

.PHONY: test-integration
test-integration: build ## Run the demo and test it against its real parts.
	@echo "test: integration with kube-apiserver, etcd, HAProxy and kubectl"
	HOLDFAST_BIN=$(BIN) $(GO) test -count=1 $(GOTESTFLAGS) -v ./test/integration/...

.PHONY: acceptance
acceptance: build ## Run the acceptance tests on a cluster of their own: make acceptance [RUN=name] [COUNT=n].
	@echo "test: acceptance with the real manifests, controllers, agents and HAProxy"
	HOLDFAST_BIN=$(BIN) $(GO) test -vet=off -ldflags=-w -timeout $$(( $(COUNT) * 20 ))m -v -run '$(RUN)' -count=$(COUNT) ./test/acceptance

.PHONY: haproxy-matrix
haproxy-matrix: ## Run the agent's tests against both supported HAProxy versions (root; builds a Debian 13 folder once).
	@hack/haproxy-matrix.sh

.PHONY: build
build: ## Build every binary into bin/.
	@mkdir -p $(BIN)
	@echo "build: product binaries"
	@for c in $(COMMANDS); do echo "  $$c"; $(GO) build -p $(JOBS) -ldflags '$(LDFLAGS)' -o $(BIN)/$$c ./cmd/$$c; done
	@echo "build: development cluster (about ten minutes with an empty cache, seconds after that)"
	@hack/build-cluster.sh $(BIN)/devcluster $(JOBS)
	@ln -sf devcluster $(BIN)/kubectl

.PHONY: generate
generate: ## Regenerate clients, deep copies, OpenAPI and custom resource definitions.
	@hack/generate.sh

.PHONY: verify
verify: ## Fail when generated code, formatting or go.mod is stale.
	@hack/verify.sh

.PHONY: lint
lint: ## Run go vet, staticcheck and the structured-logging check.
	@hack/lint.sh

.PHONY: bench
bench: build ## Run the benchmarks; ends with one line per performance target.
	@hack/bench.sh

.PHONY: conformance
conformance: build ## Compare our API server with a built-in resource, and break what lies between it and its clients.
	HOLDFAST_BIN=$(BIN) $(GO) test -p $(JOBS) -count=1 $(GOTESTFLAGS) -v ./test/conformance ./test/aggregation

SOAK ?= 10m

.PHONY: soak
soak: build ## Tamper, repair, delete and restart at random, and compare an informer with the truth: make soak SOAK=10m.
	@hack/bench.sh -only soak -soak $(SOAK) -checkpoints 100

.PHONY: test-soak
test-soak: ## The same for 20 seconds, with few checkpoints.
	@hack/bench.sh -only soak -soak 20s -checkpoints 20

SEEDS ?= 100000

.PHONY: viewcache-property
viewcache-property: ## Try random histories of streams, restarts and clients over the views: make viewcache-property SEEDS=100000.
	$(GO) test -count=1 -vet=off -timeout 0 -run '^TestClientsEndEqualToTheTruth$$' ./pkg/viewcache -viewcache.seeds $(SEEDS)
	$(GO) test -count=1 -vet=off -timeout 0 -v -run '^TestRandomHistoriesEndEqualToTheTruth$$' ./pkg/viewfeed -viewfeed.seeds $(SEEDS)
