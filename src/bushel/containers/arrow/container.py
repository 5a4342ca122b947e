"""Files and streams of Arrow IPC, and what `save_to_disk` of Hugging Face writes, read in place.

A row is a sample, and a column a field. Buffers that are not compressed hold values as they are, so
binaries, texts and lists of numbers are extents of the file. See docs/format-arrow.md for the
types.
"""

from __future__ import annotations

import json
from collections.abc import Collection

from bushel._index.shard import Shard, stamps
from bushel._index.table import ShardIndex
from bushel.containers.base import Container, ReadOptions
from bushel.containers.features import features_in
from bushel.containers.references import with_keys, with_references
from bushel.errors import FormatError
from bushel.filters import FilterError
from bushel.storage import AnyPath, open_file, read_whole

from .messages import batches_of, read_schema
from .table import Table

_STATE = "state.json"
_LARGEST_STATE = 16 << 20


class _Arrow(Container):
    name = "arrow"

    def shards(self, path: AnyPath) -> list[Shard] | None:
        """Return the shard of one file, or the shards of a folder of `save_to_disk` or of such files, sorted by name.

        Raises:
            FormatError: `state.json` of the folder is damaged.
        """
        if not path.is_dir():
            if path.name.lower().endswith(self.suffixes):
                return [Shard.of(path)]
            return None
        names = {entry.name for entry in path.iterdir() if not entry.name.startswith(".")}
        tables = sorted(name for name in names if name.lower().endswith(self.suffixes))
        if not tables:
            return None
        listed = _listed(path, names) if _STATE in names else tables
        return [Shard(path, name, (name,)) for name in listed]

    def begins_with(self, head: bytes, size: int) -> bool:
        """Return whether these are the first bytes of a file of Arrow. Streams are recognised by their suffix only."""
        return head.startswith(b"ARROW1\0\0")

    def index(self, shard: Shard, options: ReadOptions) -> ShardIndex:
        """Return the table of one file. Offsets and numbers are read, and the values of other buffers are not.

        Raises:
            FormatError: It is damaged.
        """
        file = open_file(shard.path(0))
        schema = read_schema(file)
        names = [column.name for column in schema.columns]
        if len(set(names)) < len(names):
            twice = next(name for name in names if names.count(name) > 1)
            raise FormatError(
                f"two columns are called {twice!r}", file.path, hint="rename one of them"
            )
        features = features_in(schema.metadata.get("huggingface"), file.path)
        table_of_file = Table(file, schema, features, options.spec)
        for batch in batches_of(file, schema):
            try:
                table_of_file.add(batch)
            except (FilterError, ValueError) as error:
                raise FormatError(
                    str(error),
                    file.path,
                    batch.offset,
                    "write or download the file again",
                ) from error
            options.report(sum(length for _, length in batch.buffers))
        try:
            table_of_file.finish()
        except (ValueError, RecursionError) as error:
            raise FormatError(str(error), file.path, hint="write the file again") from error
        table = ShardIndex(
            table_of_file.rows,
            stamps(shard, [file]),
            table_of_file.fields,
            self.name,
            labels=table_of_file.labels,
            columns=table_of_file.columns,
            blocks=table_of_file.blocks(),
        )
        return with_references(with_keys(table.check(file.path), shard), shard, options.spec)


CONTAINER = _Arrow()


def _listed(path: AnyPath, there: Collection[str]) -> list[str]:
    """Return the files that `state.json` lists, in order.

    Raises:
        FormatError: It is damaged, lists a file that is not there, or another file selects its
            rows.
    """
    place = path / _STATE
    try:
        state = json.loads(bytes(read_whole(place))[:_LARGEST_STATE])
        names = [str(entry["filename"]) for entry in state["_data_files"]]
        selected = state.get("_indices_data_files")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"not the state of a dataset: {error!r}", place) from error
    if selected:
        raise FormatError(
            "its rows are those that another file selects",
            place,
            hint="call flatten_indices() of the dataset, and save_to_disk() again",
        )
    for name in names:
        if name not in there:
            raise FormatError(
                f"it lists {name[:200]!r}, which is not in the folder",
                place,
                hint="put the file back, or save the dataset again",
            )
    return names
