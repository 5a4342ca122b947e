"""The files of a run are not trusted: whatever its plans and manifests name, only files of the run are touched."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests._pack.pack_sources import Numbered

import bushel
from bushel._pack.finish import finish_run
from bushel._pack.run_folder import find_run
from bushel.errors import BushelError, FormatError, StateError
from bushel.storage import read_whole, write_whole

NAMES = ["../../victim/kept", "../victim/kept", "{victim}/kept", "a\0b", "a\nb", "", "s3://other/kept"]


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A folder beside the run, with something in it that a run could take for its own."""
    folder = tmp_path / "victim"
    (folder / "part-00000").mkdir(parents=True)
    for name in ("kept", "part-00000/spec.json"):
        (folder / name).write_text("kept")
    return folder


def is_whole(victim: Path) -> bool:
    there = {str(path.relative_to(victim)) for path in victim.rglob("*")}
    return there == {"kept", "part-00000", "part-00000/spec.json"}


def written(target: Path) -> Path:
    """A run whose parts are written, and which is not finished. The manifest of its first part."""
    for part in (0, 1):
        bushel.pack(Numbered(6), target, container="tar", parts=2, part=part)
    return target / "part-00000" / ".bushel" / "manifest.json"


def change(path: Any, edit: Callable[[dict[str, Any]], None]) -> None:
    record = json.loads(read_whole(path))
    edit(record)
    write_whole(path, json.dumps(record).encode())


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", ["file", "shard"])
def test_the_names_in_the_manifest_of_a_part(name: str, where: str, tmp_path: Path, victim: Path) -> None:
    manifest, name = written(tmp_path / "out"), name.format(victim=victim)

    def edit(forged: dict[str, Any]) -> None:
        if where == "file":
            forged["shards"][0]["files"][0][0] = name
        else:
            forged["shards"][0]["name"] = name

    change(manifest, edit)
    with pytest.raises((FormatError, StateError), match="manifest|parts of .* are missing: 0"):
        finish_run(*find_run(tmp_path / "out"))
    assert is_whole(victim)
    with suppress(FormatError):
        bushel.pack(Numbered(6), tmp_path / "out", container="tar", parts=2)
    assert is_whole(victim)


@pytest.mark.parametrize("edit", [{"part": None}, {"complete": False}, {"shards": 3}, {"part": {"run": "other"}}])
def test_a_manifest_that_is_not_of_the_run(edit: dict[str, Any], tmp_path: Path) -> None:
    change(written(tmp_path / "out"), lambda forged: forged.update(edit))
    run, plan = find_run(tmp_path / "out")
    assert run.missing(plan) == [0]
    assert bushel.pack(Numbered(6), tmp_path / "out", container="tar", parts=2).samples == 3


@pytest.mark.parametrize("starts", [[], [0, 9, 4, 6], [1, 6], [0, -3, 6], [0, 3, 7]])
def test_a_plan_that_does_not_divide_its_items(starts: list[int], tmp_path: Path) -> None:
    written(tmp_path / "out")
    change(tmp_path / "out/.bushel/run/plan.json", lambda plan: plan.update(starts=starts))
    with pytest.raises(FormatError, match="do not divide"):
        find_run(tmp_path / "out")


@pytest.mark.parametrize("linked", [".bushel", ".bushel/run", ".bushel/overwrite"])
def test_links_in_the_place_of_the_files_of_a_run(linked: str, tmp_path: Path, victim: Path) -> None:
    target = tmp_path / "out"
    written(target).unlink()  # so that the part is written again
    link = target / linked
    link.rename(tmp_path / "moved") if link.exists() else None
    if linked != ".bushel/overwrite":  # the plan is found through the link
        for path in (tmp_path / "moved").rglob("*.json"):
            kept = victim / path.relative_to(tmp_path / "moved")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(path.read_bytes())
    link.symlink_to(victim)
    before = sorted(path for path in victim.rglob("*"))
    with pytest.raises((OSError, BushelError)):
        bushel.pack(Numbered(6), target, container="tar", parts=2, mode="overwrite")
    assert sorted(path for path in victim.rglob("*")) == before
