"""Measures of values, the measures of a field so far, and groups of near-duplicates. Nothing here does I/O."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from PIL import Image

from bushel._dataset.read.selection import Sample
from bushel._dataset.views.dataset import Dataset
from bushel._runtime.arrays import F32, F64, U8, U64, Bools, chunks
from bushel._runtime.messages import size
from bushel.errors import BushelError

MEASURES: Mapping[str, Mapping[str, str]] = {
    "image": {
        "brightness": "mean grey level, 0 to 1",
        "contrast": "standard deviation of the grey levels, 0 to 0.5",
        "sharpness": "variance of the Laplacian: low for blurred pictures",
        "entropy": "bits of a grey level: low for flat pictures",
        "aspect": "width by height",
    },
    "audio": {
        "loudness": "root mean square in decibels of full scale: 0 is the loudest",
        "peak": "largest amplitude, 1 is full scale",
        "silence": "share of the time that is quieter than -60 decibels",
        "clipping": "share of the numbers at full scale: high for recordings that were too loud",
    },
    "text": {
        "characters": "length of the text",
        "words": "number of words",
        "distinct": "share of the words that are different "
        "ones: low for texts that repeat themselves",
        "symbols": "share of the characters that are neither "
        "letters, digits nor spaces: high for code and tables",
    },
    "array": {
        "invalid": "share of the numbers that are NaN or infinite",
        "zeros": "share of the numbers that are 0",
        "mean": "mean of the finite numbers",
        "spread": "standard deviation of the finite numbers: 0 for constant arrays",
        "largest": "largest absolute value of the finite numbers",
    },
}
"""The measures of each kind of value, and their descriptions. In the viewer: the columns `quality.FIELD.MEASURE`."""

_QUIET = 1e-3  # amplitude of -60 decibels
_STRETCHES = 50  # parts of a sound, of equal length; each is silent or not
_CLIPPED = 0.999
_WORDS = 5_000  # words of a text that make its hash
_LEAST_WORDS = 8  # texts with fewer words have no hash: such texts are often similar by chance


def picture_measures(pixels: U8) -> dict[str, float]:
    """Return the measures of a picture."""
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


def picture_hash(pixels: U8) -> int:
    """Return 64 bits that are the same, except a few, in pictures that look the same, at any size and encoding.

    Each bit is set if one of 9 x 8 cells is brighter than the cell to its right.
    """
    cells = np.asarray(Image.fromarray(_grey(pixels)).resize((9, 8), Image.Resampling.BOX))
    bits = (cells[:, :-1] > cells[:, 1:]).reshape(-1)
    return int(np.packbits(bits).view(">u8")[0])


def _grey(pixels: U8) -> F32:
    grey: F32 = pixels.astype(np.float32) @ np.array([0.299, 0.587, 0.114], np.float32)
    return grey


def sound_measures(sound: F32) -> dict[str, float]:
    """Return the measures of a sound: float32[frames, channels] with at least one frame, where 1 is full scale."""
    power = np.square(sound, dtype=np.float64).mean(axis=1)
    edges = np.linspace(0, len(power), min(_STRETCHES, len(power)) + 1).astype(np.int64)
    parts = np.add.reduceat(power, edges[:-1]) / np.diff(edges)
    amplitudes = np.abs(sound)
    return {
        "loudness": float(10 * np.log10(max(float(power.mean()), 1e-12))),
        "peak": float(amplitudes.max()),
        "silence": float((parts < _QUIET**2).mean()),
        "clipping": float((amplitudes >= _CLIPPED).mean()),
    }


def text_measures(text: str) -> dict[str, float]:
    """Return the measures of a text. An empty text has no shares."""
    words = text.split()
    symbols = sum(not (character.isalnum() or character.isspace()) for character in text)
    return {
        "characters": float(len(text)),
        "words": float(len(words)),
        "distinct": len(set(words)) / len(words) if words else np.nan,
        "symbols": symbols / len(text) if text else np.nan,
    }


def text_hash(text: str) -> int | None:
    """Return 64 bits that are the same, except few, in texts that share most of their words; None for short texts.

    It is a SimHash (Charikar 2002) of pairs of successive words, without case and punctuation.
    """
    words = re.findall(r"\w+", text.lower())[:_WORDS]
    if len(words) < _LEAST_WORDS:
        return None
    pairs = [
        f"{word} {following}".encode("utf-8", "surrogatepass")
        for word, following in zip(words, words[1:], strict=False)
    ]
    halves = np.array([(zlib.crc32(pair), zlib.crc32(pair, 0x9E3779B9)) for pair in pairs], ">u4")
    bits = np.unpackbits(halves.view(np.uint8).reshape(len(pairs), 8), axis=1)
    return int(np.packbits(2 * bits.sum(axis=0, dtype=np.int64) > len(pairs)).view(">u8")[0])


def array_measures(array: np.ndarray) -> dict[str, float]:
    """Return the measures of an array of numbers. Without a finite number, some are NaN. It has at least one number."""
    numbers = array.astype(np.float64)
    finite = numbers[np.isfinite(numbers)]
    mean = spread = largest = np.float64(np.nan)
    if finite.size:
        mean, spread, largest = finite.mean(), finite.std(), np.abs(finite).max()
    return {
        "invalid": 1 - finite.size / numbers.size,
        "zeros": float((numbers == 0).mean()),
        "mean": float(mean),
        "spread": float(spread),
        "largest": float(largest),
    }


HASH = "hash"
"""Name of the column of hashes, beside the columns of the measures."""
_FLAT = 1.0  # pictures with less entropy have similar hashes, even if they differ
_BANDS = 4
# largest number of different bits in the hashes of near-duplicates: then one of four bands is equal
_NEAR = _BANDS - 1
_CROWD = 200  # hashes with one band in common are compared with each other up to this number


@dataclass
class Measures:
    """The measures of one field, as far as they are known."""

    field: str  # name of the field
    kind: str  # kind of its values, one of `MEASURES`
    # float32[samples] by measure; NaN for samples that were not measured or have no value
    values: dict[str, F32]
    # uint64[samples], hashes of pictures and texts that are nearly the same in those that are
    # nearly alike
    hashes: U64
    hashed: Bools  # bool[samples], whether a sample has a useful hash
    done: int = 0  # number of samples that were measured, from the first on
    failed: int = 0  # number of samples among them whose value could not be read or decoded

    @classmethod
    def empty(cls, field: str, kind: str, samples: int) -> Measures:
        """Return the measures of a field whose values were not measured yet."""
        values = {name: np.full(samples, np.nan, np.float32) for name in MEASURES[kind]}
        return cls(field, kind, values, np.zeros(samples, np.uint64), np.zeros(samples, np.bool_))

    @property
    def columns(self) -> list[str]:
        """The names of the measures, and of the hashes if there are any."""
        if self.hashed.any():
            return [*self.values, HASH]
        return list(self.values)

    def add(self, position: int, measures: dict[str, float], hash_: int | None) -> None:
        """Record the measures of a sample, and its hash if it has one."""
        for name, value in measures.items():
            self.values[name][position] = value
        if hash_ is not None and measures.get("entropy", _FLAT) >= _FLAT:
            self.hashes[position], self.hashed[position] = hash_, True

    def column(self, name: str) -> tuple[np.ndarray, Bools]:
        """Return the values of a measure, or the hashes, and which of them are missing.

        Raises:
            KeyError: The measure does not exist.
        """
        if name == HASH:
            return self.hashes, ~self.hashed
        if name not in self.values:
            raise KeyError(
                f"unknown measure {name!r}; known measures: {', '.join([*self.values, HASH])}"
            )
        values = self.values[name].astype(np.float64)
        return values, np.isnan(values)


def near_duplicates(hashes: Sequence[int] | U64) -> list[list[int]]:
    """Return groups of hashes that differ in at most three bits from another one of their group, largest first.

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
        borders = np.flatnonzero(
            np.concatenate([[True], part[order][1:] != part[order][:-1], [True]])
        )
        for start, stop in pairwise(borders.tolist()):
            members = order[start : min(stop, start + _CROWD)]
            for place, first in enumerate(members[:-1].tolist()):
                later = members[place + 1 :]
                different = (values[later] ^ values[first]).view(np.uint8).reshape(-1, 8)
                near = np.unpackbits(different, axis=1).sum(axis=1) <= _NEAR
                for other in later[near].tolist():
                    parents[root(other)] = root(first)
    groups: dict[int, list[int]] = {}
    for number in range(len(values)):
        groups.setdefault(root(number), []).append(number)
    return sorted((group for group in groups.values() if len(group) > 1), key=len, reverse=True)


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
                    f"the arrays of {name!r} use {size(needed)}, more "
                    f"than {size(_MOST)}: open a view of fewer samples"
                )
            vectors = np.full((len(dataset), array.size), np.nan, np.float32)
        if array.size == vectors.shape[1]:
            vectors[position] = array.reshape(-1)
    if vectors is None:
        raise ValueError(f"the field {name!r} has no arrays of two or more numbers")
    return vectors


def _arrays(dataset: Dataset, name: str) -> Iterator[np.ndarray | None]:
    for positions in chunks(range(len(dataset)), _CHUNK):
        for sample in read_each(dataset, positions, [name]):
            if isinstance(sample, Exception) or name not in sample:
                yield None
            else:
                yield np.asarray(sample[name])


def read_each(
    dataset: Dataset, positions: Sequence[int], names: Sequence[str]
) -> list[Sample | Exception]:
    """Return fields of samples, and an error in the place of each sample that cannot be read."""
    try:
        return [*dataset.read(positions, names)]
    except (BushelError, OSError, ValueError) as error:
        if len(positions) == 1:
            return [error]
    half = len(positions) // 2  # find out which one it is
    first, second = positions[:half], positions[half:]
    return read_each(dataset, first, names) + read_each(dataset, second, names)


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
