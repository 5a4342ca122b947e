"""`Dataset.read_crop`: a part of an image from a part of its bytes."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from msgspec.structs import replace
from tests._dataset.views.counted import counted
from tests.formats import each_format
from tests.integrity.small import flip, reading
from tests.kernels.jpegs import by_pillow, picture, save

import bushel
from bushel._dataset.read import crops
from bushel._index.clip_frames import Segments
from bushel._index.saving import save_index
from bushel._index.sidecar import load_index
from bushel.containers import get_writable
from bushel.errors import CodecError, CorruptError
from bushel.jpeg import tile
from bushel.storage import Extents, File, read_many

Box = tuple[int, int, int, int]
BOX: Box = (200, 100, 300, 200)
BOXES: list[Box] = [BOX, (0, 0, 1, 1), (639, 479, 640, 480), (0, 0, 640, 480), (0, 90, 640, 200)]
PHOTOS = [
    tile(save(picture(640, 480), subsampling=2)),
    save(picture(640, 480, 1)),  # not tiled
    tile(save(picture(640, 480, 2), "L")),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """What is read of the files of datasets that are opened from here on."""
    return counted(monkeypatch)


def write(folder: Path, container: str = "bag", generation: Literal["B", "C"] | None = None) -> Path:
    with bushel.Writer(
        folder, {"image": "jpg"}, container=container, generation=generation, shard_samples=2, sync=False
    ) as writer:
        for number, data in enumerate(PHOTOS):
            writer.append({"image": data}, key=str(number))
    return folder


def read_of(asked: list[tuple[int, int]]) -> int:
    return sum(length for _, length in asked)


@each_format
def test_the_pixels_are_those_of_the_whole(
    tmp_path: Path, container: str, generation: Literal["B", "C"] | None, asked: list[tuple[int, int]]
) -> None:
    bushel.index(write(tmp_path / "data", container, generation), segments=True)
    dataset = reading(tmp_path / "data")
    for position, data in enumerate(PHOTOS):
        whole = by_pillow(data)
        for left, top, right, bottom in BOXES:
            found = dataset.read_crop(position, "image", (left, top, right, bottom))
            np.testing.assert_array_equal(found, whole[top:bottom, left:right])
    for position, part in ((0, 0.35), (2, 0.35), (1, 1.0)):
        asked.clear()
        dataset.read_crop(position, "image", BOX)
        assert part / 2 < read_of(asked) / len(PHOTOS[position]) <= part
        assert len(asked) == (2 if part < 1 else 1)  # the header, then the bytes near one another in one request


def test_only_the_needed_part_is_requested(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bushel.index(write(tmp_path / "data"), segments=True)
    dataset = reading(tmp_path / "data")
    asked: list[int] = []

    def noted(files: list[File], extents: Extents) -> list[bytes | None]:
        asked.extend(extents.length.tolist())
        return read_many(files, extents)

    monkeypatch.setattr(crops, "read_many", noted)
    dataset.read_crop(0, "image", BOX)
    assert len(asked) == 9  # rows of 16 pixels from 96 to 208, and one more on each side
    assert 0 < sum(asked) < len(PHOTOS[0]) / 8


def test_without_segments_the_whole_is_read(tmp_path: Path, asked: list[tuple[int, int]]) -> None:
    write(tmp_path / "data")
    dataset = reading(tmp_path / "data")
    left, top, right, bottom = BOX
    for position, data in enumerate(PHOTOS):
        found = dataset.read_crop(position, "image", BOX)
        np.testing.assert_array_equal(found, by_pillow(data)[top:bottom, left:right])
    assert read_of(asked) == sum(map(len, PHOTOS))


def test_views_and_copies(tmp_path: Path) -> None:
    bushel.index(write(tmp_path / "data"), segments=True)
    dataset = reading(tmp_path / "data")
    expected = dataset.read_crop(2, "image", BOX)
    for other in (dataset[::-1], dataset[[2]], pickle.loads(pickle.dumps(dataset))[2:]):
        np.testing.assert_array_equal(other.read_crop(0, "image", BOX), expected)
    np.testing.assert_array_equal(bushel.concat([dataset, dataset]).read_crop(-1, "image", BOX), expected)


def test_an_index_gets_segments_and_keeps_them(tmp_path: Path) -> None:
    write(tmp_path / "data")
    sidecar = sorted((tmp_path / "data").rglob("*.safetensors"))[0]
    assert load_index(sidecar).fields["image"].segments is None
    bushel.index(tmp_path / "data", segments=True)
    segments = load_index(sidecar).fields["image"].segments
    assert segments is not None
    assert segments.of(0)[-1] == len(PHOTOS[0])
    assert len(segments.of(0)) == 10 * 30 + 1
    assert len(segments.of(1)) == 0
    before = sidecar.stat().st_mtime_ns
    for wanted in (False, True):
        bushel.index(tmp_path / "data", segments=wanted)
    assert sidecar.stat().st_mtime_ns == before


def test_a_shard_that_was_indexed_again_keeps_its_segments(tmp_path: Path) -> None:
    path = write(tmp_path / "data")
    bushel.index(path, segments=True)
    sidecar = sorted(path.rglob("*.safetensors"))[0]
    known = load_index(sidecar).fields["image"].segments
    bushel.index(path, force=True)
    segments = load_index(sidecar).fields["image"].segments
    assert known is not None
    assert segments is not None
    assert segments.starts.tolist() == known.starts.tolist()
    assert segments.lengths.tolist() == known.lengths.tolist()


def test_verify_reads_the_whole(tmp_path: Path) -> None:
    bushel.index(write(tmp_path / "data"), segments=True)
    plain, checked = reading(tmp_path / "data"), reading(tmp_path / "data", verify=True)
    np.testing.assert_array_equal(checked.read_crop(0, "image", BOX), plain.read_crop(0, "image", BOX))
    file, offset = plain.location(0, "image")
    plain.close()
    checked.close()
    flip(Path(file), offset + len(PHOTOS[0]) - 10)
    with pytest.raises(CorruptError, match="sample '0', field 'image' has the CRC-32"):
        reading(tmp_path / "data", verify=True).read_crop(0, "image", BOX)


def test_damage_is_named(tmp_path: Path) -> None:
    bushel.index(write(tmp_path / "data"), segments=True)
    file, offset = reading(tmp_path / "data").location(0, "image")
    flip(Path(file), offset)
    with pytest.raises(CodecError, match="sample '0', field 'image'"):
        reading(tmp_path / "data").read_crop(0, "image", BOX)


@pytest.mark.parametrize("forged", ["short", "long", "far", "scattered"])
def test_segments_of_another_image(tmp_path: Path, forged: str) -> None:
    bushel.index(write(tmp_path / "data"), segments=True)
    sidecar = sorted((tmp_path / "data").rglob("*.safetensors"))[0]
    index = load_index(sidecar)
    column = index.fields["image"]
    assert column.segments is not None
    starts, lengths = column.segments.starts, column.segments.lengths
    other = {
        "short": Segments(starts // 2, lengths),
        "long": Segments(starts, np.full_like(lengths, 1 << 31)),
        "far": Segments(starts + (1 << 60), lengths),
        "scattered": Segments(starts[::-1].copy(), lengths),
    }[forged]
    save_index(replace(index, fields={"image": replace(column, segments=other)}), sidecar, sync=False)
    found = reading(tmp_path / "data").read_crop(0, "image", BOX)
    np.testing.assert_array_equal(found, by_pillow(PHOTOS[0])[100:200, 200:300])


def test_wrong_use(tmp_path: Path) -> None:
    spec = {"image": "jpg", "frames": "jpg[]", "label": "int", "table": "array"}
    with bushel.Writer(tmp_path / "data", spec, container="ffrecord", sync=False) as writer:
        writer.append({"image": PHOTOS[0], "frames": [PHOTOS[0]], "label": 3, "table": np.arange(3)})
        writer.append({"frames": [], "label": 3, "table": np.arange(3)})
    bushel.index(tmp_path / "data", segments=True)
    dataset = reading(tmp_path / "data")
    with pytest.raises(ValueError, match="not inside the image, which is 640x480"):
        dataset.read_crop(0, "image", (0, 0, 641, 10))
    with pytest.raises(ValueError, match="not inside the image"):
        dataset.read_crop(0, "image", (5, 5, 5, 10))
    with pytest.raises(KeyError, match="no field 'image'"):
        dataset.read_crop(1, "image", BOX)
    with pytest.raises(KeyError, match="unknown field 'picture'"):
        dataset.read_crop(0, "picture", BOX)
    with pytest.raises(TypeError, match="'frames' is a sequence"):
        dataset.read_crop(0, "frames", BOX)
    for name in ("label", "table"):
        with pytest.raises(TypeError, match=f"{name!r} does not hold images"):
            dataset.read_crop(0, name, BOX)
    with pytest.raises(IndexError):
        dataset.read_crop(2, "image", BOX)
    for box in ((1, 2, 3), (0, 0, 1.5, 3), None, "abcd"):
        with pytest.raises(TypeError, match=r"box=.*: expected left, top, right and bottom, four whole numbers"):
            dataset.read_crop(0, "image", box)  # type: ignore[arg-type]
    assert dataset.read_crop(0, "image", np.array([0, 0, 640, 480])).shape == (480, 640, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_appending_keeps_segments_and_adds_those_of_what_is_new(tmp_path: Path, container: str) -> None:
    path = tmp_path / ("data" if container == "bag" else f"data.{get_writable(container).suffix.lstrip('.')}")
    size = 0 if container == "bag" else None
    with bushel.Writer(path, {"image": "jpg"}, container=container, sync=False, shard_bytes=size) as writer:
        for number, data in enumerate(PHOTOS):
            writer.append({"image": data}, key=str(number))
    before = bushel.index(path, segments=True).shards[0].index.fields["image"].segments
    writer = bushel.Writer(path, container=container, mode="append", sync=False)
    for number, data in enumerate(PHOTOS, len(PHOTOS)):
        writer.append({"image": data}, key=str(number))
    writer.close()
    dataset = reading(path)
    after = dataset.shards[0].index.fields["image"].segments
    assert before is not None
    assert after is not None
    assert len(after.starts) == 2 * len(PHOTOS) + 1
    for row in range(2 * len(PHOTOS)):
        np.testing.assert_array_equal(after.of(row), before.of(row % len(PHOTOS)))
    left, top, right, bottom = BOX
    for row, data in enumerate([*PHOTOS, *PHOTOS]):
        np.testing.assert_array_equal(dataset.read_crop(row, "image", BOX), by_pillow(data)[top:bottom, left:right])
