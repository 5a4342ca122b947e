"""Seek tables in the index of every container: who makes them, who uses them, and what they do not change."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.kernels.jpegs import picture, save

import bushel
from bushel._dataset.read import crops
from bushel._dataset.views.dataset import Dataset
from bushel._index.contents import scanned_in
from bushel._index.part_plan import warn_of_refused
from bushel._index.saving import save_index
from bushel.kernels import jpeg_seek_table
from bushel.storage import Extents, File, read_many
from bushel.transforms import EachFrame, RandomHorizontalFlip, RandomResizedCrop, Resize

PHOTOS = [save(picture(301 + 40 * i, 260, seed=i), subsampling=i % 3) for i in range(5)]
PROGRESSIVE = save(picture(200, 160), progressive=True)
CROPS: list[Any] = [RandomResizedCrop(64), RandomHorizontalFlip()]
UNCROPPED: list[list[Any]] = [[Resize((64, 48))], [RandomHorizontalFlip(), Resize((64, 48))], []]

pytestmark = pytest.mark.skipif(not len(jpeg_seek_table(PHOTOS[0])), reason="this processor lacks AVX2")


def sample(container: str, number: int) -> dict[str, Any]:
    data = PROGRESSIVE if number % 4 == 3 else PHOTOS[number % 5]
    return {"frames": [data, PHOTOS[(number + 1) % 5]]} if container == "gulp" else {"image": data}


def write(path: Path, container: str, numbers: range, **options: Any) -> Path:
    spec = {"frames": "jpg[]"} if container == "gulp" else {"image": "jpg"}
    with bushel.Writer(path, spec, container=container, **options) as writer:
        for number in numbers:
            writer.append(sample(container, number), key=f"key{number}")
    return path


def tables_of(dataset: Dataset) -> list[list[int]]:
    """Return the words of each image's table."""
    found = []
    for shard in dataset.shards:
        [column] = (column for column in shard.index.fields.values() if column.seek is not None)
        assert column.seek is not None
        found += [table.tolist() for table in column.seek.of(np.arange(column.rows))]
    return found


def expected(container: str, numbers: range) -> list[list[int]]:
    values = [value for number in numbers for value in sample(container, number).values()]
    images = [data for value in values for data in (value if isinstance(value, list) else [value])]
    return [jpeg_seek_table(data).tolist() for data in images]


CONTAINERS = ("bag", "tar", "ffrecord", "gulp", "recordio")


@pytest.mark.parametrize("container", CONTAINERS)
def test_index_writer_and_convert_make_the_same_tables(container: str, tmp_path: Path) -> None:
    plain, written = write(tmp_path / "a", container, range(8)), write(tmp_path / "b", container, range(8), seek=True)
    assert not any("seek" in scanned_in(shard.index) for shard in bushel.open(plain).shards)
    indexed = bushel.index(plain, seek=True)
    assert tables_of(indexed) == tables_of(bushel.open(written)) == expected(container, range(8))
    bushel.convert(plain, tmp_path / "c", container=container)
    assert tables_of(bushel.open(tmp_path / "c")) == expected(container, range(8))
    bushel.convert(plain, tmp_path / "d", container=container, seek=False)
    assert "seek" not in scanned_in(bushel.open(tmp_path / "d").shards[0].index)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("sharded", [False, True])
def test_appended_samples_get_tables(container: str, sharded: bool, tmp_path: Path) -> None:
    options = {"shard_samples": 3} if sharded else {}
    path = write(tmp_path / "a", container, range(4), seek=True, **options)
    write(path, container, range(4, 9), mode="append", **options)
    assert tables_of(bushel.open(path)) == expected(container, range(9))


def test_a_shard_that_was_replaced_gets_its_tables_again(tmp_path: Path) -> None:
    path = write(tmp_path / "a.tar", "tar", range(4), seek=True)
    other = write(tmp_path / "b.tar", "tar", range(2, 8))
    path.write_bytes(other.read_bytes())
    assert "seek" not in scanned_in(bushel.open(path, index="memory").shards[0].index)
    assert tables_of(bushel.index(path, force=True)) == expected("tar", range(2, 8))


