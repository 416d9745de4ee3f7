# Verbs for people and for .ci/run. `make` alone lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL: # pip and cargo each use what cores there are

# What the shell happens to have active must not leak into our own environment.
unexport PYTHONPATH PYTHONHOME VIRTUAL_ENV CONDA_PREFIX

VENV := .venv
RELEASE := .venv-release
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
PIP_INSTALL := $(PIP) install --quiet --progress-bar off
# One interpreter for PyO3's build script, whoever calls cargo: it would be rebuilt otherwise.
export PYO3_PYTHON := $(abspath $(BIN)/python)

# Zig links against the symbols of an old glibc, so that the wheel runs on machines older than this
# one; maturin refuses to build what would not. The unwinder must be the system's, and not zig's own:
# docs/decisions/dependencies.md says why.
ifeq ($(shell uname -s),Linux)
QUICK := --compatibility linux --auditwheel skip
PORTABLE := --zig --compatibility manylinux_2_28
UNWINDER = -- -C link-arg=$(realpath $(shell cc -print-file-name=libgcc_s.so.1))
endif

# A directory is newer than the wheel when a file in it was added or removed.
SOURCES := Cargo.toml Cargo.lock pyproject.toml README.md LICENSE \
  $(shell find rust \( -name '*.rs' -o -name Cargo.toml -o -type d \) -not -path '*/target*') \
  $(shell find docs examples -type f -not -name "*.pyc") $(shell find python -name __pycache__ -prune -o \( -type f -o -type d \) -not -name '*.so' -print)

##@ Use

.PHONY: help
help: ## List the verbs
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@ / { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z-]+:.*## / { printf "  make %-18s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

.PHONY: run
run: $(VENV)/.stamp-wheel ## Build and install the wheel, make demo shards, train on them, stop and resume
	$(BIN)/gristmill demo $(ARGS)

##@ Check

# With the flags of the wheel's build, which leaves little to compile.
CARGO_TEST := cargo test --locked --profile quick --package gristmill-audio --package gristmill-core --package gristmill-fuzz

SHUTTLE_TEST := cargo test --locked --profile quick --package gristmill-core --lib --features shuttle
PYTEST_OPTIONS := --numprocesses=3 --dist=worksteal --benchmark-disable

.PHONY: rust-tests
rust-tests:
	$(CARGO_TEST) --no-run
	$(SHUTTLE_TEST) --no-run

.PHONY: test
test: $(VENV)/.stamp-wheel $(VENV)/.stamp-test ## What each change must pass: all behaviour, the Python tests against the installed wheel
	GRISTMILL_FUZZ_ROUNDS=150 $(CARGO_TEST)
	SHUTTLE_ROUNDS=300 $(SHUTTLE_TEST) shuttle
	$(BIN)/python -m pytest $(PYTEST_OPTIONS) $(ARGS)

.PHONY: test-all
test-all: $(RELEASE)/.stamp-release ## The gate before a release: full rounds, other processors, Grain's own tests, benches; on the wheel for others
	$(CARGO_TEST)
	$(SHUTTLE_TEST) shuttle
	cargo clippy --locked --profile quick --package gristmill-core --lib --tests --features shuttle -- -D warnings
	cargo test --locked --profile quick --package gristmill-benches --benches
	$(RELEASE)/bin/python -m pytest $(PYTEST_OPTIONS) -m "gate or not gate" --hypothesis-profile=full $(ARGS)

.PHONY: dev
dev: $(VENV)/.stamp-test ## Run the tests nearest to what has changed since the last commit, in seconds
	$(BIN)/python scripts/dev.py $(ARGS)

.PHONY: lint
lint: $(VENV)/.stamp-wheel $(VENV)/.stamp-test $(VENV)/.stamp-lint ## Check formatting, lints, types, the stub, licences and file lengths
	scripts/rust_lint.sh & rust=$$!; \
	$(BIN)/ruff check .; \
	$(BIN)/ruff format --check .; \
	$(BIN)/basedpyright; \
	$(BIN)/python -m mypy.stubtest gristmill._core --mypy-config-file pyproject.toml \
	  --allowlist scripts/stubtest-allow.txt --ignore-unused-allowlist; \
	$(BIN)/python scripts/check_length.py; \
	$(BIN)/python scripts/check_licences.py; \
	wait $$rust

.PHONY: format
format: $(VENV)/.stamp-lint ## Rewrite the sources in the project's format
	cargo fmt --all
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

##@ Document

SITE := target/site

.PHONY: docs
docs: $(VENV)/.stamp-wheel $(VENV)/.stamp-docs ## Build the site in target/site/html, and check spelling; a warning is an error
	$(BIN)/python scripts/site/stage.py $(SITE)/source
	$(BIN)/sphinx-build -q -W --keep-going -n -b html -c scripts/site -d $(SITE)/doctrees \
	  $(SITE)/source $(SITE)/html
	$(BIN)/codespell README.md CONTRIBUTING.md CHANGELOG.md docs examples scripts $$(find python -name '*.py')
	@echo $(SITE)/html/index.html

##@ Measure

# What is measured is the wheel that others get.
BENCH := $(RELEASE)/bin/python -m pytest benches
CARGO_BENCH := cargo bench --locked --package gristmill-benches

.PHONY: bench
bench: bench-native bench-jobs ## Both of these: an hour; with ARGS=--quick a quarter of it

.PHONY: bench-native
bench-native: ## Time the native stages
	$(CARGO_BENCH) --bench audio --bench core

.PHONY: bench-jobs
bench-jobs: $(RELEASE)/.stamp-release ## Measure jobs, each beside its peers
	$(BENCH) $(ARGS)

