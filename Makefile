# Every target makes what it needs, .venv first (scripts/environment.sh). `make` alone lists them.

PYTHON_OF_VENV := .venv/bin/python
READY := .venv/.ready
CPP := $(shell find src/bushel/kernels -name '*.cpp' -o -name '*.hpp')
MODULES := build/modules.txt

ifdef COVERAGE
RUN_TESTS = rm -rf build/coverage && mkdir -p build/coverage && \
	$(PYTHON_OF_VENV) -m coverage run -m pytest -n auto --durations=20 && \
	$(PYTHON_OF_VENV) -m coverage combine --quiet && $(PYTHON_OF_VENV) -m coverage report
else
RUN_TESTS = $(PYTHON_OF_VENV) -m pytest -n auto --durations=20
endif

.DEFAULT_GOAL := help
.PHONY: help demo test test-lowest test-newest test-all-pythons docs workflows bench-check publish-docs wheels sdist sdist-layouts types coverage lint installed bench ceiling kernels interop-env interop suites object-store cloud cluster browser nightly fuzz campaign faults sanitize aarch64 wheel wheel-aarch64 clean

help:  ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY)  ## pack photos into all five containers, verify them, read them at random, iterate over them
	$(PYTHON_OF_VENV) examples/demo.py

test: lint installed  ## linters, types, an installation and all tests; must pass before every change
	$(RUN_TESTS)

coverage:  ## the same as `make test`, with branch coverage; fails if it is too low
	$(MAKE) test COVERAGE=1

lint: $(READY)  ## ruff and mypy --strict
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy

installed: $(READY)  ## install the package as users do, without development tools, and run the demo
	rm -rf build/installed
	$(PYTHON_OF_VENV) -m venv build/installed
	build/installed/bin/python -m pip install --quiet --disable-pip-version-check \
		--config-settings=build-dir=build/installed/cmake .
	build/installed/bin/python examples/demo.py --quick

bench: $(READY) ceiling  ## a small form of every benchmark (docs/benchmarks.md describes the full form)
	$(PYTHON_OF_VENV) benchmarks/reads.py --small --out .bench/reads.json
	$(PYTHON_OF_VENV) benchmarks/opening.py --small --out .bench/opening.json
	$(PYTHON_OF_VENV) benchmarks/packing.py --small --out .bench/packing.json
	$(PYTHON_OF_VENV) benchmarks/appending.py --small --out .bench/appending.json
	$(PYTHON_OF_VENV) benchmarks/loading.py --small --out .bench/loading.json
	$(PYTHON_OF_VENV) benchmarks/images.py --small --out .bench/images.json
	$(PYTHON_OF_VENV) benchmarks/crops.py --small --out .bench/crops.json --plot .bench/crops.svg
	$(PYTHON_OF_VENV) benchmarks/video.py --small --out .bench/video.json

ceiling: $(READY)  ## compile the C++ loop that benchmarks/crops.py compares the loader with
	.venv/bin/cmake -S . -B build/ceiling -DCMAKE_BUILD_TYPE=Release -DBUSHEL_CEILING=ON \
		-DCMAKE_CXX_COMPILER=$(CXX) -DPython_EXECUTABLE=$(abspath $(PYTHON_OF_VENV)) \
		-Dnanobind_DIR=$$($(PYTHON_OF_VENV) -m nanobind --cmake_dir)
	.venv/bin/cmake --build build/ceiling --target jpeg_ceiling

kernels:  ## compile the C++ again
	rm -f $(READY)
	$(MAKE) $(READY)

interop-env: $(READY)  ## make environments with the original packages, in .interop
	$(PYTHON_OF_VENV) interop/environments.py

interop: interop-env  ## tests against the original packages
	$(PYTHON_OF_VENV) -m pytest -m interop

suites: $(READY)  ## the originals' own tests with the drop-ins (fetched from GitHub; NAME=granular: one of them)
	$(PYTHON_OF_VENV) -m pip install --quiet --disable-pip-version-check --requirement interop/original_suites.txt
	$(PYTHON_OF_VENV) interop/original_suites.py $(NAME)

object-store:  ## start an S3 server on loopback (Ceph, installed if missing); stop it with scripts/object_store.sh stop
	scripts/object_store.sh start

cloud: $(READY) object-store  ## tests against S3, Azure Blob Storage (Azurite) and nginx, which are installed if missing
	scripts/object_store.sh others
	$(PYTHON_OF_VENV) -m pytest -m cloud tests/cloud; status=$$?; scripts/object_store.sh stop; exit $$status

cluster: $(READY) object-store  ## tests on Ray, Dask, Slurm and S3 on loopback, installed if missing; KILLS=50: kill each that often
	scripts/cluster.sh install
	scripts/cluster.sh start
	PYTHONPATH=$(abspath .cluster/packages) $(PYTHON_OF_VENV) -m pytest -m cluster tests/engines tests/cluster tests/integrations tests/docs; status=$$?; \
	scripts/cluster.sh stop; scripts/object_store.sh stop; exit $$status

