"""What training sees: the page shows what the loader yields."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.viewer.serving import client_of, write

import bushel
from bushel.transforms import Normalize, RandomHorizontalFlip, RandomResizedCrop, ToCHW
from bushel.viewer.serve import make_shelf
from bushel.viewer.training import Settings, augmented, positions_of_batch

TRANSFORMS: list[Any] = [RandomResizedCrop(16), RandomHorizontalFlip()]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("viewer") / "data", 40)


@pytest.fixture
def client(folder: Path) -> Iterator[Any]:
    with client_of(folder, transforms={"mine": TRANSFORMS}) as client:
        yield client


@pytest.mark.parametrize("shuffle", ["exact", "blocks", "none"])
def test_the_batches_are_those_of_the_loader(folder: Path, shuffle: Any) -> None:
    dataset = bushel.open(folder)
    order = None if shuffle == "none" else shuffle
    loader = bushel.Loader(dataset, 4, shuffle=order, seed=7, rank=1, world_size=3, fields=["label"], threads=0)
    for epoch in range(2):
        for step, batch in enumerate(loader):
            settings = Settings("image", "", 7, epoch, shuffle, 4, 3, 1, step)
            positions, steps = positions_of_batch(dataset, settings)
            assert [dataset.keys[each] for each in positions] == list(batch["__key__"])
            assert steps == len(loader)


def test_the_images_are_those_of_the_loader(folder: Path) -> None:
    dataset = bushel.open(folder)
    [shown] = make_shelf([dataset]).datasets
    loader = bushel.Loader(
        dataset, 8, shuffle=True, seed=3, fields=["image"], transforms={"image": TRANSFORMS}, threads=0
    )
    for epoch in range(2):
        for batch in loader:
            for key, image in zip(batch["__key__"], batch["image"], strict=True):
                found = augmented(shown, dataset.position(key), "image", TRANSFORMS, 3, epoch)
                assert np.array_equal(found, image)


def test_normalised_images_with_channels_first_are_shown(folder: Path) -> None:
    [shown] = make_shelf([folder]).datasets
    found = augmented(shown, 0, "image", [*TRANSFORMS, Normalize((0.5,) * 3, (0.2,) * 3), ToCHW()], 0, 0)
    assert found.shape == (16, 16, 3)
    assert found.dtype == np.float32


def test_the_page(client: Any) -> None:
    text = client.get("/d/0/training?batch=4&world=3&rank=2&step=1").text
    assert "Epoch 0, step 1, rank 2 of 3" in text
    assert "<option selected>mine</option>" in text
    assert "RandomResizedCrop(size=16" in text
    images = re.findall(r'<img loading="lazy" class="card" src="([^"]+)"', text)
    assert len(images) == 4 + 8
    for image in images[:2]:
        answer = client.get(image.replace("&amp;", "&"))
        assert answer.status_code == 200
        assert Image.open(io.BytesIO(answer.content)).size == (16, 16)


def test_stored_pictures_are_shown_beside(client: Any) -> None:
    text = client.get("/d/0/training?batch=4&beside=1").text
    assert text.count("as it is stored") == 4
    assert client.get("/d/0/training?batch=4").text.count("as it is stored") == 0
    assert client.get("/d/0/training?beside=2").status_code == 400


def test_a_step_after_the_last_is_reported(client: Any) -> None:
    text = client.get("/d/0/training?batch=4&world=3&rank=0&step=9").text
    assert "step 9 does not exist" in text


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("rank=3&world=3", 400),
        ("seed=-1", 400),
        ("seed=18446744073709551616", 400),
        ("shuffle=odd", 400),
        ("transform=os:system", 404),
        ("field=caption", 404),
    ],
)
def test_impossible_choices_are_reported(client: Any, query: str, status: int) -> None:
    assert client.get(f"/d/0/training?{query}").status_code == status


def test_a_transform_that_fails_is_named(folder: Path) -> None:
    def broken(image: Any) -> Any:
        raise ValueError("this transform is broken")

    with client_of(folder, transforms={"broken": [broken]}) as client:
        answer = client.get("/d/0/augmented?i=0&field=image&transform=broken")
        assert answer.status_code in (400, 422)
        assert "this transform is broken" in answer.json()["error"]


def test_a_position_that_is_not_there(client: Any) -> None:
    assert client.get("/d/0/augmented?i=99&field=image").status_code == 404
