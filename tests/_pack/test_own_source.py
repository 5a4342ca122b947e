"""A target that is the source, is in it, or contains it, is refused, unless it replaces the source as a whole."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests._pack.pack_sources import Numbered, files_of
from tests.sources.folders import image_folder, jpeg

import bushel
from bushel._pack.prepared import overlap
from bushel.sources import Files, LabelledFolder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with a folder of photos, a dataset of two shards, and one in one file."""
    monkeypatch.chdir(tmp_path)
    image_folder(tmp_path / "photos", 6)
    bushel.pack(Numbered(6), "data/train", container="tar", shard_samples=3, sync=False)
    bushel.pack(Numbered(6), "files/train.tar", sync=False)
    return tmp_path


@pytest.mark.parametrize(
    ("source", "target", "message"),
    [
        ("photos", "photos", "photos is the source itself"),
        ("photos", "./x/../photos/", "is the source itself"),
        ("photos/", "photos/out", "out is in the source photos"),
        ("photos", "photos/out.tar", "is in the source photos"),
        ("data/train", "data/train/new", "is in the source data/train"),
        ("data/train", "data", "data contains the source data/train"),
        ("data/train/*.tar", "data/train", "train contains the source"),
        ("files/train.tar", "files/train.tar", "is the source itself: .*mode='overwrite'"),
        ("files/train.tar", "files", "files contains the source"),
        ("link", "photos", "photos is the source itself"),
    ],
)
@pytest.mark.parametrize("options", [{}, {"mode": "resume"}, {"parts": 2}, {"parts": 2, "mode": "overwrite"}], ids=str)
def test_a_path_is_refused(place: Path, source: str, target: str, message: str, options: dict[str, Any]) -> None:
    (place / "x").mkdir()
    os.symlink("photos", "link")
    before = files_of(place)
    with pytest.raises(FileExistsError, match=message):
        bushel.pack(source, target, container="tar", sync=False, **options)
    assert files_of(place) == before
    if not source.startswith(("photos", "link")):
        with pytest.raises(FileExistsError, match=message):
            bushel.convert(source, target, container="tar", sync=False, **options)


def test_a_dataset_is_not_written_into_its_source(place: Path) -> None:
    """Nor does `overwrite` do that, which may replace the source: it would be in the way of the next one."""
    os.symlink("data/train", "link")
    before = files_of(place)
    for source, target in (("data/train", "link/new"), ("link", "data/train/new"), ("photos", "photos/new")):
        with pytest.raises(FileExistsError, match=f"{target} is in the source {source}: write to another path"):
            bushel.pack(source, target, container="tar", mode="overwrite", sync=False)
    assert files_of(place) == before
    bushel.pack("data/train", "link", container="tar", mode="overwrite", sync=False)
    assert (Path("link").is_symlink(), len(bushel.open("data/train"))) == (True, 6)


def test_opened_sources_are_refused(place: Path) -> None:
    for source in (LabelledFolder("photos"), Files(place / "photos")):
        with pytest.raises(FileExistsError, match="in the source"):
            bushel.pack(source, "photos/out", container="tar")
    whole, single = bushel.open("data/train"), bushel.open("files/train.tar")
    for dataset in (whole, whole[:2], bushel.concat([single, whole])):
        with pytest.raises(FileExistsError, match="contains the source"):
            bushel.convert(dataset, "data", container="bag")
    with pytest.raises(FileExistsError, match="is the source itself"):
        bushel.convert(single[1:], "files/train.tar")
    with pytest.raises(FileExistsError, match="contains the source"):
        bushel.convert(["files/train.tar", "data/train"], "data", container="bag")


def test_one_file_of_an_opened_source_is_not_replaced_by_all(place: Path) -> None:
    """The others stayed beside it, so the folder had their samples twice. The path of the folder was refused."""
    with bushel.Writer("many", {"label": "int"}, container="tar", shard_samples=2, sync=False) as writer:
        for label in range(6):
            writer.append({"label": label})
    before, dataset = files_of(place), bushel.open("many")
    for source in ("many", dataset, dataset[:1], ["many/shard-000000.tar", "many/shard-000001.tar"]):
        with pytest.raises(FileExistsError, match="many/shard-000000.tar is in the source"):
            bushel.convert(source, "many/shard-000000.tar", mode="overwrite", sync=False)
    assert files_of(place) == before
    bushel.convert(bushel.open("many/shard-000000.tar"), "many/shard-000000.tar", mode="overwrite", sync=False)
    assert len(bushel.open("many")) == 6
    # nothing of these sources stays beside the target
    one = bushel.open("files/train.tar")
    bushel.convert(bushel.concat([one[:2], one[4:]]), "files/train.tar", mode="overwrite", sync=False)
    assert len(bushel.open("files/train.tar")) == 4
    others = ["files/train.tar", "many/shard-000002.tar"]
    bushel.merge(others, "files/train.tar", mode="overwrite", sync=False)
    assert len(bushel.open("files/train.tar")) == 6


