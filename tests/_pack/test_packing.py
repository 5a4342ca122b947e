from __future__ import annotations

import io
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageOps
from tests._pack.opening import opened
from tests._pack.pack_sources import Numbered, files_of, inverted, noisy
from tests.formats import each_format
from tests.sources.folders import image_folder, jpeg, picture, png

import bushel
from bushel._pack import PackResult
from bushel._pack.part import OrderRange
from bushel._pack.run_folder import part_starts
from bushel._runtime.order import make_order
from bushel.codecs import get_codec
from bushel.errors import SpecError, StateError, UnsupportedError
from bushel.sources import LabelledFolder, Stream
from bushel.transforms import CenterCrop, Resize


@each_format
def test_an_image_folder(tmp_path: Path, container: str, generation: Literal["B", "C"] | None) -> None:
    source = LabelledFolder(image_folder(tmp_path / "photos", 10))
    done = bushel.pack(tmp_path / "photos", tmp_path / "out", container=container, generation=generation, sync=False)
    assert (done.container, done.samples, done.kept, done.errors, done.error_logs) == (container, 10, 0, 0, ())
    assert done.paths == (str(tmp_path / "out"),)
    assert done.spec == {"image": "jpg", "label": "int"}
    dataset = opened(tmp_path / "out")
    assert list(dataset.keys) == [source[at]["__key__"] for at in range(10)]
    assert [sample["label"] for sample in dataset] == [source[at]["label"] for at in range(10)]
    stored = dataset.read(range(10), ["image"], decode=False)
    assert [bytes(sample["image"]) for sample in stored] == [source[at]["image"] for at in range(10)]
    assert dataset.labels == {"label": ("class0", "class1", "class2")}
    numbers = tmp_path / "out/label2idx.json"
    assert numbers.exists() == (container == "gulp")
    assert container != "gulp" or json.loads(numbers.read_text()) == {"class0": 0, "class1": 1, "class2": 2}
    assert not (tmp_path / "out.errors.jsonl").exists()


@each_format
def test_any_number_of_workers_writes_the_same_bytes(
    tmp_path: Path, container: str, generation: Literal["B", "C"] | None
) -> None:
    source = Numbered(120, bad=(3, 50, 51), uneven=True)
    for name, threads, processes in (("one", 1, 0), ("many", 8, 0), ("processes", None, 2)):
        done = bushel.pack(
            source,
            tmp_path / name / "out",
            container=container,
            generation=generation,
            transforms={"image": [noisy]},
            seed=5,
            max_errors=3,
            shard_samples=50,
            sync=False,
            threads=threads,
            processes=processes,
        )
        assert (done.samples, done.errors) == (117, 3)
    assert files_of(tmp_path / "many/out") == files_of(tmp_path / "one/out")
    assert files_of(tmp_path / "processes/out") == files_of(tmp_path / "one/out")
    logs = [(tmp_path / name / "out.errors.jsonl").read_text() for name in ("one", "many", "processes")]
    assert logs[0] == logs[1] == logs[2]
    assert [json.loads(line)["position"] for line in logs[0].splitlines()] == [3, 50, 51]


def test_a_fingerprint_is_asked_for_once(tmp_path: Path) -> None:
    """It may be a digest of a million names."""
    calls: list[int] = []

    class Known(Numbered):
        @property
        def fingerprint(self) -> str:
            calls.append(self.count)
            return "all of them"

    bushel.pack(Known(7), tmp_path / "whole", container="tar")
    bushel.pack(Known(8), tmp_path / "parts", container="tar", parts=2)
    assert calls == [7, 8]


