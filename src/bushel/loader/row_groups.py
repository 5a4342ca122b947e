"""Gathering the tokens of rows that are shared by documents: a kernel copies each piece of a document into its row."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._dataset.number_field import Rooms
from bushel.errors import FormatError
from bushel.loader.collate import Batch, Padded
from bushel.loader.grouped import Groups
from bushel.loader.plan import BatchPlan
from bushel.loader.rows import Rows
from bushel.loader.sources import SOURCE
from bushel.spec import KEY

__all__ = ["RowGroups"]

I64 = npt.NDArray[np.int64]


class RowGroups(Groups):
    """Makes batches whose rows are shared, if all of their fields are as long as the tokens."""

    def bytes_of(self, plan: BatchPlan) -> int:
        """Return the size of a batch in bytes."""
        if plan.rows is None or self._pipeline.shape is None:
            return 0
        return len(plan.rows.ends) * self._pipeline.shape.tokens * sum(each.nbytes for each in self.numbers.fields)

    def _batches(self, group: list[BatchPlan]) -> list[Batch | None]:
        return [self._rows(plan, plan.rows) for plan in group]

    def _rows(self, plan: BatchPlan, rows: Rows | None) -> Batch | None:
        """Return the batch of a plan; None if it has to be read in the ordinary way."""
        shape, excluded = self._pipeline.shape, self._pipeline.excluded
        if rows is None or shape is None or (excluded and not excluded.isdisjoint(plan.samples.tolist())):
            return None
        names = [each.name for each in self.numbers.fields]
        lengths = [self.numbers.lengths(number, plan.samples) for number in range(len(names))]
        own = lengths[names.index(shape.field)]
        if own is None or any(each is None or not np.array_equal(each, own) for each in lengths):
            return None
        places = np.arange(len(plan.samples)) if rows.places is None else rows.places
        whole = own[places]
        if rows.lengths is not None and not np.array_equal(whole, rows.lengths):
            return None  # an error, which names the sample in the ordinary way
        begins = np.minimum(rows.begins, whole)
        counts = np.minimum(rows.counts, whole - begins)
        starts = np.zeros(len(counts) + 1, np.int64)
        np.cumsum(counts, out=starts[1:])
        firsts = np.concatenate([np.zeros(1, np.int64), rows.ends[:-1]])
        used = starts[rows.ends] - starts[firsts]
        if (used > shape.tokens).any():
            return None
        batch: Batch = {}
        try:
            if self._pipeline.keys:
                keys = self.numbers.keys(plan.samples)
                batch[KEY] = _by_row([keys[place] for place in places.tolist()], firsts, rows.ends)
        except FormatError:  # raised again, with the sample, in the ordinary way
            return None
        for number, name in enumerate(names):
            joined = self._joined(number, plan.samples[places], starts, begins, used, shape.tokens)
            if joined is None:
                return None
            batch[name] = joined
        if self._pipeline.sources is not None:
            batch[SOURCE] = _by_row(self._pipeline.sources.names_of(plan.samples[places]), firsts, rows.ends)
        if shape.documents:
            before = np.repeat(starts[:-1], counts)
            of_row = np.arange(len(counts)) - np.repeat(firsts, rows.ends - firsts)
            batch["positions"] = _padded((np.arange(len(before)) - before).astype(np.int32), used, shape.tokens, 0)
            batch["documents"] = _padded(np.repeat(of_row, counts).astype(np.int32), used, shape.tokens, -1)
        batch["cu_seqlens"] = [
            (starts[first : end + 1] - starts[first]).astype(np.int32)
            for first, end in zip(firsts.tolist(), rows.ends.tolist(), strict=True)
        ]
        return batch

    def _joined(
        self, number: int, samples: I64, starts: I64, begins: I64, used: I64, tokens: int
    ) -> npt.NDArray[Any] | None:
        """Return a field [rows, tokens]; None if a value cannot be gathered."""
        field = self.numbers.fields[number]
        rules = self._pipeline.collate
        rule = rules.get(field.name) if isinstance(rules, dict) else None
        flat = np.empty(int(starts[-1]), field.dtype)
        if not self.numbers.gather_rows(number, samples, Rooms(flat, starts, skip=begins)):
            return None
        return _padded(flat, used, tokens, rule.padding(field.dtype)[0] if isinstance(rule, Padded) else 0)


def _padded(flat: npt.NDArray[Any], used: I64, tokens: int, fill: Any) -> npt.NDArray[Any]:
    """Return rows of tokens, of which each has the next numbers of an array."""
    if len(flat) == len(used) * tokens:
        return flat.reshape(len(used), tokens)
    out = np.full((len(used), tokens), fill, flat.dtype)
    start = 0
    for row, size in zip(out, used.tolist(), strict=True):
        row[:size] = flat[start : start + size]
        start += size
    return out


def _by_row(values: list[str], firsts: I64, ends: I64) -> list[list[str]]:
    return [values[first:end] for first, end in zip(firsts.tolist(), ends.tolist(), strict=True)]
