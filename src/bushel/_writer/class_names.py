"""The names of classes of a dataset that is being written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bushel._dataset.read.shard_fields import labels_of
from bushel._dataset.read.shards import OpenShard, union_of_fields
from bushel._index.class_names import Labels, can_be_named, check_labels, join_labels
from bushel._writer.target import Target
from bushel.containers.base import Container
from bushel.errors import SpecError, StateError
from bushel.spec import Spec, format_spec
from bushel.storage import AnyPath, write_whole


def known_labels(target: AnyPath, container: Container) -> Labels:
    """Return the names of classes of the dataset at a target, finished or not; empty if it has no classes.

    Raises:
        FileExistsError: The target holds a dataset of another container.
        SpecError: Its shards give different names to the same number.
    """
    shards = Target.of(target, container).existing_shards()
    return join_labels(
        [(str(shard.path(0)), shard.labels) for shard in shards], union_of_fields(shards)
    )


def names_to_write(
    given: Mapping[str, Sequence[str]] | None,
    fields: Spec,
    target: AnyPath,
    shards: Sequence[OpenShard],
) -> Labels:
    """Return the names for new shards: those in the dataset, followed by the given ones that are new.

    Raises:
        SpecError: The given names are invalid, or a field cannot have names.
        StateError: The given names number the classes in another way than the dataset.
    """
    checked = check_labels(given or {})
    for name in checked:
        if not can_be_named(fields, name):
            if name not in fields:
                kind = "is not in the spec"
            else:
                kind = f"is {fields[name].type}"
            raise SpecError(
                f"labels= names the classes of field {name!r}, which {kind}: it must be a number,"
                " an array, or utf8; "
                f"the fields are {format_spec(fields)}"
            )
    try:
        return join_labels(
            [(str(target), labels_of(shards, fields)), ("the new samples", checked)], fields
        )
    except SpecError as error:
        raise StateError(
            f"cannot add these samples to {target}: {str(error).partition('. ')[0]}. Number the"
            " classes as the dataset "
            "does, or use bushel.convert(..., mode='append'), which maps the numbers"
        ) from error


def write_file_of_names(target: Target, labels: Labels) -> None:
    """Write the file of class names that the container's original tool keeps in a folder, if it keeps one."""
    container = target.container
    if container.names_file is not None and not target.single:
        file = container.file_of_names(labels)
        if file is not None:
            write_whole(target.path / container.names_file, file)
