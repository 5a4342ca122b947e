"""Sites of several versions are side by side in a branch, and a release of an old one does not replace the latest."""

from __future__ import annotations

import json
import runpy
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.paths import ROOT


@pytest.fixture(scope="module")
def script() -> Any:
    return SimpleNamespace(**runpy.run_path(str(ROOT / "make/publish_site.py")))


@pytest.fixture
def repository(script: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    for role in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{role}_NAME", "Test")
        monkeypatch.setenv(f"GIT_{role}_EMAIL", "test@localhost")
    subprocess.run(["git", "init", "--quiet", "--bare", str(tmp_path / "repository")], check=True)
    return script.Repository(tmp_path / "repository")


def site(folder: Path, text: str) -> Path:
    (folder / "page").mkdir(parents=True)
    (folder / "index.html").write_text(text)
    (folder / "page" / "index.html").write_text("the same in all")
    (folder / f"{text}.html").write_text("only in this one")
    (folder / ".gitignore").write_text("*.html")
    return folder


def files(repository: Any) -> dict[str, str]:
    names = repository.git("ls-tree", "-r", "--name-only", "gh-pages").splitlines()
    return {name: repository.git("show", f"gh-pages:{name}") for name in names}


def test_versions_lie_side_by_side(repository: Any, tmp_path: Path) -> None:
    for number, name in enumerate(["dev", "v0.1.0", "v0.2.0", "v0.1.1", "v0.3.0rc1", "dev"]):
        repository.publish(site(tmp_path / str(number), f"{name}-{number}"), name, "gh-pages")
    found = files(repository)
    shown = {folder: found[f"{folder}/index.html"] for folder in ("dev", "latest", "0.1", "0.2", "0.3.0rc1")}
    assert shown == {
        "dev": "dev-5",
        "latest": "v0.2.0-2",
        "0.1": "v0.1.1-3",
        "0.2": "v0.2.0-2",
        "0.3.0rc1": "v0.3.0rc1-4",
    }
    assert "0.1/v0.1.0-1.html" not in found  # a correction replaces all of what it corrects
    assert "dev/dev-0.html" not in found
    assert "latest/v0.2.0-2.html" in found
    assert "url=latest/" in found["index.html"]
    assert found[".nojekyll"] == ""
    listed = json.loads(found["versions.json"])
    assert [each["version"] for each in listed] == ["dev", "0.3.0rc1", "0.2", "0.1"]
    assert {each["version"]: each["aliases"] for each in listed if each["aliases"]} == {"0.2": ["latest"]}
    assert repository.git("rev-list", "--count", "gh-pages") == "6"


def test_before_the_first_release(repository: Any, tmp_path: Path) -> None:
    repository.publish(site(tmp_path / "site", "first"), "dev", "gh-pages")
    assert "url=dev/" in files(repository)["index.html"]


def test_a_change_at_the_same_time_is_refused(repository: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    repository.publish(site(tmp_path / "site", "first"), "dev", "gh-pages")
    head = repository.head("gh-pages")
    repository.publish(tmp_path / "site", "v0.1.0", "gh-pages")
    monkeypatch.setattr(repository, "head", lambda branch: head)
    with pytest.raises(subprocess.CalledProcessError):
        repository.publish(tmp_path / "site", "v0.2.0", "gh-pages")
    assert "0.1/index.html" in files(repository)


@pytest.mark.parametrize("name", ["main", "", "v1", "0.1/../../x", "latest"])
def test_other_names_are_refused(script: Any, name: str) -> None:
    with pytest.raises(ValueError, match=r"is not a version: expected dev, or a tag such as v0\.2\.1"):
        script.folder_of(name)


def test_a_folder_without_a_site_is_refused(repository: Any, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="run `make docs`"):
        repository.publish(tmp_path, "dev", "gh-pages")
    assert repository.head("gh-pages") is None
