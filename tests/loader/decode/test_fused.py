"""Images that are cropped, resized and mirrored while they are decoded: as decoding first, but faster."""

import io
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.loader.memory_dataset import jitter

import bushel
from bushel.errors import CodecError, SpecError
from bushel.loader import Loader, MapView, StreamLoader
from bushel.loader.decode.sample_transforms import SampleTransforms
from bushel.loader.read.batch_arrays import BufferPool
from bushel.transforms import (
    CenterCrop,
    ColorJitter,
    EachFrame,
    Lambda,
    Normalize,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    ToCHW,
)

SPEC = {"image": "jpg", "label": "int", "frames": "jpg[]"}
CROP: list[Any] = [RandomResizedCrop(48), RandomHorizontalFlip()]
STEPS: dict[str, list[Any]] = {
    "crop": CROP,
    "to numbers": [*CROP, Normalize((0.5,) * 3, (0.25,) * 3), ToCHW()],
    "and more": [Resize(40), CenterCrop(32), ColorJitter(brightness=0.5)],
}


def double(image: Any) -> Any:
    return image // 2


def photo(seed: int, mode: str = "RGB") -> bytes:
    rng = np.random.default_rng(seed)
    height, width = rng.integers(60, 120, 2).tolist()
    small = Image.fromarray(rng.integers(0, 255, (8, 8, 3)).astype(np.uint8))
    stream = io.BytesIO()
    small.resize((width, height), Image.Resampling.BICUBIC).convert(mode).save(stream, "JPEG", quality=92)
    return stream.getvalue()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fused") / "data"
    with bushel.Writer(folder, SPEC, container="tar", shard_samples=13) as writer:
        for i in range(40):
            frames = [photo(100 * i + number) for number in range(i % 4)]
            writer.append({"image": photo(i), "label": i, "frames": frames}, key=f"k{i:02}")
    return folder


@pytest.fixture
def dataset(folder: Path) -> bushel.Dataset:
    return bushel.open(folder, spec=SPEC)


def unfused(dataset: bushel.Dataset, steps: list[Any]) -> list[dict[str, Any]]:
    """The same without fusing, by a first transform that is none."""
    loader = Loader(dataset, 8, shuffle=True, seed=3, threads=0, transforms={"image": [Lambda(np.array), *steps]})
    return list(loader)


