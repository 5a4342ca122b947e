"""Plan how each field is converted: copied fields, and new numbers of classes.

Nothing here does I/O.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from bushel._index.names import Labels, can_be_named, join_names, numbered, numbers_classes
from bushel._kinds import BEGINNINGS, IMAGES, kind_of
from bushel._runtime.arrays import I64
from bushel.codecs import Buffer, get_codec, holds_image
from bushel.codecs.registry import NUMBERS, asked_for, content_codec
from bushel.containers.base import Container, Layout
from bushel.containers.stored_column import StoredColumn
from bushel.errors import SpecError
from bushel.spec import Field, Spec, parse_spec

_ALIASES = {"jpeg": "jpg", "tiff": "tif"}


def base_codec(codec: str) -> str:
    """Return the name of a codec without parameters, the same for all of its spellings."""
    base = codec.partition("(")[0]
    return _ALIASES.get(base, base)


def image_kind(data: Buffer) -> str | None:
    """Return the kind of an image file, a name in `IMAGES`; None if the bytes are not an image."""
    kind = kind_of(data)
    return kind if kind in IMAGES else None


_SCALARS = frozenset({"utf8", *NUMBERS})
_BOOLS = bool, np.bool_
_COUNTS = int, np.int64, np.int32
_UNLIKE = {"int": _BOOLS, "float": _BOOLS, "datetime64": _COUNTS, "timedelta64": _COUNTS}


class FieldPlan(Struct, frozen=True):
    """The conversion of one field."""

    source: Field
    target: Field
    codec: str  # codec of the bytes that the target stores
    copied: bool  # whether the stored bytes are the same in both
    # codec of the source's bytes if the user names it and the source does not, else None
    known_as: str | None = None
    classes: Mapping[str, int] = {}  # numbers of the classes that values may name
    # whether images of another kind than the field's stay as they are
    any_image: bool = False
    # classes of values that the codec takes, but that are of another kind than the first one
    unlike: tuple[type, ...] = ()

    @property
    def given(self) -> str:
        """The codec of stored bytes that arrive."""
        if self.copied:
            return self.codec
        return self.known_as or self.source.codec

    @property
    def holds_jpegs(self) -> bool:
        """Whether stored bytes may be JPEGs."""
        return base_codec(self.codec) in ("jpg", "image")

    def looked_into(self, files: StoredColumn) -> I64:
        """Return the rows of the files that are not images of the kind of the field: int64[rows]."""
        kind = base_codec(self.codec)
        strange = np.ones(len(files), np.bool_)
        for magic in BEGINNINGS.get(kind, ()):
            strange[files.starting_with(magic)] = False
        for row in np.flatnonzero(strange).tolist():
            kind_of_file = image_kind(files.data[files.offsets[row] : files.offsets[row + 1]].data)
            strange[row] = kind_of_file is None or kind not in ("image", kind_of_file)
        return np.flatnonzero(strange)

    @property
    def is_quick(self) -> bool:
        """Whether encoding a value takes less time than passing it to another thread."""
        if self.source.sequence or (
            self.given != self.codec and "bytes" in (self.given, self.codec)
        ):
            return False
        return self.codec in _SCALARS or get_codec(self.codec).encode_column is not None


def target_fields(
    source: Spec,
    container: Container,
    *,
    fields: Iterable[str] | None,
    rename: Mapping[str, str],
    spec: Mapping[str, str],
) -> dict[str, Field]:
    """Return the fields of the target, by their names in the source.

    Args:
        source: The source's fields.
        container: The target's container.
        fields: Names of the fields to keep; None for all.
        rename: Old to new names.
        spec: New types, by names in the source.

    Raises:
        KeyError: The source has no such field.
        SpecError: Two fields get the same name, or a type is malformed.
    """
    chosen = list(source) if fields is None else list(dict.fromkeys(fields))
    for name in (*chosen, *rename, *spec):
        if name not in source:
            meant = [old for old, new in rename.items() if new == name]
            hint = "".join(f"name it {old!r} here, as the source does; " for old in meant)
            raise KeyError(
                f"unknown field {name!r}: {hint}the fields are {', '.join(source) or 'none'}"
            )
    types = {}
    taken: dict[str, str] = {}
    for name in chosen:
        field = source[name]
        codec = container.type_of(content_codec(field.codec))
        types[name] = spec.get(name, Field(name, codec, field.sequence).type)
        new = rename.get(name, name)
        if taken.setdefault(new, name) != name:
            raise SpecError(
                f"fields {taken[new]!r} and {name!r} would "
                f"both be called {new!r}: rename one of them"
            )
    parsed = parse_spec({rename.get(name, name): kind for name, kind in types.items()})
    return {name: parsed[rename.get(name, name)] for name in chosen}


def plan_values(
    source: Spec, targets: Mapping[str, Field], layout: Layout, declared: Collection[str]
) -> dict[str, FieldPlan]:
    """Plan the fields of a source whose samples are made in Python, by their names.

    Bytes are stored as they are if the container stores such bytes, or images of their kind; or of
    any kind, if the type of the field is not `declared` but inferred, as from the names of files.
    """
    stored = {column.field.name: column.codec for column in layout.columns}
    plans = {}
    for name, field in source.items():
        codec = stored[name]
        kinds = {base_codec(field.codec), base_codec(codec)}
        is_image = holds_image(codec) and holds_image(field.codec)
        copied = field.codec == codec or (is_image and (len(kinds) == 1 or codec == "image"))
        inferred = name not in declared
        any_image = inferred and not layout.only_named_kinds
        unlike = _UNLIKE.get(field.base_codec, ()) if inferred else ()
        plans[name] = FieldPlan(
            field, targets[name], codec, copied, any_image=any_image, unlike=unlike
        )
    return plans


def plan_fields(
    source: Spec, codecs: Mapping[str, frozenset[str]], targets: Mapping[str, Field], layout: Layout
) -> dict[str, FieldPlan]:
    """Plan the conversion of each field, by its name in the source.

    Args:
        source: The source's fields.
        codecs: Field to the codecs of its stored bytes; a field may have different codecs in
            different shards.
        targets: The result of `target_fields`.
        layout: How the target stores its fields.
    """
    stored = {column.field.name: column.codec for column in layout.columns}
    any_image = not layout.only_named_kinds
    plans = {}
    for name, target in targets.items():
        codecs_of_field = codecs[name]
        known_as = None
        # the bytes of a codec that the user names now
        if {asked_for(codec) for codec in codecs_of_field} == {target.codec}:
            codecs_of_field = frozenset({target.codec})
        if codecs_of_field == {"bytes"} and target.codec != "bytes":
            known_as, codecs_of_field = target.codec, frozenset({target.codec})
        codec = stored[target.name]
        # of bytes, some shards may have a more exact type, such as jpg; and images may be called
        # bytes in a shard whose first one is damaged
        untyped = "bytes" in codecs_of_field and (
            codec == "bytes" or (codec == "image" and codecs_of_field == {"image", "bytes"})
        )
        copied = codecs_of_field == {codec} or untyped
        if target.codec.startswith("array(") and target.codec != source[name].codec:
            copied = codecs_of_field == {target.codec}  # not an array of another type in a tar
        plans[name] = FieldPlan(source[name], target, codec, copied, known_as, any_image=any_image)
    return plans


NewNumbers = I64
"""int64[classes], the new number of each class; -1 for a number that no class has."""

_UNUSED = -1


class ClassNumbers(Struct, frozen=True):
    """The names of classes of a new dataset, and how the numbers of the source change."""

    labels: Labels  # field of the source to the names
    # for each shard of the source, field to new numbers, for fields whose numbers change
    changes: tuple[Mapping[str, NewNumbers], ...]
    # fields for which some shards have names and others do not; the numbers in the others are kept
    unnamed: tuple[str, ...]


def plan_numbers(known: Labels, shards: Sequence[Labels], fields: Spec) -> ClassNumbers:
    """Plan the numbers of a new dataset. Known classes keep their numbers, and new ones follow.

    Shards whose numbers agree with the earlier shards keep theirs; in the others, classes are found
    by their names. The result is the same if the names of the result are known already, as when a
    run is resumed.
    """
    labels: dict[str, tuple[str, ...]] = {
        name: tuple(names) for name, names in known.items() if names
    }
    changes = [_add(labels, shard, fields) for shard in shards]
    unnamed = tuple(
        name
        for name in labels
        if numbers_classes(fields, name) and not all(shard.get(name) for shard in shards)
    )
    return ClassNumbers(labels, tuple(changes), unnamed)


def _add(labels: dict[str, tuple[str, ...]], shard: Labels, fields: Spec) -> dict[str, NewNumbers]:
    """Add the names of a shard to `labels`, and return the new numbers of those fields whose numbers change."""
    changes: dict[str, NewNumbers] = {}
    for name, names in shard.items():
        if not names or not can_be_named(fields, name):
            continue
        existing = labels.get(name, ())
        joined = join_names(existing, names)
        if joined is not None:
            labels[name] = joined
            continue
        have = numbered(existing)
        labels[name] = (*existing, *(label for label in names if label and label not in have))
        if numbers_classes(fields, name):
            places = numbered(labels[name])
            changes[name] = np.array([places.get(label, _UNUSED) for label in names], np.int64)
    return changes


def names_in_target(labels: Labels, targets: Mapping[str, Field]) -> Labels:
    """Return names by the fields of the target, without fields that it lacks or stores as something else."""
    return _renamed(labels, {name: field.name for name, field in targets.items()}, targets.values())


def names_in_source(labels: Labels, targets: Mapping[str, Field]) -> Labels:
    """Return names by the fields of the source: the inverse of `names_in_target`."""
    fields = [Field(name, field.codec, field.sequence) for name, field in targets.items()]
    return _renamed(labels, {field.name: name for name, field in targets.items()}, fields)


def _renamed(labels: Labels, names: Mapping[str, str], fields: Iterable[Field]) -> Labels:
    spec = {field.name: field for field in fields}
    renamed = {}
    for name, names_of_classes in labels.items():
        whole, dot, rest = name.partition(".")
        new = names.get(name) or (f"{names[whole]}{dot}{rest}" if dot and whole in names else None)
        if new is not None and can_be_named(spec, new):
            renamed[new] = names_of_classes
    return renamed


def renumber(value: Any, numbers: NewNumbers, what: str) -> Any:
    """Return the new number of a class, or of each in a list or an array, in the type of the value.

    Raises:
        SpecError: The value is not the number of a class that has a name.
    """
    if isinstance(value, list):
        return [renumber(element, numbers, what) for element in value]
    if isinstance(value, np.ndarray):
        renumbered = [renumber(element, numbers, what) for element in value.ravel().tolist()]
        return np.array(renumbered, value.dtype).reshape(value.shape)
    whole = isinstance(value, int | float | np.integer | np.floating) and float(value).is_integer()
    number = int(value) if whole else _UNUSED
    if not 0 <= number < len(numbers) or numbers[number] == _UNUSED:
        raise SpecError(
            f"{what}: class {value!r} has no name, so its number in the new dataset "
            "is unknown. Leave out this sample or field, or name all classes"
        )
    return type(value)(numbers[number])
