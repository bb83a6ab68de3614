# Atoll's commands for people and for CI. `make` explains them.
#
# On a fresh machine only Go is needed: programs of other projects come from `bin/atoll-sandbox parts`, which builds and
# fetches them into its cache, and developer tools from the module test/tools, which pins their versions.

# A recipe's failure is a failure, also in a pipe; and nobody else's Go settings decide what is built. All is built in one way, so that nothing
# is compiled twice: no C library is linked, so that the programs run wherever they are copied to. (The race detector needs C.)
SHELL       := bash
.SHELLFLAGS := -euo pipefail -c
MAKEFLAGS   += --no-print-directory
export PATH := $(PATH):/usr/local/go/bin
export GOWORK := off
export GOFLAGS := -trimpath
export CGO_ENABLED := 0

PROGRAMS := atoll-controller atoll-inspect atoll-agent atoll-dns atoll-cni atoll-ovn atoll-probe atoll-sandbox atoll
FUZZTIME ?= 5s
SCALE    ?= -soak=60s
TENANTS  ?=
REGISTRY ?=
TAGS     ?=
FRESH    ?=
SERVICES ?=
CONFORMANCE ?= -network=default,vpc
HISTORIES ?= 200000
POLICY   ?= -clusters=200
PACKETS  ?= -packets=10000
REBUILD  ?= -pods=1000
CHURN    ?= -duration=10m -pods=60
PATHS    ?= 2000
SEED     ?=

# Go stamps each program with the version that git gives the source (`go version -m bin/atoll-agent`).
# The compiler collects garbage less often than it would: that saves a sixth of its time.
build_go = GOGC=300 go build -ldflags "-s -w"
suites   = go run ./test/suites -fuzztime=$(FUZZTIME)
# What is random is drawn by SEED, or anew.
seed     = ATOLL_SEED=$(or $(SEED),$$RANDOM)
# A worktree of git's has no directory .git, by which Go knows what to stamp: it is built in a clone.
build_in = $(if $(wildcard .git/HEAD),echo .,go run ./images/release source)
# tool builds a developer tool, which Go keeps in its cache, and is its path.
tool     = "$$(cd test/tools && go tool -n $(1))"

.DEFAULT_GOAL := help
.PHONY: help
help: ## explain these commands
	@awk -F ':.*## ' '/^##@/ { printf "\n%s\n", substr($$0, 5) } /^[a-z0-9-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

##@ See it
.PHONY: demo demo-tenants demo-down
demo: build ## two Networks of the same addresses, on a real cluster on this machine (as root)
	go run ./test/demo

demo-tenants: build ## three tenants of the same addresses, one of whom serves the others: who reaches whom, as whom (as root)
	go run ./test/demo -example=tenants

demo-down: build ## remove the demo's cluster; only its cache stays
	bin/atoll-sandbox down

##@ Build
.PHONY: build images push generate fix
build: ## the programs, into bin/
	source="$$($(build_in))"; cd "$$source"; $(build_go) -o "$(CURDIR)/bin/" $(addprefix ./cmd/,$(PROGRAMS))

images: ## container images for clusters, into bin/images, without Docker; FRESH=1 fetches Debian's newest packages
	go run ./images/release build $(if $(FRESH),-fresh)

push: ## what make images made, to a registry: REGISTRY=registry.example.com/atoll; TAGS=latest,stable are further tags
	go run ./images/release push -registry="$(REGISTRY)" -tags="$(TAGS)"

generate: ## what is made from pkg/apis (deep copies, CustomResourceDefinitions, tables of docs/api), OVN's schema (row types) and alerts (PrometheusRule)
	$(call tool,controller-gen) object crd paths=./pkg/apis/... output:crd:dir=dist/crds
	go run ./test/rowgen pkg/ovn/nb/zz_generated.rows.go
	go test -count=1 -run='^TestPrometheusRule$$' ./test/monitoring -update
	go test -count=1 -run='^TestAPIPages$$' ./test/docs -update

fix: ## format, and mend what the linter can mend by itself
	$(call tool,gofumpt) -w cmd pkg test images
	$(call tool,golangci-lint) run --fix ./...

##@ Test
.PHONY: check test test-all verify lint test-unit race histories mutations test-integration policy policy-packets test-e2e losses rebuild churn explain-packets conformance conformance-gateway test-kernel test-images fuzz bench bench-portholes bench-services bench-rows scale scale-tenants vulnerabilities
check: ## without root: generated files, the linter, and tests that need nothing else; what has not changed comes from Go's cache
	$(suites) verify lint quick

test: build ## the gate (as root): each promise once, by fixed seeds; a test that fails is run again alone, and the summary tells
	$(suites) verify lint unit integration,e2e+conformance alone

test-all: FUZZTIME = 10m
test-all: build ## everything (as root), by fresh seeds: hours; the gate, what is too slow for it, fuzzing, promised times twenty times each
	$(suites) -all verify lint unit integration,e2e+conformance alone times unsteady kernel fuzz long

verify: ## generated files, formatting and go.mod
	$(suites) verify

