"""The containers: five that are read and written, and any number that are read.

`get_container` finds one by name, `candidates` those that may own files, `container_for` the one that the name of an
output implies, and `register_container` adds one. A container is imported when it is first needed.
"""

from typing import TYPE_CHECKING

from bushel._index.table import FieldExtents, FileStamp, Keys, ShardIndex
from bushel._runtime.public import lazy_names
from bushel.containers.abilities import (
    ChangesTypes,
    ChecksStored,
    HasFileNames,
    HasFirstBytes,
    HasGenerations,
    HasOwnIndex,
    IndexesPart,
    KeepsFolders,
    KeepsNames,
    KeepsReferences,
    MendsKeys,
    PromisesChecksums,
    Recovers,
    ReportsFaults,
    StoresText,
)
from bushel.containers.base import (
    Container,
    Layout,
    LayoutField,
    ReadOptions,
    Shard,
    ShardWriter,
    Stored,
    WritableContainer,
    WriteOptions,
    WritesColumns,
)
from bushel.containers.registry import (
    candidates,
    container_by_suffix,
    container_for,
    container_names,
    containers_with_first_bytes,
    get_container,
    get_writable,
    installed_candidates,
    is_data_file,
    is_data_if_named,
    is_forward_only,
    last_candidates,
    needs_index,
    nested_candidates,
    owners_of,
    register_container,
    registered_here,
    with_episodes,
    writable_containers,
)

if TYPE_CHECKING:
    from bushel._index.builders import FieldBuilder, IndexBuilder
    from bushel.containers.plain_table import PlainField, table_of

__all__ = [
    "ChangesTypes",
    "ChecksStored",
    "FieldExtents",
    "FieldBuilder",
    "Container",
    "FileStamp",
    "HasFileNames",
    "HasFirstBytes",
    "HasGenerations",
    "HasOwnIndex",
    "IndexesPart",
    "IndexBuilder",
    "KeepsFolders",
    "KeepsNames",
    "KeepsReferences",
    "Keys",
    "Layout",
    "LayoutField",
    "PlainField",
    "MendsKeys",
    "PromisesChecksums",
    "ReadOptions",
    "Recovers",
    "ReportsFaults",
    "Shard",
    "ShardIndex",
    "ShardWriter",
    "Stored",
    "StoresText",
    "WritableContainer",
    "WriteOptions",
    "WritesColumns",
    "candidates",
    "container_by_suffix",
    "container_for",
    "container_names",
    "containers_with_first_bytes",
    "get_container",
    "get_writable",
    "installed_candidates",
    "is_data_file",
    "is_data_if_named",
    "is_forward_only",
    "last_candidates",
    "nested_candidates",
    "needs_index",
    "owners_of",
    "with_episodes",
    "register_container",
    "registered_here",
    "table_of",
    "writable_containers",
]

__getattr__ = lazy_names(
    __name__,
    {
        "FieldBuilder": "_index.builders",
        "IndexBuilder": "_index.builders",
        "PlainField": "containers.plain_table",
        "table_of": "containers.plain_table",
    },
)
