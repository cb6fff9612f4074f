# Two commands on a fresh machine that has Python 3.11 or later: `make run`, `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
DOCS := $(VENV)/.docs

.DEFAULT_GOAL := help
.PHONY: help run test lint format docs results bench fuzz clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "make %-8s %s\n", $$1, $$2}'

$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,lint]'
	@touch $@

run: $(INSTALLED)  ## the quick form of the paper's table and figures, two minutes, no download
	$(BIN)/ccml reproduce --quick

test: $(INSTALLED)  ## the tests, and every example in the docs
	$(BIN)/pytest

lint: $(INSTALLED)  ## ruff (lint, format) and a strict type check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(INSTALLED)  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(DOCS): $(INSTALLED)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@

docs: $(DOCS)  ## the pages and the reference, into site/; a warning is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict  # with --quiet, warnings would go uncounted
	@! grep -rnoE --include='*.html' '<(script|link|img|iframe)[^>]+(src|href)="?(https?:)?//[^" >]+' site \
		|| (echo "The pages above load something from another host."; exit 1)

results: $(INSTALLED)  ## docs/results.md anew, from docs/results
	$(BIN)/python docs/_results.py

bench: $(INSTALLED)  ## speed and memory beside the peers, as ratios (an hour)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[bench]'
	$(BIN)/python -m benchmarks

fuzz: $(INSTALLED)  ## 10,000 damaged model files and 10,000 of data: clear errors only (half an hour)
	$(BIN)/python -m tests.fuzz

clean:  ## remove the environment and all caches
	find src -name __pycache__ -prune -exec rm -rf {} +
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis report site