def assert_near(one: Any, other: Any, tolerance: float) -> None:
    assert one.dtype == other.dtype
    assert one.shape == other.shape
    assert np.abs(one.astype(np.float64) - other.astype(np.float64)).max() <= tolerance


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}, {"processes": 1}], ids=str)
def test_it_is_within_one_level_of_the_transforms_called_one_by_one(
    dataset: bushel.Dataset, name: str, options: dict[str, Any]
) -> None:
    transforms = {"image": STEPS[name]}
    assert SampleTransforms.of(transforms, SPEC).fused == {"image"}
    loader = Loader(dataset, 8, shuffle=True, seed=3, transforms=transforms, reducing_gap=None, **options)
    batches = list(loader)
    assert len(batches) == 5
    tolerance = {"crop": 1, "to numbers": 4 / 255 + 1e-6, "and more": 3}[name]
    for batch, expected in zip(batches, unfused(dataset, STEPS[name]), strict=True):
        assert batch["label"].tolist() == expected["label"].tolist()
        assert_near(batch["image"], expected["image"], tolerance)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_batches_whose_stored_bytes_are_in_one_buffer(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    with bushel.Writer(tmp_path / "data", {"image": "image", "label": "int"}, container="bag") as writer:
        for number in range(11):
            stream = io.BytesIO()
            noise = Image.fromarray(rng.integers(0, 256, (640, 800, 3), dtype=np.uint8))
            noise.save(stream, kind, **({} if kind == "PNG" else {"quality": 95}))
            data = stream.getvalue() if number != 6 else stream.getvalue()[:5000]
            writer.append({"image": data, "label": number})
    ds = bushel.open(tmp_path / "data")

    def epochs() -> tuple[list[Any], list[str]]:
        loader = Loader(ds, 5, shuffle=True, transforms={"image": CROP}, on_error="replace", threads=2)
        batches = [(batch["image"].tobytes(), batch["label"].tolist()) for _ in range(2) for batch in loader]
        return batches, [bad.cause for bad in loader.errors]

    taken: list[int] = []
    room = BufferPool.room

    def counted(pool: BufferPool, size: int) -> Any:
        taken.append(size)
        return room(pool, size)

    monkeypatch.setattr(BufferPool, "room", counted)
    one = epochs()
    assert taken
    monkeypatch.setattr(BufferPool, "room", lambda self, size: None)
    assert one == epochs()
    assert len(one[1]) == 1


def test_shrinking_in_the_inverse_dct_keeps_the_picture(dataset: bushel.Dataset) -> None:
    steps: list[Any] = [Resize((20, 20))]
    [batch] = Loader(dataset, 40, transforms={"image": steps})
    [exact] = Loader(dataset, 40, transforms={"image": steps}, reducing_gap=None)
    error = batch["image"].astype(float) - exact["image"]
    assert 0 < (error**2).mean() < 255**2 / 10**3.5  # 35 dB


def test_frames_of_a_sequence_are_cropped_alike(dataset: bushel.Dataset) -> None:
    def frames(*steps: Any) -> list[list[Any]]:
        loader = Loader(dataset, 8, seed=3, transforms={"frames": [EachFrame(steps)]}, reducing_gap=None)
        return [one for batch in loader for one in batch["frames"]]

    assert SampleTransforms.of({"frames": [EachFrame(CROP)]}, SPEC).fused == {"frames"}
    for own, expected in zip(frames(*CROP), frames(Lambda(np.array), *CROP), strict=True):
        assert len(own) == len(expected)
        for one, other in zip(own, expected, strict=True):
            assert_near(one, other, 1)
    halved = frames(*CROP, Lambda(double))
    assert (halved[3][2] == frames(*CROP)[3][2] // 2).all()


def test_frames_are_decoded_into_one_array_where_they_are_stacked(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "clips", {"frames": "jpg[]"}, container="bag") as writer:
        for clip in range(7):
            writer.append({"frames": [photo(3 * clip + frame) for frame in range(3)]})
    clips = bushel.open(tmp_path / "clips")
    transforms: dict[str, Any] = {"frames": [EachFrame(CROP)]}
    for processes in (0, 1):
        lists = Loader(clips, 4, seed=3, transforms=transforms)
        stacked = Loader(clips, 4, seed=3, transforms=transforms, collate={"frames": "stack"}, processes=processes)
        for batch, expected in zip(stacked, lists, strict=True):
            np.testing.assert_array_equal(batch["frames"], np.array(expected["frames"]))
    after = {"frames": [EachFrame([*CROP, Lambda(double)])]}
    [batch] = Loader(clips, 7, transforms=after, collate={"frames": "stack"})
    [whole] = Loader(clips, 7, transforms=transforms, collate={"frames": "stack"})
    np.testing.assert_array_equal(batch["frames"], double(whole["frames"]))


def test_clips_of_unequal_length_do_not_stack(dataset: bushel.Dataset) -> None:
    transforms: dict[str, Any] = {"frames": [EachFrame(CROP)]}
    with pytest.raises(SpecError, match=r"field 'frames' .*do not stack"):
        list(Loader(dataset, 8, transforms=transforms, collate={"frames": "stack"}))


def test_grey_images_join_those_in_colour_and_other_formats_too(tmp_path: Path) -> None:
    stream = io.BytesIO()
    Image.open(io.BytesIO(photo(1))).save(stream, "PNG")
    with bushel.Writer(tmp_path / "data", {"image": "jpg"}, container="bag") as writer:
        for data in (photo(0), photo(1, "L"), stream.getvalue()):
            writer.append({"image": data})
    dataset = bushel.open(tmp_path / "data")
    [batch] = Loader(dataset, 3, transforms={"image": [Resize((30, 30))]}, reducing_gap=None)
    assert batch["image"].shape == (3, 30, 30, 3)
    assert (batch["image"][1, ..., 0] == batch["image"][1, ..., 2]).all()
    assert_near(batch["image"][2], Resize((30, 30))(dataset[2]["image"]), 1)


def test_damage_names_the_sample_and_can_be_replaced(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "data", {"image": "jpg", "label": "int"}, container="bag") as writer:
        for i in range(12):
            data = photo(i)
            writer.append({"image": data[: len(data) // 2] if i == 5 else b"none" if i == 6 else data, "label": i})
    dataset = bushel.open(tmp_path / "data")
    for threads in (0, 1, 2, 4):
        with pytest.raises(CodecError, match=r"sample '5', field 'image' \(.*image.bag@\d+\)") as caught:
            list(Loader(dataset, 4, transforms={"image": CROP}, threads=threads))
        assert "sample '5' (position 5" in "\n".join(caught.value.__notes__)
    loader = Loader(dataset, 4, transforms={"image": CROP}, on_error="replace", threads=2)
    batches = list(loader)
    assert [batch["label"].tolist() for batch in batches] == [[0, 1, 2, 3], [4, 7, 7, 7], [8, 9, 10, 11]]
    assert [(bad.sample, bad.field) for bad in loader.errors] == [(5, "image"), (6, "image")]
    assert (batches[1]["image"][1] == batches[1]["image"][3]).all()
    assert batches[1]["image"].shape == (4, 48, 48, 3)


def test_stored_bytes_are_not_decoded_unless_requested(dataset: bushel.Dataset) -> None:
    [batch] = Loader(dataset, 40, decode=False, transforms={"image": [len]})
    assert batch["image"].tolist() == [len(photo(i)) for i in range(40)]
    assert SampleTransforms.of({"image": CROP}, SPEC, decode=False).fused == set()
    with pytest.raises(SpecError, match="names 'picture'"):
        Loader(dataset, 4, transforms={"picture": CROP})


def test_a_codec_of_the_users_own_is_not_passed_over(folder: Path) -> None:
    program = """
import sys
import numpy as np
import bushel
from bushel.loader import Loader
from bushel.transforms import Resize

def decode(data):
    return np.full((8, 8, 3), len(data) % 200, np.uint8)

bushel.register_codec("jpg", bytes, decode, replace=True)
dataset = bushel.open(sys.argv[1], spec={"image": "jpg", "frames": "jpg[]", "label": "int"})
[batch] = Loader(dataset, 40, transforms={"image": [Resize((4, 4))]})
stored = dataset.read(range(40), ["image"], decode=False)
assert batch["image"][:, 2, 2, 1].tolist() == [len(sample["image"]) % 200 for sample in stored]
"""
    done = subprocess.run([sys.executable, "-c", program, folder], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_views_and_streams_fuse_too(dataset: bushel.Dataset, folder: Path, tmp_path: Path) -> None:
    import tarfile

    view = MapView(dataset, transforms={"image": CROP}, seed=3, reducing_gap=None)
    [expected] = Loader(dataset, 40, seed=3, transforms={"image": CROP}, reducing_gap=None)
    assert (view[7]["image"] == expected["image"][7]).all()
    with tarfile.open(tmp_path / "all.tar.gz", "w:gz") as archive:
        for path in sorted(folder.glob("*.tar")):
            with tarfile.open(path) as part:
                for member in part:
                    archive.addfile(member, part.extractfile(member))
    stream = bushel.open_stream(tmp_path / "all.tar.gz", spec=SPEC)
    [batch] = StreamLoader(stream, 40, buffer=0, transforms={"image": [Resize((30, 30))]})
    [same] = Loader(dataset, 40, transforms={"image": [Resize((30, 30))]})
    assert (batch["image"] == same["image"]).all()


def test_randomness_is_that_of_the_sample_with_any_number_of_workers(dataset: bushel.Dataset) -> None:
    def images(**options: Any) -> list[Any]:
        transforms: dict[str, list[Any]] = {"label": [jitter], "image": [*CROP, ColorJitter(hue=0.1)], "frames": [len]}
        loader = Loader(dataset, 16, shuffle=True, seed=1, transforms=transforms, **options)
        return [(batch["label"].tolist(), batch["image"].tolist()) for batch in loader]

    expected = images(threads=0)
    assert images(threads=3) == expected
    assert images(processes=2, threads=1) == expected


@pytest.mark.parametrize("others", [False, True], ids=["images only", "other random transforms"])
def test_crops_of_the_kernel_are_those_of_python_with_any_number_of_workers(
    others: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    with bushel.Writer(tmp_path / "data", {"image": "jpg", "label": "int"}, container="bag") as writer:
        for number in range(60):
            stream = io.BytesIO()
            kind = {3: "PNG", 7: "WEBP"}.get(number % 11, "JPEG")
            image: Image.Image = Image.open(io.BytesIO(photo(number)))
            if number % 13 == 5:
                image = image.resize((30, 20))  # too small for the crop
            image.save(stream, kind, **({"exif": turned} if number % 5 == 0 else {}))
            writer.append({"image": b"damaged" if number == 41 else stream.getvalue(), "label": number})
    dataset = bushel.open(tmp_path / "data")
    steps: list[Any] = [RandomHorizontalFlip(), RandomCrop((28, 36)), RandomResizedCrop(24), RandomVerticalFlip(0.3)]
    transforms: dict[str, list[Any]] = {"image": [*steps, ColorJitter(hue=0.1)], "label": [jitter]}

    def batches(**options: Any) -> tuple[list[Any], list[Any]]:
        chosen = transforms if others else {"image": steps}
        options = {"exif_rotate": True, "on_error": "replace", "max_errors": 40, **options}
        loader = Loader(dataset, 16, shuffle=True, seed=2**63, transforms=chosen, **options)
        found = [(batch["image"].tobytes(), batch["label"].tolist()) for _ in range(2) for batch in loader]
        return found, sorted((bad.sample, bad.cause.split(" (cannot")[0]) for bad in loader.errors)

    drawn = [batches(threads=threads) for threads in (0, 1, 2, 5, 16)]
    monkeypatch.setattr("bushel.transforms.fused.program_of", lambda transforms: None)
    expected = batches(threads=0)
    assert len({sample for sample, _ in expected[1]}) == 5 + 1
    assert all(one == expected for one in drawn)
