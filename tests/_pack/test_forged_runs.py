"""The files of a run are not trusted: whatever its records and plans name, only files of the run are touched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests._pack.pack_sources import Numbered
from tests.storage.objects.memory import Buckets, objects_in

import bushel
from bushel._pack.finish import finish_run
from bushel._pack.run_folder import find_run
from bushel.errors import BushelError, FormatError
from bushel.storage import read_whole, write_whole
from bushel.storage.objects.location import ObjectPath

ATTEMPTS = ["../../../victim", "../../../../victim", "{victim}", "", ".", "..", "00001-0123456789ab", "00000-xyz", "\n"]
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
    """A run whose parts are committed, and which is not finished. The record of its first part."""
    for part in (0, 1):
        bushel.pack(Numbered(6), target, container="tar", parts=2, part=part)
    return target / ".bushel" / "run" / "parts" / "00000.json"


def change(path: Any, edit: Callable[[dict[str, Any]], None]) -> None:
    record = json.loads(read_whole(path))
    edit(record)
    write_whole(path, json.dumps(record).encode())


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_the_attempt_of_a_record(attempt: str, tmp_path: Path, victim: Path) -> None:
    record = written(tmp_path / "out")
    change(record, lambda one: one.update(attempt=attempt.format(victim=victim)))
    with pytest.raises(FormatError, match="record of part 0"):
        finish_run(*find_run(tmp_path / "out"))
    with pytest.raises(FormatError):
        bushel.pack(Numbered(6), tmp_path / "out", container="tar", parts=2)
    assert is_whole(victim)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("where", ["file", "sidecars", "shard"])
def test_the_names_in_a_record(name: str, where: str, tmp_path: Path, victim: Path) -> None:
    record, name = written(tmp_path / "out"), name.format(victim=victim)

    def edit(one: dict[str, Any]) -> None:
        if where == "file":
            one["shards"][0]["entry"]["files"][0][0] = name
        elif where == "sidecars":
            one["shards"][0]["sidecars"] = name
        else:
            one["shards"][0]["entry"]["name"] = name

    change(record, edit)
    if where == "shard" and name == "":
        return  # a dataset that is one folder has this name
    with pytest.raises(FormatError, match="not the record of a part"):
        finish_run(*find_run(tmp_path / "out"))
    assert is_whole(victim)


def test_the_record_of_another_part(tmp_path: Path) -> None:
    record = written(tmp_path / "out")
    change(record, lambda one: one.update(part=1))
    with pytest.raises(FormatError, match="expected the record of part 0"):
        finish_run(*find_run(tmp_path / "out"))


@pytest.mark.parametrize("starts", [[], [0, 9, 4, 6], [1, 6], [0, -3, 6], [0, 3, 7]])
def test_a_plan_that_does_not_divide_its_items(starts: list[int], tmp_path: Path) -> None:
    written(tmp_path / "out")
    change(tmp_path / "out/.bushel/run/plan.json", lambda plan: plan.update(starts=starts))
    with pytest.raises(FormatError, match="do not divide"):
        find_run(tmp_path / "out")


@pytest.mark.parametrize("name", ["00000-x", "1", "99999999999999999999-1", "0-", "00000-1.partial", "-1-1"])
def test_odd_files_among_those_of_a_run(name: str, tmp_path: Path) -> None:
    written(tmp_path / "out")
    for folder in ("errors", "parts", "again", "taken"):
        place = tmp_path / "out/.bushel/run" / folder
        place.mkdir(exist_ok=True)
        (place / name).touch()
        (place / f"{name}.json").touch()
    assert finish_run(*find_run(tmp_path / "out")).samples == 6


@pytest.mark.parametrize("linked", [".bushel", ".bushel/run", ".bushel/run/attempts"])
def test_links_in_the_place_of_the_files_of_a_run(linked: str, tmp_path: Path, victim: Path) -> None:
    target = tmp_path / "out"
    written(target)
    link = target / linked
    link.rename(tmp_path / "moved") if link.exists() else None
    if linked != ".bushel/run/attempts":  # the plan and the records are found through the link
        for path in (tmp_path / "moved").rglob("*.json"):
            kept = victim / path.relative_to(tmp_path / "moved")
            kept.parent.mkdir(parents=True, exist_ok=True)
            kept.write_bytes(path.read_bytes())
    link.symlink_to(victim)
    before = sorted(path for path in victim.rglob("*"))
    with pytest.raises((OSError, BushelError)):
        bushel.pack(Numbered(6), target, container="tar", parts=2, mode="overwrite")
    assert sorted(path for path in victim.rglob("*")) == before


def test_records_in_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Buckets(monkeypatch, tmp_path / "scratch")
    write_whole(ObjectPath.parse("s3://bucket/victim/kept"), b"kept")
    for part in (0, 1):
        bushel.pack(Numbered(6), "s3://bucket/out", container="tar", parts=2, part=part)
    record = ObjectPath.parse("s3://bucket/out/.bushel/run/parts/00000.json")
    for attempt in ("../../../../victim", "/victim", ".."):
        change(record, lambda one, name=attempt: one.update(attempt=name))  # type: ignore[misc]
        with pytest.raises(FormatError):
            finish_run(*find_run("s3://bucket/out"))
    assert objects_in(ObjectPath.parse("s3://bucket/victim")) == {"kept": b"kept"}