lint: ## the linter, with go vet's checks, which also holds the direction of imports
	$(suites) lint

test-unit: ## tests that need nothing else, with the race detector
	$(suites) unit

race: test-unit ## the same: the race detector is always on there

histories: ## 200,000 random histories of a cluster, each seen in six ways; HISTORIES=1000000 is more
	go test -count=1 -timeout=0 -v -run='^TestAnyHistoryEndsAsAFreshStart$$' ./pkg/controller/decide -rapid.checks=$(HISTORIES)

mutations: ## bugs of state put back, one at a time: random histories find each; five minutes
	go run ./test/mutations

test-integration: build ## tests against a real API server, OVN and Open vSwitch (as root)
	$(suites) integration alone

policy: ## what OVN does with 10,000 random packets under network policy, and what the API says; POLICY="-clusters=2000 -seed=7000" is more (as root)
	go run ./test/suites -exec go test -tags integration -count=1 -timeout=0 -v -run 'TestRandom$$' ./test/policy/agree $(POLICY)

policy-packets: ## the same of real packets between two nodes: 10,000; PACKETS="-packets=100000 -seed=7000" is more (as root)
	go run ./test/suites -exec go test -tags integration -count=1 -timeout=0 -v -run 'TestRandomWithPackets$$' ./test/policy/agree $(PACKETS)

test-e2e: build ## tests on a cluster of three nodes on this machine, and those of suite alone (as root)
	$(suites) e2e alone

losses: build ## what is lost while each part is replaced, upgraded or rebuilt, a node is drained and the authorities change, under 1,000 connections: half an hour (as root)
	go run ./test/suites -exec go test -tags e2e -count=1 -timeout=60m -v -run='^TestRolled$$' ./test/e2e/installed -losses

rebuild: build ## both databases are lost and rebuilt with 1,000 pods, whose number REBUILD="-pods=3000" changes; what running pods lose: ten minutes (as root)
	go run ./test/suites -exec go test -tags integration -count=1 -timeout=60m -v -run='^TestRebuild$$' ./pkg/daemons/central $(REBUILD)

churn: build ## pods come and go in four Networks while members of the databases are killed at random: ten minutes; CHURN="-duration=1h -pods=300" SEED=7 is more, and a certain draw (as root)
	$(seed) go run ./test/suites -exec go test -tags e2e -count=1 -timeout=0 -v -run='^TestChurn$$' ./test/e2e/installed $(CHURN)

explain-packets: build ## what atoll explain says of 2,000 random paths, what real packets do, and what ovn-trace says; PATHS=4000 SEED=7 is more, and a certain draw (as root)
	$(seed) ATOLL_TIER=all go run ./test/suites -exec go test -tags e2e -count=1 -timeout=60m -v -run='^TestRandomCompatibility$$' ./test/e2e/hostile -paths=$(PATHS)

conformance: build ## Kubernetes' own network and probe tests, in both kinds of Network; CONFORMANCE="-network=vpc -focus=DNS" is a part (as root)
	go run ./test/conformance $(CONFORMANCE)

conformance-gateway: build ## upstream's conformance tests of Gateway API, as far as they apply (as root)
	$(suites) -exec go run ./test/conformance/gateway

test-kernel: ## tests of packets on the kernel's datapath, in a kernel of their own; the first time builds it (as root)
	$(suites) kernel

test-images: ## all images of this commit, built twice in two directories: the same, and their programs start (as root)
	go test -tags integration -count=1 -timeout=60m -v -run='^TestImages$$' ./images/release -twice

fuzz: ## each fuzz test for FUZZTIME (5s)
	$(suites) fuzz

bench: build ## pods per second and the time of each, through a real API server (as root)
	go run ./test/suites -exec go run ./test/bench

bench-portholes: build ## what it costs that 100 Networks of the same addresses meet their nodes, with 500 pods: twenty minutes (as root)
	go run ./test/suites -exec go run ./test/bench/portholes

bench-services: build ## 1,000 Services in 100 Networks, and what asking through one costs: five minutes (as root)
	go run ./test/suites -exec go run ./test/bench/services $(SERVICES)

bench-rows: ## what a Network, a pod and a Service cost in OVN: logical flows by table, and bytes: a minute (as root)
	go run ./test/suites -exec go test -tags integration -count=1 -v -run TestWhatANetworkCosts ./pkg/controller/decide

scale: build ## the targets at 10,000 pods in 200 Networks, and tenants: twenty minutes; SCALE="-pods=50000 -networks=1000" is the full size (as root)
	go run ./test/suites -exec go run ./test/scale $(SCALE)
	go run ./test/suites -exec go run ./test/scale/tenants $(TENANTS)

scale-tenants: build ## what 200 tenants cost, 500 Networks that use one, and 32 that are joined; TENANTS="-tenants=10 -consumers=20" is less (as root)
	go run ./test/suites -exec go run ./test/scale/tenants $(TENANTS)

vulnerabilities: ## known vulnerabilities in what we import (asks vuln.go.dev)
	$(call tool,govulncheck) ./...

##@ Clean
.PHONY: clean
clean: ## remove bin/
	rm -rf bin
