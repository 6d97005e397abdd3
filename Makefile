# make demo    sets everything up, then compares full prefill and SpecPrefill on RULER
# make test    sets everything up, then passes the tests (make test-all adds the long ones)
# make help    the rest
.DEFAULT_GOAL := setup
# Byte code is written where it is imported, whatever the environment says: vLLM's processes would
# each compile all their modules at every start.
export PYTHONDONTWRITEBYTECODE :=
.PHONY: help setup dev demo test test-all unit lint format gate bench clean

harness := .venv/bin/harness
pytest := .venv/bin/python -m pytest

help:
	@echo 'make [setup]   .venv with the harness and a vLLM for this machine'
	@echo 'make demo      harness run --task ruler --keep 0.1, from nothing'
	@echo 'make test      unit, contract, engine and command-line tests'
	@echo 'make test-all  the same and the long tests'
	@echo 'make unit      the tests that need no engine'
	@echo 'make lint      ruff, mypy and the rooms order'
	@echo 'make format    ruff format'
	@echo 'make gate      real runs against the committed baseline; a broken selector must fail'
	@echo 'make bench     the TTFT benchmark behind docs/performance.md'
	@echo 'make clean     remove .venv and caches, keep results'

setup: .venv/.ready
dev: .venv/.ready-dev

.venv/.ready: pyproject.toml tools/setup.sh tools/precompile.py
	tools/setup.sh run
	@touch $@

.venv/.ready-dev: pyproject.toml tools/setup.sh tools/precompile.py
	tools/setup.sh dev
	@touch .venv/.ready $@

demo: setup
	@echo 'demo: preparing the embedded model (about 10 s the first time)'
	$(harness) models prepare
	@echo 'demo: full prefill against SpecPrefill on RULER; a few minutes'
	$(harness) run --task ruler --keep 0.1

# What needs no engine shares the cores, a thread of torch each; engines take the machine in turn.
apart := OMP_NUM_THREADS=1 $(pytest) -n 2 --dist loadfile tests/unit tests/contract tests/e2e harness/methods/contract

test: dev
	$(apart) -m 'not long and not gpu'
	$(pytest) tests/engine -m 'not long and not gpu'

test-all: dev
	$(apart) -m 'not gpu'
	$(pytest) tests/engine -m 'not gpu'

unit: dev
	OMP_NUM_THREADS=1 $(pytest) -n 2 --dist loadfile tests/unit tests/contract harness/methods/contract

lint: dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	.venv/bin/lint-imports

format: dev
	.venv/bin/ruff format .
	.venv/bin/ruff check --fix .

gate: dev
	$(pytest) tests/engine/test_self_gate.py

bench: setup
	$(harness) bench ttft --target-config llama-3.2-1b --load dummy --length 4096 --keep 0.1 --look-ahead 8

clean:
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
