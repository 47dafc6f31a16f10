# `make run` sets up and shows the product; `make test` sets up and proves it. Both start from a clean clone.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: setup run test lint bench chaos servers programs clean

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "streamrank needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	@echo 'setting up .venv' >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

run: setup
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
