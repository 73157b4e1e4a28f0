# make demo   train the example federation and write its report
# make test   the tests; make slow: the long ones; make check: every gate
# Another Python: make PYTHON=python3.12 demo

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto --dist loadfile

.PHONY: demo test slow check format lint types imports docs bench clean

demo: $(STAMP)
	@$(BIN)/fedkg run examples/milling/job.yaml

test: $(STAMP)
	$(PYTEST) -m "not slow and not gpu"

slow: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -m "slow and not gpu"

check: format lint types imports test slow docs

format: $(STAMP)
	$(BIN)/ruff format --check .

lint: $(STAMP)
	$(BIN)/ruff check .

types: $(STAMP)
	$(BIN)/mypy

imports: $(STAMP)
	$(BIN)/lint-imports

docs: $(STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(STAMP)
	$(BIN)/python benchmarks/run_all.py

# The environment: made once, brought up to date when the pins or the requirements change.
$(STAMP): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fedkg needs Python 3.11 or newer; for example: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	@test -x $(BIN)/python || { echo "making the environment in $(VENV)"; $(PYTHON) -m venv $(VENV); }
	@echo "installing fedkg and what it needs, as pinned in constraints.txt (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[all,dev]"
	@touch $@

clean:
	rm -rf build dist site .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