class TestBytes:
    def test_nothing_is_encoded_again_when_nothing_changes(self, tmp_path: Path) -> None:
        def same(image: Any) -> Any:
            return image

        bushel.pack([{"image": jpeg(3)}], tmp_path / "x.ffr", transforms=[same])
        assert bytes(opened(tmp_path / "x.ffr").read([0], decode=False)[0]["image"]) == jpeg(3)

    def test_transforms_come_in_turn(self, tmp_path: Path) -> None:
        source = [{"image": picture(1), "other": "a"}]
        bushel.pack(source, tmp_path / "x.tar", spec=None, transforms={"image": [inverted, lambda x: x[:4]]})
        [sample] = opened(tmp_path / "x.tar")
        np.testing.assert_array_equal(sample["image"], (255 - picture(1))[:4])

    def test_every_frame_of_a_sequence_is_transformed(self, tmp_path: Path) -> None:
        frames = [png(0), png(1)]
        source = [{"frames": frames, "image": png(2)}]
        spec = {"frames": "png[]", "image": "png"}
        both: dict[str, Any] = {"frames": inverted, "image": [inverted]}
        bushel.pack(Stream(source, spec=spec), tmp_path / "x.rec", transforms=both)
        [sample] = opened(tmp_path / "x.rec")
        np.testing.assert_array_equal(np.stack(sample["frames"]), 255 - np.stack([picture(0), picture(1)]))
        np.testing.assert_array_equal(sample["image"], 255 - picture(2))

    @pytest.mark.parametrize(
        ("kind", "size", "edge"), [("jpg", (90, 120), 40), ("png", (90, 120), 40), ("jpg", (900, 1200), 64)]
    )
    def test_images_are_resized_as_by_the_transform(
        self, tmp_path: Path, kind: str, size: tuple[int, int], edge: int
    ) -> None:
        down, across = np.mgrid[: size[0], : size[1]] / size[0]
        waves = np.stack([np.sin(9 * down), np.cos(7 * across), np.sin(5 * (down + across))], axis=2)
        stored = [get_codec(kind).encode((128 + 100 * waves / (1 + at)).astype(np.uint8)) for at in range(5)]
        for name, threads, processes in (("one", 1, 0), ("many", 4, 0), ("processes", None, 1)):
            bushel.pack(
                [{"image": image} for image in stored],
                tmp_path / f"{name}.rec",
                transforms=[Resize(edge), CenterCrop(edge)],
                spec={"image": "png"},
                threads=threads,
                processes=processes,
                sync=False,
            )
        for image, sample in zip(stored, opened(tmp_path / "one.rec"), strict=True):
            expected = CenterCrop(edge)(Resize(edge)(get_codec(kind).decode(image)))
            assert sample["image"].shape == (edge, edge, 3)
            assert np.abs(sample["image"].astype(int) - expected).max() <= (1 if size[0] == 90 else 3)
        assert len({(tmp_path / f"{name}.rec").read_bytes() for name in ("one", "many", "processes")}) == 1

    def test_a_transform_may_encode(self, tmp_path: Path) -> None:
        bushel.pack([{"image": jpeg(0)}], tmp_path / "x.ffr", transforms=[lambda image: jpeg(7)])
        assert bytes(opened(tmp_path / "x.ffr").read([0], decode=False)[0]["image"]) == jpeg(7)

    def test_randomness_is_the_same_again_and_other_with_another_seed(self, tmp_path: Path) -> None:
        for name, seed in {"a": 1, "b": 1, "c": 2}.items():
            bushel.pack(Numbered(20), tmp_path / name, container="bag", transforms=[noisy], seed=seed, sync=False)
        assert files_of(tmp_path / "a") == files_of(tmp_path / "b")
        assert files_of(tmp_path / "a")["image.bag"] != files_of(tmp_path / "c")["image.bag"]

    def test_an_image_of_another_kind_than_its_field_becomes_one(self, tmp_path: Path) -> None:
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos/a.jpg").write_bytes(png(1))
        (tmp_path / "photos/b.jpg").write_bytes(jpeg(2))
        bushel.pack(tmp_path / "photos", tmp_path / "out", container="gulp")
        bushel.pack(tmp_path / "photos", tmp_path / "x.tar")
        bushel.convert(tmp_path / "x.tar", tmp_path / "from-tar", container="gulp")  # GulpIO's readers need JPEGs
        for place in ("out", "from-tar"):
            stored = opened(tmp_path / place).read([0, 1], ["image"], decode=False)
            assert [bytes(sample["image"])[:3] for sample in stored] == [b"\xff\xd8\xff"] * 2

    def test_another_type(self, tmp_path: Path) -> None:
        (tmp_path / "photos").mkdir()
        (tmp_path / "photos/a.jpg").write_bytes(jpeg(1))
        bushel.pack(tmp_path / "photos", tmp_path / "x.tar", spec={"image": "png"})
        [sample] = opened(tmp_path / "x.tar").read([0], decode=False)
        assert bytes(sample["image"]).startswith(b"\x89PNG")
        with pytest.raises(KeyError, match="no field 'picture'"):
            bushel.pack(tmp_path / "photos", tmp_path / "y.tar", spec={"picture": "png"})
        with pytest.raises(SpecError, match="cannot become"):
            bushel.pack(tmp_path / "photos", tmp_path / "y.tar", spec={"image": "jpg[]"})

    @pytest.mark.parametrize("orientation", range(1, 9))
    @pytest.mark.parametrize(("kind", "suffix"), [("JPEG", "jpg"), ("PNG", "png"), ("WEBP", "webp"), ("TIFF", "tif")])
    def test_images_are_turned_upright(self, tmp_path: Path, kind: str, suffix: str, orientation: int) -> None:
        exif = Image.Exif()
        exif[0x112] = orientation
        stream = io.BytesIO()
        Image.fromarray(picture(0)).save(stream, kind, exif=exif, **({"lossless": True} if kind == "WEBP" else {}))
        data = stream.getvalue()
        with Image.open(io.BytesIO(data)) as image:
            upright = np.asarray(ImageOps.exif_transpose(image))
        bushel.pack([{"image": data}], tmp_path / "x.tar", spec={"image": suffix}, images="upright")
        [stored] = opened(tmp_path / "x.tar").read([0], decode=False)
        with Image.open(io.BytesIO(stored["image"])) as image:
            assert image.format == kind
            assert ImageOps.exif_transpose(image).size == image.size
            found = np.asarray(image)
        assert found.shape == upright.shape
        assert np.abs(found.astype(int) - upright).max() <= (8 if kind == "JPEG" else 0)
        assert (stored["image"] == data) == (orientation == 1 or kind == "TIFF")

    def test_what_is_turned_is_then_transformed(self, tmp_path: Path) -> None:
        exif = Image.Exif()
        exif[0x112] = 6
        stream = io.BytesIO()
        Image.fromarray(picture(0)).save(stream, "PNG", exif=exif)
        frames = [stream.getvalue(), png(0)]
        bushel.pack(
            [{"__key__": "a", "frames": frames}],
            tmp_path / "x.tar",
            spec={"frames": "png[]"},
            transforms=[inverted],
            images="upright",
        )
        turned, straight = opened(tmp_path / "x.tar")[0]["frames"]
        np.testing.assert_array_equal(turned, np.rot90(inverted(picture(0)), -1))
        np.testing.assert_array_equal(straight, inverted(picture(0)))

    def test_a_header_that_cannot_be_read_is_an_error_of_its_item(self, tmp_path: Path) -> None:
        items = [{"image": jpeg(0)}, {"image": jpeg(1)[:20]}]
        done = bushel.pack(items, tmp_path / "x.tar", spec={"image": "jpg"}, images="upright", max_errors=1)
        assert (done.samples, done.errors) == (1, 1)
        with pytest.raises(SpecError, match="images='upright' needs an image field"):
            bushel.pack([{"x": 1}], tmp_path / "y.tar", images="upright")

    def test_transforms_without_images(self, tmp_path: Path) -> None:
        with pytest.raises(SpecError, match="the dataset has no image field"):
            bushel.pack([{"x": 1}], tmp_path / "x.tar", transforms=[inverted])


