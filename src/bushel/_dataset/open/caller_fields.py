"""Options of the caller of `bushel.open` for tables: types and names of fields, and treatment of a missing index.

Every table that is used for reading passes through `CallerFields.table`. Only the caller can name
types that run code.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

from msgspec import field
from msgspec.structs import replace

from bushel._index.table import FieldExtents, ShardIndex
from bushel._runtime.structs import Struct
from bushel.codecs.registry import from_file, get_codec, is_withheld
from bushel.containers import get_container
from bushel.containers.base import WriteOptions
from bushel.errors import SpecError, UntrustedWarning
from bushel.spec import Field, Spec, parse_spec

if TYPE_CHECKING:
    from bushel._index.columns import Column, Kind
    from bushel._recognise.types import Stored

IndexPolicy = Literal["auto", "memory", "require"]
"""Treatment of a missing or stale index: build it, and store it if building took a scan (`auto`); build it and
keep it in memory only (`memory`); or refuse (`require`)."""

POLICIES = get_args(IndexPolicy)


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
        from bushel._index.file_spec import asked_for, without_code

        if self.pickle:
            return replace(known, codec=asked_for(known.codec))
        return without_code(known)

    def table(self, index: ShardIndex) -> ShardIndex:
        """Return a table whose fields have the codecs with which they are read.

        Raises:
            SpecError: Values cannot be read as the declared type without a change
                (`_recognise.types.resolve`).
        """
        index = self._typed(index)
        if self.names:
            return renamed(index, self.names)
        return index

    def _typed(self, index: ShardIndex) -> ShardIndex:
        fields = {name: self._extents(index, extents) for name, extents in index.fields.items()}
        if all(fields[name] is extents for name, extents in index.fields.items()):
            return index
        changed = [
            name for name, extents in fields.items() if extents.field != index.fields[name].field
        ]
        columns = {
            name: column
            for name, column in index.columns.items()
            if not any(f"{name}.".startswith(f"{parent}.") for parent in changed)
        }
        for name in changed:
            if (column := _converted(index.columns.get(name), fields[name].field)) is not None:
                columns[name] = column
        return replace(index, fields=fields, columns=columns)

    def _extents(self, index: ShardIndex, extents: FieldExtents) -> FieldExtents:
        stored, shown = extents.field, self.field(extents.field)
        if stored.name not in self.spec:
            codec = from_file(extents.codec)
            if self.pickle:
                from bushel._index.file_spec import asked_for

                codec = asked_for(extents.codec)
        elif shown == stored:
            codec = extents.codec
        else:
            from bushel._recognise.types import resolve

            reading = _stored_codec(index.container, shown)
            if extents.lacks_all:
                codec = reading
            else:
                codec = resolve(_stored(index, extents), shown, reading)
        if (codec, shown) == (extents.codec, stored):
            return extents
        return replace(extents, field=shown, codec=codec)


def _stored(index: ShardIndex, extents: FieldExtents) -> Stored:
    """Return the stored form of a field in the files of a table."""
    from bushel._recognise.types import Stored

    column = index.columns.get(extents.field.name)
    numbers = None
    if column is not None and column.values is not None and column.types is None:
        numbers = column.values
        if column.missing is not None:
            numbers = numbers[~column.missing]
    file = next((stamp.name for stamp in index.files), "")
    if numbers is not None:
        return Stored(extents.field, extents.codec, file, numbers)
    values = partial(_values_in_table, index, extents)
    return Stored(extents.field, extents.codec, file, None, values, "row {}".format)


def _values_in_table(index: ShardIndex, extents: FieldExtents) -> Iterator[tuple[int, memoryview]]:
    """Yield the rows and the values of a plain field that the table itself holds; none of another field."""
    number = extents.file - len(index.files)
    held = index.blocks[number].held if number >= 0 else None
    if held is None or extents.starts is not None:
        return
    pairs = zip(extents.offset.tolist(), extents.length.tolist(), strict=True)
    for row, (offset, length) in enumerate(pairs):
        if length >= 0:
            yield row, held[offset : offset + length].data


def _converted(column: Column | None, field: Field) -> Column | None:
    """Return a column of numbers with another type, which holds all of them; None if that has no such column."""
    if column is None or column.values is None or column.types is not None or field.sequence:
        return None
    from bushel._index.columns import numbers
    from bushel._recognise.types import converted

    values = converted(column.values, field.codec)
    if values is None:
        return None
    kind: Kind = {"b": "bool", "f": "float", "u": "uint"}.get(values.dtype.kind, "int")  # type: ignore[assignment]
    return numbers(kind, values, column.missing)


def renamed(index: ShardIndex, names: Mapping[str, str]) -> ShardIndex:
    """Return a table in which fields, and the columns and names of classes of their values, have other names."""

    def new(name: str) -> str:
        """Return the new name of a column, which is a field's or begins with it and a dot."""
        if name in index.fields:
            old = name
        else:
            old = next((parent for parent in index.fields if name.startswith(f"{parent}.")), name)
        return names.get(old, old) + name[len(old) :]

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
    from bushel._index.file_spec import asked_for

    withheld = {
        stored.name: asked_for(stored.codec) for stored in fields if is_withheld(stored.codec)
    }
    if not withheld:
        return
    names = ", ".join(f"{name!r} ({codec})" for name, codec in withheld.items())
    name, codec = next(iter(withheld.items()))
    warnings.warn(
        f"the files of {path} name a codec that runs code, for {names}: the values are given as"
        " stored bytes. If you "
        "trust the author of the files, open the dataset with pickle=True, or with"
        f" spec={{{name!r}: {codec!r}}}",
        UntrustedWarning,
        stacklevel=4,
    )


def checked_spec(spec: Mapping[str, str] | None) -> Spec | None:
    """Return the fields that a user declares. Raise SpecError if a type is unknown."""
    if spec is None:
        return None
    fields = parse_spec(spec)
    for declared in fields.values():
        get_codec(declared.codec)
    return fields
