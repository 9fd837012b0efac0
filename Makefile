# `make demo` and `make test` each install all they need into .venv; nothing has to be there but Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench pin clean

demo: $(VENV)/demo.ready
	$(BIN)/doppler-plugins demo

test: $(VENV)/test.ready
	$(BIN)/python -m pytest $(PYTEST)

check: $(VENV)/test.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/test.ready
	$(BIN)/python benchmarks/embed_vs_peers.py $(MODEL) $(if $(PEERS),--peers $(PEERS)) $(if $(GGUF),--gguf $(GGUF))

$(VENV)/demo.ready: pyproject.toml setup.sh
	PYTHON=$(PYTHON) VENV=$(VENV) ./setup.sh demo
	touch $@

$(VENV)/test.ready: pyproject.toml setup.sh
	PYTHON=$(PYTHON) VENV=$(VENV) ./setup.sh test
	touch $@

# After a change to a kernel's text: write its digest into the shipped manifests.
pin: $(VENV)/test.ready
	for manifest in manifests/*-*.json manifests/templates/*.json models/*/manifest.json; do $(BIN)/doppler-plugins pin "$$manifest" || exit 1; done

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache
