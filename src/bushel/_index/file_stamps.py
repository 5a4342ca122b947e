"""The facts that a table records of very many files, as arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import overload

from bushel._runtime.arrays import I64

from .table import FileStamp


class FileStamps(Sequence[FileStamp]):
    """The facts of very many files, without stamps. A `FileStamp` is made when it is asked for.

    Args:
        names: Paths relative to the folder of the shard.
        sizes: int64[files], in bytes.
        times: int64[files], times of modification in nanoseconds.
        forget: Called if a file turns out to have changed, when it is read: it removes what an
            earlier opening kept.

    Raises:
        ValueError: The numbers of names, sizes and times differ.
    """

    __slots__ = ("forget", "names", "sizes", "times")

    def __init__(
        self, names: Sequence[str], sizes: I64, times: I64, forget: Callable[[], None] | None = None
    ) -> None:
        if not len(names) == len(sizes) == len(times):
            raise ValueError(f"{len(names)} names, {len(sizes)} sizes and {len(times)} times")
        self.names, self.sizes, self.times, self.forget = names, sizes, times, forget

    def __len__(self) -> int:
        return len(self.names)

    @overload
    def __getitem__(self, item: int) -> FileStamp: ...
    @overload
    def __getitem__(self, item: slice) -> tuple[FileStamp, ...]: ...

    def __getitem__(self, item: int | slice) -> FileStamp | tuple[FileStamp, ...]:
        if isinstance(item, slice):
            return tuple(self[number] for number in range(*item.indices(len(self))))
        return FileStamp(self.names[item], int(self.sizes[item]), int(self.times[item]))

    def __iter__(self) -> Iterator[FileStamp]:
        return map(FileStamp, self.names, self.sizes.tolist(), self.times.tolist())

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Sequence)
            and len(self) == len(other)
            and all(map(FileStamp.__eq__, self, other))
        )

    __hash__ = None  # type: ignore[assignment]
