"""Tensors that transforms return: they stack as arrays do, in every lane."""

import importlib
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.loader import MapView, Padded, Ragged, collate

torch = pytest.importorskip("torch")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tensors") / "photos"
    rng = np.random.default_rng(0)
    samples = [{"image": rng.integers(0, 256, (40, 48, 3), np.uint8), "label": number} for number in range(6)]
    bushel.pack(samples, path, container="bag")
    return path


def planes(image: Any) -> Any:
    return torch.from_numpy(image.copy()).permute(2, 0, 1)


def corner(image: Any) -> Any:
    return planes(image)[:, :2, :2]


def learned(image: Any) -> Any:
    return planes(image).float().requires_grad_()


def mean(image: Any) -> Any:
    return planes(image).float().mean()


def in_jax(image: Any) -> Any:
    return pytest.importorskip("jax.numpy").asarray(image)


def half(image: Any) -> Any:
    return planes(image).bfloat16()


IN_PROCESSES = [(planes, "numpy"), (learned, "torch"), (in_jax, "torch")]
"""What `make test` tries in worker processes, each of which imports torch; `make nightly` tries all."""


def _cases() -> Iterator[Any]:
    for transform, to in product([planes, corner, learned, mean, in_jax], ["numpy", "torch"]):
        yield transform, to, 0
        marks = () if (transform, to) in IN_PROCESSES else pytest.mark.nightly
        yield pytest.param(transform, to, 1, marks=marks)


@pytest.mark.parametrize(("transform", "to", "processes"), [*_cases()])
def test_they_stack_as_arrays_do(photos: Path, transform: Any, processes: int, to: str) -> None:
    expected = np.stack([_plain(transform(sample["image"])) for sample in bushel.open(photos)])
    for options in (
        {"transforms": {"image": transform}},
        {"sample_transform": lambda sample: sample | {"image": transform(sample["image"])}},
        {"transforms": {"image": transform}, "collate": {"image": "stack"}},
    ):
        [batch] = bushel.Loader(bushel.open(photos), 6, processes=processes, threads=1, to=to, **options)  # type: ignore[arg-type]
        assert isinstance(batch["image"], np.ndarray if to == "numpy" else torch.Tensor)
        assert np.array_equal(batch["image"], expected)


def _plain(tensor: Any) -> Any:
    return tensor.detach().numpy() if torch.is_tensor(tensor) else np.asarray(tensor)


@pytest.mark.parametrize("processes", [0, 1])
def test_tensors_without_an_array_are_stacked_by_torch(photos: Path, processes: int) -> None:
    [batch] = bushel.Loader(bushel.open(photos), 6, transforms={"image": half}, processes=processes, to="torch")
    assert batch["image"].dtype == torch.bfloat16
    assert batch["image"].shape == (6, 3, 40, 48)


def test_samples_of_a_map_view_in_a_torch_dataloader(photos: Path) -> None:
    view = MapView(bushel.open(photos), transforms={"image": planes})
    [batch] = torch.utils.data.DataLoader(view, batch_size=6, collate_fn=collate)
    assert isinstance(batch["image"], np.ndarray)
    assert batch["image"].shape == (6, 3, 40, 48)
    [batch] = torch.utils.data.DataLoader(view, batch_size=6)  # torch's own collate function
    assert batch["image"].shape == (6, 3, 40, 48)


def test_collate() -> None:
    short, long = {"x": torch.arange(2)}, {"x": torch.arange(3)}
    assert collate([short, short])["x"].tolist() == [[0, 1], [0, 1]]
    assert collate([short, {"x": np.arange(2)}])["x"].tolist() == [[0, 1], [0, 1]]
    assert [type(value) for value in collate([short, long])["x"]] == [np.ndarray] * 2
    assert collate([short, long], {"x": "list"})["x"][0] is short["x"]
    assert collate([short, long], {"x": Padded(9)})["x"].tolist() == [[0, 1, 9], [0, 1, 2]]
    assert collate([short, long], {"x": Ragged()})["x"]["offsets"].tolist() == [0, 2, 5]
    with pytest.raises(bushel.errors.SpecError, match=r"int64\[2\], int64\[3\]"):
        collate([short, long], {"x": "stack"})


@pytest.mark.parametrize("rule", [Padded(), Ragged()], ids=str)
def test_tensors_without_an_array_are_not_padded(rule: Any) -> None:
    sample = {"__key__": "k", "x": torch.ones(2, dtype=torch.bfloat16)}
    with pytest.raises(bushel.errors.SpecError, match=r"field 'x' .* sample 'k': .* convert them"):
        collate([sample, sample], {"x": rule})


def test_a_sample_transform_sees_the_tensors_of_transforms(photos: Path) -> None:
    def crop(sample: dict[str, Any]) -> dict[str, Any]:
        return sample | {"image": torch.flip(sample["image"], [0])}

    [batch] = bushel.Loader(bushel.open(photos), 6, transforms={"image": planes}, sample_transform=crop)
    assert batch["image"].shape == (6, 3, 40, 48)


def test_documents_of_packs(tmp_path: Path) -> None:
    bushel.pack([{"tokens": np.arange(n, dtype=np.int32)} for n in (3, 4, 5)], tmp_path / "t", container="bag")
    options = {"pack_by": "tokens.length", "pack_tokens": 12}
    ds = bushel.open(tmp_path / "t")
    [expected] = bushel.Loader(ds, 1, **options)  # type: ignore[arg-type]
    [batch] = bushel.Loader(ds, 1, transforms={"tokens": torch.from_numpy}, **options)  # type: ignore[arg-type]
    assert np.array_equal(batch["tokens"], expected["tokens"])


def _library(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except (ImportError, RuntimeError) as error:  # one that was built for another torch
        pytest.skip(f"{name}: {error}")


def test_transforms_of_torchvision(photos: Path) -> None:
    v2 = _library("torchvision.transforms.v2")
    chain = v2.Compose([v2.ToImage(), v2.CenterCrop(32), v2.ToDtype(torch.float32, scale=True)])
    [batch] = bushel.Loader(bushel.open(photos), 6, transforms={"image": chain}, to="torch")
    expected = torch.stack([chain(sample["image"]) for sample in bushel.open(photos)])
    assert type(batch["image"]) is torch.Tensor
    assert torch.equal(batch["image"], expected.as_subclass(torch.Tensor))


def test_transforms_of_albumentations(photos: Path) -> None:
    albumentations = _library("albumentations")
    chain = albumentations.Compose([albumentations.CenterCrop(32, 32), _library("albumentations.pytorch").ToTensorV2()])
    [batch] = bushel.Loader(
        bushel.open(photos), 6, sample_transform=lambda sample: sample | chain(image=sample["image"]), to="torch"
    )
    assert batch["image"].shape == (6, 3, 32, 32)
    assert torch.equal(
        batch["image"][2], torch.from_numpy(bushel.open(photos)[2]["image"][4:36, 8:40]).permute(2, 0, 1)
    )
