"""One key of one shard: from a number and a mask to a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import bushel
from bushel.compat.granular.bag import checked_range
from bushel.compat.granular.errors import WrongTypeError
from bushel.compat.granular.records import Records

__all__ = ["Key", "Names"]


@dataclass(slots=True)
class Key:
    """One key of one shard.

    Attributes:
        name: The key.
        records: Its records.
        starts: Of a sequence, number of each datapoint's first record, and one more; else None.
        decode: From bytes to a value, None for bytes.
    """

    name: str
    records: Records
    starts: memoryview | None
    decode: Callable[[bytes], Any] | None

    def read(self, row: int, mask: Any = True) -> Any:
        """The value of a datapoint, or, of a sequence, the elements that the mask wants."""
        if self.starts is None:
            value = self.records.one(row)
            return value if self.decode is None else self.decode(value)
        first, last = self.starts[row], self.starts[row + 1]
        if mask is not True:
            wanted = checked_range(mask)
            first, last = first + wanted.start, min(first + wanted.stop, last)
        values = self.records.many(first, last)
        return values if self.decode is None else [self.decode(value) for value in values]

    def checked(self, part: Any) -> Any:
        """What a mask says of this key, if it may say that.

        Raises:
            WrongTypeError: It may not.
        """
        if part is True or (self.starts is not None and isinstance(part, slice | range)):
            return part
        allowed = "True, False, a slice or a range" if self.starts is not None else "True or False"
        raise WrongTypeError(f"the mask of key {self.name!r} is {allowed}, not {part!r}")


class Names:
    """The keys that a sample has under `__key__`, which Granular sees as a field like any other."""

    def __init__(self, dataset: bushel.Dataset, start: int) -> None:
        self._dataset, self._start = dataset, start

    held = True

    def one(self, row: int) -> bytes:
        """The key of a datapoint, as it is stored."""
        return self._dataset.keys[self._start + row].encode("utf-8", "surrogateescape")
