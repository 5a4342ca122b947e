"""The tables of a shard that may be damaged: the recorded one, and the one that its files give now."""

from __future__ import annotations

from msgspec.structs import replace

from bushel._dataset.open.binding import bind, stamps_of
from bushel._dataset.open.caller_fields import CallerFields, has_declared
from bushel._dataset.open.completeness import recover_shard
from bushel._dataset.open.tables import staged_table
from bushel._index.matching import with_sound_keys
from bushel._index.sidecar import load_index
from bushel._index.table import Shard, ShardIndex
from bushel.containers import Container
from bushel.containers.base import ReadOptions
from bushel.errors import FormatError, SpecError
from bushel.spec import Field, Spec

from .compare import same_arrays
from .problems import Findings


def recorded_table(shard: Shard, found: Findings) -> tuple[ShardIndex | None, bool]:
    """Return the table of the sidecar, and whether it describes the files as they are now.

    Its files have their times of now if it does. Its keys are to be checked (`with_checked_keys`).
    `found` gets the damage of the sidecar.
    """
    try:
        index = load_index(shard.sidecar, check=True).check(str(shard.sidecar))
    except FileNotFoundError:
        return None, False
    except FormatError as error:
        found.add_error(error, "index")
        return None, False
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


def with_checked_keys(
    recorded: ShardIndex | None, built: ShardIndex | None, shard: Shard, found: Findings
) -> ShardIndex | None:
    """Return a recorded table with a sound table of keys; None if its keys are damaged.

    The table `built` of the files gives its own if the keys are the same. `found` gets the damage.
    """
    if recorded is None or recorded.keys is None:
        return recorded
    try:
        keys_of_files = None if built is None else built.keys
        index = with_sound_keys(recorded, str(shard.sidecar), keys_of_files)
    except FormatError as error:
        found.add_error(error, "index")
        return None
    if not same_arrays(recorded.keys, index.keys, ("hashes", "order")):
        message = "the table for key lookup is damaged; delete this file and run `bushel index`"
        found.add_file(shard.sidecar, "index", message)
    return index


def table_of_files(
    container: Container, shard: Shard, recorded: ShardIndex | None, pickle: bool
) -> tuple[ShardIndex | None, list[FormatError]]:
    """Return the table that `bushel index` would make of the files, and the faults of these.

    It has the recorded names and types if these fit, which a user may have declared.
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
            names = declared.labels or (built or declared).labels
            built = replace(declared, labels=names)
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


def spec_of(index: ShardIndex) -> Spec:
    """Return the fields of a table by their names."""
    return {name: column.field for name, column in index.fields.items()}
