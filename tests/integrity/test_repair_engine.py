"""A repair on an engine finds and writes what a repair in this process does."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from tests._pack.pack_sources import files_of
from tests.formats import FORMATS
from tests.integrity.small import flip, key, reading, write

import bushel
from bushel.engines.local import LocalEngine


def damage(source: Path, position: int) -> None:
    file, offset = reading(source).location(position, "image")
    assert file is not None
    assert offset is not None
    flip(Path(file), offset + 30)


@pytest.mark.parametrize(("container", "generation"), [case for case in FORMATS if case[0] in ("bag", "gulp")])
def test_the_same_problems_and_bytes(tmp_path: Path, container: str, generation: Literal["B", "C"] | None) -> None:
    source = write(tmp_path / "in", container, generation)
    for position in (1, 4):
        damage(source, position)
    one = bushel.repair(source, tmp_path / "one", parts=3)
    again = bushel.repair(source, tmp_path / "out", engine=LocalEngine(2))
    assert again == one
    assert [problem.key for problem in one.problems] == [key(1), key(4)]
    assert files_of(tmp_path / "out") == files_of(tmp_path / "one")
    assert list(bushel.open(tmp_path / "out").keys) == [key(number) for number in range(7) if number not in (1, 4)]
    plain = bushel.repair(source, tmp_path / "plain")
    assert plain == one
    assert list(bushel.open(tmp_path / "plain").keys) == list(bushel.open(tmp_path / "out").keys)
    assert bushel.repair(source, tmp_path / "out", parts=3) == one  # joins the run
    assert bushel.verify(tmp_path / "out").ok


def test_keys_are_made_unique_across_parts(tmp_path: Path) -> None:
    source = tmp_path / "in"
    for name in ("a", "b"):
        with bushel.Writer(source / f"{name}.tar", {"text": "utf8"}) as writer:
            for number in range(3):
                writer.append({"text": f"{name}{number}"}, key=f"k{number}")
    done = bushel.repair(source, tmp_path / "out", engine=LocalEngine(2))
    assert done.samples == 6
    assert [problem.kind for problem in done.problems] == ["key"] * 3
    assert list(bushel.open(tmp_path / "out").keys) == ["k0", "k1", "k2", "k0~2", "k1~2", "k2~2"]
    assert [sample["text"] for sample in bushel.open(tmp_path / "out")] == ["a0", "a1", "a2", "b0", "b1", "b2"]


def test_samples_without_keys_are_named_by_their_position(tmp_path: Path) -> None:
    source = tmp_path / "in"
    with bushel.Writer(source, {"image": "bytes"}, container="ffrecord", shard_samples=3) as writer:
        for number in range(8):
            writer.append({"image": bytes([number]) * 60})
    damage(source, 4)
    damage(source, 7)
    done = bushel.repair(source, tmp_path / "out", engine=LocalEngine(2))
    assert [problem.key for problem in done.problems] == ["4", "7"]
    assert (done, done.samples, done.lost) == (bushel.repair(source, tmp_path / "one"), 6, 2)


def test_a_dataset_of_another_run_is_not_replaced(tmp_path: Path) -> None:
    source = write(tmp_path / "in", "tar")
    bushel.repair(source, tmp_path / "out")
    with pytest.raises(FileExistsError, match="not of this run"):
        bushel.repair(source, tmp_path / "out", parts=2)
