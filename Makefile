# Every entry point of the project; `.ci/run` calls the same targets.
#
# `demo` and `test` need nothing but Rust, Python 3.11+, make and (where something is missing) apt-get.
# One profile, one feature set and one target directory serve the Rust tests and the Python wheel, so the
# engine is compiled once: keep the flags of the two cargo calls below in step.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

export CARGO_TARGET_DIR ?= $(HOME)/.cache/lance-context-target
export CARGO_INCREMENTAL := 0

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
BENCH := .venvs/bench
DOCS := .venvs/docs
DOCS_READY := $(DOCS)/.ready
# How maturin finds the environment, and how pyo3 does when clippy builds it.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python
# pyright finds the installed package through the interpreter on the path.
export PATH := $(CURDIR)/$(BIN):$(PATH)

SUDO := $(if $(filter 0,$(shell id -u)),,sudo)
APT_INSTALL := $(SUDO) apt-get update -qq && $(SUDO) env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq

.NOTPARALLEL:
.PHONY: help setup tools build demo test test-rust test-python lint lint-format lint-rust lint-python dependency-direction \
	stubs wheel bench docs pictures soak clean

help: ## List the targets.
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name text; do printf '  %-12s %s\n' "$$name" "$$text"; done

tools: # System packages, where the machine lacks them; libprotobuf-dev holds the .proto files that protoc includes.
	@command -v cargo >/dev/null || { echo "Rust is missing: install it from https://rustup.rs" >&2; exit 1; }
	@command -v cc >/dev/null || { $(APT_INSTALL) build-essential; }
	@command -v protoc >/dev/null || { $(APT_INSTALL) protobuf-compiler libprotobuf-dev; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { $(APT_INSTALL) python3-venv; }

# Made anew when the list changes, so that nothing stays that is no longer on it.
$(READY): pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(BIN)/python -m pip install --quiet --group dev
	touch $@

setup: tools $(READY) ## Make .venv and install what development needs.

build: setup ## Compile the extension (debug) and install the package into .venv, editable.
	$(BIN)/maturin develop --locked --profile dev

demo: build ## An agent makes a data set of the standard library, is killed twice and resumes (under a minute once built).
	$(BIN)/lance-context demo

test: test-rust test-python ## Rust tests, then Python tests.

test-rust: setup
	cargo test --locked --workspace --exclude lance-context-python

test-python: build
	$(BIN)/python -m pytest tests

lint: lint-format lint-rust lint-python ## Formatting, lints, types, dependency direction, stub drift.

lint-format: setup dependency-direction
	cargo fmt --all --check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

# `--all-targets` checks dependencies without generating code: a second pass over them, much cheaper than the
# build. It comes before maturin, whose environment variables make pyo3 compile again at each change.
lint-rust: setup
	cargo clippy --locked --workspace --all-targets -- -D warnings

lint-python: build stubs
	git diff --exit-code -- stubs/
	$(BIN)/python -m mypy.stubtest lance_context._native
	$(BIN)/pyright
	$(BIN)/pyright --verifytypes lance_context --ignoreexternal

# Fails when crate $(1) depends on a crate whose name matches $(2), through any number of others (or as $(3) limits).
define forbid
	@tree=$$(cargo tree --locked -p lance-context-$(1) -e normal,build --prefix none -f '{p}' $(3)); \
	if grep -E '^($(2)) v' <<<"$$tree"; then echo "lance-context-$(1) must not depend on the above" >&2; exit 1; fi
endef

dependency-direction:
	$(call forbid,spec,pyo3|axum|tokio|lance|arrow|lance-context-(core|client|server|python))
	$(call forbid,core,pyo3|axum|lance-context-(client|server|python))
	$(call forbid,client,pyo3|axum|lance|lance-context-(core|server|python))
	$(call forbid,server,pyo3|lance-context-(client|python))
	$(call forbid,python,axum|lance|datafusion|object_store,--depth 1)

stubs: setup ## Regenerate stubs/ from the extension's source.
	$(BIN)/maturin generate-stubs --locked --profile dev --out stubs

wheel: setup ## Build the release wheel into dist/.
	rm -rf dist
	$(BIN)/maturin build --locked --release --strip --out dist

bench: wheel ## Run the benchmarks on the release wheel, in an environment of its own.
	test -e $(BENCH)/bin/python || $(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --force-reinstall numpy dist/*.whl
	$(BENCH)/bin/python benchmarks/run.py $(BENCH_ARGS)

$(DOCS_READY): pyproject.toml
	$(PYTHON) -m venv --clear $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --group docs
	touch $@

docs: $(DOCS_READY) ## Build the guides and the reference into site/, in an environment of their own.
	NO_MKDOCS_2_WARNING=1 $(DOCS)/bin/python -m mkdocs build --strict --clean

pictures: build ## Make the pictures of the guides again; needs chromium.
	$(BIN)/python docs/pictures.py

soak: build ## Long tests: large blobs, hundreds of kills; LANCE_CONTEXT_SOAK_EXAMPLES sets the histories (200).
	$(BIN)/python -m pytest tests -m soak -rP

clean: ## Remove what was built here; the shared $CARGO_TARGET_DIR stays (cargo clean removes it).
	rm -rf $(VENV) dist site .pytest_cache .ruff_cache .mypy_cache .hypothesis
	rm -f lance_context/_native*.so
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
