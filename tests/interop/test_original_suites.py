"""The runner of the originals' own tests: what it maps, counts and reports. The suites themselves: `make suites`."""

import sys
from pathlib import Path

import original_suites
import pytest
from original_suites import Group, Suite
from tests.paths import ROOT

TESTS = """
import granular
import granular.sources
import pytest
from granular.sources import Epochs

def test_mapped():
    assert granular.__name__ == "bushel.compat.granular" and Epochs is granular.sources.Epochs

def test_wrong():
    assert granular.Nothing

def test_endless():
    while True:
        pass

@pytest.mark.skip
def test_skipped():
    pass

def test_remote():
    raise OSError
"""


@pytest.fixture
def suite(tmp_path: Path) -> Suite:
    (tmp_path / "original" / "tests").mkdir(parents=True)
    (tmp_path / "original" / "tests" / "test_it.py").write_text(TESTS)
    (tmp_path / "original" / "tests" / "test_broken.py").write_text("import granular.nothing\n")
    return Suite(
        name="one",
        url=str(tmp_path / "original"),
        commit="",
        copy=["tests"],
        tests=["tests"],
        imports={"granular": "bushel.compat.granular"},
        packages=[],
        needs={"network": ["tests/test_it.py::test_remote"]},
        not_passing=(Group("is wrong", ("tests/test_it.py::test_wrong", "tests/test_it.py::test_gone")),),
    )


def test_the_outcomes_of_a_suite(suite: Suite, tmp_path: Path) -> None:
    folder = tmp_path / "copy" / "tests"
    folder.parent.mkdir()
    original_suites.fetch(suite, suite.url, folder)
    outcomes = original_suites.run(suite, folder, network=False, seconds=2)
    assert outcomes == {
        "tests/test_broken.py": "error",
        "tests/test_it.py::test_mapped": "passed",
        "tests/test_it.py::test_wrong": "failed",
        "tests/test_it.py::test_endless": "failed",
        "tests/test_it.py::test_skipped": "skipped",
    }
    assert original_suites.surprises(suite, outcomes, network=False) == [
        "tests/test_broken.py failed",
        "tests/test_it.py::test_endless failed",
        "tests/test_it.py::test_gone is not there, though the list says that it fails",
    ]
    passed = dict.fromkeys(outcomes, "passed")
    assert "tests/test_it.py::test_wrong passed, though the list says that it fails" in original_suites.surprises(
        suite, passed, network=False
    )


def test_packages_that_are_missing_are_named(suite: Suite, tmp_path: Path) -> None:
    from dataclasses import replace

    with pytest.raises(original_suites.SuiteError, match=f"no_such_module for {sys.executable}"):
        original_suites.run(replace(suite, packages=["no_such_module"]), tmp_path, network=False, seconds=2)


def test_the_page_has_the_list() -> None:
    page = (ROOT / "docs" / "compat.md").read_text("utf-8")
    assert original_suites.as_markdown() in page
