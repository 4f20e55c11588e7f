PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test java unit bench lint format clean

run: $(VENV)/.runtime
	@$(BIN)/openclust up --primaries 3 --secondaries 2 --base-port 5672 --cluster-key $${OPENCLUST_CLUSTER_KEY:-local}

test: lint java
	@.ci/test $(BIN)/pytest

java: $(STAMP)
	@.ci/java $(BIN)/python

unit: $(STAMP)
	@$(BIN)/pytest -m "not sockets" --ignore tests/simulator

bench: $(VENV)/.runtime
	@$(BIN)/openclust bench --start

lint: $(STAMP)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

format: $(STAMP)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.runtime: setup.cfg pyproject.toml $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	@touch $@

$(STAMP): setup.cfg pyproject.toml $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.runtime

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
