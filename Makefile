# On a new machine with Python 3.11 to 3.14 and make, `make run` and `make test` need no other preparation.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DATA ?= ./data

.PHONY: venv-run venv-test run test test-slow test-by-hand coverage test-all check kill-test link-test gateway-test ha-test turns-test fuzz siege demo sim mutants format conformance lock deploy-tools manifests docker-build docker-up docker-down docker-story clean
KILLS ?= 200
ROUNDS ?= 200
TAKEOVERS ?= 10000
SECONDS_EACH ?= 600
SECONDS_OF_TURNS ?= 180
SEEDS ?= 5000
MINUTES ?= 10
CLIENTS ?= 500
ATTACKS ?=
# Docker where its daemon answers, else podman; both may be set: make docker-up COMPOSE="docker compose"
DOCKER ?= $(shell docker info >/dev/null 2>&1 && echo docker || echo podman)
COMPOSE ?= $(if $(filter docker,$(DOCKER)),docker compose,podman-compose)
BUILD_OPTIONS ?=
DISCOVERY ?= dns
LOCKED := --universal --python-version 3.13 --generate-hashes --no-header --upgrade --quiet

venv-run:                         # checks the Python before anything is compiled, and repairs a broken .venv
	@$(PYTHON) dev/venv.py $(VENV) run

venv-test:
	@$(PYTHON) dev/venv.py $(VENV) test

run: venv-run                 ## one broker on 127.0.0.1:1883, data under ./data; Ctrl-C stops it, its data stays
	$(BIN)/strogoff start --conf configs/dev.conf --data-dir $(DATA)

# Where PYTHONDONTWRITEBYTECODE is set, as in many containers, each process of a test would compile all modules again.
test test-slow test-by-hand coverage: export PYTHONDONTWRITEBYTECODE :=

test: venv-test               ## the fast suite
	$(BIN)/python -m pytest -n 3 -m "not slow"

test-slow: venv-test          ## the slow tests: Spark, packaging, long kills
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "slow and not by_hand"

test-by-hand: deploy-tools     ## slow tests that CI has no time for: manifests as pods, discovery in all cases, containers
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m by_hand
	STROGOFF_ROUNDS=$(or $(STROGOFF_ROUNDS),5) $(BIN)/python -m pytest -n 2 -m slow tests/system/cluster/test_sources.py

coverage: venv-test           ## the fast suite; compares the executed lines of each package with their floor
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest -n 3 -m "not slow"
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage json --quiet -o .coverage.json
	$(BIN)/python dev/coverage_floors.py .coverage.json

test-all: test test-slow          ## everything

check: venv-test              ## format, lint, strict types, the layers of imports, and what texts cite
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python docs/conformance.py --check
	$(BIN)/python -m pytest tests/test_structure.py tests/docs/test_citations.py

format: venv-test
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

kill-test: venv-test          ## kill -9 the broker 200 times under load, and audit the acknowledged messages
	$(BIN)/python -m bench.kill_test --kills $(KILLS)

link-test: venv-test          ## cut, kill and pause three nodes 200 times under load, and audit; needs root
	$(BIN)/python -m bench.link_test --rounds $(ROUNDS)

gateway-test: venv-test       ## take durable clients over 10,000 times, kill their gateway 200 times, and audit
	$(BIN)/python -m bench.gateway_test takeovers --count $(TAKEOVERS)
	$(BIN)/python -m bench.gateway_test qos2 --kills $(KILLS)

ha-test: venv-test            ## kill, pause, stop and empty nodes 200 times while each session has two copies, and audit
	$(BIN)/python -m bench.ha_test --rounds $(ROUNDS)

turns-test: venv-test         ## kill three nodes in turn for three minutes under a steady load, and audit
	$(BIN)/python -m bench.ha_turns --seconds $(SECONDS_OF_TURNS)

fuzz: venv-test               ## feed wrong bytes to the decoder for ten minutes
	$(BIN)/python -m bench.fuzz_decoder --seconds $(SECONDS_EACH)

siege: venv-test                  ## ten minutes of many attacks on a cluster at the same time
	$(BIN)/python -m bench.siege --minutes $(MINUTES) --clients $(CLIENTS) --attacks "$(ATTACKS)"

demo: venv-test               ## two minutes: three nodes, a kill, a pause, a netsplit under each policy, the verdicts
	$(BIN)/python -m bench.demo

sim: venv-test                ## 5,000 seeds of the simulator
	$(BIN)/strogoff sim --seeds $(SEEDS) --jobs 2

mutants: venv-test            ## try every mutant with tests and 200 seeds; CHECK=1 writes no table; SAMPLE=N tries N
	$(BIN)/python -m strogoff.mutants $(if $(CHECK),--check) $(if $(SAMPLE),--sample $(SAMPLE) --within 90 --limit 60)

deploy-tools: venv-test         ## Helm and the validator of manifests, for tests of deploy/ (58 MB)
	$(BIN)/python deploy/helm/tools.py

manifests: deploy-tools           ## rewrite deploy/kubernetes from the chart
	$(BIN)/python deploy/helm/render.py

conformance: venv-test        ## rewrite docs/conformance.md from the statements and the tests
	$(BIN)/python docs/conformance.py

lock: venv-test                   ## write the versions and hashes of the container's libraries; review the difference
	$(BIN)/pip install --quiet 'uv>=0.9,<1'
	$(BIN)/uv pip compile pyproject.toml --extra s3 $(LOCKED) -o locks/container.txt
	echo 'hatchling>=1.27,<2' | $(BIN)/uv pip compile - $(LOCKED) -o locks/build.txt

docker-build:                 ## build the image strogoff, with docker or podman; BUILD_OPTIONS are options of its build command
	$(DOCKER) build $(if $(filter podman,$(DOCKER)),--format docker) $(BUILD_OPTIONS) -t strogoff .

docker-up:                    ## start compose.yaml, with a new secret in .env if there is none; builds the image if it is missing
	@grep -qs '^STROGOFF_COOKIE=.' .env || (umask 077; echo "STROGOFF_COOKIE=$$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')" >> .env)
	$(COMPOSE) up -d

docker-down:                  ## stop and remove the containers of compose.yaml, of all profiles; the volumes stay
	COMPOSE_PROFILES=five,watch $(COMPOSE) down --remove-orphans

docker-story: venv-test       ## kill, replace and add containers of compose.yaml, and count messages; DISCOVERY=s3 by a bucket
	$(BIN)/python -m bench.container_story --discovery $(DISCOVERY)

clean:
	rm -rf $(VENV)
