"""The plan of a shard that is written: its files, fields and names of classes."""

from __future__ import annotations

from msgspec import field

from bushel._index.builders import FieldBuilder, IndexBuilder
from bushel._index.class_names import Labels
from bushel._index.contents import Contents
from bushel._index.sidecar import FOLDER
from bushel._index.table import Shard
from bushel._runtime.structs import Struct
from bushel.containers.base import Container, Layout


class ShardPlan(Struct, frozen=True):
    """The parts of a shard."""

    shard: Shard  # the final files
    container: Container
    layout: Layout  # how samples are stored
    labels: Labels = field(default_factory=dict)  # names of classes, which the index gets
    contents: Contents = field(default_factory=Contents)  # the contents of the index beside extents

    @property
    def own_folder(self) -> str | None:
        """The folder that contains all of the shard's files and nothing else, or None."""
        sidecars = self.shard.sidecars
        return sidecars.removesuffix(f"/{FOLDER}") if sidecars != FOLDER else None

    @property
    def staging_name(self) -> str:
        """Name of the shard's staging folder."""
        return self.shard.name or "dataset"

    def index_builder(self) -> IndexBuilder:
        """Return a builder of the shard's index, without samples."""
        columns = [
            FieldBuilder(column.field, column.codec, column.file) for column in self.layout.columns
        ]
        return IndexBuilder(self.container.name, columns, keyed=self.layout.options.keyed)