.PHONY: bench-counts
bench-counts: ## Count the native stages' instructions, beside those of the last time
	GUNGRAUN_RUNNER="$$(scripts/gungraun.sh)" $(CARGO_BENCH) --features counts \
	  --bench audio-counts --bench core-counts -- $(ARGS)

.PHONY: bench-audio
bench-audio: $(RELEASE)/.stamp-release ## Measure each codec beside its peers, on one thread
	$(BENCH)/bench_audio.py $(ARGS)

.PHONY: bench-read
bench-read: $(RELEASE)/.stamp-release ## Measure reading alone: rows, tokens, opening, memory
	$(BENCH)/bench_read.py benches/bench_memory.py $(ARGS)

.PHONY: bench-parquet
bench-parquet: $(RELEASE)/.stamp-release ## Measure Parquet beside Arrow, Grain and `datasets`
	$(BENCH)/bench_parquet.py $(ARGS)

.PHONY: bench-slow-storage
bench-slow-storage: $(RELEASE)/.stamp-release ## Measure steps over storage with latency and a cap, also with an audio index
	$(BENCH)/bench_slow_storage.py benches/bench_audio_index.py --plots docs $(ARGS)

.PHONY: bench-remote
bench-remote: $(RELEASE)/.stamp-release ## Measure shards behind URLs beside `datasets` streaming, LitData and Mosaic Streaming
	$(BENCH)/bench_remote.py $(ARGS)

.PHONY: bench-order
bench-order: $(RELEASE)/.stamp-release ## Measure what order, states and resuming cost
	$(BENCH)/bench_order.py $(ARGS)

##@ Build

.PHONY: wheel
wheel: dist/.stamp ## Build dist/gristmill-*.whl for others: optimized as a whole, and for older systems
	@ls dist/*.whl

.PHONY: sdist
sdist: $(VENV)/.stamp-tools ## Build dist/gristmill-*.tar.gz, from which pip builds where no wheel fits
	rm -f dist/*.tar.gz
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/maturin sdist --out dist
	@ls dist/*.tar.gz

##@ Release

.PHONY: release-check
release-check: wheel sdist check-dist workflows ## All that a release is checked by and that runs here: a fresh build, installed and tried
	for file in dist/*; do scripts/try.sh $$file; done

.PHONY: try
try: ## Install FILE, a wheel or an sdist, into a fresh environment and try it; with TESTS=1 run the tests on it
	TESTS=$(TESTS) scripts/try.sh $(FILE)

.PHONY: check-dist
check-dist: $(VENV)/.stamp-release-tools ## Check what PyPI would show of the files in dist
	$(BIN)/python -m twine check --strict dist/*

.PHONY: workflows
workflows: $(VENV)/.stamp-release-tools ## Check the workflow files: against their schema, and for what is unsafe
	$(BIN)/check-jsonschema --builtin-schema vendor.github-workflows .github/workflows/*.yml
	$(BIN)/check-jsonschema --builtin-schema vendor.dependabot .github/dependabot.yml
	$(BIN)/zizmor --offline --quiet .github

.PHONY: msrv
msrv: $(VENV)/.stamp-tools ## Check the sources with the oldest compiler that Cargo.toml allows
	version=$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml); \
	rustup toolchain install --profile minimal $$version; \
	cargo +$$version check --locked --workspace

##@ Clean

.PHONY: clean
clean: ## Remove what the other verbs made
	rm -rf $(VENV) $(RELEASE) target dist demo-data .benchmarks .pytest_cache .ruff_cache .mypy_cache .hypothesis

# The stamps live in the environment that they speak of, and vanish with it.

$(VENV)/.stamp-tools: scripts/need.sh
	@python=$$(scripts/need.sh); rm -rf $(VENV); set -x; "$$python" -m venv $(VENV)
	$(PIP_INSTALL) --upgrade 'pip>=25.1' 'maturin>=1.9.4,<2'
	@touch $@

# What is installed is the wheel, never the working tree: what runs here is what others get.
$(VENV)/.stamp-wheel: $(VENV)/.stamp-tools $(SOURCES)
	@scripts/need.sh > /dev/null
	rm -rf target/wheels
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/maturin build --locked --profile quick $(QUICK) --interpreter $(PYO3_PYTHON)
	$(PIP_INSTALL) "$$(echo target/wheels/gristmill-*.whl)[demo]"
	$(PIP_INSTALL) --force-reinstall --no-deps target/wheels/gristmill-*.whl
	@touch $@

dist/.stamp: $(VENV)/.stamp-tools $(SOURCES)
	$(PIP_INSTALL) 'ziglang>=0.14'
	rm -f dist/*.whl
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/maturin build --locked --release --out dist $(PORTABLE) \
	  --interpreter $(PYO3_PYTHON) $(UNWINDER)
	@touch $@

# The wheel for others, with the benches' peers.
$(RELEASE)/.stamp-release: dist/.stamp pyproject.toml
	$(MAKE) VENV=$(RELEASE) $(RELEASE)/.stamp-tools $(RELEASE)/.stamp-bench \
	  $(RELEASE)/.stamp-docs $(RELEASE)/.stamp-engines $(RELEASE)/.stamp-release-tools
	$(RELEASE)/bin/python -m pip install --quiet "$$(echo dist/gristmill-*.whl)[demo]"
	$(RELEASE)/bin/python -m pip install --quiet --force-reinstall --no-deps dist/gristmill-*.whl
	@touch $@

# Not the group's own name: `.stamp-release` is the wheel for others.
$(VENV)/.stamp-release-tools: pyproject.toml $(VENV)/.stamp-tools
	$(PIP_INSTALL) --group release
	@touch $@

$(VENV)/.stamp-%: pyproject.toml $(VENV)/.stamp-tools
	$(PIP_INSTALL) --group $*
	@touch $@
