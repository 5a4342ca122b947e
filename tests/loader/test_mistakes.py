"""What a person writes by mistake when a loader or a transform is made, and what Bushel says."""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import bushel
from bushel.transforms import (
    CenterCrop,
    Compose,
    EachFrame,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    Resize,
    ToCHW,
)

made: Any = RandomHorizontalFlip  # whose instances are transforms
untyped: Any = bushel  # wrong calls


@pytest.fixture
def photos(tmp_path: Path) -> bushel.Dataset:
    def image(kind: str, mode: str) -> bytes:
        out = io.BytesIO()
        Image.new(mode, (40, 40)).save(out, kind)
        return out.getvalue()

    with bushel.Writer(tmp_path / "photos.tar", {"image": "jpg", "other": "png", "n": "int"}, sync=False) as writer:
        for n in range(5):
            writer.append({"image": image("jpeg", "RGB"), "other": image("png", "RGBA"), "n": n})
    return bushel.open(tmp_path / "photos.tar")


@pytest.mark.parametrize("size", ["64", None, 0.5, (64,), (1, 2, 3), (32, "32"), {32, 64}])
@pytest.mark.parametrize("transform", [RandomResizedCrop, Resize, CenterCrop])
def test_sizes(transform: Callable[[Any], Any], size: Any) -> None:
    with pytest.raises(TypeError, match=r"invalid size .*: expected an int or \(height, width\)"):
        transform(size)


