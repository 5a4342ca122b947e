# Every target makes what it needs, .venv first (scripts/environment.sh). `make` alone lists them.

PYTHON_OF_VENV := .venv/bin/python
READY := .venv/.ready
CPP := $(wildcard src/bushel/kernels/*.cpp src/bushel/kernels/*.hpp)

.DEFAULT_GOAL := help
.PHONY: help demo test lint installed bench kernels interop-env interop nightly fuzz clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY)  ## pack photos into all five containers, verify them, read them at random, iterate over them
	$(PYTHON_OF_VENV) examples/demo.py

test: lint installed  ## what must pass before a change goes in: linters, types, an installation, all tests
	$(PYTHON_OF_VENV) -m pytest -n auto

lint: $(READY)  ## ruff and mypy --strict
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

installed: $(READY)  ## install the package as users do, without what only developers have, and run the demo with that
	rm -rf build/installed
	$(PYTHON_OF_VENV) -m venv build/installed
	build/installed/bin/python -m pip install --quiet --disable-pip-version-check \
		--config-settings=build-dir=build/installed/cmake .
	build/installed/bin/python examples/demo.py --quick

bench: $(READY)  ## a small form of every benchmark; docs/benchmarks.md tells of the whole
	$(PYTHON_OF_VENV) benchmarks/reads.py --small --out .bench/reads.json
	$(PYTHON_OF_VENV) benchmarks/opening.py --small --out .bench/opening.json
	$(PYTHON_OF_VENV) benchmarks/packing.py --small --out .bench/packing.json
	$(PYTHON_OF_VENV) benchmarks/loading.py --small --out .bench/loading.json
	$(PYTHON_OF_VENV) benchmarks/images.py --small --out .bench/images.json
	$(PYTHON_OF_VENV) benchmarks/crops.py --small --out .bench/crops.json

kernels:  ## compile the C++ again
	rm -f $(READY)
	$(MAKE) $(READY)

interop-env: $(READY)  ## environments that hold the original packages, in .interop
	$(PYTHON_OF_VENV) interop/environments.py

interop: interop-env  ## tests against the original packages
	$(PYTHON_OF_VENV) -m pytest -m interop

nightly: $(READY)  ## every test but interop, with many more examples
	HYPOTHESIS_PROFILE=nightly $(PYTHON_OF_VENV) -m pytest -n auto -m "not interop"

fuzz: $(READY)  ## damaged files only, with many more examples
	HYPOTHESIS_PROFILE=nightly $(PYTHON_OF_VENV) -m pytest -n auto -m "not interop" -k "fuzz or damage"

clean:  ## remove everything that was made, environments too
	rm -rf .venv .interop .bench build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml CMakeLists.txt scripts/environment.sh $(CPP)
	scripts/environment.sh
	touch $@
