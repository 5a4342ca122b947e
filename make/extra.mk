# Targets that few people need: other environments, systems and compilers, long campaigns, releases. The Makefile includes this file.

.PHONY: help-all extras test-lowest test-newest test-all-pythons workflows bench-check publish-docs wheels sdist sdist-layouts types installed ceiling interop-env suites corpora object-store browser nightly fuzz campaign faults sanitize aarch64 wheel wheel-aarch64

help-all:  ## list all targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

extras: $(READY)  ## install all extras and the packages beside which the tests run, so that `make test` skips none of them
	$(PYTHON_OF_VENV) -m pip install --quiet --disable-pip-version-check --group extras

installed: $(READY)  ## install the package as users do, without development tools, and run the demo
	rm -rf build/installed
	$(PYTHON_OF_VENV) -m pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps \
		--wheel-dir build/installed .
	$(PYTHON_OF_VENV) -m venv --without-pip build/installed
	$(PYTHON_OF_VENV) -m pip --python build/installed/bin/python install --quiet --disable-pip-version-check \
		build/installed/bushel-*.whl
	build/installed/bin/python examples/demo.py --quick

ceiling: $(READY)  ## compile the C++ loop that benchmarks/crops.py compares the loader with
	.venv/bin/cmake -S . -B build/ceiling -DCMAKE_BUILD_TYPE=Release -DBUSHEL_CEILING=ON \
		-DCMAKE_CXX_COMPILER=$(CXX) -DPython_EXECUTABLE=$(abspath $(PYTHON_OF_VENV)) \
		-Dnanobind_DIR=$$($(PYTHON_OF_VENV) -m nanobind --cmake_dir)
	.venv/bin/cmake --build build/ceiling --target jpeg_ceiling

interop-env: $(READY)  ## make environments with the original packages, in .interop
	$(PYTHON_OF_VENV) interop/environments.py

suites: $(READY)  ## the originals' own tests with the drop-ins (fetched from GitHub; NAME=granular: one of them)
	$(PYTHON_OF_VENV) -m pip install --quiet --disable-pip-version-check --requirement interop/original_suites.txt
	$(PYTHON_OF_VENV) interop/original_suites.py $(NAME)

corpora: $(READY)  ## public test corpora, compared with reference readers (fetched by Git; NAME=parquet: one of them)
	$(PYTHON_OF_VENV) interop/public_corpora.py $(NAME)

object-store:  ## start an S3 server on loopback (Ceph, installed if missing); stop it with scripts/object_store.sh stop
	scripts/object_store.sh start

browser: $(READY)  ## tests of the viewer in Chromium, which is installed if missing; SCREENSHOTS=docs: take those, too
	scripts/browser.sh
	$(PYTHON_OF_VENV) -m pytest -m browser tests/viewer
	$(if $(SCREENSHOTS),$(PYTHON_OF_VENV) scripts/screenshots.py $(SCREENSHOTS))

nightly: $(READY)  ## all tests except interop, cloud and cluster, with many more examples
	HYPOTHESIS_PROFILE=nightly $(PYTHON_OF_VENV) -m pytest -n auto -m "not interop and not cloud and not cluster and not browser"

fuzz: $(READY)  ## damaged files with many more examples; then libFuzzer on the JPEG decoders and on each scan, for FUZZ_SECONDS (60)
	HYPOTHESIS_PROFILE=nightly $(PYTHON_OF_VENV) -m pytest -n auto -m "not interop and not cloud and not cluster and not browser" -k "fuzz or damage"
	scripts/fuzz_jpeg.sh
	scripts/fuzz_scans.sh

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
	make/wheel.sh

wheel-aarch64: $(READY)  ## a wheel for 64-bit ARM, cross-compiled, in dist/, tested under qemu-user (Debian; installs both if missing)
	make/wheel_aarch64.sh $(TESTS)

wheels: $(READY)  ## wheels for every Python on this system and machine, by cibuildwheel (needs Docker on Linux), in dist/
	$(PYTHON_OF_VENV) -m pip install --quiet --disable-pip-version-check "cibuildwheel>=3"
	$(PYTHON_OF_VENV) -m cibuildwheel --output-dir dist

sdist: $(READY)  ## the source distribution in dist/, built and run as a stranger does
	make/sdist.sh

sdist-layouts: sdist  ## the sdist on Debian 12 and 13, Ubuntu 22.04 and 24.04 and an emulated Fedora (root; by debootstrap)
	make/sdist_layouts.sh $(LAYOUTS)

test-all-pythons: $(READY)  ## the tests with every Python from 3.11 on that is here
	scripts/all_pythons.sh $(TESTS)

test-lowest: $(READY)  ## the tests with the lowest versions of the dependencies
	scripts/dependencies.sh lowest $(TESTS)

test-newest: $(READY)  ## the tests with the newest versions of the dependencies
	scripts/dependencies.sh newest $(TESTS)

bench-check: $(READY)  ## CPU time compared with that of the commit BASE (HEAD~1); fails if a case takes 5 % more, each time that it is measured
	scripts/bench_check.sh $(or $(BASE),HEAD~1)

publish-docs: docs  ## put the site into the branch gh-pages, beside those of other versions; VERSION=v0.2.0, or dev (the default)
	$(PYTHON_OF_VENV) make/publish_site.py build/site $(or $(VERSION),dev)

types: $(READY) installed  ## mypy and pyright on examples/, against the installed package
	scripts/types.sh

workflows: $(READY)  ## check the workflows of GitHub with actionlint and zizmor, installed if missing
	scripts/workflows.sh

aarch64: $(READY)  ## compile the kernels for 64-bit ARM, and run their tests under qemu-user (Debian; installs both if missing)
	make/aarch64.sh
