"""Comparing a loader's epoch with that of a loader that reads every field sample by sample."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import bushel
from bushel.loader.read.batch_arrays import ArrayFactory
from bushel.loader.run import pipeline

__all__ = ["compare", "counted", "ordinary", "outcome", "same"]


@contextmanager
def ordinary() -> Iterator[None]:
    """Read all fields in the ordinary way."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "gathered_numbers", lambda *_, **__: [])
        patch.setattr(pipeline, "list_fields", lambda *_, **__: None)
        yield


@contextmanager
def counted() -> Iterator[list[int]]:
    """Count the values that are gathered."""
    count = [0]
    gather = ArrayFactory.gather

    def counting(self: ArrayFactory, batches: Any) -> Any:
        gathered = gather(self, batches)
        for parts in gathered.values():
            count[0] += sum(len(own) for own, part in zip(batches, parts, strict=True) if part is not None)
        return gathered

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ArrayFactory, "gather", counting)
        yield count


def same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, np.ndarray):
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        assert found.tobytes() == expected.tobytes()
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        for name in expected:
            same(found[name], expected[name])
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            same(one, other)
    else:
        assert found == expected


def outcome(make: Callable[[], bushel.Loader]) -> tuple[list[Any], str | None, list[Any], dict[str, Any]]:
    """Return the batches of an epoch, the error that ends it, the bad samples and the state afterwards."""
    loader, error = make(), None
    batches: list[Any] = []
    try:
        batches.extend(loader)
    except Exception as caught:
        error = f"{type(caught).__name__}: {caught}; {getattr(caught, '__notes__', None)}"
    return batches, error, [str(bad) for bad in loader.errors], loader.state_dict()


def compare(make: Callable[[], bushel.Loader]) -> int:
    """Compare the two ways, and return the number of values that were gathered."""
    with counted() as count:
        found = outcome(make)
    with ordinary():
        expected = outcome(make)
    assert found[1:] == expected[1:]
    assert len(found[0]) == len(expected[0])
    for one, other in zip(found[0], expected[0], strict=True):
        same(one, other)
    return count[0]
