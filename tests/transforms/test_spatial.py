"""Crops, resizings and mirrorings: what they draw, what they return, and that planning them changes nothing."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.kernels.jpegs import by_pillow, picture, save

from bushel.errors import CodecError
from bushel.transforms import (
    CenterCrop,
    Compose,
    EachFrame,
    Lambda,
    Mask,
    MixUp,
    Normalize,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    ToCHW,
)
from bushel.transforms.fused import decode_into, frame_geometries, image_size, plan_decode, plan_frames
from bushel.transforms.geometry import Crop, Geometry, ScaleTo

IMAGE = picture(150, 110)
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def generator(seed: int = 0) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(seed))


def test_crops() -> None:
    np.testing.assert_array_equal(CenterCrop((50, 60))(IMAGE), IMAGE[30:80, 45:105])
    np.testing.assert_array_equal(CenterCrop(110)(IMAGE), IMAGE[:, 20:130])
    seen = set()
    for seed in range(300):
        found = RandomCrop((108, 148))(IMAGE, generator(seed))
        places = [(y, x) for y in range(3) for x in range(3) if (found == IMAGE[y : y + 108, x : x + 148]).all()]
        assert len(places) == 1
        seen.add(places[0])
    assert len(seen) == 9
    grey = IMAGE[:, :, 0]
    np.testing.assert_array_equal(CenterCrop(20)(grey), grey[45:65, 65:85])
    for crop in (CenterCrop(111), RandomCrop((20, 151))):
        with pytest.raises(ValueError, match="put Resize before it"):
            Compose([crop])(IMAGE, generator())


def test_resize() -> None:
    whole = Image.fromarray(IMAGE)
    np.testing.assert_array_equal(Resize((40, 50))(IMAGE), np.array(whole.resize((50, 40), Image.Resampling.BILINEAR)))
    assert Resize(55)(IMAGE).shape == (55, 75, 3)
    assert Resize(55)(IMAGE.transpose(1, 0, 2)).shape == (75, 55, 3)
    assert Resize(55)(IMAGE[:, :, 0]).shape == (55, 75)
    assert Resize((110, 150))(IMAGE) is IMAGE


def test_random_resized_crop() -> None:
    transform = RandomResizedCrop((32, 48), scale=(0.2, 0.5), ratio=(0.5, 2))
    areas, ratios = [], []
    for seed in range(500):
        crop, to = transform.steps(640, 480, generator(seed))
        assert isinstance(crop, Crop)
        assert to == ScaleTo(48, 32)
        assert crop.left >= 0
        assert crop.top >= 0
        assert crop.left + crop.width <= 640
        assert crop.top + crop.height <= 480
        areas.append(crop.width * crop.height / (640 * 480))
        ratios.append(crop.width / crop.height)
    assert 0.19 < min(areas) < 0.25
    assert 0.45 < max(areas) < 0.51
    assert 0.48 < min(ratios) < 0.6
    assert 1.7 < max(ratios) < 2.02
    assert transform(IMAGE, generator()).shape == (32, 48, 3)


def test_random_resized_crop_of_an_image_that_no_draw_fits() -> None:
    assert RandomResizedCrop(8, scale=(1, 1)).steps(1000, 10, generator())[0] == Crop(493, 0, 13, 10)
    assert RandomResizedCrop(8, scale=(1, 1)).steps(10, 1000, generator())[0] == Crop(0, 493, 10, 13)
    assert RandomResizedCrop(8).steps(1, 1, generator())[0] == Crop(0, 0, 1, 1)


def test_flips() -> None:
    np.testing.assert_array_equal(RandomHorizontalFlip(1)(IMAGE, generator()), IMAGE[:, ::-1])
    np.testing.assert_array_equal(RandomVerticalFlip(1)(IMAGE, generator()), IMAGE[::-1])
    for flip in (RandomHorizontalFlip(0), RandomVerticalFlip(0)):
        np.testing.assert_array_equal(flip(IMAGE, generator()), IMAGE)
    flipped = sum(bool(RandomHorizontalFlip(0.3).steps(1, 1, generator(seed))) for seed in range(1000))
    assert 240 < flipped < 360


@pytest.mark.parametrize(
    "make",
    [
        lambda: Resize(0),
        lambda: CenterCrop((3, -1)),
        lambda: RandomResizedCrop(3, scale=(0.5, 0.1)),
        lambda: RandomResizedCrop(3, ratio=(0, 1)),
        lambda: RandomHorizontalFlip(1.5),
        lambda: Normalize((0.5,), (0.5, 0.5)),
        lambda: Normalize((0.5,), (0,)),
    ],
)
def test_parameters_that_make_no_sense(make: Callable[[], Any]) -> None:
    with pytest.raises(ValueError, match="expected"):
        make()


def test_not_an_image() -> None:
    for value in (IMAGE.astype(np.float32), IMAGE[None], np.zeros((0, 4, 3), np.uint8)):
        with pytest.raises(TypeError, match=rf"a ndarray of shape \(.*\) and dtype {value.dtype} is not an image"):
            CenterCrop(1)(value)  # type: ignore[arg-type]


class Thing:
    """An object whose text has its address."""


@pytest.mark.parametrize("value", [[[1]], None, Thing(), [Thing()]])
@pytest.mark.parametrize(
    "use",
    [
        CenterCrop(1),
        lambda value: MixUp("image", "label", 3)({"image": value, "label": 1}, np.random.default_rng(0)),
        lambda value: Mask("mask").follow({"mask": [value]}, Geometry.whole(4, 4), (4, 4)),
    ],
)
def test_values_that_are_no_arrays_are_named_by_their_type(use: Callable[[Any], Any], value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"a value of type {type(value).__name__}(:|,| is not)"):
        use(value)


def leading() -> st.SearchStrategy[list[Any]]:
    crop = st.sampled_from([RandomCrop((90, 100)), CenterCrop(95)])
    scale = st.sampled_from([Resize(80), Resize((70, 90)), RandomResizedCrop(72), RandomResizedCrop((75, 71))])
    small = st.sampled_from([RandomCrop((60, 50)), CenterCrop((40, 64))])
    flip = st.sampled_from([RandomHorizontalFlip(), RandomVerticalFlip(), RandomHorizontalFlip(1)])
    pick = st.lists(flip, max_size=2)
    return st.tuples(
        pick, st.lists(crop, max_size=1), pick, st.lists(scale, max_size=1), pick, st.lists(small, max_size=2), pick
    ).map(lambda parts: [transform for part in parts for transform in part])


@given(leading(), st.integers(0, 2**32), st.booleans())
def test_a_plan_does_what_the_calls_do(transforms: list[Any], seed: int, wide: bool) -> None:
    data = save(picture(150, 110) if wide else picture(110, 130), subsampling=2)
    called, planned = generator(seed), generator(seed)
    try:
        expected = Compose(transforms)(by_pillow(data), called)
    except ValueError:
        with pytest.raises(ValueError, match="too small for a crop"):
            plan_decode(transforms).geometry(*image_size(data), planned)
        return
    plan = plan_decode(transforms)
    assert plan.rest == ()
    geometry = plan.geometry(*image_size(data), planned)
    assert called.random() == planned.random()
    height, width = expected.shape[:2]
    assert geometry.size == (width, height)
    assert plan.size in (None, (height, width))
    out = np.zeros((1, height, width, 3), np.uint8)
    assert decode_into(plan, [data], [geometry], out, reducing_gap=None) == {}
    # Mirroring before a resizing, and a window of a resized image, may change the order of its two passes.
    assert np.abs(out[0].astype(int) - expected.astype(int)).max() <= 1


def test_mirrored_crops_stay_exact() -> None:
    transforms: list[Any] = [RandomHorizontalFlip(1), RandomCrop(70), RandomVerticalFlip(1), RandomCrop((40, 30))]
    data = save(IMAGE, subsampling=1)
    plan = plan_decode(transforms)
    out = np.zeros((1, 40, 30, 3), np.uint8)
    for seed in range(30):
        geometry = plan.geometry(150, 110, generator(seed))
        assert decode_into(plan, [data], [geometry], out) == {}
        np.testing.assert_array_equal(out[0], Compose(transforms)(by_pillow(data), generator(seed)))


def test_the_split() -> None:
    crop, flip, normalise = RandomResizedCrop(8), RandomHorizontalFlip(), Normalize(MEAN, STD, "float16")
    after = Lambda(np.negative)
    plan = plan_decode([Compose([crop, Compose([flip])]), normalise, ToCHW(), after])
    assert (plan.spatial, plan.normalise, plan.layout, plan.rest) == ((crop, flip), normalise, "CHW", (after,))
    assert (plan.size, plan.dtype, plan.shape) == ((8, 8), np.dtype("float16"), (3, 8, 8))
    assert plan.random
    assert not plan_decode([Resize(9)]).random
    second = plan_decode([Resize(20), crop, flip])
    assert (second.spatial, second.rest, second.size) == ((Resize(20),), (crop, flip), None)
    nothing = plan_decode([after, crop])
    assert (len(nothing.spatial), nothing.rest, nothing.dtype) == (0, (after, crop), np.dtype("uint8"))
    with pytest.raises(ValueError, match="second resizing"):
        Geometry.whole(9, 9).then(ScaleTo(3, 3)).then(ScaleTo(4, 4))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("planar", [False, True])
def test_normalised_and_planar_are_the_same_numbers(dtype: Any, planar: bool) -> None:
    transforms: list[Any] = [CenterCrop(60), Normalize(MEAN, STD, dtype), *([ToCHW()] if planar else [])]
    data = save(IMAGE, subsampling=0)
    expected = Compose(transforms)(by_pillow(data))
    plan = plan_decode(transforms)
    out = np.zeros((1, *plan.shape), plan.dtype)
    assert decode_into(plan, [data], [plan.geometry(150, 110)], out) == {}
    np.testing.assert_array_equal(out[0], expected)
    assert expected.dtype == dtype


def test_other_formats_take_the_same_way() -> None:
    import io

    def stored(kind: str, mode: str = "RGB") -> bytes:
        stream = io.BytesIO()
        Image.fromarray(IMAGE).convert(mode).save(stream, kind, **({"lossless": True} if kind == "WEBP" else {}))
        return stream.getvalue()

    transforms: list[Any] = [Resize(64), CenterCrop(48)]
    plan = plan_decode(transforms)
    datas = [stored("PNG"), save(IMAGE, quality=95), stored("WEBP"), stored("PNG", "L"), stored("PNG", "RGBA"), b"none"]
    out = np.full((6, 48, 48, 3), 9, np.uint8)
    geometries = [plan.geometry(*image_size(data)) for data in datas[:5]]
    found = decode_into(plan, datas, [*geometries, geometries[0]], out)
    assert list(found) == [5]
    assert (out[5] == 9).all()
    expected = Compose(transforms)(IMAGE)
    for number in (0, 2, 4):
        assert np.abs(out[number].astype(int) - expected.astype(int)).max() <= 1
    grey: npt.NDArray[np.uint8] = np.array(Image.fromarray(IMAGE).convert("L"))
    assert np.abs(out[3, :, :, 1].astype(int) - Compose(transforms)(grey).astype(int)).max() <= 1
    assert image_size(datas[0]) == (150, 110)


@pytest.mark.parametrize("data", [b"", b"<html>404</html>"])
def test_the_error_of_bytes_of_no_image_is_the_same_in_every_run(data: bytes) -> None:
    with pytest.raises(CodecError, match=f"expected an image, found {len(data)} bytes") as caught:
        image_size(data)
    assert " at 0x" not in str(caught.value)


def test_frames_share_their_crop() -> None:
    frames = [picture(60, 40, seed) for seed in range(4)]
    inner: list[Any] = [RandomResizedCrop(16), RandomHorizontalFlip()]
    rng = generator(3)
    found = EachFrame(inner)(frames, rng)
    alone = [Compose(inner)(frame, generator(3)) for frame in frames]
    np.testing.assert_array_equal(found, alone)
    after_one = generator(3)
    Compose(inner)(frames[0], after_one)
    assert rng.random() == after_one.random()
    different = EachFrame(inner, same=False)(frames, generator(3))
    assert (np.array(different[1]) != np.array(alone[1])).any()


@pytest.mark.parametrize("same", [True, False])
def test_frames_can_be_planned(same: bool) -> None:
    datas = [save(picture(60, 40, seed)) for seed in range(4)]
    frames = EachFrame([RandomResizedCrop(16), RandomHorizontalFlip(), ToCHW()], same=same)
    plan = plan_frames(frames)
    assert plan is not None
    geometries = frame_geometries(frames, plan, [image_size(data) for data in datas], generator(5))
    assert (len(set(geometries)) == 1) == same
    out = np.zeros((4, *plan.shape), np.uint8)
    assert decode_into(plan, datas, geometries, out, reducing_gap=None) == {}
    expected = frames([by_pillow(data) for data in datas], generator(5))
    assert np.abs(out.astype(int) - np.array(expected).astype(int)).max() <= 1
    assert plan_frames(EachFrame([Resize(3), Lambda(np.copy), RandomCrop(2)])) is None


@pytest.mark.parametrize("same", [True, False])
def test_frames_of_several_sizes_are_planned_as_they_are_transformed(same: bool) -> None:
    frames = EachFrame([RandomResizedCrop(16), RandomCrop(8), RandomHorizontalFlip()], same=same)
    plan = plan_frames(frames)
    assert plan is not None
    # one that is so wide that all ten draws fail, and uses up more random numbers than the others
    sizes = [(60, 40), (4000, 2), (30, 50), (60, 40), (30, 50), (4000, 2), (60, 40)]
    planned, one_by_one = generator(5), generator(5)
    found = frame_geometries(frames, plan, sizes, planned)
    expected = [plan.geometry(*size, rng) for size, rng in zip(sizes, frames.generators(one_by_one), strict=False)]
    assert found == expected
    assert planned.random() == one_by_one.random()
    assert frame_geometries(frames, plan, [], generator(5)) == []


def test_they_are_values() -> None:
    transforms: list[Any] = [
        RandomResizedCrop(224),
        CenterCrop(3),
        RandomCrop(3),
        Resize(5),
        RandomHorizontalFlip(),
        RandomVerticalFlip(),
        Normalize(MEAN, STD),
        ToCHW(),
        Lambda(np.copy),
    ]
    everything = Compose([*transforms, EachFrame(transforms)])
    assert pickle.loads(pickle.dumps(everything)) == everything
    assert hash(everything) == hash(Compose([*transforms, EachFrame(transforms)]))
    assert Resize(3) != Resize(4)
