"""Bytes by (file, offset, length), many at once, wherever the files are.

`open_file` gives a `File`; `read_many` and `gather` read a batch of extents from any mixture of files. Local files
are mapped and read by one call of a compiled kernel; everything with an `open()` method is read through `FileObject`.
"""

from bushel.storage.base import AnyPath, ExtentError, Extents, File, as_path, is_local
from bushel.storage.pool import FilePool
from bushel.storage.reading import announce, gather, open_file, read_many
from bushel.storage.staging import Sink, Staging

__all__ = [
    "AnyPath",
    "ExtentError",
    "Extents",
    "File",
    "FilePool",
    "Sink",
    "Staging",
    "announce",
    "as_path",
    "gather",
    "is_local",
    "open_file",
    "read_many",
]
