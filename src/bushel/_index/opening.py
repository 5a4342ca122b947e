"""Opening the block files of a shard."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from bushel._index.table import Shard, ShardIndex
from bushel.storage import AnyPath, File, open_file
from bushel.storage.block_file import BlockFile

__all__ = ["block_file", "block_files", "opener"]


def block_file(
    index: ShardIndex,
    number: int,
    file_of: Callable[[int], File],
    path: str,
    many: Shard | None = None,
) -> BlockFile:
    """Open a block file of a shard.

    Args:
        index: The table of the shard.
        number: Its number, which is at least the number of files.
        file_of: Returns an open file of the shard, given its number.
        path: Its name in messages: the path of the file that holds its first bytes.
        many: The shard, if it has very many files (small ones are closed between reads); otherwise None.
    """
    blocks = index.blocks[number - len(index.files)]
    home = index.place(number, 0).file
    closed = None
    if many is not None:
        from bushel._index.closed_files import ClosedFiles

        closed = ClosedFiles(many, index.files, file_of)
    return BlockFile(path, blocks, file_of, 0 if home is None else index.files[home].mtime_ns, closed)


def opener(index: ShardIndex, path_of: Callable[[int], AnyPath]) -> Callable[[int], File]:
    """Return a function that opens a file or block file of a shard, given its number.

    Args:
        index: The table of the shard.
        path_of: Returns the path of a file of the shard, given its number.
    """
    real = cache(lambda number: open_file(path_of(number)))

    def opened(number: int) -> File:
        if index.blocks_of(number) is None:
            return real(number)
        home = index.place(number, 0).file
        return block_file(index, number, real, str(path_of(0 if home is None else home)))

    return opened


def block_files(index: ShardIndex, file_of: Callable[[int], File]) -> list[BlockFile]:
    """Open all block files of a shard."""
    first = len(index.files)
    homes = [index.place(first + number, 0).file or 0 for number in range(len(index.blocks))]
    return [block_file(index, first + number, file_of, file_of(home).path) for number, home in enumerate(homes)]
