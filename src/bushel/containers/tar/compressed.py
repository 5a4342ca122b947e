"""Compressed archives: the tar in a gzip or zstd file is a block file, whose members are read as in any archive.

Finding the blocks takes a pass over the file, so it is done by `bushel index`, and kept in the
index of the shard.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bushel.storage import Blocks, File

COMPRESSED = (".tar.gz", ".tgz", ".tar.zst")
"""Ends of the names of archives that are read at random when they have an index."""


def is_compressed_archive(name: str) -> bool:
    """Return whether a compressed archive of this name can have an index."""
    return name.lower().endswith(COMPRESSED)


def only_compressed(names: Iterable[str]) -> list[str]:
    """Return the compressed archives of a folder, sorted; none if the folder has other files, too."""
    visible = sorted(name for name in names if not name.startswith("."))
    if visible and all(map(is_compressed_archive, visible)):
        return visible
    return []


def archive_in(file: File, name: str) -> tuple[File, tuple[Blocks, ...]]:
    """Return the archive in a file, and its blocks if it is compressed.

    Raises:
        FormatError: The compressed data are damaged.
        UnsupportedError: They are compressed in a way that cannot be read at random.
    """
    if not is_compressed_archive(name):
        return file, ()
    from bushel.storage.block_file import BlockFile
    from bushel.storage.restart import compressed_blocks

    blocks = compressed_blocks(file)
    return BlockFile.over(file, blocks), (blocks,)
