# `make demo` and `make test` each install all they need into .venv; nothing has to be there but Python 3.11+ and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check bench bench-full-size bench-full-size-diffusion pin clean

demo: $(VENV)/demo.ready
	$(BIN)/doppler-plugins demo

test: $(VENV)/test.ready
	$(BIN)/python -m pytest $(PYTEST)

check: $(VENV)/test.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/test.ready
ifndef MODEL
	@echo "make bench MODEL=<folder of EmbeddingGemma-300M> [PEERS=<python> [GGUF=<files>]] [OUT=<figures.json>]   embedding"
	@echo "make bench MODEL=<gemma-3-270m.gguf> [PEERS=<python>] [OUT=<figures.json>]   generating"
	@echo "make bench-full-size [OUT=<figures.json>]   Gemma 4 E2B's size, random weights, 20.4 GB of disk"
	@echo "make bench-full-size-diffusion [OUT=<figures.json>]   DiffusionGemma 26B-A4B's, 15.7 GB of disk, 14 GB of memory"
	@echo "benchmarks/README.md says what PEERS and GGUF are."
	@exit 2
endif
	$(BIN)/python benchmarks/$(if $(filter %.gguf,$(MODEL)),generate,embed)_vs_peers.py $(MODEL) \
		$(if $(PEERS),--peers $(PEERS)) $(if $(GGUF),--gguf $(GGUF)) $(if $(OUT),--out $(OUT))

bench-full-size: $(VENV)/test.ready
	$(BIN)/python benchmarks/full_size_e2b.py $(if $(OUT),--out $(OUT))

bench-full-size-diffusion: $(VENV)/test.ready
	$(BIN)/python benchmarks/full_size_diffusion.py $(if $(OUT),--out $(OUT)) $(if $(FOLDER),--folder $(FOLDER))

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
