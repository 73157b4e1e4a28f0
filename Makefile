# make demo   train the five plants of examples/plants and write a report
# make test   the tests; make slow: the long ones, and properties with all examples; make check: every gate
# make bounds  the tests of compiled code, with bounds checks
# make mutants  changes of the algorithms that tests must notice: those listed by name, and 300 others; SAMPLE=all SEED=7 for more or others
# make properties  every property with ten times the examples
# make fuzz-files  hostile packs, tables and jobs under budgets of time and memory
# make fuzz-runs   damage run folders for a minute; BUDGET=600 SEED=7 for more or other cases
# make fuzz   generated queries and shapes compared with pyoxigraph and pySHACL
# make playground   the page in which the compiler runs in the browser; needs npm; NUMPY=DIR for a wheel of NumPy
# Another Python: make PYTHON=python3.12 demo

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# Compiled sources are kept: hundreds of test files, and the processes that some tests start, would else be compiled each time.
PYTEST := PYTHONDONTWRITEBYTECODE= OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n auto

.PHONY: demo test slow bounds properties mutants fuzz fuzz-runs fuzz-files check format lint types imports docs playground bench clean

demo: $(STAMP)
	@$(BIN)/python examples/plants/make_tables.py
	@$(BIN)/fedkg run examples/plants/job.yaml

test: $(STAMP)
	$(PYTEST) --dist loadfile -m "not slow and not gpu"

slow: $(STAMP)
	$(PYTEST) --dist worksteal -m "(slow or hypothesis) and not gpu" --hypothesis-profile=whole

# The tests that call compiled code. Those of the cache and of compilation ahead skip themselves,
# because loops with bounds checks are not cached on disk.
BOUNDS := kernels $(addprefix constraints/test_,fused_calls.py fused_ops.py fused_random.py hoisting.py \
  opened.py projected_sums.py repeated.py specialise.py ties.py window_gradients.py windows_as_loops.py) \
  $(addprefix models/test_,layers_against_pytorch.py mlp.py models_federated.py normal_numbers.py \
  pooling.py recurrent_loops.py) \
  $(addprefix projection/test_polytope,.py _given.py _nearest.py _nearly_empty.py) \
  teacher/test_cheapest_path.py teacher/test_teacher.py \
  mining/test_formula_kernel.py mining/test_mining.py mining/test_tightness.py \
  $(addprefix granger/test_granger_,learning.py neural_augmentation.py references.py) \
  $(addprefix federated/test_,algorithms_by_hand.py executors.py known_forms.py private_loops.py rows.py)
bounds: $(STAMP)
	FEDKG_KERNELS=check $(PYTEST) --dist loadfile -m "not slow and not gpu" $(addprefix tests/fedkg/,$(BOUNDS))

properties: $(STAMP)
	$(PYTEST) --dist worksteal -m "hypothesis and not slow and not gpu" --hypothesis-profile=long

# How many of the generated mutants, drawn by SEED; all: every one, which takes hours.
SAMPLE ?= 300
mutants: $(STAMP)
	$(BIN)/python tests/mutation/mutants.py --seed $(SEED) $(if $(filter all,$(SAMPLE)),,--sample $(SAMPLE))

# Seconds, and which random cases.
BUDGET ?= 60
SEED ?= 0
fuzz-files: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/files.py

fuzz-runs: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/runs.py --seconds $(BUDGET) --seed $(SEED) --memory 2000

fuzz: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/fuzz_queries.py
	OMP_NUM_THREADS=1 $(BIN)/python tests/fuzz/fuzz_shapes.py

check: format lint types imports test slow bounds docs

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

playground: $(STAMP)
	$(BIN)/python playground/build.py $(if $(NUMPY),--numpy $(NUMPY))

bench: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[bench]"
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
