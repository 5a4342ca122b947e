"""Measures of pictures: brightness, contrast, sharpness, entropy, shape, perceptual hash. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["MEASURES", "Measures", "measures_of", "near_duplicates", "picture_hash"]

MEASURES: Mapping[str, str] = {
    "brightness": "mean grey level, 0 to 1",
    "contrast": "standard deviation of the grey levels, 0 to 0.5",
    "sharpness": "variance of the Laplacian: low for blurred pictures",
    "entropy": "bits of a grey level: low for flat pictures",
    "aspect": "width by height",
}
"""The measures and their descriptions. In the viewer they are columns, such as `quality.brightness`."""

_FLAT = 1.0
"""Pictures with less entropy look alike to a perceptual hash, whatever they show."""
_BANDS = 4
_NEAR = _BANDS - 1
"""Bits in which the hashes of near-duplicates differ at most: then one of four bands is equal."""
_CROWD = 200
"""Pictures with one band in common are compared with each other up to this number."""

F32 = npt.NDArray[np.float32]


@dataclass
class Measures:
    """The measures of one field, as far as they are known.

    Attributes:
        values: float32[samples] by measure; NaN for samples that were not measured or have no picture.
        hashes: uint64[samples], the perceptual hashes.
        done: Number of samples that were measured, from the first on.
    """

    values: dict[str, F32]
    hashes: npt.NDArray[np.uint64]
    done: int = 0

    @classmethod
    def empty(cls, samples: int) -> Measures:
        """Return the measures of samples that were not measured yet."""
        values = {name: np.full(samples, np.nan, np.float32) for name in MEASURES}
        return cls(values, np.zeros(samples, np.uint64))

    def distinct(self) -> npt.NDArray[np.int64]:
        """Return the samples with a useful hash: those with a picture that is not flat."""
        with np.errstate(invalid="ignore"):
            return np.flatnonzero(self.values["entropy"] >= _FLAT)


def measures_of(pixels: npt.NDArray[np.uint8]) -> dict[str, float]:
    """Return the measures of a picture.

    Args:
        pixels: HxWx3.
    """
    grey = _grey(pixels)
    counts = np.bincount(grey.round().astype(np.uint8).reshape(-1), minlength=256)
    shares = counts[counts > 0] / grey.size
    height, width = grey.shape
    inner = grey[1:-1, 1:-1]
    edges = 4 * inner - grey[:-2, 1:-1] - grey[2:, 1:-1] - grey[1:-1, :-2] - grey[1:-1, 2:]
    return {
        "brightness": float(grey.mean() / 255),
        "contrast": float(grey.std() / 255),
        "sharpness": float(edges.var()) if edges.size else 0.0,
        "entropy": float(-(shares * np.log2(shares)).sum()),
        "aspect": width / height,
    }


def picture_hash(pixels: npt.NDArray[np.uint8]) -> int:
    """Return 64 bits that are the same, but for few, in pictures that look the same, whatever their size and encoding.

    Each bit is set if one of 9 x 8 cells is brighter than the cell to its right.
    """
    cells = _cells(_grey(pixels), 8, 9)
    bits = (cells[:, :-1] > cells[:, 1:]).reshape(-1)
    return int(np.packbits(bits).view(">u8")[0])


def _grey(pixels: npt.NDArray[np.uint8]) -> F32:
    grey: F32 = pixels.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    return grey


def _cells(grey: F32, rows: int, columns: int) -> F32:
    """Return the mean of each cell of a grid over a picture."""
    for axis, count in ((0, rows), (1, columns)):
        size = grey.shape[axis]
        edges = np.linspace(0, size, count + 1).astype(np.int64)
        sums = np.concatenate([np.zeros_like(grey.take([0], axis)), np.cumsum(grey, axis, dtype=np.float64)], axis)
        low, high = edges[:-1].clip(max=size - 1), np.maximum(edges[1:], edges[:-1] + 1).clip(max=size)
        widths = (high - low).reshape((-1, 1) if axis == 0 else (1, -1))
        grey = ((sums.take(high, axis) - sums.take(low, axis)) / widths).astype(np.float32)
    return grey


def near_duplicates(hashes: Sequence[int] | npt.NDArray[np.uint64]) -> list[list[int]]:
    """Return groups of hashes that differ in at most three bits from another one of their group, largest first.

    Args:
        hashes: The hashes.

    Returns:
        For each group the numbers of its members, ascending.
    """
    values = np.asarray(hashes, np.uint64)
    parents = list(range(len(values)))

    def root(number: int) -> int:
        while parents[number] != number:
            parents[number] = number = parents[parents[number]]
        return number

    for band in range(_BANDS):
        part = (values >> np.uint64(16 * band)) & np.uint64(0xFFFF)
        order = np.argsort(part, kind="stable")
        borders = np.flatnonzero(np.concatenate([[True], part[order][1:] != part[order][:-1], [True]]))
        for start, stop in zip(borders[:-1].tolist(), borders[1:].tolist(), strict=True):
            members = order[start : min(stop, start + _CROWD)]
            for place, first in enumerate(members[:-1].tolist()):
                others = members[place + 1 :]
                near = _bits(values[others] ^ values[first]) <= _NEAR
                for other in others[near].tolist():
                    parents[root(other)] = root(first)
    groups: dict[int, list[int]] = {}
    for number in range(len(values)):
        groups.setdefault(root(number), []).append(number)
    return sorted((group for group in groups.values() if len(group) > 1), key=len, reverse=True)


def _bits(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Return the number of bits that are set in each value."""
    counts: npt.NDArray[np.int64] = np.unpackbits(values.view(np.uint8).reshape(-1, 8), axis=1).sum(axis=1)
    return counts
