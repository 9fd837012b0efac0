# `make demo` and `make test` each install all they need into .venv; nothing has to be there but Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench clean

demo: $(VENV)/demo.ready
	$(BIN)/doppler-plugins demo

test: $(VENV)/test.ready
	$(BIN)/python -m pytest $(PYTEST)

check: $(VENV)/test.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/test.ready
	$(BIN)/python benchmarks/embed_vs_peers.py

$(VENV)/demo.ready: pyproject.toml setup.sh
	PYTHON=$(PYTHON) VENV=$(VENV) ./setup.sh demo
	touch $@

$(VENV)/test.ready: pyproject.toml setup.sh
	PYTHON=$(PYTHON) VENV=$(VENV) ./setup.sh test
	touch $@

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
