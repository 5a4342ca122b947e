"""Windows: elements of samples, as samples of their own. Pure: no I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from bushel._runtime.arrays import I64
from bushel._runtime.structs import Struct

PAD = "_is_pad"
"""Suffix of the field that marks the elements of another field that are filled up."""


class WindowShape(Struct, frozen=True, eq=False):
    """The elements of a window."""

    field: str  # the field whose elements are counted
    # the elements of each field, counted from the one where the window starts: int64[k]
    offsets: Mapping[str, I64]
    hop: int  # elements from the start of one window to the start of the next
    # elements that a whole window takes up; 0 if windows start at every element and are clamped
    span: int
    # whether windows may reach beyond the elements, whose first or last one then takes their place
    pad: bool

    @property
    def pads(self) -> dict[str, str]:
        """The names of the fields that mark elements that are filled up: name to field."""
        return {name + PAD: name for name in self.offsets} if self.pad else {}

    def available(self, name: str) -> bool | range | None:
        """Return the range of elements that a window has of a field, or True; None if it has the same as samples."""
        if (offsets := self.offsets.get(name)) is not None:
            return range(len(offsets))
        return True if name in self.pads else None

    def same_as(self, other: WindowShape) -> bool:
        """Return whether windows are made in the same way."""
        return self.described() == other.described()

    def described(self) -> str:
        """Return the shape as text, for fingerprints."""
        offsets = {name: numbers.tolist() for name, numbers in self.offsets.items()}
        return repr((self.field, offsets, self.hop, self.span, self.pad))

    def __str__(self) -> str:
        sizes = {len(numbers) for numbers in self.offsets.values()}
        sizes_shown = f"{min(sizes)}" if len(sizes) == 1 else f"{min(sizes)} to {max(sizes)}"
        return f"windows of {sizes_shown} {', '.join(self.offsets)}, one every {self.hop}"


def window_counts(counts: I64, shape: WindowShape) -> I64:
    """Return the number of windows of samples, given their numbers of elements: int64[n] to int64[n]."""
    have: I64 = np.maximum(counts, 0)
    if not shape.span:
        return -(-have // shape.hop)
    if not shape.pad:
        whole: I64 = np.maximum((have - shape.span) // shape.hop + 1, 0)
        return whole
    counts_there: I64 = np.where(
        have > 0, np.maximum(-(-(have - shape.span) // shape.hop), 0) + 1, 0
    )
    return counts_there


class Windows(Struct, frozen=True, eq=False):
    """The windows of the samples of a dataset, one sample after another."""

    shape: WindowShape  # their elements
    ends: I64  # int64[samples], the number of windows of each sample and those before it

    @classmethod
    def of(cls, shape: WindowShape, counts: I64) -> Windows:
        """Return the windows of samples with these numbers of elements."""
        return cls(shape, np.cumsum(window_counts(counts, shape)))

    @classmethod
    def joined(cls, several: Iterable[Windows]) -> Windows:
        """Return the windows of several datasets, one after another, which have the same shape."""
        parts = list(several)
        sizes = [np.diff(part.ends, prepend=0) for part in parts]
        return cls(parts[0].shape, np.cumsum(np.concatenate(sizes)))

    def __len__(self) -> int:
        return int(self.ends[-1]) if len(self.ends) else 0

    def places(self, numbers: I64) -> tuple[I64, I64]:
        """Return the sample of each window, and the element where it starts: int64[n] each."""
        samples = np.searchsorted(self.ends, numbers, side="right")
        first = np.where(samples > 0, self.ends[samples - 1], 0)
        return samples, (numbers - first) * self.shape.hop

    def find(self, sample: int, start: int) -> int | None:
        """Return the number of the window of a sample that starts at an element, or None."""
        first = int(self.ends[sample - 1]) if sample else 0
        number, rest = divmod(start, self.shape.hop)
        return (
            first + number
            if start >= 0 and not rest and first + number < self.ends[sample]
            else None
        )

    @property
    def without(self) -> int:
        """Number of samples that have no window."""
        return int((np.diff(self.ends, prepend=0) == 0).sum())

    def digest(self) -> bytes:
        """Return a hash of the windows."""
        import hashlib  # which imports OpenSSL

        return hashlib.sha256(self.shape.described().encode() + self.ends.tobytes()).digest()
