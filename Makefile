# `make demo` and `make test` need only Python >= 3.11 and make; they install everything else into .venv.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo train-demo fetch test lint types unit docs clean

demo: $(READY)
	$(BIN)/python recipes/demo.py --out out/demo

train-demo: $(READY)
	$(BIN)/python recipes/train_in_a_minute.py --out out/train_in_a_minute

# Downloads the networks of the metrics once (146 MB). Without them, the tests that need them are skipped.
fetch: $(READY)
	$(BIN)/condvae fetch metrics

test: lint types unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# One thread per worker, since there are as many workers as cores.
unit: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/pytest -q --numprocesses auto --dist loadfile

# The reference of the Python API, from docstrings. Fails if a docstring or a link names something that does not exist.
docs: $(READY)
	$(BIN)/python recipes/api_reference.py --out out/docs

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "condvae needs Python 3.11 or newer: set PYTHON=, for example make PYTHON=python3.12")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

clean:
	rm -rf .venv out .mypy_cache .pytest_cache .ruff_cache .hypothesis
