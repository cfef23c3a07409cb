# Everything a developer does. `make help` lists it.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Stamps live in the environment, so removing it forgets them.
RUN_STAMP := $(VENV)/.splitpool-run
DEV_STAMP := $(VENV)/.splitpool-dev
POOL ?= examples/smollm2.yaml
PORT ?= 8080
TESTS ?=
PEERS ?=
OPTIONS ?=

.DEFAULT_GOAL := help
.PHONY: help install dev up test check fmt crd golden e2e cluster bench peers bench-peers measure clean

help: ## List what can be made
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# uv keeps its downloads in a cache outside the checkout: the first install fetches about 5 GB (torch),
# the next one takes seconds.
$(VENV)/bin/uv:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "splitpool needs Python 3.11 or newer: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q uv

$(RUN_STAMP): pyproject.toml | $(VENV)/bin/uv
	@echo "Installing splitpool into $(VENV) (about 5 GB the first time, torch included) ..."
	$(BIN)/uv pip install -q --python $(BIN)/python -e '.[operator,router,worker,bench,examples]'
	@touch $@

$(DEV_STAMP): pyproject.toml | $(RUN_STAMP)
	@echo "Installing the development tools into $(VENV) ..."
	$(BIN)/uv pip install -q --python $(BIN)/python -e '.[operator,router,worker,bench,examples,dev]'
	@touch $@

install: $(RUN_STAMP) ## Install what `make up` needs into .venv

dev: $(DEV_STAMP) ## Install the development tools too

up: $(RUN_STAMP) ## Serve POOL (examples/smollm2.yaml) on 127.0.0.1:PORT (8080) until Ctrl-C
	@exec $(BIN)/splitpool up $(POOL) --port $(PORT)

test: $(DEV_STAMP) ## Run all tests, or those of TESTS=path (builds Kubernetes once, for minutes)
	$(BIN)/python $(if $(TESTS),-m pytest $(TESTS),tests/side_by_side.py)

e2e: $(DEV_STAMP) ## Run the tests on a real node (root, Linux; builds programs and images once, for minutes)
	@PYTHONPATH=tests $(BIN)/python -m node.packages
	$(BIN)/python -m pytest tests/node

cluster: $(DEV_STAMP) ## Keep a real Kubernetes of one node up until Ctrl-C (root, Linux)
	@PYTHONPATH=tests exec $(BIN)/python -m node.keep

check: $(DEV_STAMP) ## Format, lint, types, import contracts, sizes, CRD and golden drift
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tests/sizes.py
	$(BIN)/splitpool crd | diff -u crds/inferencepools.yaml - \
		|| { echo "The CRD is out of date: make crd"; exit 1; }
	cmp crds/inferencepools.yaml charts/splitpool/files/inferencepools.yaml
	$(BIN)/python -m pytest -q tests/unit/test_plan.py tests/unit/test_crd.py tests/unit/test_reference.py \
		tests/unit/test_architecture.py tests/unit/test_sharing.py tests/unit/test_manifests.py \
		tests/unit/test_operator_page.py tests/unit/test_manual.py tests/unit/test_status_page.py \
		tests/chart/test_readme.py

fmt: $(DEV_STAMP) ## Format the code and fix what ruff can fix
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

crd: $(DEV_STAMP) ## Write crds/inferencepools.yaml from the pool's model, and the chart's copy
	$(BIN)/splitpool crd -o crds/inferencepools.yaml
	cp crds/inferencepools.yaml charts/splitpool/files/inferencepools.yaml

golden: $(DEV_STAMP) ## Refresh tests/golden, dashboards, docs/{inferencepool,operator,cli}.md and ARCHITECTURE.md
	SPLITPOOL_WRITE_GOLDEN=1 $(BIN)/python -m pytest -q tests/unit/test_plan.py tests/unit/test_reference.py \
		tests/unit/test_architecture.py tests/unit/test_sharing.py tests/unit/test_manifests.py \
		tests/unit/test_operator_page.py tests/unit/test_manual.py tests/unit/test_status_page.py \
		tests/chart/test_rendering.py tests/chart/test_optional.py tests/chart/test_dashboards.py \
		tests/chart/test_readme.py

bench: $(DEV_STAMP) ## Measure this machine: kernels, host work, pools, prefixes, router, start, a scaling day; leave it idle
	$(BIN)/python bench/decode_step.py
	$(BIN)/python bench/int8_step.py
	$(BIN)/python bench/host_overhead.py
	$(BIN)/python bench/step_profile.py
	$(BIN)/python bench/prefix_turn.py
	$(BIN)/python bench/router_cost.py
	$(BIN)/python bench/start_time.py
	$(BIN)/python bench/health_under_load.py
	$(BIN)/python bench/two_pools.py
	$(BIN)/python bench/scaling_day.py

peers: $(DEV_STAMP) ## Install other servers outside the checkout (15 GB), or those of PEERS="vllm llamacpp"
	PYTHONPATH=bench $(BIN)/python -m peers.install $(PEERS)

bench-peers: $(DEV_STAMP) ## Measure beside the installed peers for hours, write docs/benchmarks.md; OPTIONS=--quick is short
	PYTHONPATH=bench $(BIN)/python -m peers $(OPTIONS)

measure: $(DEV_STAMP) ## Measure what takes long: a soak of 30 minutes, docs/batching.md, 1,000 pools, autoscaling on a real node
	$(BIN)/python bench/soak.py --minutes 30
	$(BIN)/python bench/sweeps.py
	PYTHONPATH=tests $(BIN)/python -m cluster.scale --pools 1000 --idle-minutes 10
	PYTHONPATH=tests $(BIN)/python -m cluster.scale --pools 200 --idle-minutes 5 --managed
	@PYTHONPATH=tests $(BIN)/python -m node.packages
	$(BIN)/python -m pytest -m measured tests/node

clean: ## Remove the environment and all caches of the checkout
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
