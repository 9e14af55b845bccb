# Everything a person does with this repository. Each target first makes .venv if it is missing or out of date.
SHELL := bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

VENV := .venv
PYTHON := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
TOOLS := $(VENV)/.installed-tools
STORAGE := $(or $(LENGTHWISE_STORAGE),sweeps)
QUICKSTART := search_spaces/quickstart.yaml
SWEEP := $(STORAGE)/quickstart

.PHONY: help install install-cpu sweep ui test test-slow test-cluster check bench bench-check gpu gpu-studies studies quickstart-pages

help:
	@echo "make install   .venv with what sweeps need, in the versions of constraints.txt"
	@echo "make install-cpu  the same on Linux without CUDA"
	@echo "make sweep     the quickstart sweep; if it exists: resumes or shows it"
	@echo "make ui        MLflow on its results"
	@echo "make test      the tests (4 minutes)"
	@echo "make test-slow  those that take seconds each: Ray, killed processes, compiled programs (5 minutes)"
	@echo "make test-cluster  sweeps on Slurm, by ray up, with autoscalers and random faults, and an MLflow for a team (root; an hour)"
	@echo "make check     ruff, mypy, import-linter"
	@echo "make bench     the benchmarks (15 minutes); with JAX=PYTHON, one that has jax, also against JAX"
	@echo "make bench-check  checks that sweeps keep their lead over scripts (2 minutes)"
	@echo "make gpu       compares the GPU with the CPU, and measures its speed (8 minutes)"
	@echo "make gpu-studies  the sweeps that only a GPU decides, in MINUTES=25; run again to resume"
	@echo "make studies   the small sweeps of the four papers and verdicts on their claims (many hours);"
	@echo "               of one paper: STUDY=set_complement (an hour), threshold_attention, inductive_scratchpad or arithmetic"
	@echo "make quickstart-pages  the picture of README.md and the screen of orchestrator/README.md, from a run"

install: $(INSTALLED)

install-cpu: export PIP_EXTRA_INDEX_URL = https://download.pytorch.org/whl/cpu
install-cpu: $(INSTALLED)

# What sweeps need, and in addition what tests, checks and benchmarks need.
$(INSTALLED): PACKAGES := .
$(TOOLS): PACKAGES := .[dev]

# pip says little for minutes or far too much: count what it fetches, show its retries, keep the rest in install.log.
# It compiles modules one after the other; compileall uses every core, and passes over templates that are no Python.
$(INSTALLED) $(TOOLS): pyproject.toml constraints.txt
	@if ! $(PYTHON) -c 'import pip' 2>/dev/null; then
	  base=
	  for candidate in python3.11 python3 python3.12 python3.13; do
	    if "$$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
	      base="$$candidate"; break
	    fi
	  done
	  if [ -z "$$base" ]; then
	    echo "no Python 3.11 or newer with venv was found (on Debian and Ubuntu: python3.11 and python3.11-venv)" >&2
	    exit 1
	  fi
	  echo "making $(VENV) with $$("$$base" --version)"
	  "$$base" -m venv --clear $(VENV)
	fi
	echo "installing the versions of constraints.txt; details are in $(VENV)/install.log"
	if ! $(PYTHON) -m pip install --no-compile -c constraints.txt -e "$(PACKAGES)" </dev/null 2>&1 | tee $(VENV)/install.log | awk '
	    /^ *(Collecting|Requirement already satisfied)/ { if (++n % 25 == 0) { print "  " n " requirements checked"; fflush() } }
	    /^Installing collected packages/ { print "  writing the packages to $(VENV)"; fflush() }
	    /^ *WARNING: Retrying/ { print; fflush() }'; then
	  tail -n 15 $(VENV)/install.log >&2
	  exit 1
	fi
	$(PYTHON) -m compileall -q -j 0 $(VENV)/lib >/dev/null 2>&1 || true
	touch $(INSTALLED) $@
	echo "installed"

.ONESHELL:

sweep: $(INSTALLED)
	@if [ ! -e "$(SWEEP)/events.jsonl" ]; then
	  exec $(VENV)/bin/lengthwise run $(QUICKSTART) --storage "$(STORAGE)"
	fi
	echo "$(SWEEP) exists: resuming it, or showing its results"
	echo "For another sweep beside it: $(VENV)/bin/lengthwise run $(QUICKSTART) --name NAME"
	if [ $(QUICKSTART) -nt "$(SWEEP)/sweep.yaml" ]; then
	  echo "note: $(QUICKSTART) is newer than this sweep, which keeps the values it began with"
	fi
	exec $(VENV)/bin/lengthwise resume "$(SWEEP)"

ui: $(INSTALLED)
	@exec $(VENV)/bin/lengthwise ui --storage "$(STORAGE)"

# One process more than there are cores: some tests mostly wait, slow ones for Ray and processes that they kill. All read
# compiled modules, also where PYTHONDONTWRITEBYTECODE is set: hundreds of processes would compile the packages again.
PYTEST = PYTHONDONTWRITEBYTECODE= $(PYTHON) -m pytest -q -n $$(( $$(getconf _NPROCESSORS_ONLN) + 1 )) --maxprocesses 5

# The slow tests that take longest, in turn such as wait for Ray and such as compute. They are started first, so that the
# processes end together, and a file stays in one process, which starts its Ray or server once.
LONGEST = $(addprefix tests/,$(addsuffix .py,orchestrator/running/test_ray_nodes sweeps/test_released_sweeps \
  cluster/test_jobs trainers/training/test_waits orchestrator/mirror/test_s3 search_spaces/test_program_examples \
  orchestrator/tracking/test_server orchestrator/running/test_ray \
  orchestrator/running/test_rungs orchestrator/importing/test_sources trainers/tensors/test_precision \
  orchestrator/running/test_ray_deaths orchestrator/running/test_memory_later trainers/training/test_compiling \
  orchestrator/claims/test_archive orchestrator/running/test_retried_races orchestrator/running/test_budget \
  orchestrator/program/test_stops orchestrator/claims/test_shipped_claims orchestrator/cli/test_run))

test: $(TOOLS)
	@$(PYTEST) --dist worksteal -m "not slow and not benchmark and not cluster"

# Files without a slow test are left out: every process of pytest would import them all.
test-slow: $(TOOLS)
	@$(PYTEST) --dist loadfile --no-loadscope-reorder -m slow $(LONGEST) $$(grep -rlw --include='test_*.py' slow tests)

test-cluster: $(TOOLS)
	@$(PYTHON) -m pytest -q -rs -m cluster tests/cluster

check: $(TOOLS)
	@$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports

bench: $(TOOLS)
	@$(PYTHON) tests/benchmarks/run.py $(addprefix --jax ,$(JAX))

bench-check: $(TOOLS)
	@$(PYTHON) tests/benchmarks/check.py

gpu: $(INSTALLED)
	@$(PYTHON) tests/gpu/run.py

gpu-studies: $(INSTALLED)
	@$(PYTHON) tests/gpu/studies.py --minutes $(or $(MINUTES),25) --out gpu_studies

studies: $(INSTALLED)
	@for study in $(or $(STUDY),set_complement arithmetic threshold_attention inductive_scratchpad); do
	  folder=search_spaces/$$study
	  $(VENV)/bin/lengthwise claims $$folder/claims.yaml --run --page $$folder/page.md --storage "$(STORAGE)"
	done

quickstart-pages: $(INSTALLED)
	@PYTHONPATH=. $(PYTHON) tests/readme/quickstart_pages.py
