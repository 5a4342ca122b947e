"""Gathering the tokens of rows that are shared by documents: a kernel copies each piece of a document into its row.

All batches of a group are planned and gathered together: one row takes less time than a call of NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._runtime.arrays import I64, offsets_of
from bushel.errors import FormatError
from bushel.loader.decode.micro_batch import count_bytes
from bushel.loader.decode.sources import SOURCE
from bushel.loader.plan.plan import BatchPlan
from bushel.loader.read.number_field import Rooms
from bushel.loader.run.grouped import Groups, Made
from bushel.loader.values.collate import Batch, Padded
from bushel.loader.values.rows import Rows
from bushel.spec import KEY


class RowGroups(Groups):
    """Makes batches whose rows are shared, if all of their fields are as long as the tokens."""

    def bytes_of(self, plan: BatchPlan) -> int:
        """Return the size of a batch in bytes."""
        if plan.rows is None or self._pipeline.shape is None:
            return 0
        return len(plan.rows.ends) * self._pipeline.shape.tokens * sum(each.nbytes for each in self.numbers.fields)

    def _batches(self, group: list[BatchPlan]) -> list[Made | None]:
        found = self._together(group)
        if found is not None:
            return [Made(batch, count_bytes([batch[name] for name in self._factory.names])) for batch in found]
        if len(group) == 1:
            return [None]
        return [batch for plan in group for batch in self._batches([plan])]  # one of them has to be read otherwise

    def _together(self, group: Sequence[BatchPlan]) -> list[Batch] | None:
        """Return the batches of some plans; None if any has to be read in the ordinary way."""
        shape, excluded = self._pipeline.shape, self._pipeline.excluded
        rows = [plan.rows for plan in group if plan.rows is not None]
        if shape is None or len(rows) < len(group):
            return None
        samples = np.concatenate([plan.samples for plan in group])
        if excluded and not excluded.isdisjoint(samples.tolist()):
            return None
        names = [each.name for each in self.numbers.fields]
        lengths = [self.numbers.lengths(number, samples) for number in range(len(names))]
        own = lengths[names.index(shape.field)]
        if own is None or any(each is None or not np.array_equal(each, own) for each in lengths):
            return None
        pieces = _Pieces.of(rows, [len(plan.samples) for plan in group], own)
        if pieces is None or (pieces.used > shape.tokens).any():
            return None
        samples = samples[pieces.places]
        whole: Batch = {}
        try:
            if self._pipeline.keys:
                whole[KEY] = pieces.by_row(self.numbers.keys(samples))
        except FormatError:  # raised again, with the sample, in the ordinary way
            return None
        for number, name in enumerate(names):
            if (joined := self._joined(number, samples, pieces, shape.tokens)) is None:
                return None
            whole[name] = joined
        if self._pipeline.sources is not None:
            whole[SOURCE] = pieces.by_row(self._pipeline.sources.names_of(samples))
        if shape.documents:
            whole["positions"] = pieces.padded(pieces.positions(), shape.tokens, 0)
            whole["documents"] = pieces.padded(pieces.documents(), shape.tokens, -1)
        whole["cu_seqlens"] = pieces.bounds()
        if len(group) == 1:
            return [whole]
        ends = offsets_of(len(each.ends) for each in rows).tolist()
        return [{name: value[first:end] for name, value in whole.items()} for first, end in pairwise(ends)]

    def _joined(self, number: int, samples: I64, pieces: _Pieces, tokens: int) -> npt.NDArray[Any] | None:
        """Return a field [rows, tokens]; None if a value cannot be gathered."""
        field = self.numbers.fields[number]
        rules = self._pipeline.collate
        rule = rules.get(field.name) if isinstance(rules, dict) else None
        flat = np.empty(int(pieces.starts[-1]), field.dtype)
        if not self.numbers.gather_rows(number, samples, Rooms(flat, pieces.starts, skip=pieces.begins)):
            return None
        return pieces.padded(flat, tokens, rule.padding(field.dtype)[0] if isinstance(rule, Padded) else 0)


@dataclass(frozen=True, slots=True, eq=False)
class _Pieces:
    """The pieces of some rows, one after another.

    Attributes:
        firsts: int64[rows], the first piece of each row.
        ends: int64[rows], the number of pieces up to the end of each row.
        places: int64[pieces], the place of the document of each piece among the samples.
        begins: int64[pieces], its first token there.
        starts: int64[pieces + 1], the tokens before each piece, and all of them.
        used: int64[rows], the tokens of each row.
    """

    firsts: I64
    ends: I64
    places: I64
    begins: I64
    starts: I64
    used: I64

    @classmethod
    def of(cls, batches: Sequence[Rows], samples: Sequence[int], lengths: I64) -> _Pieces | None:
        """Return the pieces of all rows of some batches; None if a document has another length than it must have.

        Args:
            batches: The rows of each batch.
            samples: The number of samples of each batch.
            lengths: int64[sum(samples)], the tokens of all samples.
        """
        all_ends, all_places = list[I64](), list[I64]()
        before = passed = 0
        for rows, count in zip(batches, samples, strict=True):
            all_ends.append(rows.ends + before)
            all_places.append((np.arange(count) if rows.places is None else rows.places) + passed)
            before, passed = before + len(rows.begins), passed + count
        ends, places = np.concatenate(all_ends), np.concatenate(all_places)
        own = lengths[places]
        if batches[0].lengths is not None:
            expected = np.concatenate([rows.lengths for rows in batches if rows.lengths is not None])
            if not np.array_equal(own, expected):
                return None  # an error, which names the sample in the ordinary way
        begins = np.minimum(np.concatenate([rows.begins for rows in batches]), own)
        counts = np.minimum(np.concatenate([rows.counts for rows in batches]), own - begins)
        starts = offsets_of(counts)
        firsts = np.concatenate([np.zeros(1, np.int64), ends[:-1]])
        return cls(firsts, ends, places, begins, starts, starts[ends] - starts[firsts])

    def by_row(self, values: list[str]) -> list[list[str]]:
        """Return the values of pieces, row by row."""
        return [values[first:end] for first, end in zip(self.firsts.tolist(), self.ends.tolist(), strict=True)]

    def positions(self) -> npt.NDArray[np.int32]:
        """Return the place of each token in its piece."""
        counts = np.diff(self.starts)
        found: npt.NDArray[np.int32] = np.arange(int(self.starts[-1]), dtype=np.int32)
        found -= np.repeat(self.starts[:-1].astype(np.int32), counts)
        return found

    def documents(self) -> npt.NDArray[np.int32]:
        """Return the number of each token's piece in its row."""
        of_row = np.arange(len(self.places)) - np.repeat(self.firsts, self.ends - self.firsts)
        return np.repeat(of_row.astype(np.int32), np.diff(self.starts))

    def bounds(self) -> list[npt.NDArray[np.int32]]:
        """Return where the pieces of each row begin, and its number of tokens."""
        sizes = self.ends - self.firsts + 1
        row = np.repeat(np.arange(len(sizes)), sizes)
        flat = (self.starts[np.arange(len(row)) - row] - self.starts[self.firsts][row]).astype(np.int32)
        ends = np.cumsum(sizes).tolist()
        return [flat[end - size : end] for end, size in zip(ends, sizes.tolist(), strict=True)]

    def padded(self, flat: npt.NDArray[Any], tokens: int, fill: Any) -> npt.NDArray[Any]:
        """Return rows of tokens. Each row has the next numbers of an array."""
        if len(flat) == len(self.used) * tokens:
            return flat.reshape(len(self.used), tokens)
        out = np.full((len(self.used), tokens), fill, flat.dtype)
        start = 0
        for row, size in zip(out, self.used.tolist(), strict=True):
            row[:size] = flat[start : start + size]
            start += size
        return out
