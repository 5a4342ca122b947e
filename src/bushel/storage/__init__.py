"""Bytes by (file, offset, length), many at once, wherever the files are.

`open_file` gives a `File`; `read_many` and `gather` read a batch of extents from any mixture of files. Local files
are mapped and read by one call of a compiled kernel, objects of stores (`objects`) by many requests at a time;
everything else with an `open()` method is read through `FileObject`.
"""

from bushel.storage.base import AnyPath, ExtentError, Extents, File, as_path, is_local
from bushel.storage.forward import end_process, is_compressed
from bushel.storage.pool import FilePool
from bushel.storage.reading import gather, open_file, open_known, prefetch, read_many
from bushel.storage.staging import Sink, Staging, leave_workplace, make_workplace, workplace
from bushel.storage.whole import (
    copy_whole,
    place_file,
    read_all,
    read_text,
    read_whole,
    remove,
    walk_names,
    write_whole,
)

__all__ = [
    "AnyPath",
    "ExtentError",
    "Extents",
    "File",
    "FilePool",
    "Sink",
    "Staging",
    "prefetch",
    "as_path",
    "copy_whole",
    "end_process",
    "gather",
    "is_compressed",
    "is_local",
    "leave_workplace",
    "make_workplace",
    "open_file",
    "open_known",
    "place_file",
    "read_all",
    "read_many",
    "read_text",
    "read_whole",
    "remove",
    "walk_names",
    "workplace",
    "write_whole",
]
