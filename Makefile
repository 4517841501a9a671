# `make demo` and `make test` need Python >= 3.11 and make, and nothing done before.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo train-demo fetch test lint types unit docs clean

demo: $(READY)
	$(BIN)/python recipes/demo.py --out out/demo

train-demo: $(READY)
	$(BIN)/python recipes/train_in_a_minute.py --out out/train_in_a_minute

# The networks of metrics (146 MB, once): tests that compare with them are skipped where they are not.
fetch: $(READY)
	$(BIN)/condvae fetch metrics

test: lint types unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

# One thread for each worker: two of them already fill two cores.
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
