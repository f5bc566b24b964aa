# Every command of the project. `make help` lists them.
SHELL := /bin/bash
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STREAM_HOME ?= $(CURDIR)/.stream
export STREAM_HOME
export DAGSTER_HOME = $(STREAM_HOME)/dagster
export DO_NOT_TRACK = 1
export PATH := $(CURDIR)/$(BIN):$(PATH)
DAYS ?= 14
SCALE ?= 1.0
WORKERS ?= 2

.PHONY: help setup run dev test e2e check bench reliability format lock clean

help: ## List the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(VENV)/.ready: requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11) or sys.version_info[:2] > (3, 12))' \
	  || { echo "Stream needs Python 3.11 or 3.12; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12"; exit 1; }
	@test -x $(BIN)/python || { echo "Making the environment in $(VENV) …"; $(PYTHON) -m venv $(VENV); }
	@command -v uv >/dev/null || $(BIN)/python -m pip install --quiet uv
	@echo "Installing the locked Python packages …"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $$(command -v uv) pip install --quiet --compile-bytecode --require-hashes -r requirements.lock
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $$(command -v uv) pip install --quiet --no-deps -e .
	@touch $@

setup: $(VENV)/.ready ## Install everything (the other targets do it by themselves)
	@stream prepare

run: setup ## Build the whole lakehouse for the days in the landing zone, with sample data if it is empty
	@stream sample --if-empty --days $(DAYS) --scale $(SCALE)
	@stream run

dev: setup ## Open the Dagster UI on http://127.0.0.1:3000
	@stream sample --if-empty --days $(DAYS) --scale $(SCALE)
	@dagster dev --workspace workspace.yaml --host 127.0.0.1 --port 3000

test: setup ## Unit and integration tests
	@pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder tests/reliability tests/integration tests/unit

e2e: setup ## Browser tests against a real Dagster UI
	@tests/e2e/install-browser
	@pytest --numprocesses $(WORKERS) --dist loadfile tests/e2e

check: $(VENV)/.ready ## Lint, format, types, SQL lint, generated files current
	@ruff check .
	@ruff format --check .
	@pyright --warnings
	@sqlfluff lint dbt_project/models --config dbt_project/.sqlfluff --disable-progress-bar
	@stream contracts lint
	@stream dbt sync --check

bench: setup ## Compare with plain PySpark and DuckDB on the same job; report in .bench
	@python -m bench

reliability: setup ## Kill runs, backfills and the engine at many points, let everything race, compare with a clean run (long)
	@STREAM_KILLS=$${STREAM_KILLS:-200} STREAM_BACKFILL_KILLS=$${STREAM_BACKFILL_KILLS:-10} \
	  STREAM_TOGETHER_S=$${STREAM_TOGETHER_S:-240} STREAM_ROUNDS=$${STREAM_ROUNDS:-100} \
	  STREAM_ESTIMATE_ROWS=$${STREAM_ESTIMATE_ROWS:-5000} \
	  pytest tests/reliability tests/integration/test_concurrency.py

format: $(VENV)/.ready ## Format Python and SQL
	@ruff check --fix --quiet . ; ruff format .
	@sqlfluff fix dbt_project/models --config dbt_project/.sqlfluff --disable-progress-bar --quiet

lock: ## Renew requirements.lock from pyproject.toml
	uv pip compile pyproject.toml --group dev --universal --generate-hashes --no-header --quiet -o requirements.lock

clean: ## Stop the engine and remove all state of this checkout
	@test ! -x $(BIN)/stream || stream engine stop || true
	@rm -rf $(STREAM_HOME) .bench .pytest_cache .ruff_cache