class TestPixels:
    """Pillow images and arrays, with a spec and without."""

    def test_pillow_images_and_arrays_with_a_spec(self, tmp_path: Path) -> None:
        for name, value in (("pillow", Image.fromarray(picture(1))), ("array", picture(1))):
            bushel.pack([{"image": value}], tmp_path / f"{name}.tar", spec={"image": "jpg"})
            [sample] = opened(tmp_path / f"{name}.tar").read([0], decode=False)
            assert bytes(sample["image"]) == get_codec("jpg").encode(picture(1))
            bushel.pack([{"x": value}], tmp_path / f"{name}.rec", spec={"x": "png"})
            np.testing.assert_array_equal(opened(tmp_path / f"{name}.rec")[0]["x"], picture(1))
            with bushel.Writer(tmp_path / f"{name}.ffr", {"image": "png", "frames": "png[]"}) as writer:
                writer.append({"image": value, "frames": [value, value]})
            np.testing.assert_array_equal(opened(tmp_path / f"{name}.ffr")[0]["frames"][1], picture(1))

    def test_without_a_spec(self, tmp_path: Path) -> None:
        photo = Image.open(io.BytesIO(jpeg(1)))
        grey = picture(1)[:, :, 0]
        sample = {
            "photo": photo,
            "drawing": Image.fromarray(picture(2)),
            "image": picture(3),
            "left_image": grey,
            "jpg": picture(4),
            "frames": [picture(5), picture(6)],
            "mask": grey,
            "images": np.zeros((4, 4, 7), np.uint8),
            "rgb": picture(1).astype(np.float32),
        }
        done = bushel.pack([sample], tmp_path / "out", container="recordio")
        kinds = ["jpg", "png", "png", "png", "jpg", "png[]", "array", "array", "array"]
        assert done.spec == dict(zip(sample, kinds, strict=True))
        assert "left_image: png" in repr(done)
        [found] = opened(tmp_path / "out")
        for name in ("image", "left_image", "mask", "images", "rgb"):
            np.testing.assert_array_equal(found[name], sample[name])
        np.testing.assert_array_equal(found["drawing"], picture(2))

    def test_arrays_of_images(self, tmp_path: Path) -> None:
        arrays = {"image": np.stack([picture(1), picture(2)]), "x": np.zeros((2, 3, 4), np.uint8)}
        assert bushel.pack(arrays, tmp_path / "a.rec").spec == {"image": "png", "x": "array"}
        np.testing.assert_array_equal(opened(tmp_path / "a.rec")[1]["image"], picture(2))

    def test_a_type_that_cannot_be_inferred_is_taken_from_the_spec(self, tmp_path: Path) -> None:
        bushel.pack([{"x": None}, {"x": [1]}], tmp_path / "a.tar", spec={"x": "json"})
        assert [sample["x"] for sample in opened(tmp_path / "a.tar")] == [None, [1]]

    def test_transforms_and_exif(self, tmp_path: Path) -> None:
        exif = Image.Exif()
        exif[0x112] = 6
        stream = io.BytesIO()
        Image.fromarray(picture(0)).save(stream, "PNG", exif=exif)
        image = Image.open(stream)
        bushel.pack([{"image": image}], tmp_path / "a.tar", transforms=inverted, images="upright")
        np.testing.assert_array_equal(opened(tmp_path / "a.tar")[0]["image"], np.rot90(inverted(picture(0)), -1))