def test_pack_makes_tables(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    for number, data in enumerate(PHOTOS):
        (tmp_path / "photos" / f"{number}.jpg").write_bytes(data)
    bushel.pack(tmp_path / "photos", tmp_path / "out", container="bag", seek=True)
    assert tables_of(bushel.open(tmp_path / "out")) == [jpeg_seek_table(data).tolist() for data in PHOTOS]


@pytest.mark.parametrize("container", ["bag", "gulp"])
def test_the_pixels_are_the_same(container: str, tmp_path: Path) -> None:
    plain = bushel.open(write(tmp_path / "a", container, range(20), shard_samples=7))
    sought = bushel.open(write(tmp_path / "b", container, range(20), shard_samples=7, seek=True))
    [field] = plain.spec
    for one, other in zip(plain, sought, strict=True):
        np.testing.assert_equal(one, other)
    np.testing.assert_equal(plain.read([5, 19, 0]), sought.read([5, 19, 0]))
    np.testing.assert_equal(plain[4], sought[4])
    fields: Any = [field]
    if container == "gulp":
        fields = {field: slice(1, 2)}
        np.testing.assert_equal(plain.read([5, 19, 0], fields), sought.read([5, 19, 0], fields))
    transforms = {field: [EachFrame(CROPS)] if container == "gulp" else CROPS}
    for options in ({"transforms": transforms}, {"exif_rotate": True}, {}):
        loaders = [bushel.Loader(one, 1, shuffle=True, fields=fields, **options) for one in (plain, sought)]
        np.testing.assert_equal(list(loaders[0]), list(loaders[1]))


def test_read_crop_reads_the_bytes_between_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = save(picture(1000, 800), subsampling=0)
    with bushel.Writer(tmp_path / "a", {"image": "jpg"}, container="tar", seek=True) as writer:
        writer.append({"image": data}, key="a")
    dataset = bushel.open(tmp_path / "a")
    whole = dataset[0]["image"]
    asked: list[int] = []

    def noted(files: list[File], extents: Extents) -> list[bytes | None]:
        asked.append(int(extents.length.sum()))
        return read_many(files, extents)

    monkeypatch.setattr(crops, "read_many", noted)
    for box, share in [((0, 0, 10, 10), 0.01), ((300, 200, 524, 424), 0.15), ((0, 300, 1000, 310), 0.05)]:
        left, top, right, bottom = box
        assert np.array_equal(dataset.read_crop(0, "image", box), whole[top:bottom, left:right])
        assert asked.pop() <= share * len(data)
        assert asked == []
    with pytest.raises(ValueError, match="not inside the image"):
        dataset.read_crop(0, "image", (0, 0, 1001, 10))


def forge(dataset: Dataset) -> None:
    """Change every state of the first shard."""
    [shard, *_] = dataset.shards
    column = shard.index.fields["image"]
    assert column.seek is not None
    words = column.seek.words.copy()
    random = np.random.default_rng(0)
    for first, last in zip(column.seek.starts[:-1], column.seek.starts[1:], strict=True):
        words[first + 1 : last] ^= random.integers(1 << 32, 1 << 63, max(last - first - 1, 0), dtype=np.uint64)
    forged = replace(column, seek=replace(column.seek, words=words))
    save_index(replace(shard.index, fields={"image": forged}), shard.shard.sidecar)


@pytest.mark.parametrize("processes", [0, 1])
def test_crops_count_the_tables_that_do_not_fit_and_do_not_use_them(
    processes: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    plain = bushel.open(write(tmp_path / "a", "bag", range(12)))
    path = write(tmp_path / "b", "bag", range(12), seek=True)
    forge(bushel.open(path))
    forged = bushel.open(path)
    warn_of_refused.cache_clear()
    with caplog.at_level(logging.WARNING, "bushel"):
        for position in range(12):
            one, other = (each.read_crop(position, "image", (50, 60, 190, 150)) for each in (plain, forged))
            assert np.array_equal(one, other)
    assert [record.getMessage().count("does not fit") for record in caplog.records] == [1]
    loaders = [bushel.Loader(one, 4, seed=3, processes=processes, transforms=CROPS) for one in (plain, forged)]
    np.testing.assert_equal(list(loaders[0]), list(loaders[1]))
    assert loaders[1].stats().refused_seek_tables == 9
    assert loaders[0].stats().refused_seek_tables == 0


def test_whole_images_are_decoded_without_tables(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    plain = bushel.open(write(tmp_path / "a", "bag", range(12)))
    path = write(tmp_path / "b", "bag", range(12), seek=True)
    forge(bushel.open(path))  # so that a use would be counted
    forged = bushel.open(path)
    warn_of_refused.cache_clear()
    with caplog.at_level(logging.WARNING, "bushel"):
        for position in range(12):
            whole = plain[position]["image"]
            assert np.array_equal(whole, forged[position]["image"])
            assert np.array_equal(whole, forged.read_crop(position, "image", (0, 0, whole.shape[1], whole.shape[0])))
        np.testing.assert_equal(plain.read(range(12)), forged.read(range(12)))
        for transforms in UNCROPPED:
            loaders = [
                bushel.Loader(one, 1, seed=3, exif_rotate=True, transforms=transforms) for one in (plain, forged)
            ]
            np.testing.assert_equal(list(loaders[0]), list(loaders[1]))
            assert loaders[1].stats().refused_seek_tables == 0
    assert caplog.records == []
