"""`images="tile"` and `images="baseline"`: JPEGs that are rewritten without loss while they are packed or converted."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from PIL import Image
from tests._pack.pack_sources import files_of
from tests.formats import each_format
from tests.integrity.small import reading
from tests.kernels.jpegs import by_pillow, picture, save

import bushel
from bushel.errors import CodecError, TooManyErrors
from bushel.jpeg import baseline, is_tiled, tile
from bushel.kernels import jpeg_coefficients
from bushel.sources import Samples

Generation = Literal["B", "C"] | None

PHOTOS = [
    save(picture(200 + number, 100), subsampling=number % 3, progressive=number % 2 == 1, comment=b"a comment")
    for number in range(10)
]


def png() -> bytes:
    file = io.BytesIO()
    Image.fromarray(picture(20, 10)).save(file, "PNG")
    return file.getvalue()


def photos(images: list[bytes] = PHOTOS) -> Samples:
    return Samples(
        [{"__key__": f"{number:03d}", "image": data, "label": number} for number, data in enumerate(images)],
        spec={"image": "jpg", "label": "int"},
    )


def written(folder: Path, images: list[bytes] = PHOTOS) -> Path:
    """A dataset of these images."""
    bushel.pack(photos(images), folder, container="bag", sync=False)
    return folder


def stored(path: Path, field: str = "image") -> list[Any]:
    dataset = reading(path, verify=True)
    return [sample[field] for sample in dataset.read(range(len(dataset)), decode=False)]


def same_picture(one: bytes, other: bytes) -> bool:
    coefficients = zip(jpeg_coefficients(one), jpeg_coefficients(other), strict=True)
    return all(map(np.array_equal, *zip(*coefficients, strict=True))) and np.array_equal(
        by_pillow(one), by_pillow(other)
    )


@each_format
def test_packed_in_every_container(tmp_path: Path, container: str, generation: Generation) -> None:
    for name, threads, processes in (("one", 1, 0), ("four", 4, 0), ("processes", None, 2)):
        done = bushel.pack(
            photos(),
            tmp_path / name / "out",
            container=container,
            generation=generation,
            images="tile",
            threads=threads,
            processes=processes,
            sync=False,
        )
        assert (done.samples, done.errors) == (10, 0)
    found = stored(tmp_path / "one" / "out")
    assert found == [tile(data) for data in PHOTOS]
    assert all(same_picture(one, other) for one, other in zip(found, PHOTOS, strict=True))
    assert b"a comment" not in b"".join(map(bytes, found))
    assert files_of(tmp_path / "one" / "out") == files_of(tmp_path / "four" / "out")
    assert files_of(tmp_path / "one" / "out") == files_of(tmp_path / "processes" / "out")


@each_format
def test_converted_to_every_container(tmp_path: Path, container: str, generation: Generation) -> None:
    source = written(tmp_path / "in")
    heard: list[bushel.runs.Progress] = []
    for threads in (1, 3):
        done = bushel.convert(
            source,
            tmp_path / f"{threads}" / "out",
            container=container,
            generation=generation,
            images="tile",
            threads=threads,
            sync=False,
            progress=heard.append,
        )
        assert done.samples == 10
    assert (heard[-1].done, heard[-1].total) == (10, 10)
    found = stored(tmp_path / "1" / "out")
    assert found == [tile(data) for data in PHOTOS]
    assert [sample["label"] for sample in reading(tmp_path / "1" / "out")] == list(range(10))
    assert files_of(tmp_path / "1" / "out") == files_of(tmp_path / "3" / "out")


@pytest.mark.parametrize("container", ["bag", "ffrecord", "gulp", "recordio"])
def test_frames_of_a_sequence(tmp_path: Path, container: str) -> None:
    clips: list[dict[str, Any]] = [
        {"__key__": "a", "frames": PHOTOS[:4]},
        {"__key__": "b", "frames": []},
        {"__key__": "c", "frames": PHOTOS},
    ]
    spec = {"frames": "jpg[]"}
    bushel.pack(Samples(clips, spec=spec), tmp_path / "packed", container=container, images="tile", sync=False)
    bushel.pack(Samples(clips, spec=spec), tmp_path / "plain", container="bag", sync=False)
    bushel.convert(tmp_path / "plain", tmp_path / "converted", container=container, images="tile", sync=False)
    for name in ("packed", "converted"):
        assert stored(tmp_path / name, "frames") == [[tile(frame) for frame in clip["frames"]] for clip in clips]


def test_tiled_jpegs_and_other_bytes_stay_as_they_are(tmp_path: Path) -> None:
    with_comment = tile(PHOTOS[0], metadata=True)
    images = [with_comment, png()]
    fields = {"a": "image", "b": "bytes", "c": "jpg"}
    samples = [
        {"__key__": f"{number}", "a": image, "b": PHOTOS[1], "c": with_comment} for number, image in enumerate(images)
    ]
    bushel.pack(Samples(samples, spec=fields), tmp_path / "packed", container="bag", images="tile", sync=False)
    bushel.convert(tmp_path / "packed", tmp_path / "out.tar", images="tile", sync=False)
    for name in ("packed", "out.tar"):
        assert stored(tmp_path / name, "a") == images
        assert stored(tmp_path / name, "b") == [PHOTOS[1]] * 2
        assert stored(tmp_path / name, "c") == [with_comment] * 2


def test_what_is_encoded_on_the_way_is_tiled_too(tmp_path: Path) -> None:
    for form in (None, "tile"):
        bushel.pack(photos([png()]), tmp_path / f"{form}", container="bag", images=form, sync=False)
    [plain], [tiled] = stored(tmp_path / "None"), stored(tmp_path / "tile")
    assert not is_tiled(plain)
    assert tiled == tile(plain)


BROKEN = [PHOTOS[0][: len(PHOTOS[0]) // 2], b"\0" * 100, b""]


@pytest.mark.parametrize("broken", BROKEN, ids=["cut", "zeros", "empty"])
def test_a_broken_jpeg_is_named_by_convert(tmp_path: Path, broken: bytes) -> None:
    with bushel.Writer(tmp_path / "in", {"image": "jpg"}, container="tar", sync=False) as writer:
        for number, data in enumerate([PHOTOS[0], broken]):
            writer.append({"image": data}, key=f"photo {number}")
    with pytest.raises(CodecError) as caught:
        bushel.convert(tmp_path / "in", tmp_path / "out", container="bag", images="tile", sync=False)
    assert "sample 'photo 1', field 'image': codec 'jpg' expected a complete JPEG to tile" in str(caught.value)
    assert "max_errors=... skips such samples" in str(caught.value)
    assert caught.value.details["field"] == "image"
    done = bushel.pack(
        tmp_path / "in", tmp_path / "packed", container="bag", images="tile", max_errors=1, sync=False
    )  # as the message says
    assert (done.samples, done.errors) == (1, 1)
    assert stored(tmp_path / "packed") == [tile(PHOTOS[0])]


def test_a_broken_jpeg_is_an_error_of_its_item_in_pack(tmp_path: Path) -> None:
    source = photos([PHOTOS[0], BROKEN[0], PHOTOS[2]])
    assert bushel.pack(source, tmp_path / "untiled.tar", sync=False).errors == 0  # it begins like one
    with pytest.raises(TooManyErrors, match="field 'image': codec 'jpg' expected a complete JPEG to tile"):
        bushel.pack(source, tmp_path / "a.tar", images="tile", sync=False)
    done = bushel.pack(source, tmp_path / "b.tar", images="tile", max_errors=1, sync=False)
    assert (done.samples, done.errors) == (2, 1)
    [line] = Path(done.error_logs[0]).read_text().splitlines()
    assert (json.loads(line)["position"], json.loads(line)["key"]) == (1, "001")
    assert stored(tmp_path / "b.tar") == [tile(PHOTOS[0]), tile(PHOTOS[2])]


def test_a_resumed_run_writes_the_files_of_an_undisturbed_one(tmp_path: Path) -> None:
    bushel.pack(photos(), tmp_path / "whole" / "a.tar", images="tile", sync=False)
    broken = photos([*PHOTOS[:6], BROKEN[0], *PHOTOS[7:]])
    with pytest.raises(TooManyErrors, match="a complete JPEG to tile"):
        bushel.pack(broken, tmp_path / "a.tar", images="tile", sync=False)
    bushel.pack(photos(), tmp_path / "a.tar", images="tile", mode="resume", sync=False)
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "whole" / "a.tar").read_bytes()


def test_a_stream_is_tiled(tmp_path: Path) -> None:
    bushel.pack(photos(), tmp_path / "in.tar", sync=False)
    (tmp_path / "in.tar.gz").write_bytes(gzip.compress((tmp_path / "in.tar").read_bytes()))
    bushel.convert(tmp_path / "in.tar.gz", tmp_path / "out", container="bag", images="tile", sync=False)
    assert stored(tmp_path / "out", "image") == [tile(data) for data in PHOTOS]


def test_wrong_treatments() -> None:
    for wrong in ("tiled", ["check", "tiled"]):
        with pytest.raises(ValueError, match="invalid images='tiled'"):
            bushel.pack([{"x": 1}], "x.tar", images=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("container", ["bag", "tar"])
def test_progressive_ones_become_baseline(tmp_path: Path, container: str) -> None:
    bushel.pack(photos(), tmp_path / "packed", container=container, images="baseline", sync=False)
    bushel.convert(written(tmp_path / "plain"), tmp_path / "converted", container=container, images="baseline")
    found = stored(tmp_path / "packed")
    assert found == stored(tmp_path / "converted") == [baseline(data) for data in PHOTOS]
    for number, (one, other) in enumerate(zip(PHOTOS, found, strict=True)):
        assert (one == other) == (number % 2 == 0)
        assert same_picture(one, other)
        assert b"a comment" in other
        assert len(bushel.kernels.jpeg_seek_table(other))


def test_several_treatments_of_a_dataset(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x112] = 6
    file = io.BytesIO()
    Image.fromarray(picture(40, 20)).save(file, "JPEG", exif=exif)
    written(tmp_path / "in", [file.getvalue(), PHOTOS[0]])
    bushel.convert(tmp_path / "in", tmp_path / "out.tar", images=["upright", "tile"], sync=False)
    turned, straight = stored(tmp_path / "out.tar")
    assert by_pillow(turned).shape == (40, 20, 3)
    assert (is_tiled(turned), straight) == (True, tile(PHOTOS[0]))


@pytest.mark.parametrize("images", ["check", ["check", "upright"]])
def test_only_who_asks_for_it_decodes_what_is_copied(tmp_path: Path, images: Any) -> None:
    written(tmp_path / "in", [PHOTOS[0], BROKEN[0]])
    assert bushel.convert(tmp_path / "in", tmp_path / "copied.tar", sync=False).samples == 2
    done = bushel.convert(tmp_path / "in", tmp_path / "out.tar", images=images, max_errors=1, sync=False)
    assert (done.samples, done.errors) == (1, 1)
