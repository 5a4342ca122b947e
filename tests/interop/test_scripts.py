"""What the scripts of `interop/` do without the originals: they find Pythons, and say when they compared nothing."""

import subprocess
import sys
from pathlib import Path

import environments
import public_corpora
import pytest


def test_a_folder_without_files_of_the_corpus_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["public_corpora.py", "images", "--from", str(tmp_path)])
    assert public_corpora.main() == 1
    assert "no file of https://github.com/python-pillow/test-images is there" in capsys.readouterr().out


def test_a_bare_repository_is_no_folder_with_files(tmp_path: Path) -> None:
    repository = tmp_path / "repository.git"
    subprocess.run(["git", "init", "--quiet", "--bare", repository], check=True)
    with pytest.raises(subprocess.CalledProcessError):  # Git was asked for the commit, which is not there
        public_corpora.fetch(public_corpora.CORPORA["images"], str(repository), tmp_path / "place")


def test_a_python_of_pyenv_is_found_where_its_name_on_the_path_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name_on_path = tmp_path / "shims" / "python3.99"
    python = tmp_path / "versions" / "3.99.1" / "bin" / "python3.99"
    for path, status in ((name_on_path, 127), (python, 0)):
        path.parent.mkdir(parents=True)
        path.write_text(f"#!/bin/sh\nexit {status}\n")
        path.chmod(0o755)
    monkeypatch.setenv("PATH", str(name_on_path.parent), prepend=":")
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert environments._interpreter("3.99") == str(python)
    python.unlink()
    with pytest.raises(environments.EnvironmentFailedError, match=r"install python3\.99"):
        environments._interpreter("3.99")
