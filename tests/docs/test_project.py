"""The files of the project: versions agree, fragments of the changelog are joined, templates and citation parse."""

from __future__ import annotations

import re
import runpy
import tomllib
from pathlib import Path

import pytest
from tests.paths import ROOT

import bushel


def test_the_version_is_in_one_place() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["scikit-build"]["metadata"]["version"]["input"] == "src/bushel/__init__.py"
    citation = (ROOT / "CITATION.cff").read_text("utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE)[1] == bushel.__version__  # type: ignore[index]


def test_fragments_are_named_as_they_should_be() -> None:
    runpy.run_path(str(ROOT / "make/changelog.py"))["fragments"](ROOT / "changes")


def test_a_release_joins_fragments_and_what_was_unreleased(tmp_path: Path) -> None:
    script = runpy.run_path(str(ROOT / "make/changelog.py"))
    (tmp_path / "README.md").write_text("how")
    (tmp_path / "hub.datasets.md").write_text("- Hub.\n")
    (tmp_path / "fast.training.md").write_text("- Fast.\n  And more.\n")
    older = "## 0.1.0 (2026-12-01)\n\n- Old.\n"
    page = f"# Changelog\n\n## Unreleased\n\n### Datasets\n\n- One.\n\n### Writing\n\n- Two.\n\n{older}"
    assert script["release"](page, script["fragments"](tmp_path), "0.2.0", "2027-01-31") == (
        "# Changelog\n\n## Unreleased\n\n## 0.2.0 (2027-01-31)\n\n### Datasets\n\n- One.\n- Hub.\n\n"
        f"### Writing\n\n- Two.\n\n### Training\n\n- Fast.\n  And more.\n\n{older}"
    )
    assert script["join"](page, script["fragments"](tmp_path)) == (
        "# Changelog\n\n## Unreleased\n\n### Datasets\n\n- One.\n- Hub.\n\n"
        f"### Writing\n\n- Two.\n\n### Training\n\n- Fast.\n  And more.\n\n{older}"
    )
    first = "# Changelog\n\n## Unreleased\n"
    assert script["release"](first, {}, "0.1.0", "2026-12-01").endswith("## Unreleased\n\n## 0.1.0 (2026-12-01)\n\n\n")
    (tmp_path / "what.md").write_text("- x")
    with pytest.raises(ValueError, match=r"expected NAME\.SECTION\.md"):
        script["fragments"](tmp_path)


def test_templates_and_the_citation_parse() -> None:
    yaml = pytest.importorskip("yaml")
    for path in [ROOT / "CITATION.cff", *(ROOT / ".github").rglob("*.yml")]:
        assert isinstance(yaml.safe_load(path.read_text("utf-8")), dict), path
    for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml"):
        form = yaml.safe_load(path.read_text("utf-8"))
        if path.name != "config.yml":
            assert form["name"]
            assert all(each["type"] in ("markdown", "textarea", "input") for each in form["body"])


def test_no_invented_addresses() -> None:
    for name in ("SECURITY.md", "CITATION.cff", "CONTRIBUTING.md", "pyproject.toml"):
        text = (ROOT / name).read_text("utf-8")
        assert not re.search(r"[\w.]+@[\w-]+\.\w+", text), name
        assert "github.com/" not in text, f"{name}: the address of this repository is not known yet"
