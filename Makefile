# Two commands do everything on a fresh machine with Python >= 3.11 and make: `make run` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= ./data

.PHONY: run test test-slow test-all check kill-test link-test fuzz sim format conformance clean
KILLS ?= 200
ROUNDS ?= 200
SECONDS_EACH ?= 600
SEEDS ?= 5000

$(VENV)/.run: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.test: pyproject.toml $(VENV)/.run
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[test,analytics,dev]'
	touch $@

run: $(VENV)/.run                 ## one broker on 127.0.0.1:1883, data under ./data; Ctrl-C stops it, a restart remembers
	$(BIN)/strogoff start --conf configs/dev.conf --data-dir $(DATA)

test: $(VENV)/.test               ## the fast suite
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: $(VENV)/.test          ## the slow tests: Spark, packaging, long kills
	$(BIN)/python -m pytest -n 2 -m slow

test-all: test test-slow          ## everything

check: $(VENV)/.test              ## format, lint, strict types; the layering is in tests/test_structure.py
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python docs/conformance.py --check
	$(BIN)/python -m pytest tests/test_structure.py

format: $(VENV)/.test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

kill-test: $(VENV)/.test          ## kill -9 the broker 200 times under load and audit what it acknowledged
	$(BIN)/python -m bench.kill_test --kills $(KILLS)

link-test: $(VENV)/.test          ## cut, kill and pause two of three nodes 200 times under load, and audit; by root
	$(BIN)/python -m bench.link_test --rounds $(ROUNDS)

fuzz: $(VENV)/.test               ## ten minutes of wrong bytes for the decoder
	$(BIN)/python -m bench.fuzz_decoder --seconds $(SECONDS_EACH)

sim: $(VENV)/.test                ## 5,000 seeds of the simulator
	$(BIN)/strogoff sim --seeds $(SEEDS) --jobs 2

conformance: $(VENV)/.test        ## rewrite docs/conformance.md from the statements and the tests
	$(BIN)/python docs/conformance.py

clean:
	rm -rf $(VENV)