def test_sizes_of_numpy() -> None:
    transform = Resize((np.int64(8), np.int32(6)))  # type: ignore[arg-type]
    assert transform(np.zeros((20, 20, 3), np.uint8)).shape == (8, 6, 3)
    assert CenterCrop(np.int64(8))(np.zeros((20, 20, 3), np.uint8)).shape == (8, 8, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("bounds", [0.5, "ab", (0.5,), ("a", "b"), None])
@pytest.mark.parametrize("name", ["scale", "ratio"])
def test_bounds(name: str, bounds: Any) -> None:
    error = ValueError if bounds == (0.5,) else TypeError
    with pytest.raises(error, match=rf"invalid {name}=.*: expected \(lower, upper\), two numbers"):
        RandomResizedCrop(64, **{name: bounds})


@pytest.mark.parametrize("share", ["0.5", None, 2, -1])
def test_probabilities(share: Any) -> None:
    with pytest.raises(ValueError, match="invalid probability .*: expected 0 to 1"):
        RandomHorizontalFlip(share)


@pytest.mark.parametrize(
    ("given", "where"), [(made, "transforms"), ([made], "transforms"), ({"image": made}, r"transforms\['image'\]")]
)
def test_a_class_instead_of_a_transform(photos: bushel.Dataset, given: Any, where: str) -> None:
    with pytest.raises(TypeError, match=rf"{where} has the class .*RandomHorizontalFlip: make a transform of it"):
        bushel.Loader(photos.select_fields(["image", "n"]), 2, transforms=given)


@pytest.mark.parametrize("outer", [Compose, EachFrame])
def test_a_class_in_another_transform(outer: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match="has the class .*RandomHorizontalFlip"):
        outer([Resize(8), made])


def test_classes_that_are_functions_of_a_value(photos: bushel.Dataset) -> None:
    loader = bushel.Loader(photos.select_fields(["n"]), 5, transforms={"n": np.float32})
    assert next(iter(loader))["n"].dtype == np.float32


@pytest.mark.parametrize("name", ["drop_last", "decode", "keys", "exif_rotate", "allow_truncated", "pin_memory"])
def test_a_text_is_no_truth_value(photos: bushel.Dataset, name: str) -> None:
    with pytest.raises(TypeError, match=f"{name}='no': expected True(,| or) False"):
        untyped.Loader(photos, 2, **{name: "no"})


@pytest.mark.parametrize("processes", [0, 1])
def test_drop_last_that_leaves_out_everything(photos: bushel.Dataset, processes: int) -> None:
    loader = bushel.Loader(photos.select_fields(["n"]), 8, drop_last=True, processes=processes, threads=1)
    assert len(loader) == 0
    with pytest.warns(UserWarning, match="epoch 0 has no batch: drop_last=True leaves out all samples") as warned:
        assert list(loader) == []
    assert [each.filename for each in warned] == [__file__]
    assert len(list(bushel.Loader(photos.select_fields(["n"]), 4, drop_last=True))) == 1
    assert (
        list(bushel.Loader(photos[:0].select_fields(["n"]), 4, drop_last=True)) == []
    )  # there is nothing to leave out


def test_chunks_that_are_longer_than_all_documents(tmp_path: Path) -> None:
    bushel.pack({"tokens": [[1, 2, 3], [4, 5]]}, tmp_path / "x.tar", sync=False)
    texts = bushel.open(tmp_path / "x.tar")
    loader = bushel.Loader(texts, 2, chunk_by="tokens.length", chunk_tokens=6, threads=1)
    with pytest.warns(UserWarning, match="epoch 0 has no batch: all documents together have fewer than"):
        assert list(loader) == []
    assert len(list(bushel.Loader(texts, 2, chunk_by="tokens.length", chunk_tokens=5, threads=1))) == 1


def test_padding_is_named_where_a_rule_is_unknown(photos: bushel.Dataset) -> None:
    with pytest.raises(ValueError, match=r"'pad'}: unknown rule: .*; bushel\.loader\.Padded\(0\) pads"):
        untyped.Loader(photos, 2, collate={"n": "pad"})


def test_a_text_is_not_mapped(photos: bushel.Dataset) -> None:
    with pytest.raises(TypeError, match=r"map\(\) takes a function of a sample, not 'n \+ 1'"):
        photos.map("n + 1")  # type: ignore[arg-type]


@pytest.mark.parametrize("channels", [1, 2, 4])
@pytest.mark.parametrize("more", [[], [ToCHW()]])
def test_normalize_for_other_channels(photos: bushel.Dataset, channels: int, more: list[Any]) -> None:
    normalize = Normalize((0.5,) * channels, (0.5,) * channels)
    loader = bushel.Loader(photos.select_fields(["image"]), 2, transforms=[Resize((8, 8)), normalize, *more])
    with pytest.raises(bushel.errors.CodecError, match="channel"):
        next(iter(loader))
    with pytest.raises(ValueError, match="a mean and a std for each channel"):
        normalize(photos[0]["image"])


@pytest.mark.parametrize(("mean", "std"), [(0.5, (0.5,)), ((0.5,), 0.5), ("0.5", (0.5,)), (None, (0.5,))])
def test_normalize_takes_a_number_for_each_channel(mean: Any, std: Any) -> None:
    with pytest.raises(TypeError, match=r"Normalize\((mean|std)=.*: expected a number for each channel"):
        Normalize(mean, std)


def test_normalize_of_four_channels(photos: bushel.Dataset) -> None:
    normalize = Normalize((0.5,) * 4, (0.5,) * 4)
    loader = bushel.Loader(photos.select_fields(["other"]), 2, transforms=[Resize((8, 8)), normalize])
    assert next(iter(loader))["other"].shape == (2, 8, 8, 4)


def test_a_number_and_a_text(photos: bushel.Dataset) -> None:
    with pytest.raises(ValueError, match=r"'image\.width' is a number, but \"'a'\" is a text"):
        photos.where("image.width > 'a'")
    with pytest.raises(ValueError, match=r"\"'a'\" is a text, but 'image\.width' is a number"):
        photos.where("'a' < image.width")


def test_mistakes_of_types(photos: bushel.Dataset) -> None:
    loader: Any = bushel.Loader(photos, 2)
    value: Any = 3
    for call, message in (
        (lambda: untyped.Loader(photos, 2, fields=3), "fields=3: expected a list of names"),
        (lambda: loader.who(step="x"), "step='x': expected a whole number from 0"),
        (
            lambda: next(iter(untyped.Loader(photos, 2, sample_transform=lambda sample: 3))),
            "it returned 3: return the sample, a dict",
        ),
        (lambda: ToCHW()(value), r"shape \(\) is not an image"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
