"""The comparison of public corpora says when it compared nothing."""

import subprocess
import sys
from pathlib import Path

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
