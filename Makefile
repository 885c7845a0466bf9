# Every target works alone on a machine with Python 3.11 or later, pip and make.

PYTHON ?= python3
# Tests wait for processes and servers half of the time: two more than there are cores.
WORKERS ?= $(shell echo $$(($$(getconf _NPROCESSORS_ONLN) + 2)))
# The tests of a file stay together and share its servers and browsers; conftest.py says in which order files begin.
BY_FILE := --dist loadfile --no-loadscope-reorder
# What fails once is tried once more, and named: docs/decisions/0011. RERUNS=0 fails at once.
RERUNS ?= 1
ARGS ?=

# Tests commit to disk thousands of times. Killing a process loses nothing that was written, on a disk or in memory:
# where there is room in memory, the tests need not wait for a disk.
MEMORY_MB := $(shell df -Pm /dev/shm 2>/dev/null | awk 'NR == 2 { print $$4 }')
TEST_FOLDER := $(shell test "0$(MEMORY_MB)" -ge 4000 && echo /dev/shm || echo "$${TMPDIR:-/tmp}")

VENV := .venv
VENV_BENCH := .venv-bench
PIP_INSTALL := -m pip install --quiet --quiet --disable-pip-version-check -c constraints.txt

# Tests start a thousand processes; without its bytecode each of them would compile the package again.
export PYTHONDONTWRITEBYTECODE =

# Newer versions of pip pin what builds the package too; older ones ignore this.
export PIP_BUILD_CONSTRAINT = constraints.txt

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test programs bench lint format constraints clean

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20
	@echo
	@echo '  Add ARGS="…" to pass words on: make test ARGS="-k backoff"'

run: $(VENV)/.stamp ## Start everything that exists so far and print its addresses
	@$(VENV)/bin/holdfast serve $(ARGS)

test: $(VENV)/.stamp programs ## Run the whole test suite
	@TMPDIR="$(TEST_FOLDER)" $(VENV)/bin/python -m pytest -n $(WORKERS) $(BY_FILE) --reruns $(RERUNS) $(ARGS)

# Programs that come with the system: a browser for the pages, a pooler and Prometheus for what runs beside the service.
# Where one is missing and may be installed, it is; else the tests that need it are skipped, and say so.
PROGRAMS := chromium:chromium pgbouncer:pgbouncer promtool:prometheus

programs:
	@PATH="$$PATH:/usr/sbin"; missing=''; \
	for pair in $(PROGRAMS); do \
	  command -v $${pair%%:*} >/dev/null || missing="$$missing $${pair##*:}"; \
	done; \
	if [ -n "$$missing" ] && [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  echo "Installing$$missing for the tests …"; \
	  export DEBIAN_FRONTEND=noninteractive; \
	  timeout 300 sh -c "apt-get update -qq && apt-get install -y -qq --no-install-recommends$$missing" >/dev/null 2>&1; \
	fi; \
	for pair in $(PROGRAMS); do \
	  command -v $${pair%%:*} >/dev/null \
	    || echo "NO $${pair##*:} here, and it could not be installed: the tests that need it are SKIPPED." >&2; \
	done

bench: $(VENV_BENCH)/.stamp ## Measure Holdfast beside its peers, in one table with ratios
	@$(VENV_BENCH)/bin/python -m bench $(ARGS)

lint: $(VENV)/.stamp ## Check style, format and types
	@$(VENV)/bin/python -m ruff check
	@$(VENV)/bin/python -m ruff format --check
	@$(VENV)/bin/python -m mypy

format: $(VENV)/.stamp ## Rewrite the code in house format
	@$(VENV)/bin/python -m ruff check --fix
	@$(VENV)/bin/python -m ruff format

constraints: ## Remake constraints.txt from the newest versions that fit
	@rm -rf build/newest
	@$(call create,build/newest)
	@build/newest/bin/python -m pip install --quiet --quiet -e ".[all,test,lint]" hatchling
	@{ grep '^#' constraints.txt; build/newest/bin/python -m pip freeze --exclude-editable; } > build/constraints.txt
	@mv build/constraints.txt constraints.txt
	@rm -rf build/newest

clean: ## Remove the environments and everything that was generated
	@rm -rf $(VENV) $(VENV_BENCH) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	@find src tests bench -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp is written last, so an interrupted installation is taken up again by the next target.

$(VENV)/.stamp: pyproject.toml constraints.txt
	@$(call create,$(VENV))
	@$(VENV)/bin/python $(PIP_INSTALL) -e ".[all,test,lint]"
	@touch $@

$(VENV_BENCH)/.stamp: pyproject.toml constraints.txt bench/requirements.txt
	@$(call create,$(VENV_BENCH))
	@$(VENV_BENCH)/bin/python $(PIP_INSTALL) -e ".[all]" -r bench/requirements.txt
	@touch $@

# Make the environment unless a working one stands there. Some systems ship Python without the module that puts
# pip into an environment; there the pip outside does it.
define create
set -e; \
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || { echo 'Holdfast needs Python 3.11 or later; name one: make PYTHON=python3.12' >&2; exit 1; }; \
echo 'Preparing $(1) …'; \
$(1)/bin/python -m pip --version >/dev/null 2>&1 \
  || $(PYTHON) -m venv --clear $(1) >/dev/null 2>&1 \
  || { $(PYTHON) -m venv --clear --without-pip $(1) && $(PYTHON) -m pip --quiet --python $(1)/bin/python install pip; }
endef
