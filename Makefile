# `make run` sets up and shows the product; `make test` sets up and proves it. Both start from a clean clone.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
RUNS := .venv/.runs
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable

.PHONY: setup run test lint bench chaos servers programs clean

setup: $(READY)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "streamrank needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	@$(PYTHON) -m venv .venv

$(READY): pyproject.toml constraints.txt | $(BIN)/python
	@echo 'setting up .venv, with all that tests need: some minutes' >&2
	@$(INSTALL) '.[dev]'
	@touch $(READY) $(RUNS)

$(RUNS): pyproject.toml constraints.txt | $(BIN)/python
	@echo 'setting up .venv: a minute or two' >&2
	@$(INSTALL) '.[serve]'
	@touch $(RUNS)

run: $(RUNS)
	$(BIN)/streamrank demo

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

test: lint programs
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup

bench: setup
	$(BIN)/python -m tests.bench

chaos: setup programs
	$(BIN)/python -m tests.chaos

servers: setup programs
	@$(BIN)/python -m tests.servers

programs:
	@scripts/install-programs
	@scripts/install-chromium

clean:
	rm -rf .venv build *.egg-info streamrank-demo
