# A fresh clone needs Go, a C compiler and make; the targets do the rest.

GO       ?= go
FUZZTIME ?= 20s
PYTHON   ?= python3

# The main module, the paper's experiments, and the tools.
MODULES = . cmd/mfgs-paper testdata

# The packages of a module that tests run for: what is in testdata/lint is a linter's.
tested = $$($(GO) list -C $(1) ./... | grep -v /testdata/lint$$)

# The version that is released next, or was last.
VERSION = 0.1.0

# Pinned here and not in go.mod: a linter is no dependency of the program.
STATICCHECK = honnef.co/go/tools/cmd/staticcheck@v0.8.2

.PHONY: build demo firstrun snippets test race lint fuzz bench peers paper spark jobs image clients shells page soak release setup toolchain

build: toolchain
	$(GO) build -o mfgs ./cmd/mfgs

# Calibrates and evaluates the digits model that ships, and shows what changed.
demo: toolchain
	$(GO) run ./cmd/mfgs demo

# What the README says to copy, from a clone to a report, with an empty HOME; downloads modules and ONNX Runtime.
firstrun: toolchain
	testdata/firstrun/run.sh

# The Python that documents show, and what it prints. In a Python environment with onnxruntime.
snippets: build setup
	$(PYTHON) testdata/firstrun/snippets.py

# The tests that need real data take it from ../shared/data where that exists.
test: setup
	@set -e; for m in $(MODULES); do \
		MFGS_REAL_DATA_REQUIRED=$(wildcard ../shared/data) $(GO) test -C $$m -timeout 30m $(call tested,$$m); done
	@[ -d ../shared/data ] || echo "NOT TESTED ON REAL DATA: there is no ../shared/data, and the tests that want it were skipped"
	@python3 -m pip --version >/dev/null 2>&1 || echo "NOT TESTED WITH PIP: there is none, and that it installs a wheel was skipped"

race: setup
	@set -e; for m in $(MODULES); do \
		MFGS_REAL_DATA_REQUIRED=$(wildcard ../shared/data) $(GO) test -C $$m -race -timeout 60m $(call tested,$$m); done

# ONNX Runtime, into the user's cache; done in a moment when it is there.
setup: toolchain
	$(GO) run ./cmd/mfgs setup

lint: toolchain
	@files=$$("$$($(GO) env GOROOT)/bin/gofmt" -l .); if [ -n "$$files" ]; then \
		echo "not formatted by gofmt:" $$files >&2; exit 1; fi
	@set -e; for m in $(MODULES); do echo "== $$m"; \
		$(GO) mod -C $$m tidy -diff; \
		$(GO) vet -C $$m ./...; \
		(cd $$m && $(GO) run $(STATICCHECK) -checks inherit,ST1000,ST1020,ST1021,ST1022 ./...); done
	$(GO) test -C testdata ./lint

# Each fuzz target of each package for FUZZTIME.
fuzz: toolchain
	@set -e; found=; for dir in $$($(GO) list -f '{{.Dir}}' ./...); do \
		for target in $$(cat $$dir/*_test.go 2>/dev/null | sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p'); do \
			found=1; echo "== $$target in $$dir"; \
			$(GO) test -run '^$$' -fuzz "^$$target\$$" -fuzztime $(FUZZTIME) \
				-fuzzminimizetime 5x $$dir; \
		done; \
	done; \
	if [ -z "$$found" ]; then echo "no fuzz target found" >&2; exit 1; fi

# A few minutes. With MFGS_BENCH_MODEL=resnet50.onnx, or another model of one float32
# input of declared sizes, calibration and prediction are timed on that as well.
bench: setup
	$(GO) test -timeout 60m -run '^$$' -bench . -benchmem ./...

# Against plain ONNX Runtime, laplace-torch, ensembles and sampling: docs/benchmarks.md.
# About half an hour, in the Python environment that testdata/peers/README.md describes.
peers: setup
	testdata/peers/run.sh

# The paper's tables and figures from the data in ../shared/data, into docs: some 30 minutes on two
# cores. They name the commit: there must be nothing that is not committed. Then
# cd cmd/mfgs-paper && go test . -run Quoted -update has README and docs/choosing.md quote them.
paper: setup
	$(GO) run -C cmd/mfgs-paper -buildvcs=true . report --data $(CURDIR)/../shared/data

# What docs/spark.md shows is run in a fresh environment with what it says to install. There Spark's workers
# are killed while they calibrate, and the bundles compared. Takes Python 3.11 and Java 17.
spark: setup
	$(PYTHON) testdata/spark/page.py

# What is in docs/kubernetes fits the schemas, and the Jobs' commands do what they say. In a Python
# environment with testdata/kubernetes/requirements.txt.
jobs: build setup
	PATH="$(CURDIR):$$PATH" $(PYTHON) testdata/kubernetes/check.py

# The page that servers show, in a real browser: its screenshots in docs/serve are made anew. Takes Node 20
# or newer and Chromium, and fetches what testdata/page/package-lock.json has.
page: build setup
	cd testdata/page && npm ci --silent --no-fund --no-audit && node --test data.test.mjs page.test.mjs

# Lines of mfgs are typed, with TABs, into the shells that are there.
shells: build
	$(PYTHON) testdata/shells/check.py ./mfgs

# Reports, in the same way: their screenshots in docs/report are made anew.
report-page: build setup
	cd testdata/page && npm ci --silent --no-fund --no-audit && node --test report.test.mjs

# The image of docs/serve/Dockerfile, without Docker, and in it the servers of docs/kubernetes. As root
# on Debian 12, in a Python environment with testdata/serve/image/requirements.txt.
image: toolchain
	$(PYTHON) testdata/serve/image/check.py

# Triton's client, KServe's and curl ask a server, and predict says what they must hear. In a Python
# environment with testdata/serve/clients/requirements.txt.
clients: build setup
	MFGS="$(CURDIR)/mfgs" $(PYTHON) testdata/serve/clients/check.py

# An hour of mixed traffic under the race detector, and then ten thousand reloads and a million requests.
soak: setup
	$(GO) run -C testdata ./serve/soak
	$(GO) run -C testdata ./serve/soak -race=false -reloads 10000 -requests 1000000
	$(GO) run -C testdata ./serve/soak -race=false -restarts 100
	$(GO) run -C testdata ./serve/soak -race=false -exchanges 10000 -workers 32

# Archives, wheels, bills of materials and checksums in dist, for all platforms: docs/release.md. Takes Linux
# on x86-64, git and Python; RELEASE=-twice builds twice and compares, RELEASE=-only=linux/amd64 one platform.
release: toolchain
	$(GO) run -C testdata ./release -version $(VERSION) -out $(CURDIR)/dist $(RELEASE)

toolchain:
	@command -v $(GO) >/dev/null || { \
		echo "mfgs needs Go 1.26 or newer: https://go.dev/doc/install" >&2; exit 1; }
	@cc=$$($(GO) env CC); \
	if [ "$$($(GO) env CGO_ENABLED)" != 1 ] || ! command -v $${cc%% *} >/dev/null; then \
		echo "mfgs calls ONNX Runtime through cgo: install a C compiler (gcc or clang) and leave CGO_ENABLED unset" >&2; exit 1; fi
