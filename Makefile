# `make demo` and `make test` do everything on a fresh machine that has Python 3.11, make and a C compiler.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SPARSE := $(VENV)/.installed-sparse
DISTRIBUTED := $(VENV)/.installed-distributed
BROWSER := $(VENV)/.browser

# Threads that wait by spinning slow torch down several times on a busy machine.
export OMP_WAIT_POLICY ?= PASSIVE

.PHONY: demo test docs test-browser test-distributed test-sparse test-hard bench bench-check bench-quality clean

demo: $(INSTALLED)
	$(BIN)/bncl demo

# The site, in site/; a broken link fails.
docs: $(INSTALLED)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# Fails where less than 92 % of the lines and branches of bncl_pyg and cli are run (pyproject.toml), or where there is no browser.
test: demo docs $(BROWSER) test-distributed
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	BNCL_BROWSER=required $(BIN)/pytest --numprocesses 2 --dist loadfile --ignore tests/distributed --cov --cov-append --cov-report=term

# The pages that bncl report and bncl explain write and bncl serve serves, in headless Chromium; `make test` does it too.
test-browser: $(INSTALLED) $(BROWSER)
	BNCL_BROWSER=required $(BIN)/pytest tests/browser

# A Ray cluster of three nodes on this machine, one of which is lost; `make test` does it first, and counts its lines.
test-distributed: $(DISTRIBUTED)
	$(BIN)/pytest tests/distributed --cov --cov-report= --cov-fail-under=0

# The long version of the attacks in tests/hard, which `make test` makes fewer of; writes benchmarks/results/reliability.md.
test-hard: $(INSTALLED)
	BNCL_HARD=long timeout 1800 $(BIN)/python -m tests.hard.reliability

# Whether the committed results show what README and pages say of them; nothing is measured.
bench-check: $(INSTALLED)
	$(BIN)/pytest benchmarks/checks

# Compiles torch-scatter and torch-sparse: about half an hour on two cores, once.
test-sparse: $(SPARSE)
	$(BIN)/pytest tests/nn

# Needs the data sets: make bench-quality BNCL_DATA=folder; DATASETS, METHODS and SEEDS choose a part.
bench-quality: $(INSTALLED)
	@test -n "$(BNCL_DATA)" || { echo "Say where the data sets are: make bench-quality BNCL_DATA=folder"; exit 2; }
	BNCL_DATA="$(BNCL_DATA)" $(BIN)/python -m benchmarks.quality \
		$(if $(DATASETS),--datasets $(DATASETS)) $(if $(SEEDS),--seeds $(SEEDS)) \
		$(if $(METHODS),--methods "$(METHODS)")

# The second needs the data sets: make bench BNCL_DATA=folder.
bench: $(INSTALLED)
	$(BIN)/python -m benchmarks.kernels
	$(if $(BNCL_DATA),BNCL_DATA="$(BNCL_DATA)" $(BIN)/python -m benchmarks.step)

# torch comes first and pinned: anything else would pull its newest build with CUDA.
$(INSTALLED): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --constraint constraints.txt torch setuptools wheel
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable \
		".[dev,docs,offline,multilingual,onnx,scale,parquet,excel,zst,plot,serve]"
	$(BIN)/pip check
	touch $@

$(SPARSE): $(INSTALLED)
	$(BIN)/pip install --constraint constraints.txt --no-build-isolation --editable ".[sparse]"
	touch $@

$(DISTRIBUTED): $(INSTALLED)
	$(BIN)/pip install --quiet --constraint constraints.txt --no-build-isolation --editable ".[distributed]"
	$(BIN)/pip check
	touch $@

# Debian's Chromium, which root installs where it is absent.
$(BROWSER): $(INSTALLED)
	@command -v chromium > /dev/null || test "$$(id -u)" = 0 || \
		{ echo "The pages are tested in Chromium: install it first (apt-get install chromium)."; exit 2; }
	command -v chromium > /dev/null || { apt-get update -qq && \
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium; }
	touch $@

clean:
	rm -rf $(VENV) demo-output build *.egg-info
