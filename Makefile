# Every target makes what it needs, .venv first (scripts/environment.sh). `make` alone lists the usual ones; make/extra.mk
# has the others.

PYTHON_OF_VENV := .venv/bin/python
INSTALLED := .venv/.installed
READY := .venv/.ready
CPP := $(shell find src/bushel/kernels -name '*.cpp' -o -name '*.hpp')
MODULES := build/modules.txt
# Where it is set, each of a thousand processes would compile the packages of .venv again, and each pytest Hypothesis.
unexport PYTHONDONTWRITEBYTECODE

ifdef COVERAGE
RUN_TESTS = rm -rf build/coverage && mkdir -p build/coverage && \
	$(PYTHON_OF_VENV) -m coverage run -m pytest -n auto --dist worksteal --durations=20 && \
	$(PYTHON_OF_VENV) -m coverage combine --quiet && $(PYTHON_OF_VENV) -m coverage report
else
RUN_TESTS = $(PYTHON_OF_VENV) -m pytest -n auto --dist worksteal --durations=20 $(PYTEST_OPTIONS)
endif

.DEFAULT_GOAL := help
.PHONY: help demo test coverage lint kernels docs bench interop cloud cluster clean

help:  ## list these targets; `make help-all` lists all
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

demo: $(INSTALLED)  ## pack photos into all five containers, verify them, read them at random, iterate over them
	$(PYTHON_OF_VENV) examples/demo.py

test:  ## linters, types, an installation and all tests; must pass before every change
	$(MAKE) --jobs=2 --output-sync=target lint installed
	$(RUN_TESTS)

coverage:  ## the same as `make test`, with branch coverage; fails if it is too low
	$(MAKE) test COVERAGE=1

lint: $(READY)  ## ruff and mypy --strict
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

kernels:  ## compile the C++ again
	rm -f $(INSTALLED)
	$(MAKE) $(READY)

docs: $(READY)  ## the site in build/site, by Zensical, which is installed if missing; fails for a dead link
	scripts/docs.sh

bench: $(READY) ceiling  ## a small form of every benchmark (docs/benchmarks.md describes the full form)
	$(PYTHON_OF_VENV) benchmarks/reads.py --small --out .bench/reads.json
	$(PYTHON_OF_VENV) benchmarks/opening.py --small --out .bench/opening.json
	$(PYTHON_OF_VENV) benchmarks/packing.py --small --out .bench/packing.json
	$(PYTHON_OF_VENV) benchmarks/appending.py --small --out .bench/appending.json
	$(PYTHON_OF_VENV) benchmarks/loading.py --small --out .bench/loading.json
	$(PYTHON_OF_VENV) benchmarks/images.py --small --out .bench/images.json
	$(PYTHON_OF_VENV) benchmarks/crops.py --small --out .bench/crops.json --plot .bench/crops.svg
	$(PYTHON_OF_VENV) benchmarks/video.py --small --out .bench/video.json

interop: interop-env  ## tests against the original packages
	$(PYTHON_OF_VENV) -m pytest -m interop

cloud: $(READY) object-store  ## tests against S3, Azure Blob Storage (Azurite) and nginx, which are installed if missing
	scripts/object_store.sh others
	$(PYTHON_OF_VENV) -m pytest -m cloud tests/cloud; status=$$?; scripts/object_store.sh stop; exit $$status

cluster: $(READY) object-store  ## tests on Ray, Dask, Slurm and S3 on loopback, installed if missing; KILLS=50: kill each that often
	scripts/cluster.sh install
	scripts/cluster.sh start
	PYTHONPATH=$(abspath .cluster/packages) $(PYTHON_OF_VENV) -m pytest -m cluster tests/engines tests/cluster tests/integrations tests/docs; status=$$?; \
	scripts/cluster.sh stop; scripts/object_store.sh stop; exit $$status

clean:  ## remove all build products and environments
	rm -rf .types .venv .interop .cloud .cluster .browser .bench .workflows .site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

include make/extra.mk

$(INSTALLED): pyproject.toml CMakeLists.txt scripts/environment.sh $(CPP) $(MODULES)
	@scripts/environment.sh
	@touch $@

$(READY): $(INSTALLED)
	@scripts/environment.sh dev
	@touch $@

# An editable installation notes the file of every module, so it is made again after a module was moved.
$(MODULES): FORCE
	@mkdir -p $(@D)
	@find src -name '*.py' | LC_ALL=C sort > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

FORCE:
