"""The tables of a shard that may be damaged: the recorded one, and the one that its files give now."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from bushel._dataset.open.binding import bind, stamps_of
from bushel._dataset.open.caller_fields import CallerFields, has_declared
from bushel._dataset.open.tables import staged_table
from bushel._index.matching import checked
from bushel._index.sidecar import load_index
from bushel._index.table import Keys, Shard, ShardIndex
from bushel.containers import Container
from bushel.containers.base import ReadOptions
from bushel.containers.recover_shard import recover_shard
from bushel.errors import FormatError, SpecError
from bushel.integrity.problems import Findings, Problem
from bushel.spec import Field, Spec


def recorded_table(shard: Shard, found: Findings) -> tuple[ShardIndex | None, bool]:
    """Return the undamaged table of the sidecar, and whether it describes the files as they are now.

    Its files have their times of now if it does. `found` gets the damage of the sidecar.
    """
    try:
        stored = load_index(shard.sidecar, check=True)
        index = checked(stored, str(shard.sidecar))
    except FileNotFoundError:
        return None, False
    except FormatError as error:
        found.add_error(error, "index")
        return None, False
    if stored.keys is not None and not _finds_same(stored.keys, index.keys):
        message = "the table for key lookup is damaged; delete this file and run `bushel index`"
        found.add_file(shard.sidecar, "index", message)
    try:
        files = bind(index.files, stamps_of(shard), shard)
    except FormatError:  # a file is missing
        return index, False
    if files is not None:
        return replace(index, files=files), True
    staged = staged_table(shard)
    if staged is None:
        return index, False
    return staged.index, True


def _finds_same(stored: Keys, built: Keys | None) -> bool:
    """Return whether two tables of the same keys find the same samples."""
    return (
        built is not None
        and np.array_equal(stored.hashes, built.hashes)
        and np.array_equal(stored.order, built.order)
    )


def table_of_files(
    container: Container, shard: Shard, recorded: ShardIndex | None, pickle: bool, found: Findings
) -> tuple[ShardIndex | None, list[FormatError]]:
    """Return the table that `bushel index` would make of the files, and the faults of these.

    It has the recorded names and types if these fit. Types that the files themselves have are
    preferred: a recorded type that differs from them was declared by a user, or is damaged; `found`
    gets a warning.
    """
    built, error = None, None
    # a file that names no fields is read once, with the recorded ones
    lacks_fields = recorded is not None and container.lacks_fields
    if not lacks_fields:
        built, error = _own_table(container, shard, pickle)
    if recorded is not None and (built is None or _types_of(built) != _types_of(recorded)):
        try:
            spec = spec_of(recorded)
            declared = built
            if (
                declared is None
                or declared.fields.keys() != spec.keys()
                or not has_declared(declared, spec)
            ):
                options = ReadOptions(spec=spec, pickle=pickle, recorded=spec)
                declared = container.index(shard, options)
            declared = CallerFields(spec, pickle).table(declared)
        except FormatError as refused:
            if built is None:
                error = refused
        except SpecError:
            if lacks_fields:
                built, error = _own_table(container, shard, pickle)
        else:
            if built is None:
                built = declared
            else:
                built = _declared(shard, recorded, declared, built, found)
    if built is not None:
        return built, container.faults(shard)
    if not isinstance(error, FormatError):
        return None, [FormatError(str(error), file=str(shard.path(0)))]
    faults: list[FormatError] = []
    if container.stores_text:  # every damaged line is named
        recover_shard(container.name, shard, None, faults.append)
    return None, faults or [error]


def _own_table(
    container: Container, shard: Shard, pickle: bool
) -> tuple[ShardIndex | None, FormatError | SpecError | None]:
    """Return the table of a shard with the fields that its files name; or None, and the reason."""
    try:
        return container.index(shard, ReadOptions(pickle=pickle)), None
    except (FormatError, SpecError) as refused:
        return None, refused


def _types_of(index: ShardIndex) -> dict[str, tuple[Field, str]]:
    return {name: (column.field, column.codec) for name, column in index.fields.items()}


def _declared(
    shard: Shard, recorded: ShardIndex, declared: ShardIndex, built: ShardIndex, found: Findings
) -> ShardIndex:
    """Return the table with declared types, and warn of those that differ from what the files say themselves."""
    for name, column in recorded.fields.items():
        other = built.fields.get(name)
        if other is not None and not _can_be(other.field.codec, column.field.codec):
            message = (
                f"the index declares the type {column.field.type}, but the files say"
                f" {other.field.type}"
            )
            found.add(Problem(str(shard.path(0)), None, None, name, "declared", message))
    if declared.labels:
        return declared
    return replace(declared, labels=built.labels)


def spec_of(index: ShardIndex) -> Spec:
    """Return the fields of a table by their names."""
    return {name: column.field for name, column in index.fields.items()}


def _can_be(stored: str, declared: str) -> bool:
    """Return whether the type that files tell may be another one: bytes tell nothing, and floats may be integers."""
    return stored in ("bytes", declared) or (stored == "float" and declared in ("int", "uint"))