browser: $(READY)  ## tests of the viewer in Chromium, which is installed if missing; SCREENSHOTS=docs: take those, too
	scripts/browser.sh
	$(PYTHON_OF_VENV) -m pytest -m browser tests/viewer
	$(if $(SCREENSHOTS),$(PYTHON_OF_VENV) scripts/screenshots.py $(SCREENSHOTS))

nightly: $(READY)  ## all tests except interop, cloud and cluster, with many more examples
	HYPOTHESIS_PROFILE=nightly $(PYTHON_OF_VENV) -m pytest -n auto -m "not interop and not cloud and not cluster and not browser"

fuzz: $(READY)  ## damaged files with many more examples; then libFuzzer on the JPEG decoders for FUZZ_SECONDS (60)
	HYPOTHESIS_PROFILE=nightly $(PYTHON_OF_VENV) -m pytest -n auto -m "not interop and not cloud and not cluster and not browser" -k "fuzz or damage"
	scripts/fuzz_jpeg.sh

CASES ?= 1000000

campaign: $(READY)  ## CASES (1000000) damaged files of each container; resumes where it was stopped (docs/reliability.md)
	$(PYTHON_OF_VENV) -m tests.fuzz.campaign --suite kernels --sanitize --cases $(CASES)
	$(PYTHON_OF_VENV) -m tests.fuzz.campaign --cases $(CASES)

faults: $(READY)  ## kill writers and fail their system calls, KILLS times for each job (200), and lose what was not synced
	$(PYTHON_OF_VENV) -m tests.faults.campaign --kills $(or $(KILLS),200) --seed $(or $(SEED),2027)
	$(PYTHON_OF_VENV) -m tests.faults.campaign --errors --kills $(or $(KILLS),200) --seed $(or $(SEED),2027)

sanitize: $(READY)  ## tests of the kernels under AddressSanitizer and UndefinedBehaviorSanitizer
	scripts/sanitize.sh

wheel: $(READY)  ## a wheel for this Python and machine with libjpeg-turbo inside, in dist/, tested without a compiler
	scripts/wheel.sh

wheel-aarch64: $(READY)  ## a wheel for 64-bit ARM, cross-compiled, in dist/, tested under qemu-user (Debian; installs both if missing)
	scripts/wheel_aarch64.sh $(TESTS)

wheels: $(READY)  ## wheels for every Python on this system and machine, by cibuildwheel (needs Docker on Linux), in dist/
	$(PYTHON_OF_VENV) -m pip install --quiet --disable-pip-version-check "cibuildwheel>=3"
	$(PYTHON_OF_VENV) -m cibuildwheel --output-dir dist

sdist: $(READY)  ## the source distribution in dist/, built and run as a stranger does
	scripts/sdist.sh

sdist-layouts: sdist  ## the sdist on Debian 12, Ubuntu 22.04 and 24.04 and an emulated Fedora (root; by debootstrap)
	scripts/sdist_layouts.sh $(LAYOUTS)

test-all-pythons: $(READY)  ## the tests with every Python from 3.11 on that is here
	scripts/all_pythons.sh $(TESTS)

test-lowest: $(READY)  ## the tests with the lowest versions of the dependencies
	scripts/dependencies.sh lowest $(TESTS)

test-newest: $(READY)  ## the tests with the newest versions of the dependencies
	scripts/dependencies.sh newest $(TESTS)

bench-check: $(READY)  ## CPU time compared with that of the commit BASE (HEAD~1); fails if a case takes 15 % more
	scripts/bench_check.sh $(or $(BASE),HEAD~1)

docs: $(READY)  ## the site in build/site, by Zensical, which is installed if missing; fails for a dead link
	scripts/docs.sh

publish-docs: docs  ## put the site into the branch gh-pages, beside those of other versions; VERSION=v0.2.0, or dev (the default)
	$(PYTHON_OF_VENV) scripts/publish_site.py build/site $(or $(VERSION),dev)

types: $(READY) installed  ## mypy and pyright on examples/, against the installed package
	scripts/types.sh

workflows: $(READY)  ## check the workflows of GitHub with actionlint and zizmor, installed if missing
	scripts/workflows.sh

aarch64: $(READY)  ## compile the kernels for 64-bit ARM, and run their tests under qemu-user (Debian; installs both if missing)
	scripts/aarch64.sh

clean:  ## remove all build products and environments
	rm -rf .types .venv .interop .cloud .cluster .browser .bench .workflows .site build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): pyproject.toml CMakeLists.txt scripts/environment.sh $(CPP) $(MODULES)
	scripts/environment.sh
	touch $@

# An editable installation notes the file of every module, so it is made again after a module was moved.
$(MODULES): FORCE
	@mkdir -p $(@D)
	@find src -name '*.py' | LC_ALL=C sort > $@.new
	@if cmp -s $@.new $@; then rm $@.new; else mv $@.new $@; fi

FORCE:
