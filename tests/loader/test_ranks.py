"""Where rank and world size come from."""

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from bushel.loader.base import detect_rank


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RANK", "WORLD_SIZE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("torch", "jax"):
        monkeypatch.delitem(sys.modules, name, raising=False)


def torch_with(rank: int, world_size: int, *, initialized: bool = True) -> Any:
    distributed = SimpleNamespace(
        is_available=lambda: True,
        is_initialized=lambda: initialized,
        get_rank=lambda: rank,
        get_world_size=lambda: world_size,
    )
    return SimpleNamespace(distributed=distributed)


def test_alone() -> None:
    assert detect_rank() == (0, 1)


def test_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert detect_rank() == (3, 4)
    monkeypatch.setitem(sys.modules, "torch", torch_with(1, 2))
    assert detect_rank() == (1, 2)
    monkeypatch.setitem(sys.modules, "torch", torch_with(1, 2, initialized=False))
    assert detect_rank() == (3, 4)
    assert detect_rank(0, 8) == (0, 8)


def test_a_jax_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    jax = SimpleNamespace(
        distributed=SimpleNamespace(is_initialized=lambda: True), process_index=lambda: 2, process_count=lambda: 5
    )
    monkeypatch.setitem(sys.modules, "jax", jax)
    assert detect_rank() == (2, 5)


@pytest.mark.parametrize("arguments", [(0, None), (None, 2), (2, 2), (-1, 2)])
def test_half_a_pair_and_no_pair_are_refused(arguments: tuple[int | None, int | None]) -> None:
    with pytest.raises(ValueError, match="world_size"):
        detect_rank(*arguments)


@pytest.mark.parametrize("values", [("1", None), (None, "2"), ("one", "2"), ("", "2")])
def test_a_broken_environment(monkeypatch: pytest.MonkeyPatch, values: tuple[str | None, str | None]) -> None:
    for name, value in zip(("RANK", "WORLD_SIZE"), values, strict=True):
        if value is not None:
            monkeypatch.setitem(os.environ, name, value)
    with pytest.raises(ValueError, match="RANK="):
        detect_rank()
