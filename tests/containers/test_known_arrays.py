"""Arrays of known sizes, in memory and in a temporary file."""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest

from bushel.containers.zip.container import known_arrays

SIZES = {"a": (np.int64, 1000), "b": (np.uint8, 3), "c": (np.float32, 0), "d": (np.int32, 70)}


@pytest.mark.parametrize("limit", [0, 1 << 20])
def test_arrays_of_zeros_that_can_be_written(limit: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = known_arrays(SIZES, limit)
    assert {name: (own.dtype, len(own)) for name, own in found.items()} == {
        name: (np.dtype(dtype), count) for name, (dtype, count) in SIZES.items()
    }
    assert not any(own.any() for own in found.values())
    for number, own in enumerate(found.values()):
        own[:] = number + 1
    assert [set(own.tolist()) for own in found.values()] == [{1}, {2}, set(), {4}]
    assert not list(tmp_path.iterdir())
    assert known_arrays({}, limit) == {}


def test_a_full_disk_is_an_error_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full, raising=False)
    monkeypatch.setattr("sys.platform", "linux")
    with pytest.raises(OSError, match="No space left"):
        known_arrays(SIZES, 0)


def test_a_system_that_cannot_reserve_room(monkeypatch: pytest.MonkeyPatch) -> None:
    def unsupported(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    with monkeypatch.context() as patched:
        patched.setattr("sys.platform", "linux")
        patched.setattr(os, "posix_fallocate", unsupported, raising=False)
        assert not known_arrays(SIZES, 0)["a"].any()
    monkeypatch.setattr("sys.platform", "other")
    assert not known_arrays(SIZES, 0)["a"].any()
