PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
SECONDS := 300

# A test run starts some hundred brokers: with compiled modules each of them, and pytest, starts in half the time.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test java unit soak conformance bench lint format clean

run: $(VENV)/.runtime
	@$(BIN)/openclust up --primaries 3 --secondaries 2 --base-port 5672 --cluster-key $${OPENCLUST_CLUSTER_KEY:-local}

test: lint java
	@.ci/test $(BIN)/pytest

java: $(STAMP)
	@.ci/java $(BIN)/python

unit: $(STAMP)
	@HYPOTHESIS_PROFILE=unit $(BIN)/pytest --numprocesses logical --dist worksteal -m "not sockets and not slow" --ignore tests/simulator

soak: $(STAMP)
	@$(BIN)/python -m tests.simulator --soak $(SECONDS)
	@$(BIN)/python -m tests.simulator --elections --soak $(SECONDS)
	@$(BIN)/python -m tests.fuzz.connection --seconds $(SECONDS) --from-seed $$(date +%s)
	@$(BIN)/python -m tests.fuzz.http_requests --requests 10000 --seed $$(date +%s)
	@HYPOTHESIS_PROFILE=soak $(BIN)/pytest -m "not sockets and not spark" --ignore tests/simulator

conformance: $(STAMP)
	@.ci/conformance $(BIN)/python

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
