.DEFAULT_GOAL := help
.PHONY: help setup demo bench test test-all check
PYTHON ?= python3.11
BIN := .venv/bin
STAMP := .venv/.installed

help: ## Show the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

setup: $(STAMP) ## Make .venv with all that the verbs and the tests need

$(STAMP): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "$(PYTHON) is not here; name another with: make PYTHON=python3 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet -c constraints.txt torch -e ".[dev]"
	@touch $@

demo: setup ## Train a small German-English translator, evaluate it and write its report
	$(BIN)/luong demo

bench: setup ## Time the kernels beside eager and compiled PyTorch: docs/benchmarks.md
	$(BIN)/luong bench --output docs/benchmarks.md

test: setup ## Run the fast test suite
	$(BIN)/pytest -n auto

test-all: setup ## Run every test, the slow ones too
	$(BIN)/pytest -n auto -m "slow or not slow"

check: setup ## Lint, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
