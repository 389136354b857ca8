# The one list of commands. `make help` prints it.

.DEFAULT_GOAL := help
.PHONY: help setup lint format types test test-unit test-sqlite test-second-python acceptance soak coverage sweep \
	simulate simulate-shares model demo docs bench clean

# More options for pytest: make test-unit ARGS="-k lease"
ARGS ?=

# How long one soak lasts: make soak MINUTES=10
MINUTES ?= 1

PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	"$$p" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo "$$p" && break; done)
SECOND_PYTHON ?= $(shell for p in python3.13 python3.12 $(HOME)/.pyenv/versions/3.13*/bin/python \
	$(HOME)/.pyenv/versions/3.12*/bin/python; do \
	"$$p" -c 'import ensurepip' 2>/dev/null && echo "$$p" && break; done)

# mysqlclient has no wheels for Linux: it is built, from the client library's headers.
CAN_BUILD_MYSQLCLIENT := $(shell pkg-config --exists libmariadb 2>/dev/null || pkg-config --exists mysqlclient \
	2>/dev/null && echo yes)
MYSQL_EXTRA := $(if $(CAN_BUILD_MYSQLCLIENT),-mysql)

PIP_INSTALL = -m pip install --quiet --disable-pip-version-check --editable
BIN := .venv/bin
BELOW_ACCEPTANCE := tests/unit tests/properties tests/contract tests/integration
comma := ,
# Named after what is in it: with the headers installed later, the next command installs the rest.
STAMP := .venv/installed$(MYSQL_EXTRA)
SECOND_STAMP := .venv-second/installed
DEMO_STAMP := .venv-demo/installed
DOCS_STAMP := .venv-docs/installed

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "%-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(STAMP) ## Create .venv and install everything that development needs

lint: $(STAMP) ## Check style and layers (ruff)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

format: $(STAMP) ## Write what ruff can put right
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

types: $(STAMP) ## Check types (mypy --strict)
	$(BIN)/mypy

test: lint types ## Everything that must be green before a commit
	$(BIN)/pytest $(ARGS)

test-unit: $(STAMP) ## The unit tests: no database, under five seconds
	$(BIN)/pytest tests/unit $(ARGS)

test-sqlite: $(STAMP) ## What needs no server: unit, properties, and contract and integration on SQLite
	$(BIN)/pytest --sqlite-only $(BELOW_ACCEPTANCE) $(ARGS)

test-second-python: $(if $(SECOND_PYTHON),$(SECOND_STAMP)) ## The same on Python 3.13 or 3.12 with Django 6.0
	$(if $(SECOND_PYTHON),.venv-second/bin/pytest --sqlite-only $(BELOW_ACCEPTANCE) $(ARGS), \
		@echo "Neither Python 3.13 nor 3.12 was found: the second pair was not tested.")

soak: $(STAMP) ## Any fault at any moment for some MINUTES, on each database; then every message and row is read
	SOAK_MINUTES=$(MINUTES) $(BIN)/pytest tests/acceptance/test_soak.py -m "" $(ARGS)

acceptance: $(STAMP) ## The long forms of the acceptance tests: real processes, real signals
	$(BIN)/pytest tests/acceptance -m "" $(ARGS)

coverage: $(STAMP) ## Which lines and branches the tests below acceptance run
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest $(BELOW_ACCEPTANCE) $(ARGS)
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

sweep: $(STAMP) ## Due times around every change of clocks, 2000-2037, beside the most naive reckoning (ten minutes)
	nice $(BIN)/python -m tests.sweep $(ARGS)

simulate: $(STAMP) ## A year of 2,000 jobs with edits, outages and takeovers, beside a naive model (ten minutes)
	nice $(BIN)/python -m tests.simulation $(ARGS)

simulate-shares: $(STAMP) ## 5,000 tenants shared by 50 processes that come, go, freeze and crash (ten minutes)
	nice $(BIN)/python -m tests.sharing $(ARGS)

model: $(STAMP) ## Every order of events of a small system, by spin, with each rule broken in turn (about a minute)
	$(BIN)/python -m tests.model $(ARGS)

demo: $(DEMO_STAMP) ## Three schedulers, one is killed, one frozen, one stopped: watch what happens (no server needed)
	.venv-demo/bin/python -m example_project.demo

docs: $(DOCS_STAMP) ## Build the documentation into docs/_build/html; a warning is an error
	.venv-docs/bin/sphinx-build -n -W --keep-going --quiet -b html docs docs/_build/html

bench: $(STAMP) ## What storms, edits, many jobs and takeovers cost (40 minutes; ARGS="edits --database sqlite")
	$(BIN)/python -m benchmarks $(ARGS)

clean: ## Remove what these commands made
	rm -rf .venv .venv-demo .venv-docs .venv-second .example build dist docs/_build .coverage* .hypothesis .mypy_cache \
		.pytest_cache .ruff_cache

$(STAMP): pyproject.toml
	$(call make_venv,.venv,$(PYTHON))
ifndef CAN_BUILD_MYSQLCLIENT
	@echo "No headers of MariaDB or MySQL: going on without mysqlclient. On Debian it needs:"
	@echo "    apt-get install libmariadb-dev pkg-config gcc python3-dev"
endif
	$(BIN)/python $(PIP_INSTALL) '.[dev,postgres,redis$(subst -,$(comma),$(MYSQL_EXTRA))]'
	@touch $@

$(SECOND_STAMP): pyproject.toml
	$(call make_venv,.venv-second,$(SECOND_PYTHON))
	.venv-second/bin/python $(PIP_INSTALL) '.[test,postgres,redis]' 'Django>=6.0,<6.1' 'django-celery-beat>=2.9'
	@touch $@

$(DEMO_STAMP): pyproject.toml
	$(call make_venv,.venv-demo,$(PYTHON))
	.venv-demo/bin/python $(PIP_INSTALL) .
	@touch $@

$(DOCS_STAMP): pyproject.toml
	$(call make_venv,.venv-docs,$(PYTHON))
	.venv-docs/bin/python $(PIP_INSTALL) '.[docs]'
	@touch $@

define make_venv
	@test -n "$(2)" || { echo "Python 3.11 or newer was not found; say where it is: make PYTHON=/path/to/python"; exit 1; }
	@test -x $(1)/bin/pip || "$(2)" -m venv $(1) || { echo "On Debian: apt-get install python3-venv"; rm -rf $(1); exit 1; }
endef
