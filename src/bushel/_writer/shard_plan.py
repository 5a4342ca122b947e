"""The plan of a shard that is written: its files, fields and names of classes. A journal begins with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import field

from bushel._index.builders import FieldBuilder, IndexBuilder
from bushel._index.class_names import Labels
from bushel._index.contents import Contents
from bushel._index.sidecar import FOLDER
from bushel._runtime.structs import Struct
from bushel.containers.base import Layout, LayoutField, Shard, WritableContainer, WriteOptions
from bushel.spec import parse_spec
from bushel.storage import AnyPath


class ShardPlan(Struct, frozen=True):
    """The parts of a shard."""

    shard: Shard  # the final files
    container: WritableContainer
    layout: Layout  # how samples are stored
    labels: Labels = field(default_factory=dict)  # names of classes, which the index gets
    contents: Contents = field(default_factory=Contents)  # the contents of the index beside extents
    # number of samples of the dataset before those that are being appended; None if it is a new one
    before: int | None = None

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
        columns = [FieldBuilder(column.field, column.codec, column.file) for column in self.layout.columns]
        return IndexBuilder(self.container.name, columns, keyed=self.layout.options.keyed)

    def saved(self, folder: str | None) -> dict[str, Any]:
        """Return the plan as the head of a journal, which msgpack can store.

        `folder` gets its final name as a whole; None if files are renamed one by one.
        """
        shard, options = self.shard, self.layout.options
        return {
            "container": self.container.name,
            "name": shard.name,
            "files": list(shard.files),
            "sidecars": shard.sidecars,
            "folder": folder,
            "columns": [
                (column.field.name, column.field.type, column.codec, column.file) for column in self.layout.columns
            ],
            "options": [options.keyed, options.generation, options.single, options.expected],
            "sparse": self.layout.sparse,
            "limits": list(self.layout.limits),
            "labels": {name: list(names) for name, names in self.labels.items()},
            "before": self.before,
            **self.contents.saved(),
        }

    @classmethod
    def restored(cls, head: Mapping[str, Any], root: AnyPath, container: WritableContainer) -> ShardPlan:
        """Return the plan that a journal begins with. Journals of older versions have fewer members."""
        fields = parse_spec(spec_in(head))
        columns = tuple(LayoutField(fields[name], codec, file) for name, _, codec, file in head["columns"])
        return cls(
            Shard(root, head["name"], tuple(head["files"]), head["sidecars"]),
            container,
            Layout(columns, WriteOptions(*head["options"]), head["sparse"], tuple(head["limits"])),
            labels_in(head),
            Contents.restored(head),
            before_in(head),
        )


def before_in(head: Mapping[str, Any]) -> int | None:
    """Return the number of samples before those that are being appended, from the head of a journal; None if unknown.

    Raises:
        ValueError: It is not a number of samples.
    """
    before = head.get("before")
    if before is not None and (type(before) is not int or before < 0):
        raise ValueError(f"before: expected a number of samples, found {before!r}")
    return before


def spec_in(head: Mapping[str, Any]) -> dict[str, str]:
    """Return field to type, from the head of a journal."""
    return {name: kind for name, kind, _, _ in head["columns"]}


def labels_in(head: Mapping[str, Any]) -> Labels:
    """Return the names of classes, from the head of a journal."""
    return {name: tuple(names) for name, names in head.get("labels", {}).items()}
