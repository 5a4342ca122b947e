"""A folder with a dataset in parts: nothing is written beside the parts, and overwriting replaces all of them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from tests._dataset.views.models import SPECS, files_of, make_samples, opened, write
from tests._pack.pack_sources import Numbered

import bushel

FORMS = ["tar", "bag", "gulp", "ffrecord"]


def in_parts(path: Path, container: str) -> None:
    bushel.pack(Numbered(6), path, container=container, parts=2, sync=False)


@pytest.mark.parametrize("container", FORMS)
@pytest.mark.parametrize("mode", ["create", "append", "resume"])
def test_a_folder_with_parts_is_refused(tmp_path: Path, container: str, mode: Any) -> None:
    in_parts(tmp_path / "out", container)
    before = files_of(tmp_path)
    with pytest.raises(FileExistsError, match=r"has a dataset in parts \(part-00000 and 1 more\) already: "):
        write(tmp_path / "out", "bag", make_samples("bag", 3), mode=mode)
    with pytest.raises(FileExistsError, match="in parts"):
        bushel.pack(Numbered(3), tmp_path / "out", container=container, mode=mode)
    shutil.rmtree(tmp_path / "out/.bushel")  # as a copy may lose it
    with pytest.raises(FileExistsError, match="in parts"):
        bushel.pack(Numbered(3), tmp_path / "out", container=container, mode=mode)
    assert {name: data for name, data in before.items() if ".bushel/run" not in name}.items() >= files_of(
        tmp_path
    ).items()
    assert len(opened(tmp_path / "out")) == 6


def test_the_plan_of_a_run_is_refused(tmp_path: Path) -> None:
    bushel.pack(Numbered(6), tmp_path / "out", container="tar", parts=2, part="plan")
    with pytest.raises(FileExistsError, match="has the plan of a run in parts already: use mode='overwrite'"):
        bushel.pack(Numbered(3), tmp_path / "out", container="tar")
    assert bushel.pack(Numbered(6), tmp_path / "out", container="tar", parts=2).samples == 6


@pytest.mark.parametrize("container", FORMS)
def test_overwrite_replaces_all_parts(tmp_path: Path, container: str) -> None:
    in_parts(tmp_path / "out", container)
    with bushel.Writer(tmp_path / "out", SPECS["tar"], container="tar", mode="overwrite", sync=False) as writer:
        for sample in make_samples("tar", 4):
            writer.append(sample)
        assert len(bushel.open(tmp_path / "out")) == 6
    assert len(opened(tmp_path / "out")) == 4
    assert not list((tmp_path / "out").glob("part-*"))
    assert not (tmp_path / "out/.bushel/run").exists()
    assert bushel.verify(tmp_path / "out").problems == ()


def test_overwrite_keeps_other_files_in_parts(tmp_path: Path) -> None:
    in_parts(tmp_path / "out", "tar")
    (tmp_path / "out/part-00001/notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"contains part-00001/notes\.txt, which is not part of a dataset"):
        write(tmp_path / "out", "tar", make_samples("tar", 3), mode="overwrite")
    assert len(opened(tmp_path / "out")) == 6
