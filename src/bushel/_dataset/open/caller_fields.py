"""Options of the caller of `bushel.open` for tables: types and names of fields, and treatment of a missing index.

Every table that is used for reading passes through `CallerFields.table`. Only the caller can name
types that run code.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from bushel._index.names import labels_of_fields
from bushel._index.shard import Shard
from bushel._index.sidecar import Manifest, find_manifest, spec_from_file
from bushel._index.table import FieldExtents, ShardIndex, opener
from bushel._runtime.messages import log_info, warn
from bushel.codecs.registry import asked_for, from_file, get_codec, is_withheld
from bushel.containers import ReadOptions, WriteOptions, get_container, writable_containers
from bushel.errors import FormatError, SpecError, UntrustedWarning
from bushel.spec import Field, Spec, parse_spec, wider

if TYPE_CHECKING:
    from bushel._index.columns import Column, Kind
    from bushel._recognise.types import Stored
    from bushel.codecs.base import Buffer


IndexPolicy = Literal["auto", "memory", "require"]
"""Treatment of a missing or stale index: build it, and store it if building took a scan (`auto`); build it and
keep it in memory only (`memory`); or refuse (`require`)."""

POLICIES = get_args(IndexPolicy)
_LOOKED_AT = 16 << 20
"""Bytes of text of a local field that are looked at when another type is declared."""


class CallerFields(Struct, frozen=True):
    """The types and names of fields that the caller of `bushel.open` gives."""

    # the fields that the caller declares, whose codecs are used as they are
    spec: Spec = field(default_factory=dict)
    # whether codecs that run code are used for the other fields, where files name them
    pickle: bool = False
    # names in the files to the names by which fields are read, where they differ
    names: Mapping[str, str] = field(default_factory=dict)

    def field(self, known: Field) -> Field:
        """Return a field with the type with which it is read."""
        if (named := self.spec.get(known.name)) is not None:
            return named
        codec = self._codec(known.codec)
        if codec == known.codec:
            return known
        return replace(known, codec=codec)

    def _codec(self, stored: str) -> str:
        """Return the codec with which a field is read that is not declared, given the one that files name."""
        if self.pickle:
            return asked_for(stored)
        return from_file(stored)

    def table(self, index: ShardIndex, shard: Shard | None = None) -> ShardIndex:
        """Return a table whose fields have the codecs with which they are read.

        Args:
            index: The table.
            shard: Its shard, whose texts are looked at; None if that was done before.

        Raises:
            SpecError: Values cannot be read as the declared type without a change
                (`_recognise.types.resolve`).
        """
        fields = {
            name: self._extents(index, extents, shard) for name, extents in index.fields.items()
        }
        if any(fields[name] is not extents for name, extents in index.fields.items()):
            changed = [name for name in fields if fields[name].field != index.fields[name].field]
            columns = {
                name: column
                for name, column in index.columns.items()
                if not any(f"{name}.".startswith(f"{parent}.") for parent in changed)
            }
            for name in changed:
                stored = index.fields[name].field
                column = _converted(index.columns.get(name), stored, fields[name].field)
                if column is not None:
                    columns[name] = column
            index = replace(index, fields=fields, columns=columns)
        if self.names:
            return renamed(index, self.names)
        return index

    def _extents(
        self, index: ShardIndex, extents: FieldExtents, shard: Shard | None
    ) -> FieldExtents:
        stored, shown = extents.field, self.field(extents.field)
        if stored.name not in self.spec:
            codec = self._codec(extents.codec)
        elif shown == stored:
            codec = extents.codec
        else:
            from bushel._recognise.types import resolve

            reading = _stored_codec(index.container, shown)
            if extents.lacks_all:
                codec = reading
            else:
                codec = resolve(_stored(index, extents, shard), shown, reading)
        if (codec, shown) == (extents.codec, stored):
            return extents
        return replace(extents, field=shown, codec=codec)


def _stored(index: ShardIndex, extents: FieldExtents, shard: Shard | None) -> Stored:
    """Return the stored form of a field in the files of a table."""
    from bushel._recognise.types import Stored

    column = index.columns.get(extents.field.name)
    numbers = None
    if column is not None and column.values is not None and column.types is None:
        numbers = column.values
        if column.missing is not None:
            numbers = numbers[~column.missing]
    file = next((stamp.name for stamp in index.files), "")
    values = partial(_small_values, index, extents, shard)
    return Stored(extents.field, extents.codec, file, numbers, values, "row {}".format)


def _small_values(
    index: ShardIndex, extents: FieldExtents, shard: Shard | None
) -> Iterator[tuple[int, Buffer]]:
    """Yield the rows and the values of a plain field of a few MiB of text in local files; none of another one."""
    from bushel._recognise.types import TEXT_CODECS

    is_small = extents.codec in TEXT_CODECS and extents.nbytes <= _LOOKED_AT
    if (
        shard is None
        or not isinstance(shard.root, Path)
        or extents.starts is not None
        or not is_small
    ):
        return
    read = opener(index, shard)(extents.file).read
    pairs = zip(extents.offset.tolist(), extents.length.tolist(), strict=True)
    for row, (offset, length) in enumerate(pairs):
        if length >= 0:
            yield row, read(offset, length)


def _converted(column: Column | None, stored: Field, field: Field) -> Column | None:
    """Return a column of numbers with another type, which holds all of them; None if that has no such column."""
    if column is None or column.values is None or column.types is not None or field.sequence:
        return None
    from bushel._index.columns import numbers
    from bushel._recognise.types import converted

    values = converted(column.values, field.codec, stored.codec)
    if values is None:
        return None
    kind: Kind = {"b": "bool", "f": "float", "u": "uint"}.get(values.dtype.kind, "int")  # type: ignore[assignment]
    return numbers(kind, values, column.missing)


def renamed_column(name: str, names: Mapping[str, str], fields: Collection[str]) -> str:
    """Return the new name of a column, which is that of one of the fields, or begins with it and a dot."""
    old = name
    if name not in fields:
        old = next((field for field in fields if name.startswith(f"{field}.")), name)
    return names.get(old, old) + name[len(old) :]


def renamed(index: ShardIndex, names: Mapping[str, str]) -> ShardIndex:
    """Return a table in which fields, and the columns and names of classes of their values, have other names."""
    new = partial(renamed_column, names=names, fields=index.fields)
    fields = [
        replace(extents, field=replace(extents.field, name=new(name)))
        for name, extents in index.fields.items()
    ]
    return replace(
        index,
        fields={extents.field.name: extents for extents in fields},
        labels={new(name): classes for name, classes in index.labels.items()},
        columns={new(name): column for name, column in index.columns.items()},
    )


def _stored_codec(container: str, field: Field) -> str:
    """Return the codec with which a container stores a field; if it cannot store it, the codec of the field."""
    kind = get_container(container)
    if not kind.is_written:
        return field.codec
    try:
        return kind.layout({field.name: field}, WriteOptions(kind.needs_keys)).columns[0].codec
    except SpecError:
        return field.codec


NO_CALLER_FIELDS = CallerFields()
"""The declaration of a caller that names no types."""


def warn_withheld(fields: Iterable[Field], path: str) -> None:
    """Warn the caller of `bushel.open` if files name codecs that run code, which were not asked for."""
    withheld = {
        stored.name: asked_for(stored.codec) for stored in fields if is_withheld(stored.codec)
    }
    if not withheld:
        return
    names = ", ".join(f"{name!r} ({codec})" for name, codec in withheld.items())
    name, codec = next(iter(withheld.items()))
    warn(
        f"the files of {path} name a codec that runs code, for {names}: the "
        "values are given as stored bytes. If you trust the author of the files, "
        f"open the dataset with pickle=True, or with spec={{{name!r}: {codec!r}}}",
        UntrustedWarning,
    )


def checked_spec(spec: Mapping[str, str] | None) -> Spec | None:
    """Return the fields that a user declares. Raise SpecError if a type is unknown."""
    if spec is None:
        return None
    fields = parse_spec(spec)
    for declared in fields.values():
        get_codec(declared.codec)
    return fields


_NUMBERS, _ARRAY = frozenset(("int", "uint", "float")), "array"


def has_declared(index: ShardIndex, spec: Spec | None) -> bool:
    """Return whether a table has the declared fields, so that they need other codecs at most.

    A container that stores values as text makes another table for another type, and so does any for
    the types `jpg(path)` and `jpg(url)`.
    """
    return all(
        (extents := index.fields.get(field.name)) is not None
        and extents.field.sequence == field.sequence
        and (
            extents.field == field
            or not (
                get_container(index.container).stores_text
                or field.names_file
                or extents.field.names_file
            )
        )
        for field in (spec or {}).values()
    )


def read_structure(
    container: str,
    shard: Shard,
    options: ReadOptions,
    known: ShardIndex | None,
    *,
    changed: bool = False,
) -> ShardIndex:
    """Read the structure of a shard, with the declared fields, and the names and types of a known table.

    Args:
        container: Name of the container.
        shard: The shard.
        options: The fields that the caller declares.
        known: The known table; None without one.
        changed: Whether the shard has changed since that was made.

    Raises:
        FormatError: The shard is damaged.
        SpecError: The declared fields do not fit it.
    """
    if known is not None:
        declared = options.spec or {}
        types = {
            name: extents.field for name, extents in known.fields.items() if name not in declared
        }
        if (index := _by_itself(container, shard, options, changed=changed)) is not None:
            types = {
                name: field for name, field in types.items() if not _outdated(field, known, index)
            }
            if all(index.fields[name].field == field for name, field in types.items()):
                return index
        try:
            index = get_container(container).index(
                shard, replace(options, spec={**declared, **types}, recorded=types)
            )
        except (FormatError, SpecError) as error:
            log_info(
                "%s: %s; the names and types of the known index are not used", shard.sidecar, error
            )
        else:
            if declared:  # a field whose values have a declared name now is gone
                names = [
                    name
                    for name, extents in index.fields.items()
                    if name not in types
                    or has_values(extents)
                    or not has_values(known.fields[name])
                ]
                return index.select(names)
            if index.fields.keys() >= types.keys():
                return index
    return get_container(container).index(shard, options)


def listed_table(container: str, shard: Shard) -> ShardIndex | None:
    """Return a table of no samples with the fields and classes in the manifest of local files; None without one."""
    from .completeness import manifest_path

    path = manifest_path([shard])
    if not isinstance(path, Path):
        return None
    with suppress(OSError, SpecError):
        manifest = _manifest(path, path.stat().st_mtime_ns)
        if manifest is not None and manifest.container == container:
            nothing = np.zeros(0, np.int64)
            spec = spec_from_file(manifest.spec)
            fields = {
                name: FieldExtents(field, field.codec, 0, nothing, nothing)
                for name, field in spec.items()
            }
            return ShardIndex(0, (), fields, container, labels=manifest.labels)
    return None


@lru_cache(maxsize=4)
def _manifest(path: Path, mtime_ns: int) -> Manifest | None:
    """Return a manifest, which is read once for all of its shards."""
    return find_manifest(path)


def _by_itself(
    container: str, shard: Shard, options: ReadOptions, *, changed: bool
) -> ShardIndex | None:
    """Return the table that a shard has without a known one, if its types may be others than those; else None.

    They follow from the values of files of text, and from files that have changed and that Bushel
    does not write.
    """
    reader = get_container(container)
    if not reader.stores_text and (not changed or reader in writable_containers()):
        return None
    try:
        return reader.index(shard, options)
    except (FormatError, SpecError):  # the known names may be the only ones that can be read
        return None


def _outdated(stored: Field, known: ShardIndex, index: ShardIndex) -> bool:
    """Return whether a known type was not declared by a caller, and does not hold the values of today."""
    if stored.name not in index.fields or not has_values(known.fields[stored.name]):
        return True
    now = index.fields[stored.name].field
    if get_container(index.container).stores_text:
        # a type that was declared for other values has no column; lines have no bool of their own
        is_natural = stored.name in known.columns and stored.codec != "bool"
        return is_natural and wider(stored, now) != stored
    bases = [field.base_codec for field in (stored, now)]
    numeric = all(base in _NUMBERS or base.endswith(_ARRAY) for base in bases)
    return (
        numeric and stored.codec != now.codec and (bases[1] not in _NUMBERS or bases[0] in _NUMBERS)
    )


def has_values(extents: FieldExtents) -> bool:
    """Return whether any sample has the field."""
    if not extents.lacks_all:
        return True
    # sequences that are all empty
    return extents.absent is not None and not bool(extents.absent.all())


def check_declared(spec: Spec, tables: Sequence[ShardIndex], path: str) -> None:
    """Check that the dataset has the fields that the caller of `bushel.open` declares.

    Raises:
        SpecError: No file has one of them; or no sample, where files do not list their fields.
    """
    if not any(index.samples for index in tables):
        return
    written = writable_containers()  # whose tables also have the fields that are declared
    for name in spec:
        with_field = [index for index in tables if name in index.fields]
        lists = (get_container(index.container) not in written for index in with_field)
        if any(lists) or any(has_values(index.fields[name]) for index in with_field):
            continue
        from bushel._runtime.public import did_you_mean

        names = {
            name: None
            for index in tables
            for name, extents in index.fields.items()
            if has_values(extents)
        }
        meant = did_you_mean(name, list(names))
        raise SpecError(
            (
                f"spec= names the field {name!r}, which no sample "
                f"of {path} has; its fields are {', '.join(names)}"
            )
            + (f": {meant}" if meant else "")
        )


def with_recorded_names(index: ShardIndex, stored: ShardIndex) -> ShardIndex:
    """Return a new table with the keys and the names of classes of an earlier one that the files do not tell."""
    if index.keys is None and stored.keys is not None:
        recorded = stored.keys.tolist()
        # a file whose keys are 0, 1, 2, … does not tell whether these are keys or positions
        if recorded == list(map(str, range(index.samples))):
            index = replace(index, keys=stored.keys)
    if index.labels or not stored.labels:
        return index
    return replace(index, labels=labels_of_fields(stored.labels, index.fields))