class TestOrder:
    def test_shuffle_is_a_permutation_of_the_source(self, tmp_path: Path) -> None:
        bushel.pack(Numbered(100), tmp_path / "a.tar", shuffle=True, seed=4)
        bushel.pack(Numbered(100), tmp_path / "b.tar", shuffle=True, seed=4)
        bushel.pack(Numbered(100), tmp_path / "c.tar", shuffle=True, seed=5)
        orders = [list(opened(tmp_path / name).keys) for name in ("a.tar", "b.tar", "c.tar")]
        assert orders[0] == orders[1] != orders[2]
        assert sorted(orders[0]) == sorted(orders[2]) == [f"k{number:04d}" for number in range(100)]
        assert orders[0] != sorted(orders[0])

    def test_a_stream_has_only_its_own(self, tmp_path: Path) -> None:
        def samples() -> Iterator[dict[str, Any]]:
            for number in range(300):
                yield {"__key__": str(number), "x": number}

        seen: list[bushel.runs.Progress] = []
        done = bushel.pack(samples(), tmp_path / "out", container="tar", shard_samples=100, progress=seen.append)
        assert (done.samples, seen[-1].done, seen[-1].total) == (300, 300, None)
        assert [sample["x"] for sample in opened(tmp_path / "out")] == list(range(300))
        with pytest.raises(ValueError, match="a stream is packed in its own order"):
            bushel.pack(samples(), tmp_path / "x.tar", shuffle=True)
        with pytest.raises(ValueError, match="the number of samples is unknown"):
            bushel.pack(samples(), tmp_path / "x.tar", max_errors=0.5)

    def test_what_a_stream_raises_is_raised(self, tmp_path: Path) -> None:
        def samples() -> Iterator[dict[str, Any]]:
            yield {"x": 0}
            raise ConnectionError("the line is cut")

        with pytest.raises(ConnectionError, match="the line is cut"):
            bushel.pack(samples(), tmp_path / "x.tar", max_errors=10)


