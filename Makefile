# A fresh clone needs only Go, a C compiler and make.

GO       ?= go
FUZZTIME ?= 20s
PYTHON   ?= python3

# The main module, the research, and the tools.
MODULES = . cmd/mfgs-paper testdata

# The packages of a module with tests; testdata/lint is run by lint.
tested = $$($(GO) list -C $(1) -f "{{if ne .Name \"lint\"}}{{.ImportPath}}{{end}}" ./...)

# The next release, or the last one.
VERSION = 0.1.0

# Pinned here and not in go.mod: the program does not depend on a linter.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: help apidiff build pictures demo firstrun snippets test python race lint fuzz bench evidence coverage peers engines paper spark jobs image clients shells page report-page soak release setup toolchain

# Lists the targets.
help:
	@awk '/^# / {text = text (text == "" ? "" : " ") substr($$0, 3); next} \
		/^[a-z-]+:/ {if (text != "") {sub(/:.*/, ""); printf "%s\n    %s\n", $$0, text}} {text = ""}' Makefile | fold -s -w 100

# Builds the command.
build: toolchain
	$(GO) build -o mfgs ./cmd/mfgs

# Calibrates and evaluates the embedded model of digits, and prints what changed.
demo: toolchain
	$(GO) run ./internal/demo/run

# Runs the commands of the README, from a clone to a report, with an empty HOME; downloads modules and ONNX Runtime.
firstrun: toolchain
	testdata/firstrun/run.sh

# Runs the Python code in documents and checks its output. Needs a Python environment with onnxruntime.
snippets: build setup
	$(PYTHON) testdata/firstrun/snippets.py

# Runs all tests. Those on real data need ../shared/data; without it they are skipped.
test: setup
	@set -e; for m in $(MODULES); do \
		tested=$(call tested,$$m); \
		MFGS_REAL_DATA_REQUIRED=$(wildcard ../shared/data) $(GO) test -C $$m -timeout 30m $$tested; done
	@[ -d ../shared/data ] || echo "NOT TESTED ON REAL DATA: there is no ../shared/data, and the tests that want it were skipped"
	@python3 -m pip --version >/dev/null 2>&1 || echo "NOT TESTED WITH PIP: there is none, and that it installs a wheel was skipped"

# Tests the Python package in an environment of its own; says so where that cannot be had.
python: build setup
	cmd/mfgs/python/test.sh

# Runs all tests with the race detector.
race: setup
	@set -e; for m in $(MODULES); do \
		tested=$(call tested,$$m); \
		MFGS_REAL_DATA_REQUIRED=$(wildcard ../shared/data) $(GO) test -C $$m -race -timeout 60m $$tested; done

# Installs ONNX Runtime into the user's cache, unless it is there.
setup: toolchain
	$(GO) run ./cmd/mfgs setup

# Runs gofmt, go vet, staticcheck and the rules in testdata/lint.
lint: toolchain
	@files=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .); if [ -n "$$files" ]; then \
		echo "not formatted by gofmt:" $$files >&2; exit 1; fi
	@set -e; for m in $(MODULES); do echo "== $$m"; \
		$(GO) mod -C $$m tidy -diff; \
		$(GO) vet -C $$m ./...; \
		(cd $$m && $(GO) run $(STATICCHECK) -checks inherit,ST1000,ST1020,ST1021,ST1022 ./...); done
	$(GO) test -C testdata -count=1 ./lint
	@$(MAKE) --no-print-directory apidiff

# Compares the stable API, the list in testdata/lint/stable.go, with the last release, if there is one. An incompatible
# change needs a VERSION with another minor version.
apidiff:
	@last=$$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null) || { echo "no release yet: no API to compare with"; exit 0; }; \
	case v$(VERSION) in $${last%.*}.*) ;; *) exit 0 ;; esac; \
	set -e; old=$$(mktemp -d); trap 'git worktree remove --force $$old/tree; rm -rf $$old' EXIT; \
	git worktree add -q --detach $$old/tree $$last; \
	$(GO) run -C testdata ./lint/apidiff $$old/tree

