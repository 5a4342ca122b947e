"""Vectors of samples, such as embeddings, and how similar they are to the vector of one sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from bushel._dataset.views.dataset import Dataset
from bushel._runtime.arrays import F32, F64
from bushel._runtime.messages import size
from bushel.errors import BushelError

_MOST = 1 << 30  # bytes that the vectors of one field may use
_CHUNK = 2048


def vectors_of_field(dataset: Dataset, name: str) -> F32:
    """Return the vectors of a field: float32[samples, numbers].

    It is NaN for samples whose vector is missing, damaged or of another length than the first one.

    Raises:
        ValueError: No sample has an array of two or more numbers there, or they use too much memory.
    """
    vectors = None
    for position, array in enumerate(_arrays(dataset, name)):
        if array is None or array.dtype.kind not in "biuf" or array.size < 2:
            continue
        if vectors is None:
            needed = 4 * len(dataset) * array.size
            if needed > _MOST:
                raise ValueError(
                    f"the arrays of {name!r} use {size(needed)}, more than {size(_MOST)}: open a"
                    " view of fewer samples"
                )
            vectors = np.full((len(dataset), array.size), np.nan, np.float32)
        if array.size == vectors.shape[1]:
            vectors[position] = array.reshape(-1)
    if vectors is None:
        raise ValueError(f"the field {name!r} has no arrays of two or more numbers")
    return vectors


def _arrays(dataset: Dataset, name: str) -> Iterator[np.ndarray | None]:
    for first in range(0, len(dataset), _CHUNK):
        positions = range(first, min(first + _CHUNK, len(dataset)))
        yield from _read(dataset, name, positions)


def _read(dataset: Dataset, name: str, positions: Sequence[int]) -> list[np.ndarray | None]:
    try:
        samples = dataset.read(positions, [name])
    except (BushelError, OSError, ValueError):
        if len(positions) == 1:
            return [None]
        half = len(positions) // 2  # find out which one it is
        return _read(dataset, name, positions[:half]) + _read(dataset, name, positions[half:])
    return [np.asarray(sample[name]) if name in sample else None for sample in samples]


def vectors_of_file(path: Path, samples: int) -> F32 | None:
    """Return the vectors in a `.npy` file; None if it has another number of them than there are samples.

    Raises:
        ValueError: It is not an array (samples, numbers) of numbers.
        OSError: It cannot be read.
    """
    expected = f"{path}: expected an array (samples, numbers) of numbers"
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError(f"{expected}: {error}") from error
    is_array = isinstance(array, np.ndarray) and array.ndim == 2 and array.dtype.kind in "biuf"
    if not is_array or array.shape[1] < 2:
        raise ValueError(expected)
    if len(array) != samples:
        return None
    return np.asarray(array, np.float32)


def similarities(vectors: F32, position: int) -> F64:
    """Return the cosine between one vector and each; NaN for missing vectors, and for vectors of length 0."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines: F64 = (vectors @ vectors[position]) / (lengths * lengths[position])
    return cosines
