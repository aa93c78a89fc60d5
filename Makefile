# Every target explains itself: `make` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.complete
NAME ?= all
# Worker processes for pytest; the suite is bound by the processor, not by waiting.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)

.PHONY: help
help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMP)  ## create .venv with the pinned packages and every extra but gpu

$(STAMP): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"Holdtrue needs Python 3.11 or newer; $(PYTHON) is {v.major}.{v.minor}. Set PYTHON=.")'
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { apt-get update -qq && apt-get install -y -qq python3-venv; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

# What tests start for real, and the Debian package that has it.
.PHONY: packages
packages:  ## install the Debian packages that tests and benches start, where they are missing
	@missing=(); \
	command -v chromium >/dev/null || missing+=(chromium); \
	command -v java >/dev/null || missing+=(openjdk-17-jre-headless); \
	command -v wrk >/dev/null || missing+=(wrk); \
	compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null || missing+=(postgresql); \
	if [ $${#missing[@]} -gt 0 ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; \
	  then apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$${missing[@]}" >/dev/null; \
	  else echo "the tests need these Debian packages: $${missing[*]}"; fi; \
	fi

.PHONY: run
run: setup  ## open the demonstration in a browser; PORT=8000 for another port
	$(BIN)/holdtrue demo $(if $(PORT),--port $(PORT))

.PHONY: test
test: setup packages  ## run the tests, statistical ones from bits seeded by their names
	$(BIN)/python -m pytest --numprocesses $(JOBS)

.PHONY: statistical
statistical: setup  ## run the same tests on system entropy
	$(BIN)/python -m pytest --numprocesses $(JOBS) --entropy system

.PHONY: lint
lint: setup  ## lint, formatting, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: check
check: lint test docs  ## all that has to pass: lint, types, layers, tests, docs

.PHONY: format
format: setup  ## apply the formatter and the safe fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

.PHONY: docs
docs: setup  ## build the documentation into build/docs
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going -b html docs build/docs

.PHONY: bench
bench: setup  ## measure against peers, side by side; NAME=noise for one of them
	$(BIN)/python -m benchmarks $(NAME)

.PHONY: soak
soak: setup packages  ## kill, restart, race and call at length: 1,000 kills, a million steps, 10,000 looks and hostile calls
	HOLDTRUE_KILLS=1000 $(BIN)/python -m pytest tests/service/test_crashes.py
	HOLDTRUE_LOOKS=10000 $(BIN)/python -m pytest --numprocesses $(JOBS) tests/holdouts/test_kills.py
	HOLDTRUE_LOAD_SECONDS=60 $(BIN)/python -m pytest -s tests/service/test_recovery.py
	HOLDTRUE_CALLS=10000 $(BIN)/python -m pytest tests/test_hostile_calls.py
	HOLDTRUE_EDITS=1000000 $(BIN)/python -m pytest tests/engines/test_fingerprints.py
	HOLDTRUE_DRAWS=1000000 $(BIN)/python -m pytest --numprocesses $(JOBS) tests/noise/test_exactness.py
	HOLDTRUE_TABLES=42000 $(BIN)/python -m pytest tests/bounds/test_low_sensitivity.py
	HOLDTRUE_SAMPLES=40000 $(BIN)/python -m pytest --numprocesses $(JOBS) tests/auditing/test_own_mechanisms.py
	HOLDTRUE_RUNS=200 $(BIN)/python -m pytest -s tests/curator/test_units_promises.py
	HOLDTRUE_STEERED_RUNS=400 $(BIN)/python -m pytest tests/verbs/test_deducing.py
	HOLDTRUE_SOAK=1 $(BIN)/python -m pytest tests/verbs/test_watching.py
	HOLDTRUE_CLIMBS=10000 $(BIN)/python -m pytest tests/holdouts/test_gate_attacks.py
	$(BIN)/python deploy/try_install.py
	$(BIN)/python deploy/try_first_minutes.py
	HOLDTRUE_STEPS=1000000 $(BIN)/python -m pytest --numprocesses $(JOBS) tests/whole/test_curator.py tests/whole/test_holdouts.py

.PHONY: demo-picture
demo-picture: setup  ## redraw the attack picture of the README on fresh rows
	$(BIN)/python -c 'from pathlib import Path; from reproductions.attack import picture; picture(Path("docs/images/attack.svg"))'

.PHONY: pages
pages: setup  ## regenerate the pictures of bounds, the help texts and the routes that the documentation shows
	$(BIN)/python docs/pictures.py
	$(BIN)/python docs/generate.py

.PHONY: doors
doors: setup  ## print which verb goes through which door: Python, command, HTTP, client, page, agents
	@$(BIN)/python tests/test_doors.py

.PHONY: reproduce
reproduce: setup  ## write the tables of results into reports/; NAME=learn for one, DATA=folder for real data
	$(BIN)/python -m reproductions $(NAME) $(if $(DATA),--data $(DATA))

.PHONY: lock
lock: setup  ## resolve the newest allowed versions and pin them
	$(BIN)/pip-compile --quiet --upgrade --all-extras --generate-hashes --strip-extras --allow-unsafe \
	  --no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-emit-options --no-header --no-annotate \
	  --output-file requirements.lock pyproject.toml
	$(BIN)/python deploy/lock.py

.PHONY: wheels
wheels: setup  ## say for which Pythons and systems every dependency has a wheel
	$(BIN)/python deploy/check_wheels.py

.PHONY: clean
clean:  ## remove everything that was built, .venv included
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
