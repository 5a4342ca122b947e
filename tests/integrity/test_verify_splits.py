"""verify of folders of splits: one that is damaged, lost or empty hides nothing of the others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.integrity.small import SPEC, jpeg, write

import bushel


def put_records_beside(split: Path) -> None:
    shutil.copytree(write(split.parent / ".other", "recordio"), split, dirs_exist_ok=True)


def lose_shards(split: Path) -> None:
    for shard in split.glob("shard-*"):
        shard.unlink()


def empty(split: Path) -> None:
    shutil.rmtree(split)
    split.mkdir()


def leave_junk(split: Path) -> None:
    empty(split)
    (split / "notes.doc").write_bytes(b"notes")


def lose_chunk(split: Path) -> None:
    empty(split)
    write(split, "gulp", count=3)
    next(split.glob("*.gmeta")).unlink()


@pytest.mark.parametrize("train_is_whole", [True, False])
@pytest.mark.parametrize(
    ("damage", "expected"),
    [
        (put_records_beside, {("format", "val")}),
        (lose_shards, {("format", "val"), *(("missing", f"val/shard-00000{n}.tar") for n in range(3))}),
        (empty, {("format", "val")}),
        (leave_junk, {("format", "val")}),
        (lose_chunk, {("format", "val/data_000000.gulp"), ("missing", "val/meta_000000.gmeta")}),
        (lambda val: (val / ".bushel/manifest.json").write_text("{"), {("index", "val/.bushel/manifest.json")}),
        (
            lambda val: (val / ".bushel/keys.safetensors").write_bytes(b"damaged"),
            {("index", "val/.bushel/keys.safetensors")},
        ),
        (
            lambda val: shutil.copy(
                write(val.parent / ".x", "tar", count=8) / ".bushel/manifest.json", val / ".bushel"
            ),
            {("index", "val/.bushel/manifest.json")},
        ),
    ],
)
def test_damage_of_a_split_is_named_and_the_others_are_verified(
    tmp_path: Path, damage: Callable[[Path], object], expected: set[tuple[str, str]], train_is_whole: bool
) -> None:
    train, val = tmp_path / "in/train", tmp_path / "in/val"
    for split in (train, val):
        bushel.index(write(split, "tar"), keys=True).close()
    damage(val)
    lost = set[tuple[str, str]]()
    if not train_is_whole:
        (train / "shard-000001.tar").unlink()
        lost.add(("missing", "train/shard-000001.tar"))
    report = bushel.verify(tmp_path / "in")
    assert {(p.kind, str(p.file).removeprefix(f"{tmp_path}/in/")) for p in report.problems} == expected | lost
    assert report.samples >= (7 if train_is_whole else 4)


def test_a_split_has_its_own_classes_and_file_of_their_names(tmp_path: Path) -> None:
    for split, names in (("train", ["cat", "dog"]), ("val", ["cat"])):
        with bushel.Writer(tmp_path / split, SPEC, container="gulp", labels={"label": names}, sync=False) as writer:
            writer.append({"image": jpeg(1), "label": 0}, key="a")
    assert bushel.verify(tmp_path).problems == ()
    names_of_val = tmp_path / "val/label2idx.json"
    names_of_val.write_text('{"dog": 0}')
    assert [(p.kind, p.file) for p in bushel.verify(tmp_path).problems] == [("labels", str(names_of_val))]