# Runs each fuzz target of each package for FUZZTIME.
fuzz: toolchain
	@set -e; found=; for dir in $$($(GO) list -f '{{.Dir}}' ./...); do \
		for target in $$(cat $$dir/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p'); do \
			found=1; echo "== $$target in $$dir"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) \
				-fuzzminimizetime 5x $$dir; \
		done; \
	done; \
	if [ -z "$$found" ]; then echo "no fuzz target found" >&2; exit 1; fi

# Runs the benchmarks; takes a few minutes. MFGS_BENCH_MODEL=resnet50.onnx adds calibration and prediction of that model,
# or of another one with one float32 input of static shape.
bench: setup
	$(GO) test -timeout 60m -run '^$$' -bench . -benchmem ./...

# Repeats the measurements of docs, about twelve hours on two idle cores. Everything must be committed, since pages name
# the commit. Needs ../shared/data and the environments of coverage, peers and testdata/unknown-training-data.
#
#	docs/paper.md                  30 minutes
#	docs/evidence/choice.md        30 minutes
#	docs/evidence/decisions.md     15 minutes
#	docs/evidence/training-data.md 5 minutes
#	docs/evidence/cost.md          15 minutes
#	docs/evidence/trees.md         30 minutes
#	docs/evidence/lines.md         90 minutes
#	docs/evidence/steps.md         10 minutes
#	docs/evidence/maps.md          15 minutes
#	docs/evidence/posterior.md     3 minutes
#	docs/coverage.md               7 hours, and 45 GB of disk
#	docs/benchmarks.md             30 minutes
#	docs/evidence/float32.md       3 hours, by the commands that it names, from their logs
#	docs/engines.md                2 hours, and 30 GB of disk
#	docs/evidence/synthetic-ood.md has no command: it was measured once
evidence: work = $(or $(TMPDIR),/tmp)/mfgs-evidence
evidence: data = $(CURDIR)/../shared/data
evidence: build setup
	mkdir -p $(work)
	tar xzf $(data)/cifar10/cifar10.tar.gz -C $(work)
	$(GO) build -C testdata -buildvcs=true -o $(work) ./choice ./decisions ./cost
	$(MAKE) paper
	cd testdata && $(work)/choice -data $(data) -cifar $(work)
	cd testdata && $(work)/decisions -data $(data) -cifar $(work)
	$(PYTHON) testdata/unknown-training-data/measure.py --mfgs ./mfgs --mnist $(data)/mnist --notmnist $(data)/notmnist \
		--cifar $(work) --tinyimagenet $(data)/tinyimagenet32
	cd testdata && $(work)/cost -mfgs ../mfgs
	testdata/trees/run.sh
	testdata/lines/run.sh
	testdata/steps/run.sh
	testdata/maps/run.sh
	testdata/streams/run.sh
	testdata/posterior/run.sh
	$(MAKE) coverage
	$(MAKE) peers
	$(MAKE) engines

# Exports more than fifteen hundred classifiers, and checks mfgs with each: docs/coverage.md. Needs the Python environments of
# testdata/coverage/README.md.
coverage: build setup
	testdata/coverage/run.sh ./mfgs

# Compares with plain ONNX Runtime, laplace-torch, ensembles and sampling: docs/benchmarks.md. Takes half an hour in the
# Python environment of testdata/peers/README.md.
peers: setup
	testdata/peers/run.sh

# Runs exported models in two dozen engines: docs/engines.md. Takes hours, and 30 GB of disk in MFGS_ENGINES.
engines: setup
	testdata/engines/run.sh

# Reproduces the paper's tables and figures, from the data in ../shared/data, in 30 minutes on two cores: docs/paper.md,
# docs/paper.json and docs/paper. They name the commit, so everything must be committed. After a change of wording,
# cd cmd/mfgs-paper && go test . -run Published -update renders them again without measuring; go test -C
# testdata ./lint -run Quoted -update updates the figures that other pages quote.
paper: setup
	$(GO) run -C cmd/mfgs-paper -buildvcs=true . report --data $(CURDIR)/../shared/data

# Runs docs/scale.md's section on Spark in a fresh environment with the packages it installs, kills Spark's workers
# while they calibrate, and compares the bundles. Needs Python 3.11 and Java 17.
spark: setup
	$(PYTHON) testdata/spark/page.py

# Validates docs/kubernetes against the schemas, and runs the commands of its Jobs. Needs a Python environment with
# testdata/kubernetes/requirements.txt.
jobs: build setup
	PATH="$(CURDIR):$$PATH" $(PYTHON) testdata/kubernetes/check.py

# Tests the page of servers in a real browser, and renews its screenshots in docs/serve. Needs Node 20 or newer and
# Chromium, and downloads the packages of testdata/page/package-lock.json.
page: build setup
	cd testdata/page && npm ci --silent --no-fund --no-audit && node --test data.test.mjs page.test.mjs

# Types command lines with TABs into the installed shells.
shells: build
	$(PYTHON) testdata/shells/check.py ./mfgs

# Tests reports in the same way, and renews their screenshots in docs/report.
report-page: build setup
	cd testdata/page && npm ci --silent --no-fund --no-audit && node --test report.test.mjs

# Renews all screenshots in README and docs.
pictures: page report-page

# Builds the image of docs/serve/Dockerfile without Docker, and runs the servers of docs/kubernetes in it. Needs
# root on Debian 12, and a Python environment with testdata/serve/image/requirements.txt.
image: toolchain
	$(PYTHON) testdata/serve/image/check.py

# Compares a server's answers to Triton's client, KServe's client and curl with predict. Needs a Python environment
# with testdata/serve/clients/requirements.txt.
clients: build setup
	MFGS="$(CURDIR)/mfgs" $(PYTHON) testdata/serve/clients/check.py

# Runs an hour of mixed traffic under the race detector, then reloads, restarts and exchanges of bundles under load.
soak: setup
	$(GO) run -C testdata ./serve/soak
	$(GO) run -C testdata ./serve/soak -race=false -reloads 10000 -requests 1000000
	$(GO) run -C testdata ./serve/soak -race=false -restarts 100
	$(GO) run -C testdata ./serve/soak -race=false -exchanges 10000 -workers 32

# Makes archives, wheels, SBOMs and checksums of all platforms in dist: docs/install.md. Needs Linux on x86-64, git
# and Python. RELEASE=-twice builds twice and compares; RELEASE=-only=linux/amd64 builds one platform.
release: toolchain
	$(GO) run -C testdata ./release -version $(VERSION) -out $(CURDIR)/dist $(RELEASE)

toolchain:
	@command -v $(GO) >/dev/null || { \
		echo "mfgs needs Go 1.26 or newer: https://go.dev/doc/install" >&2; exit 1; }
	@cc=$$($(GO) env CC); \
	if [ "$$($(GO) env CGO_ENABLED)" != 1 ] || ! command -v $${cc%% *} >/dev/null; then \
		echo "mfgs calls ONNX Runtime through cgo: install a C compiler (gcc or clang) and leave CGO_ENABLED unset" >&2; exit 1; fi
