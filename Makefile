# make book      build the book; the last line says where it is
# make test      everything that must hold
# make serve     build the book and serve it on this machine
# make chapters  execute the notebooks in place (FILES="chapters/a.ipynb" for some of them)
# make address URL=https://github.com/OWNER/NAME   change the project's public address everywhere
# make screenshots DIR=folder   pictures of every page: light, dark, phone
# make results   compute anew and copy to results/ what the book publishes (SWEEPS="noise gap" for some; it resumes)
# make benchmarks  measure what things cost (NAMES="step tokens" for some parts; JSON=file keeps the numbers)
# make lock      pin the newest versions in requirements.txt
# make lighthouse   score some pages as a phone and as a desktop would load them (PAGES="intro.html" for others; needs Node)
# make clean     remove what was built (not the environment)

PYTHON ?= python3
PORT ?= 8000
DIR ?= _build/screenshots
PY := .venv/bin/python
READY := .venv/.ready
NODE_READY := tools/node_modules/.ready

# Chapters and tests run on one thread a process, without progress bars: same numbers everywhere.
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export TQDM_DISABLE := 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1
export FVBOOK_STORE ?= $(CURDIR)/.store

.PHONY: book test build serve chapters address screenshots results benchmarks lighthouse lock javascript clean

book: build
	@echo "The book is built. Open $(CURDIR)/_build/html/index.html"

build: $(READY)
	@$(PY) -m tools.fresh_cache
	@rm -rf _build/html
	.venv/bin/jupyter-book build --all -W -n --keep-going .

test: $(READY)
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	$(MAKE) build javascript
	$(PY) -m pytest -n 2 --dist loadfile tests chapters --nbval --nbval-sanitize-with tests/nbval.cfg

serve: build
	@echo "The book is at http://127.0.0.1:$(PORT)/ (stop with Ctrl-C)"
	$(PY) -m http.server --bind 127.0.0.1 --directory _build/html $(PORT)

chapters: $(READY)
	$(PY) -m tools.chapters $(FILES)

address: $(READY)
	@$(PY) -m tools.address $(URL)

screenshots: build
	$(PY) -m tools.browser $(DIR)

# Stopped at any time, it goes on where it was. See the page "Running the experiments".
results: $(READY)
	for sweep in $${SWEEPS:-$$($(PY) -c "from fvbook.catalogue import SWEEPS; print(*SWEEPS)")}; do \
		env -u TQDM_DISABLE $(PY) -m fvbook run $$sweep --profile paper && \
		$(PY) -m fvbook export $$sweep results --profile paper || exit 1; \
	done

benchmarks: $(READY)
	$(PY) -m benchmarks $(NAMES) $(if $(JSON),--json $(JSON))

lighthouse: build $(NODE_READY)
	node tools/lighthouse.mjs $(PAGES)

# What the tests of pages and scripts need beside Python; without Node they are skipped, and say so.
javascript:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory $(NODE_READY); fi

# CUDA packages are left out: which of them torch needs depends on the machine.
lock: $(READY)
	$(PY) -m pip install --quiet uv
	grep '^#' requirements.txt > .venv/lock.txt
	.venv/bin/uv pip compile --quiet --universal --python-version 3.10 --all-extras \
		--no-header --no-annotate pyproject.toml | grep -Ev '^(nvidia-|cuda-|triton)' >> .venv/lock.txt
	mv .venv/lock.txt requirements.txt

clean:
	rm -rf _build .pytest_cache .mypy_cache .ruff_cache

$(NODE_READY): tools/package-lock.json
	npm ci --prefix tools --ignore-scripts --loglevel=error
	@touch $@

$(READY): requirements.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.10 or newer is needed: make PYTHON=python3.12 ..." if sys.version_info < (3, 10) else 0)'
	@echo "Setting up .venv: the first time this takes a few minutes, most of it download."
	@$(PYTHON) -m venv .venv
	@$(PY) -m pip install --quiet -r requirements.txt
	@$(PY) -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@