@pytest.mark.parametrize("container", ["tar", "bag", "gulp"])
def test_one_file_of_a_view_is_not_replaced_by_the_view(tmp_path: Path, container: str) -> None:
    """A map, the right side of a join, a bag among several, and links to the files went round the check."""
    top = tmp_path / "many"
    spec = {"frames": "jpg[]", "x": "int"}
    with bushel.Writer(top, spec, container=container, shard_samples=2, sync=False) as writer:
        for number in range(6):
            writer.append({"frames": [jpeg(number), jpeg(7)], "x": number}, key=f"k{number}")
    (tmp_path / "links").mkdir()
    names = [path.name for path in top.iterdir() if path.name != ".bushel"]
    for name in names:
        os.symlink(top / name, tmp_path / "links" / name)
    dataset, before = bushel.open(top), files_of(top)
    other = bushel.convert(dataset.select_fields(["x"]), tmp_path / "x.tar", sync=False).paths[0]
    for source in (
        dataset.map(lambda sample: sample),
        dataset.windows("frames", 2),
        bushel.join(bushel.open(other), dataset.select_fields(["frames"]), on="key"),
        bushel.open(tmp_path / "links"),
    ):
        with pytest.raises(FileExistsError, match=r"is in the source|is one of the bags"):
            bushel.pack(source, top / min(names), container=container, mode="overwrite", sync=False)
    assert files_of(top) == before


def test_files_of_a_dataset_are_written_to_files_beside_them(place: Path) -> None:
    """A new one is no shard before it is indexed, and one that is there is replaced by who says so."""
    name, other = "data/train/shard-000000.tar", "data/train/small.tar"
    for source in (name, bushel.open(name), bushel.open_stream(name)):
        assert bushel.pack(source, other, mode="overwrite", sync=False).samples == 3
    with pytest.warns(bushel.errors.IncompleteWarning, match=r"1 shard \(small.tar\) is not listed"):
        assert len(bushel.open("data/train")) == 6
    bushel.index("data/train")
    assert bushel.pack(name, other, mode="overwrite", sync=False).samples == 3


def test_the_current_folder_is_replaced(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of the call is done, although `.` leads nowhere then."""
    monkeypatch.chdir("data/train")
    assert bushel.convert("../../files/train.tar", ".", container="tar", mode="overwrite", sync=False).samples == 6
    monkeypatch.chdir(place)
    assert len(bushel.open("data/train")) == 6
    assert b'"finished":true' in (place / "data/train/.bushel/dataset.pack.json").read_bytes()


def test_targets_beside_the_source_are_taken(place: Path) -> None:
    assert bushel.convert("files/train.tar", "files/train.rec").samples == 6
    assert bushel.convert("files/train.tar", "files/train", container="bag").samples == 6
    assert bushel.convert("data/train", "data/train2", container="tar").samples == 6
    assert bushel.pack("photos", "photos.tar").samples == 6


def test_overwrite_replaces_the_source(place: Path) -> None:
    bushel.convert("data/train", "data/train", container="bag", mode="overwrite")
    bushel.convert("files/train.tar", "files/train.tar", fields=["label"], mode="overwrite")
    assert bushel.open("data/train").info.container == "bag"
    assert [sample["label"] for sample in bushel.open("data/train")] == list(range(6))
    assert bushel.open("files/train.tar").spec == {"label": "int"}
    before = files_of(place / "photos")
    with pytest.raises(FileExistsError, match="not part of a dataset"):
        bushel.pack("photos", "photos", container="tar", mode="overwrite")
    assert files_of(place / "photos") == before


@pytest.mark.parametrize("path", ["data/train", "files/train.tar"])
def test_what_others_wrote_since_the_source_was_opened_is_not_lost(place: Path, path: str) -> None:
    ds = bushel.open(path)
    mapped = ds.map(lambda sample: sample)
    with bushel.Writer(path, mode="append", sync=False) as other:
        other.append(Numbered(7)[6], key="later")
    for source in (ds, ds[:2], mapped):
        with pytest.raises(bushel.errors.StateError, match="written after the source was opened"):
            bushel.convert(source, path, container="tar", mode="overwrite", sync=False)
    assert len(bushel.open(path)) == 7
    bushel.convert(bushel.open(path)[1:], path, container="tar", mode="overwrite", sync=False)
    assert len(bushel.open(path)) == 6
    os.utime(str(bushel.open(path).shards[0].path(0)), ns=(0, 0))  # a copy, whose index fits
    bushel.convert(bushel.open(path), path, container="tar", mode="overwrite", sync=False)


_paths = st.lists(st.sampled_from("ab"), max_size=4).map(tuple)


@given(_paths, _paths)
def test_places_overlap_if_one_is_above_the_other(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    above = {other[:end] for end in range(len(other) + 1)} | {one[:end] for end in range(len(one) + 1)}
    assert overlap(one, other) == (len(above) == max(len(one), len(other)) + 1)
