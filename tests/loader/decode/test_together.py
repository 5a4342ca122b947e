"""Fields that move together: one geometry for the images, masks, boxes and points of a sample; whole samples."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.loader.memory_dataset import MemoryDataset

import bushel
from bushel.errors import SpecError
from bushel.loader import Loader, MapView
from bushel.loader.decode.moving import draw_together
from bushel.loader.decode.sample_transforms import SampleTransforms
from bushel.transforms import (
    Boxes,
    CenterCrop,
    ColorJitter,
    Grayscale,
    Mask,
    Normalize,
    Pad,
    Points,
    RandomAffine,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomRotation,
    RandomVerticalFlip,
    Resize,
    ToCHW,
)
from bushel.transforms.fused import plan_decode

HEIGHT, WIDTH = 48, 64
KEY = ("image", "right", Mask("mask"), Boxes("boxes", rows=("classes",)), Points("points"))
SPEC = {
    "image": "png",
    "right": "png",
    "mask": "png",
    "wide": "array",
    "boxes": "array",
    "classes": "array",
    "points": "array",
}


def sample(number: int) -> dict[str, Any]:
    """Return a sample in which the mask, the red channel and the points say the same."""
    rng = np.random.default_rng(number)
    mask = rng.integers(0, 256, (HEIGHT, WIDTH), dtype=np.uint8)
    image = np.stack([mask] * 3, 2)
    low = rng.integers(0, [WIDTH - 8, HEIGHT - 8], (5, 2))
    boxes = np.concatenate([low, low + rng.integers(1, 8, (5, 2))], 1).astype(np.float32)
    points = np.column_stack([rng.integers(0, WIDTH, 5), rng.integers(0, HEIGHT, 5), np.arange(5)]).astype(np.float32)
    return {
        "image": image,
        "right": 255 - image,
        "mask": mask,
        "wide": mask.astype(np.int32) * 1000,
        "boxes": boxes,
        "classes": np.arange(5),
        "points": points,
    }


@pytest.fixture(scope="module")
def ds(tmp_path_factory: pytest.TempPathFactory) -> bushel.Dataset:
    folder = tmp_path_factory.mktemp("together")
    with bushel.Writer(folder / "a.tar", SPEC) as writer:
        for number in range(20):
            writer.append(sample(number), key=f"{number:02}")
    return bushel.open(folder / "a.tar")


def test_a_mask_of_another_size_is_refused(tmp_path: Path) -> None:
    """Its rows below the crop are not decoded, but its size is compared."""
    with bushel.Writer(tmp_path / "a.tar", {"image": "png", "mask": "png"}) as writer:
        writer.append({"image": sample(0)["image"], "mask": sample(0)["mask"][:-1]})
    transforms: Any = {("image", Mask("mask")): [RandomCrop(2)]}
    with pytest.raises(
        ValueError, match=r"the mask 'mask' is a ndarray of shape \(47, 64\) and dtype uint8, but its image is 64x48"
    ):
        Loader(bushel.open(tmp_path / "a.tar"), 1, transforms=transforms, threads=0).peek()


CROPS: list[Any] = [RandomCrop(24), RandomHorizontalFlip(), RandomVerticalFlip()]


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 2}, {"processes": 1, "threads": 1}], ids=str)
def test_all_fields_get_the_geometry_that_the_image_alone_would_get(ds: bushel.Dataset, options: Any) -> None:
    alone = list(Loader(ds, 5, shuffle=True, seed=4, transforms={"image": CROPS}))
    together = list(Loader(ds, 5, shuffle=True, seed=4, transforms={KEY: CROPS}, **options))
    for one, both in zip(alone, together, strict=True):
        assert one["__key__"] == both["__key__"]
        np.testing.assert_array_equal(one["image"], both["image"])
        np.testing.assert_array_equal(both["mask"], both["image"][..., 0])
        np.testing.assert_array_equal(both["right"], 255 - both["image"])
        assert (both["mask"].shape, both["mask"].dtype) == ((5, 24, 24), np.uint8)
        for row, key in enumerate(both["__key__"]):
            source = sample(int(key))
            for x, y, which in both["points"][row]:
                if 0 <= x < 24 and 0 <= y < 24:  # the pixel under the point: flips move points by edges, not centres
                    before = source["points"][int(which)]
                    column, line = (int(np.ceil(v)) - (1 if v else 0) for v in (x, y))
                    value = source["mask"][int(before[1]), int(before[0])]
                    around = both["mask"][row][max(0, line) : line + 2, max(0, column) : column + 2]
                    assert value in around
            for box, kind in zip(both["boxes"][row], both["classes"][row], strict=True):
                assert (box[2:] > box[:2]).all()
                whole = source["boxes"][kind]
                assert ((box[2:] - box[:2]) <= (whole[2:] - whole[:2])).all()


TURNED: list[Any] = [RandomRotation(90), RandomCrop(24), RandomHorizontalFlip(), RandomVerticalFlip()]
STAGES: list[list[Any]] = [
    TURNED,
    [RandomCrop(40), *TURNED],
    [Pad(6), RandomCrop(24)],
    [Pad((2, 3, 4, 5), mode="reflect"), RandomAffine(20, (0.1, 0.1)), CenterCrop(24)],
    [RandomCrop(32), Grayscale(3), RandomRotation(30), Grayscale(3), CenterCrop(24)],
    [Resize(40), RandomRotation(45), RandomResizedCrop(24)],
    [Resize(40), Resize(30), CenterCrop(24)],
]


@pytest.mark.parametrize("transforms", STAGES, ids=str)
@pytest.mark.parametrize("options", [{"threads": 0}, {"processes": 1, "threads": 1}], ids=str)
def test_rotations_and_padding_move_all_fields(ds: bushel.Dataset, transforms: list[Any], options: Any) -> None:
    alone = list(Loader(ds, 5, shuffle=True, seed=4, transforms={"image": transforms}))
    key = ("image", "right", Mask("mask"), Mask("wide", fill=-1), Boxes("boxes", rows=("classes",)), Points("points"))
    together = list(Loader(ds, 5, shuffle=True, seed=4, transforms={key: transforms}, **options))
    for one, both in zip(alone, together, strict=True):
        np.testing.assert_array_equal(one["image"], both["image"])
        assert (both["mask"].shape, both["mask"].dtype) == ((5, 24, 24), np.uint8)
        inside = both["wide"] >= 0
        np.testing.assert_array_equal(both["wide"][inside], both["mask"][inside].astype(np.int32) * 1000)
        for row in range(5):
            assert (both["boxes"][row] >= 0).all()
            assert (both["boxes"][row] <= 24).all()
            assert len(both["boxes"][row]) == len(both["classes"][row])


@pytest.mark.parametrize("transforms", STAGES, ids=str)
@given(seed=st.integers(0, 2**32))
def test_a_point_stays_on_the_pixel_that_it_marks(transforms: list[Any], seed: int) -> None:
    """A square of 5 x 5 pixels in the image, the mask, a box and the point of its centre stay together."""
    rng = np.random.default_rng(seed)
    left, top = int(rng.integers(2, WIDTH - 7)), int(rng.integers(2, HEIGHT - 7))
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    mask[top : top + 5, left : left + 5] = 200
    own = {
        "image": np.stack([mask] * 3, 2),
        "mask": mask,
        "boxes": np.array([[left, top, left + 5, top + 5]]),
        "points": np.array([[left + 2.5, top + 2.5]]),
    }
    key = ("image", Mask("mask"), Boxes("boxes"), Points("points"))
    [found] = Loader(OneSample(own), 1, seed=seed, transforms={key: transforms})
    [[x, y]] = found["points"][0]
    if 4 < x < 20 and 4 < y < 20:
        shown = found["mask"][0] == 200
        assert shown[int(y), int(x)]
        assert found["image"][0, int(y), int(x), 0] > 100
        rows, columns = np.nonzero(shown)
        [[x0, y0, x1, y1]] = found["boxes"][0]
        assert x0 - 1 <= columns.min() <= columns.max() + 1 <= x1 + 1
        assert y0 - 1 <= rows.min() <= rows.max() + 1 <= y1 + 1


def test_the_rest_changes_pixels_of_images_only(ds: bushel.Dataset) -> None:
    more: list[Any] = [*CROPS, ColorJitter(0.5), Normalize((0.5,) * 3, (0.5,) * 3), ToCHW()]
    batch = Loader(ds, 4, transforms={KEY: more, "wide": lambda wide: wide + 1}).peek()
    assert (batch["image"].shape, batch["right"].shape) == ((4, 3, 24, 24), (4, 3, 24, 24))
    assert batch["image"].dtype == np.float32
    assert (batch["mask"].shape, batch["mask"].dtype) == ((4, 24, 24), np.uint8)
    assert (batch["wide"][0] == sample(0)["wide"] + 1).all()


@pytest.mark.parametrize(
    "transforms", [[RandomResizedCrop(32), RandomHorizontalFlip()], [Resize(24)], [Resize((20, 90))]]
)
def test_a_mask_is_resized_as_pillow_does_with_its_nearest_neighbour(ds: bushel.Dataset, transforms: Any) -> None:
    loader = Loader(ds, 4, transforms={("image", Mask("mask"), Mask("wide")): transforms})
    drawn = Loader(ds, 4, transforms={("image", Points("points")): transforms}).peek()
    batch = loader.peek()
    assert batch["mask"].shape == drawn["image"].shape[:3]
    np.testing.assert_array_equal(batch["wide"], batch["mask"].astype(np.int32) * 1000)
    for row in range(4):
        assert set(np.unique(batch["mask"][row])) <= set(np.unique(sample(row)["mask"]))


@given(st.integers(0, 2**32), st.sampled_from([(7, 9), (32, 32), (90, 31)]))
def test_masks_are_those_of_pillow(seed: int, size: tuple[int, int]) -> None:
    mask = np.random.default_rng(seed).integers(0, 256, (HEIGHT, WIDTH), dtype=np.uint8)
    plan = plan_decode([RandomResizedCrop(size), RandomHorizontalFlip()])
    geometry = plan.geometry(WIDTH, HEIGHT, np.random.default_rng(seed))
    [found] = Mask("mask").follow({"mask": mask}, geometry, (WIDTH, HEIGHT)).values()
    expected = Image.fromarray(mask).resize(size[::-1], Image.Resampling.NEAREST, box=geometry.box)
    pixels = np.asarray(expected)[:, ::-1] if geometry.flip_horizontal else np.asarray(expected)
    left, top, right, bottom = geometry.box
    # where the centre of a pixel falls between two, Pillow's choice is that of its rounding errors
    rows, columns = (
        (2 * np.arange(n) + 1) * m % (2 * n) != 0 for n, m in zip(size, (bottom - top, right - left), strict=True)
    )
    columns = columns[::-1] if geometry.flip_horizontal else columns
    np.testing.assert_array_equal(found[rows][:, columns], pixels[rows][:, columns])


FORMS: dict[str, Callable[[Any], Any]] = {
    "xyxy": lambda b: b,
    "xywh": lambda b: np.concatenate([b[:, :2], b[:, 2:] - b[:, :2]], 1),
    "cxcywh": lambda b: np.concatenate([(b[:, :2] + b[:, 2:]) / 2, b[:, 2:] - b[:, :2]], 1),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("relative", [False, True])
@given(seed=st.integers(0, 2**32))
def test_boxes_of_all_formats_are_clipped_and_dropped_alike(form: Any, relative: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    boxes = np.sort(rng.random((6, 2, 2)) * [WIDTH, HEIGHT], axis=1).reshape(6, 4).astype(np.float32)
    plan = plan_decode([RandomResizedCrop((40, 30)), RandomHorizontalFlip(), RandomVerticalFlip()])
    geometry = plan.geometry(WIDTH, HEIGHT, rng)
    left, top, right, bottom = geometry.box
    expected = np.clip(boxes, [left, top] * 2, [right, bottom] * 2).astype(np.float64) - [left, top] * 2
    expected *= [30 / (right - left), 40 / (bottom - top)] * 2
    if geometry.flip_horizontal:
        expected[:, [0, 2]] = 30 - expected[:, [2, 0]]
    if geometry.flip_vertical:
        expected[:, [1, 3]] = 40 - expected[:, [3, 1]]
    kept: Any = ((expected[:, 2:] - expected[:, :2]) > 1e-3).all(1)
    scale = np.array([WIDTH, HEIGHT] * 2 if relative else [1] * 4, np.float32)
    given_boxes = FORMS[form](boxes / scale)
    moved = Boxes("b", form, relative, rows=("c",)).follow(
        {"b": given_boxes, "c": list("abcdef")}, geometry, (WIDTH, HEIGHT)
    )
    assert moved["b"].dtype == np.float32
    found = {name: box for name, box in zip(moved["c"], moved["b"], strict=True)}
    out = np.array([30, 40] * 2 if relative else [1] * 4)
    for name, box, keep in zip("abcdef", FORMS[form](expected), kept, strict=True):
        if keep:
            np.testing.assert_allclose(found[name], box / out, atol=2e-3)


def test_lists_nothing_and_points_outside() -> None:
    geometry = plan_decode([CenterCrop(32)]).geometry(WIDTH, HEIGHT)
    size = WIDTH, HEIGHT
    assert Boxes("b").follow({"b": []}, geometry, size)["b"].shape == (0, 4)
    assert Points("p").follow({"p": [[0, 0, 2]]}, geometry, size)["p"].tolist() == [[-16, -8, 2]]
    relative = Points("p", relative=True).follow({"p": [[0.5, 0.5]]}, geometry, size)["p"]
    assert relative.tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("follower", "value", "says"),
    [
        (Mask("x"), np.zeros((4, 4)), "64x48"),
        (Mask("x"), "text", "a value of type str, but"),
        (Boxes("x"), [[1, 2, 3]], "expected numbers"),
        (Boxes("x"), ["a"], "expected numbers"),
        (Boxes("x", rows=("classes",)), [[1, 2, 3, 4]] * 2, "3 rows for 2 boxes"),
        (Points("x"), [1, 2], "expected numbers"),
    ],
)
def test_what_does_not_fit_the_image_is_named(follower: Any, value: Any, says: str) -> None:
    geometry = plan_decode([CenterCrop(32)]).geometry(WIDTH, HEIGHT)
    with pytest.raises(ValueError, match=says):
        follower.follow({"x": value, "classes": [1, 2, 3]}, geometry, (WIDTH, HEIGHT))


@pytest.mark.parametrize(
    ("transforms", "error", "says"),
    [
        ({("image", Mask("mass")): CROPS}, SpecError, "did you mean 'mask'"),
        ({("image", Boxes("boxes", rows=("clases",))): CROPS}, SpecError, "did you mean 'classes'"),
        ({(Mask("mask"), "image"): CROPS}, TypeError, "does not begin with an image"),
        ({("image", 3): CROPS}, TypeError, 'Mask\\("mask"\\)'),
        ({("image", Mask("mask")): CROPS, "mask": [len]}, SpecError, "names a field twice"),
        ({("image", Mask("mask")): [Normalize((0.5,) * 3, (0.5,) * 3), CenterCrop(8)]}, ValueError, "put CenterCrop"),
        ({("image", Mask("mask")): [ColorJitter(0.5), ToCHW(), Pad(8)]}, ValueError, "put Pad"),
    ],
)
def test_wrong_groups_are_refused_when_the_loader_is_made(
    ds: bushel.Dataset, transforms: Any, error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        Loader(ds, 4, transforms=transforms)


def test_other_wrong_use(ds: bushel.Dataset, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="format 'xxyy'"):
        Boxes("boxes", "xxyy")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="decode=False"):
        Loader(ds, 4, decode=False, transforms={KEY: CROPS})
    with pytest.raises(SpecError, match="'mask', which fields= does not read"):
        Loader(ds, 4, fields=["image"], transforms={("image", Mask("mask")): CROPS})
    with pytest.raises(
        ValueError, match=r"'wide' has \(63, 48\) pixels, but 'image', with which it moves, has \(64, 48\)"
    ):
        list(Loader(MapDataset(), 2, transforms={("image", "wide"): [CenterCrop(8)]}))
    (tmp_path / "photos").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "photos" / "a.png")
    with pytest.raises(SpecError, match="in loaders only"):
        bushel.pack(tmp_path / "photos", tmp_path / "out.tar", transforms={("image", Mask("mask")): CROPS})


class OneSample(MemoryDataset):
    """One sample in memory."""

    def __init__(self, sample: dict[str, Any]) -> None:
        super().__init__(1)
        self.own = sample
        self.spec = dict.fromkeys(sample, "array")

    def decode_sample(self, stored: dict[str, Any]) -> dict[str, Any]:
        return {"__key__": stored["__key__"], **self.own}


class MapDataset(MemoryDataset):
    """Images in memory, of which `wide` is narrower."""

    def __init__(self) -> None:
        super().__init__(4)
        self.spec = {"image": "array", "wide": "array"}

    def decode_sample(self, stored: dict[str, Any]) -> dict[str, Any]:
        image = np.zeros((48, 64, 3), np.uint8)
        return {"__key__": stored["__key__"], "image": image, "wide": image[:, 1:]}


def test_samples_without_some_of_the_fields(ds: bushel.Dataset) -> None:
    batch = Loader(ds, 4, fields=["image", "mask", "points"], transforms={("image", Points("points")): CROPS}).peek()
    assert batch["mask"].shape == (4, HEIGHT, WIDTH)
    view = MapView(ds, transforms={KEY: CROPS}, seed=4)
    assert view[3]["mask"].shape == (24, 24)


def add_sum(sample: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return {
        "sum": int(sample["mask"].sum()),
        "noise": rng.random(),
        "image": sample["image"] // 2,
        "big": sample["wide"],
    }


@pytest.mark.parametrize("options", [{"threads": 0}, {"threads": 3}, {"processes": 1, "threads": 1}], ids=str)
def test_a_sample_transform_sees_and_returns_the_whole_sample(ds: bushel.Dataset, options: Any) -> None:
    plain = list(Loader(ds, 8, shuffle=True, transforms={KEY: CROPS}))
    batches = list(Loader(ds, 8, shuffle=True, transforms={KEY: CROPS}, sample_transform=add_sum, **options))
    noise = []
    for one, both in zip(batches, plain, strict=True):
        assert list(one) == ["__key__", "sum", "noise", "image", "big"]
        np.testing.assert_array_equal(one["image"], both["image"] // 2)
        assert one["sum"].tolist() == both["mask"].sum((1, 2)).tolist()
        noise += one["noise"].tolist()
    again = Loader(ds, 5, shuffle=True, transforms={KEY: CROPS}, sample_transform=add_sum)
    assert [one for batch in again for one in batch["noise"].tolist()] == noise


def lose(sample: Any) -> None:
    if isinstance(sample, dict):
        sample.clear()


def test_a_transform_that_returns_nothing_is_an_error(ds: bushel.Dataset) -> None:
    with pytest.raises(TypeError, match="returned None") as raised:
        Loader(ds, 4, sample_transform=lose).peek()  # type: ignore[arg-type]
    assert any("in the sample_transform" in note and "lose" in note for note in raised.value.__notes__)
    with pytest.raises(TypeError, match="returned None"):
        Loader(ds, 4, transforms={"wide": lose}).peek()
    with pytest.raises(TypeError, match="batch_transform .*lose returned None"):
        Loader(ds, 4, batch_transform=lose).peek()
    with pytest.raises(TypeError, match="not callable"):
        Loader(ds, 4, sample_transform=3)  # type: ignore[arg-type]


def shifted(batch: dict[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    return batch | {"shift": rng.integers(1 << 40)}


@pytest.mark.parametrize("fields", [None, ["classes"]])  # gathered in groups, or one by one
def test_the_random_numbers_of_a_batch_depend_on_its_first_position(ds: bushel.Dataset, fields: Any) -> None:
    def shifts(**options: Any) -> list[int]:
        loader = Loader(ds, 4, shuffle=True, seed=7, fields=fields, batch_transform=shifted, **options)
        return [int(batch["shift"]) for batch in loader]

    expected = shifts(threads=0)
    assert len(set(expected)) == 5
    assert shifts(threads=3) == shifts(processes=2, threads=1) == expected
    resumed = Loader(ds, 4, shuffle=True, seed=7, fields=fields, batch_transform=shifted)
    resumed.skip(3)
    assert [int(batch["shift"]) for batch in resumed] == expected[3:]


def test_key_points_leave_with_their_boxes_in_either_order() -> None:
    boxes = np.array([[0, 0, 4, 4], [20, 20, 30, 30], [40, 30, 60, 44]], np.float32)
    points = np.arange(3 * 2 * 3, dtype=np.float32).reshape(3, 2, 3)
    points[1, :, :2] += 16
    sample = {"__key__": "a", "image": np.zeros((48, 64, 3), np.uint8), "boxes": boxes, "points": points}
    for key in (
        ("image", Points("points"), Boxes("boxes", rows=("points",))),
        ("image", Boxes("boxes", rows=("points",)), Points("points")),
    ):
        [step] = SampleTransforms.of({key: [CenterCrop(32)]}, {}, complete=False).fields
        drawn = draw_together(step, step.plan, sample, None)  # type: ignore[arg-type]
        assert drawn is not None
        assert len(drawn.fields["boxes"]) == len(drawn.fields["points"]) == 2
        assert np.array_equal(drawn.fields["points"][..., :2], points[1:, :, :2] - (16, 8))
        assert np.array_equal(drawn.fields["points"][..., 2], points[1:, :, 2])


@pytest.mark.parametrize(
    ("value", "columns", "shape"),
    [
        (np.zeros((0, 3)), 2, (0, 3)),
        (np.zeros((0, 17, 3)), 2, (0, 17, 3)),
        ([], 2, (0, 2)),
        ([], 3, (0, 3)),
        ([], (17, 3), (0, 17, 3)),
    ],
)
def test_empty_points_keep_their_columns(value: Any, columns: Any, shape: tuple[int, ...]) -> None:
    geometry = plan_decode([CenterCrop(32)]).geometry(64, 48)
    moved = Points("points", columns=columns).follow({"points": value}, geometry, (64, 48))["points"]
    assert moved.shape == shape
    assert moved.dtype == np.float32


def test_a_mask_that_travels_as_an_image_is_said() -> None:
    with pytest.warns(UserWarning, match=r"write Mask\('mask'\)"):
        SampleTransforms.of({("image", "mask"): [CenterCrop(32)]}, {"image": "jpg", "mask": "png"})