class TestKeys:
    def test_left_out_or_changed(self, tmp_path: Path) -> None:
        bushel.pack(Numbered(3), tmp_path / "a.rec", keys=False)
        assert not opened(tmp_path / "a.rec").info.keyed
        bushel.pack(Numbered(3), tmp_path / "b.rec", keys=str.upper)
        assert list(opened(tmp_path / "b.rec").keys) == ["K0000", "K0001", "K0002"]

    def test_a_key_that_the_container_cannot_hold_is_an_error_of_that_item(self, tmp_path: Path) -> None:
        source = [{"__key__": key, "x": 1} for key in ("a", "b.c", "d", "a")]
        done = bushel.pack(source, tmp_path / "x.tar", max_errors=2)
        assert list(opened(tmp_path / "x.tar").keys) == ["a", "d"]
        [log] = done.error_logs
        noted = [json.loads(line) for line in Path(log).read_text().splitlines()]
        assert [(line["position"], line["key"]) for line in noted] == [(1, "b.c"), (3, "a")]


class TestDatasets:
    def test_from_every_container_to_every_other(self, tmp_path: Path) -> None:
        previous: Any = Numbered(9)
        for container in ("tar", "gulp", "bag", "recordio", "ffrecord", "tar"):
            out = tmp_path / f"{container}{len(list(tmp_path.iterdir()))}"
            fields = {"image": "jpg", "label": "int", "text": "utf8"}
            bushel.pack(previous, out, container=container, sync=False)
            dataset = opened(out)
            assert [sample["label"] for sample in dataset] == list(range(9))
            stored = dataset.read(range(9), decode=False)
            image = "frames" if container == "gulp" and "frames" in dataset.spec else "image"
            assert [bytes(sample[image]) for sample in stored] == [jpeg(number) for number in range(9)]
            assert dataset.spec == fields
            previous = out

    def test_a_view(self, tmp_path: Path) -> None:
        bushel.pack(Numbered(9), tmp_path / "a.tar")
        done = bushel.pack(opened(tmp_path / "a.tar")[[5, 1]], tmp_path / "b.tar")
        assert done.samples == 2
        assert list(opened(tmp_path / "b.tar").keys) == ["k0005", "k0001"]


class TestAppend:
    @each_format
    def test_all_samples_come_last(self, tmp_path: Path, container: str, generation: Literal["B", "C"] | None) -> None:
        image_folder(tmp_path / "old", 3)
        image_folder(tmp_path / "new", 5, classes=5)
        for name in ("class0", "class3"):  # other keys, and two known labels
            for path in (tmp_path / "new" / name).iterdir():
                path.rename(path.with_name(f"new{path.name}"))
        for name in ("class1", "class2"):
            (tmp_path / "new" / name).rename(tmp_path / "new" / f"a{name}")
        bushel.pack(tmp_path / "old", tmp_path / "out", container=container, generation=generation)
        done = bushel.pack(
            tmp_path / "new", tmp_path / "out", container=container, generation=generation, mode="append"
        )
        assert (done.samples, done.kept) == (5, 3)
        dataset = opened(tmp_path / "out")
        labels = {"class0": 0, "class1": 1, "class2": 2, "aclass1": 3, "aclass2": 4, "class3": 5, "class4": 6}
        assert [sample["label"] for sample in dataset] == [labels[key.split("/")[0]] for key in dataset.keys]
        assert dataset.labels == {"label": tuple(labels)}
        assert container != "gulp" or json.loads((tmp_path / "out/label2idx.json").read_text()) == labels

    def test_a_dataset_that_is_there_is_not_overwritten(self, tmp_path: Path) -> None:
        bushel.pack(Numbered(3), tmp_path / "x.tar")
        with pytest.raises(FileExistsError, match="use mode='append'"):
            bushel.pack(Numbered(3), tmp_path / "x.tar")


