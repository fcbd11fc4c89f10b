# Eleven verbs. Each one sets up its requirements: a fresh checkout requires no other command first.
#
#   setup      virtual environment in .venv, packages pinned by constraints.txt
#   reproduce  the whole pipeline; ARGS="--configfile config/micro.yaml" and the like go to snakemake
#   test       all tests, KILLS kill moments among them      test-kill  kill moments alone
#   test-fast  tests for every save: no slow, hostile or kill tests, no pipeline
#   ablations  every experiment arm, 2 to 3 hours on 2 cores; resumes
#   check      format, lint, types, layers, sizes, links     fmt        rewrite to the project's format
#   lock       resolve the constraints files again           bench      speed beside its goals, as a table; ARGS=--json
#   clean      remove caches (never results)

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.PHONY: setup reproduce ablations test test-fast test-kill check fmt lock bench clean

PYTHON ?= python3
CORES ?= all
ARGS ?=
VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
READY := $(VENV)/.ready
# Present during a set-up: a killed set-up leaves it behind, and the next one starts again.
UNFINISHED := .venv.incomplete
# Rules run `python -m PACKAGE`, so the environment's own python must come first.
IN_VENV := PATH="$(BIN):$$PATH"
PIP = "$(BIN)/python" -m pip -qq --disable-pip-version-check
PYTEST = $(IN_VENV) python -m pytest
# A process per core. Tests of a file share fixtures, tests of a group share a whole run: they stay in one process.
SPREAD := -n auto --maxprocesses 8
# As in tests/checks/lock.py, which pins them.
WITHOUT_DEPENDENCIES := bfcl-eval llama-index-core tree-sitter tree-sitter-java tree-sitter-javascript
SMK_FILES = $(wildcard Snakefile */rules.smk)

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@command -v "$(PYTHON)" >/dev/null || { echo "error: no $(PYTHON) here; name a Python 3.11 or newer: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@"$(PYTHON)" -c 'import sys; v = sys.version_info; sys.exit(v < (3, 11) and f"error: Python 3.11 or newer is needed, $(PYTHON) is {v[0]}.{v[1]}; name another: make PYTHON=/path/to/python3.11")'
	@if [ -e $(UNFINISHED) ] || ! "$(BIN)/python" -c pass 2>/dev/null; then \
	    touch $(UNFINISHED); rm -rf $(VENV); echo "set-up: new environment in $(VENV)"; "$(PYTHON)" -m venv $(VENV); fi
	@touch $(UNFINISHED)
	@echo "set-up: installing the packages pinned in constraints.txt (about 2 minutes)"
	@$(PIP) install --no-compile -c constraints.txt setuptools
	@$(PIP) install --no-compile -c constraints.txt --no-build-isolation -e '.[dev,ifeval]'
	@# BFCL's checker and the sentence data of IFEval, without their dependencies (docs/verifier.md).
	@$(PIP) install --no-compile --no-deps -c constraints.txt $(WITHOUT_DEPENDENCIES)
	@# pip compiles on one core, including the tests of every package; files that cannot be compiled are ignored.
	@"$(BIN)/python" -m compileall -q -j 0 -x '/tests?/' $(VENV)/lib >/dev/null || true
	@touch $(READY); rm -f $(UNFINISHED)

reproduce: $(READY)
	@$(IN_VENV) snakemake --cores $(CORES) reproduce $(ARGS)

ablations: $(READY)
	@$(IN_VENV) snakemake --cores $(CORES) ablations $(ARGS)

# The pytest runs are sequential: hostile code and kills must not disturb the clocks of unit tests.
test: KILLS ?= 5
test: $(READY)
	$(PYTEST) $(SPREAD) --dist loadfile -m "not hostile and not kill and not pipeline"
	$(PYTEST) -m hostile tests/sandbox
	$(PYTEST) $(SPREAD) --dist loadgroup -m "pipeline or kill" --kills $(KILLS) tests

test-fast: $(READY)
	$(PYTEST) $(SPREAD) --dist loadfile -q -m "not slow and not hostile and not kill"

test-kill: KILLS ?= 20
test-kill: $(READY)
	$(PYTEST) -m kill --kills $(KILLS) tests

check: $(READY)
	$(IN_VENV) ruff check .
	$(IN_VENV) ruff format --check .
	$(IN_VENV) snakefmt --check $(SMK_FILES)
	$(IN_VENV) lint-imports --no-cache
	$(IN_VENV) python -m tests.checks
	$(IN_VENV) pyright

fmt: $(READY)
	$(IN_VENV) ruff check --fix .
	$(IN_VENV) ruff format .
	$(IN_VENV) snakefmt $(SMK_FILES)

lock: $(READY)
	$(IN_VENV) python -m tests.checks.lock

bench: $(READY)
	$(IN_VENV) python -m bench $(ARGS)

clean:
	rm -rf .pytest_cache .ruff_cache .hypothesis .import_linter_cache build *.egg-info
	find . -path ./$(VENV) -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf
