"""Vectors of samples, such as embeddings: reading and projecting them, and finding vectors in a lasso or nearby."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._dataset.views.dataset import Dataset
from bushel._runtime.arrays import F32, F64, I64, Bools
from bushel.errors import BushelError

# memory that the vectors of one field may use; of more samples, every k-th is read
_BYTES = 256 << 20
_CHUNK = 2048
_EXACT = 512  # numbers in a vector up to which the directions come from the whole covariance
_EXTRA, _ROUNDS = 8, 6
_BLOCK = 1 << 14


@dataclass
class Vectors:
    """The vectors of samples, as far as they were read."""

    name: str  # the field, or the file
    rows: I64  # int64[vectors], the positions of the samples
    # float32[vectors, numbers]; NaN for samples whose vector is missing, damaged or of another
    # length
    values: F32
    done: int = 0  # number of vectors that were read, from the first on
    # float32[vectors, 2], the places on the map, from -1 to 1; NaN for missing vectors
    places: F32 | None = None
    # share of the variance that the map of the main directions shows; None if the file holds places
    explained: float | None = None
    lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def settle(self) -> F32:
        """Return the places on the map, which are made once."""
        with self.lock:
            if self.places is None:
                finite = np.asarray(np.isfinite(self.values).all(axis=1))
                placed = self.values[finite][:, :2]
                if len(placed) and self.values.shape[1] != 2:
                    placed, self.explained = main_directions(self.values[finite])
                self.places = _fitted(placed, finite)
            return self.places


def _fitted(made: F32, known: Bools) -> F32:
    """Return places of all vectors on the map, from -1 to 1, given the places of the known ones."""
    places = np.full((len(known), 2), np.nan, np.float32)
    places[known] = made
    if len(made):
        low, high = made.min(axis=0), made.max(axis=0)
        half = max(float((high - low).max()) / 2, 1e-12)
        places = ((places - (low + high) / 2) / half * 0.95).astype(np.float32)
    return places


def vectors_of_field(dataset: Dataset, name: str) -> Vectors:
    """Return the vectors of a field before they are read; `read_more` reads them.

    Raises:
        ValueError: No sample among the first ones has an array there.
    """
    count = len(dataset)
    for position in range(min(count, 100)):
        try:
            value = np.asarray(dataset[position, [name]].get(name))
        except (BushelError, OSError, ValueError):  # its page says why
            continue
        if value.dtype.kind in "biuf" and value.size > 1:
            step = max(1, -(-count * value.size * 4 // _BYTES))
            rows = np.arange(0, count, step, dtype=np.int64)
            return Vectors(name, rows, np.full((len(rows), value.size), np.nan, np.float32))
    raise ValueError(
        f"the field {name!r} has no vector in the first 100 samples: expected arrays of two or"
        " more numbers"
    )


def vectors_of_file(path: Path, samples: int) -> Vectors | None:
    """Return the vectors in a `.npy` file; None if it has another number of them than there are samples.

    Raises:
        ValueError: It is not an array (samples, numbers) of numbers.
        OSError: It cannot be read.
    """
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except ValueError as error:
        raise ValueError(
            f"{path}: expected an array (samples, numbers) of numbers: {error}"
        ) from error
    if (
        not isinstance(array, np.ndarray)
        or array.ndim != 2
        or array.shape[1] < 2
        or array.dtype.kind not in "biuf"
    ):
        raise ValueError(f"{path}: expected an array (samples, numbers) of numbers")
    if len(array) != samples:
        return None
    step = max(1, -(-array.shape[0] * array.shape[1] * 4 // _BYTES))
    values = np.ascontiguousarray(array[::step], np.float32)
    return Vectors(path.name, np.arange(0, samples, step, dtype=np.int64), values, done=len(values))


def read_more(dataset: Dataset, vectors: Vectors, seconds: float) -> None:
    """Read further vectors until a time has passed."""
    until = time.monotonic() + seconds
    with vectors.lock:
        while vectors.done < len(vectors.rows) and time.monotonic() < until:
            first = vectors.done
            rows = vectors.rows[first : first + _CHUNK].tolist()
            for number, value in enumerate(_read(dataset, vectors.name, rows), first):
                if (
                    value is not None
                    and value.size == vectors.values.shape[1]
                    and value.dtype.kind in "biuf"
                ):
                    vectors.values[number] = value.reshape(-1)
            vectors.done = first + len(rows)


def _read(dataset: Dataset, name: str, rows: Sequence[int]) -> list[npt.NDArray[Any] | None]:
    try:
        return [
            None if sample.get(name) is None else np.asarray(sample[name])
            for sample in dataset.read(rows, [name])
        ]
    except (BushelError, OSError, ValueError):
        if len(rows) == 1:
            return [None]
        half = len(rows) // 2  # find out which one it is
        return _read(dataset, name, rows[:half]) + _read(dataset, name, rows[half:])


def main_directions(values: F32) -> tuple[F32, float]:
    """Return vectors in the plane of their two main components, and the share of the variance in it.

    They are float32[vectors, numbers], and finite.

    Returns:
        float32[vectors, 2]. Signs are chosen so that the result is the same on every machine.
    """
    mean = values.mean(axis=0, dtype=np.float64)
    count, size = values.shape
    if size <= _EXACT:
        covariance = np.zeros((size, size))
        for first in range(0, count, _BLOCK):
            part = values[first : first + _BLOCK] - mean
            covariance += part.T @ part
        powers, directions = np.linalg.eigh(covariance)
        basis, variance, whole = directions[:, ::-1][:, :2], powers[::-1][:2].sum(), powers.sum()
    else:
        basis, variance, whole = _iterated(values, mean)
    for column in range(basis.shape[1]):
        basis[:, column] *= np.sign(basis[np.abs(basis[:, column]).argmax(), column]) or 1.0
    placed = np.concatenate(
        [(values[first : first + _BLOCK] - mean) @ basis for first in range(0, count, _BLOCK)]
    ).astype(np.float32)
    return placed, float(variance / whole) if whole > 0 else 0.0


def _iterated(values: F32, mean: F64) -> tuple[F64, float, float]:
    """Return the two main directions of long vectors by subspace iteration, their variance, and the total variance."""
    count, size = values.shape
    rng = np.random.default_rng(0)
    basis = rng.normal(size=(size, 2 + _EXTRA))
    whole = 0.0
    for turn in range(_ROUNDS):
        basis, _ = np.linalg.qr(basis)
        image = np.zeros_like(basis)
        for first in range(0, count, _BLOCK):
            part = values[first : first + _BLOCK] - mean
            image += part.T @ (part @ basis)
            if turn == 0:
                whole += float(np.square(part).sum())
        basis, last = image, basis
    powers, turned = np.linalg.eigh(last.T @ basis)
    directions = last @ turned[:, ::-1][:, :2]
    return directions, float(powers[::-1][:2].sum()), whole


def inside(points: F32, polygon: F64) -> Bools:
    """Return which points are inside a polygon (corners, 2), by the even-odd rule. NaN is outside."""
    x, y = points[:, 0].astype(np.float64), points[:, 1].astype(np.float64)
    is_inside = np.zeros(len(points), np.bool_)
    for (x0, y0), (x1, y1) in zip(polygon, np.roll(polygon, -1, axis=0), strict=True):
        if y0 == y1:
            continue
        crosses = (y0 > y) != (y1 > y)
        is_inside ^= crosses & (x < (x1 - x0) * (y - y0) / (y1 - y0) + x0)
    return is_inside & np.isfinite(x) & np.isfinite(y)


def similarities(values: F32, number: int) -> F64:
    """Return the cosine between one vector and each; NaN for missing vectors, and for vectors of length 0."""
    lengths = np.sqrt(np.einsum("ij,ij->i", values, values, dtype=np.float64))
    with np.errstate(invalid="ignore", divide="ignore"):
        cosines: F64 = (values @ values[number]) / (lengths * lengths[number])
    return cosines