class TestParts:
    @each_format
    def test_parts_are_the_whole(self, tmp_path: Path, container: str, generation: Literal["B", "C"] | None) -> None:
        source, out = Numbered(20), tmp_path / "out"
        options: dict[str, Any] = {
            "container": container,
            "generation": generation,
            "shuffle": True,
            "seed": 3,
            "parts": 3,
        }
        done = bushel.pack(source, out, **options)
        assert done.paths == tuple(str(out / f"part-{number:05d}") for number in range(3))
        assert done.samples == 20
        bushel.pack(source, tmp_path / "whole", container=container, generation=generation, shuffle=True, seed=3)
        joined = opened(str(out / "part-*"))
        assert [len(opened(path)) for path in done.paths] == [6, 7, 7]
        assert list(joined.keys) == list(opened(tmp_path / "whole").keys)
        for number in range(3):
            one = bushel.pack(source, tmp_path / "one", part=number, **options)
            assert one.paths == (str(tmp_path / f"one/part-{number:05d}"),)
            assert files_of(Path(one.paths[0])) == files_of(Path(done.paths[number]))

    def test_parts_of_one_file(self, tmp_path: Path) -> None:
        done = bushel.pack(Numbered(5), tmp_path / "train.rec", parts=2)
        assert [Path(path).name for path in done.paths] == ["train-part-00000.rec", "train-part-00001.rec"]
        assert len(bushel.index(str(tmp_path / "train-part-*.rec"))) == 5

    def test_not_a_part(self, tmp_path: Path) -> None:
        for options in ({"part": 1}, {"parts": 2, "part": 2}, {"parts": 0}, {"parts": 2, "part": -1}):
            with pytest.raises(ValueError, match="part"):
                bushel.pack(Numbered(5), tmp_path / "x.tar", **options)  # type: ignore[arg-type]

    @given(st.integers(0, 300), st.integers(1, 40), st.none() | st.integers(0, 9))
    def test_every_sample_is_in_one_part(self, samples: int, parts: int, shuffle: int | None) -> None:
        order = make_order(shuffle is not None, samples, shuffle or 0)
        starts = part_starts(samples, parts)
        ranges = [OrderRange(order, first, last) for first, last in itertools.pairwise(starts)]
        positions = [position for one in ranges for position in one.take(0, len(one)).tolist()]
        assert sorted(positions) == list(range(samples))
        assert max(map(len, ranges)) - min(map(len, ranges)) <= 1


def test_progress_counts_everything(tmp_path: Path) -> None:
    seen: list[bushel.runs.Progress] = []
    source = Numbered(50, bad=(2,))
    done = bushel.pack(source, tmp_path / "out", container="bag", parts=2, max_errors=1, progress=seen.append)
    assert (seen[-1].done, seen[-1].total, seen[-1].errors, seen[-1].bytes) == (50, 50, 1, done.bytes)
    assert [one.done for one in seen] == sorted(one.done for one in seen)
    dataset = opened(str(tmp_path / "out/part-*"))
    stored = dataset.read(range(49), list(done.spec), decode=False)
    assert done.error_logs == (str(tmp_path / "out.errors.jsonl"),)
    assert done.bytes == sum(len(sample[name]) for sample in stored for name in done.spec)


@pytest.mark.parametrize("container", ["bag", "tar"])
@pytest.mark.parametrize("mode", ["append", "overwrite"])
def test_the_container_of_a_dataset_that_is_there_needs_no_name(
    tmp_path: Path, container: str, mode: Literal["append", "overwrite"]
) -> None:
    bushel.pack({"x": np.arange(3)}, tmp_path / "out", container=container, sync=False)
    done = bushel.pack({"x": np.arange(2)}, tmp_path / "out", mode=mode, sync=False)
    assert (done.container, len(bushel.open(tmp_path / "out"))) == (container, 5 if mode == "append" else 2)
    with pytest.raises(FileExistsError, match="is a dataset already: use mode='append'"):
        bushel.pack({"x": np.arange(2)}, tmp_path / "out")


