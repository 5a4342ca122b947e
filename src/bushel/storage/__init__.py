"""Reading of bytes by (file, offset, length), many at once, from local files and object stores.

`open_file` gives a `File`; `read_many` and `gather` read a batch of extents from any mixture of files. Local files
are mapped and read by one call of a compiled kernel, objects of stores (`objects`) by many requests at a time;
everything else with an `open()` method is read through `FileObject`. Modules for writing, streams and object stores are
imported on first use.
"""

from typing import TYPE_CHECKING

from bushel._runtime.public import lazy_names
from bushel.storage.base import AnyPath, ExtentError, Extents, File
from bushel.storage.files import FilePool, as_path, is_local, is_object, open_file, open_known, path_of_stream, prefetch
from bushel.storage.names import below, inside, leads_out, remove_tree

if TYPE_CHECKING:
    from bushel.storage.block_file import BlockFile
    from bushel.storage.blocks import IN_TABLE, Blocks, Side, plan_blocks
    from bushel.storage.forward import end_process, is_compressed
    from bushel.storage.notation import expand_braces, parse_bytes
    from bushel.storage.reading import checksums_of, gather, read_many
    from bushel.storage.seekable import Seekable
    from bushel.storage.sink import Sink
    from bushel.storage.staging import Staging
    from bushel.storage.whole import (
        copy_to_append,
        create_whole,
        list_names,
        make_folder,
        move_object,
        place_file,
        read_all,
        read_text,
        read_whole,
        remove,
        replacing,
        sync_folder,
        sync_whole,
        walk_names,
        write_whole,
    )
    from bushel.storage.workplaces import leave_workplace, make_workplace, workplace

__all__ = [
    "IN_TABLE",
    "AnyPath",
    "BlockFile",
    "Blocks",
    "ExtentError",
    "Extents",
    "File",
    "FilePool",
    "Seekable",
    "Side",
    "Sink",
    "Staging",
    "prefetch",
    "as_path",
    "below",
    "checksums_of",
    "copy_to_append",
    "create_whole",
    "end_process",
    "expand_braces",
    "gather",
    "inside",
    "is_compressed",
    "is_local",
    "is_object",
    "leads_out",
    "leave_workplace",
    "list_names",
    "make_folder",
    "make_workplace",
    "move_object",
    "open_file",
    "open_known",
    "parse_bytes",
    "path_of_stream",
    "place_file",
    "plan_blocks",
    "read_all",
    "read_many",
    "read_text",
    "read_whole",
    "remove",
    "remove_tree",
    "replacing",
    "sync_folder",
    "sync_whole",
    "walk_names",
    "workplace",
    "write_whole",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BlockFile": "storage.block_file",
        "Blocks": "storage.blocks",
        "IN_TABLE": "storage.blocks",
        "Seekable": "storage.seekable",
        "Side": "storage.blocks",
        "Sink": "storage.sink",
        "Staging": "storage.staging",
        "checksums_of": "storage.reading",
        "copy_to_append": "storage.whole",
        "create_whole": "storage.whole",
        "end_process": "storage.forward",
        "expand_braces": "storage.notation",
        "gather": "storage.reading",
        "is_compressed": "storage.forward",
        "leave_workplace": "storage.workplaces",
        "list_names": "storage.whole",
        "make_folder": "storage.whole",
        "make_workplace": "storage.workplaces",
        "move_object": "storage.whole",
        "parse_bytes": "storage.notation",
        "place_file": "storage.whole",
        "plan_blocks": "storage.blocks",
        "read_all": "storage.whole",
        "read_many": "storage.reading",
        "read_text": "storage.whole",
        "read_whole": "storage.whole",
        "remove": "storage.whole",
        "replacing": "storage.whole",
        "sync_folder": "storage.whole",
        "sync_whole": "storage.whole",
        "walk_names": "storage.whole",
        "workplace": "storage.workplaces",
        "write_whole": "storage.whole",
    },
)