def test_wrong_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not tell the container"):
        bushel.pack(Numbered(3), tmp_path / "out")
    with pytest.raises(ValueError, match="threads=0: expected a whole number from 1"):
        bushel.pack(Numbered(3), tmp_path / "x.tar", threads=0)
    with pytest.raises(UnsupportedError, match="expected a local path"):
        bushel.pack(Numbered(3), "memory://x.tar")
    with pytest.raises(SpecError, match="gulp"):
        bushel.pack([{"x": 1}], tmp_path / "out", container="gulp")
    with pytest.raises(TypeError, match="not callable"):
        bushel.pack(Numbered(3), tmp_path / "x.tar", transforms=[3])  # type: ignore[list-item]


def test_a_share_of_errors(tmp_path: Path) -> None:
    for share, bad in ((0.1, 9), (0.12, 10)):
        source = Numbered(95, bad=tuple(range(bad)))
        done = bushel.pack(source, tmp_path / f"{bad}.tar", max_errors=share)
        assert done.errors == bad
    for wrong in (-1, 1.5, float("nan"), True):
        with pytest.raises((ValueError, TypeError), match="max_errors"):
            bushel.pack(Numbered(3), tmp_path / "x.tar", max_errors=wrong)


def test_errors_are_counted_over_all_parts_of_a_call(tmp_path: Path) -> None:
    source = Numbered(30, bad=(1, 11, 21))
    with pytest.raises(
        bushel.errors.TooManyErrors, match="3 of the first 22 items cannot be packed, but max_errors allows 2"
    ):
        bushel.pack(source, tmp_path / "few", container="bag", parts=3, max_errors=2)
    with pytest.raises(bushel.errors.TooManyErrors, match="3 of the first 22 items"):
        bushel.pack(source, tmp_path / "few", container="bag", parts=3, max_errors=2, mode="resume")
    assert bushel.pack(source, tmp_path / "few", container="bag", parts=3, max_errors=0.1, mode="resume").errors == 3
    assert bushel.pack(source, tmp_path / "any", container="bag", parts=3, max_errors=None).errors == 3


def test_an_empty_source(tmp_path: Path) -> None:
    done = bushel.pack(Numbered(0), tmp_path / "x.ffr")
    assert isinstance(done, PackResult)
    assert (done.samples, len(opened(tmp_path / "x.ffr"))) == (0, 0)


def test_processes_need_no_guard_in_the_main_script_and_take_its_functions(tmp_path: Path) -> None:
    script = (
        "import sys, bushel\n"
        "from tests._pack.pack_sources import Numbered, inverted\n"
        "print(bushel.pack(Numbered(30), sys.argv[1], transforms=[inverted], processes=2).samples)\n"
        "print(bushel.pack(Numbered(3), sys.argv[2], transforms=[lambda image: 255 - image], processes=1).samples)\n"
    )
    (tmp_path / "script.py").write_text(script)
    root = Path(__file__).resolve().parents[2]
    command = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "a.tar"), str(tmp_path / "b.tar")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={"PYTHONPATH": str(root)})
    assert done.stdout.splitlines() == ["30", "3"]
    inverted, plain = bushel.open(tmp_path / "b.tar"), bushel.open(tmp_path / "a.tar")
    assert inverted[2]["image"].tolist() == plain[2]["image"].tolist()


def test_a_worker_process_that_dies_is_named(tmp_path: Path) -> None:
    from tests._pack.pack_sources import Dying

    with pytest.raises(RuntimeError, match="worker process .* ended with status 9"):
        bushel.pack(Dying(50, at=20), tmp_path / "out", container="tar", processes=1)


def test_a_state_error_is_no_item_error(tmp_path: Path) -> None:
    bushel.pack(Numbered(3), tmp_path / "out", container="bag")
    with pytest.raises(StateError):
        bushel.pack([{"__key__": "z", "other": 1}], tmp_path / "out", container="bag", mode="append", max_errors=5)
