"""Shards restricted to some fields, or with other types or names of fields, and the class names of labels."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec.structs import replace

from bushel._dataset.open.caller_fields import CallerFields, renamed, renamed_column
from bushel._dataset.open.completeness import manifest_path
from bushel._index.names import (
    Labels,
    can_be_named,
    check_labels,
    labels_of_fields,
)
from bushel._index.shard import Shard
from bushel._index.sidecar import Manifest
from bushel._runtime.messages import log_warning
from bushel.codecs.registry import holds_media
from bushel.codecs.scalars import time_dtype
from bushel.containers import ReadOptions, get_container
from bushel.errors import FormatError, SpecError
from bushel.spec import Field, Spec, wider

from .shards import OpenShard, has_no_value, union_of_fields

if TYPE_CHECKING:
    from bushel.containers.features import Feature


def only(shard: OpenShard, names: Collection[str]) -> OpenShard:
    """Return a shard with only these fields."""
    fields = tuple(field for field in shard.fields if field.name in names)
    if fields == shard.fields:
        return shard
    names_there = [field.name for field in fields]
    index = shard.index.select(names_there) if shard.loaded else None
    return replace(
        shard, fields=fields, labels=labels_of_fields(shard.labels, names_there), _index=index
    )


def with_caller_fields(shard: OpenShard, asked: CallerFields) -> OpenShard:
    """Return a shard with the types and names of fields that a caller gives."""
    index = asked.table(shard.index, shard.shard) if shard.loaded else None
    fields = tuple(map(asked.field, shard.fields))
    return replace(shard, fields=fields, asked=asked, narrow=None, _index=index)


def with_declared(shard: OpenShard, spec: Spec) -> OpenShard:
    """Return a shard whose fields have the types that a caller declares after it was opened.

    Raises:
        SpecError: Values cannot be read as the declared type without a change.
    """
    fields = {field.name: spec[field.name] for field in shard.fields if field.name in spec}
    declared = replace(shard.asked, spec={**shard.asked.spec, **fields})
    if get_container(shard.container).stores_text:
        return _made_again(shard, declared)
    return with_caller_fields(shard, declared)


def renamed_shard(shard: OpenShard, names: Mapping[str, str]) -> OpenShard:
    """Return a shard whose fields have other names, given the new name of each that changes."""
    names = {
        old: new for old, new in names.items() if any(field.name == old for field in shard.fields)
    }
    if not names:
        return shard
    before = {new: old for old, new in shard.asked.names.items()}
    earlier = {old: new for old, new in shard.asked.names.items() if new not in names}
    declared = replace(
        shard.asked, names={**earlier, **{before.get(old, old): new for old, new in names.items()}}
    )
    index = renamed(shard.index, names) if shard.loaded else None
    labels: Labels = {
        renamed_column(name, names, [field.name for field in shard.fields]): class_names
        for name, class_names in shard.labels.items()
    }
    fields = tuple(replace(field, name=names.get(field.name, field.name)) for field in shard.fields)
    return replace(shard, fields=fields, labels=labels, asked=declared, narrow=None, _index=index)


def described(shard: OpenShard, features: Mapping[str, Feature]) -> OpenShard:
    """Return a shard with the names of classes and the types that its files do not have themselves.

    Raises:
        SpecError: A name is too long, or two classes have the same.
    """
    fields = {field.name: field for field in shard.fields}
    typed = {
        name: Field(name, feature.codec, fields[name].sequence)
        for name, feature in features.items()
        if feature.codec is not None and name in fields and fields[name].codec == "bytes"
    }
    named = {
        name: feature.names
        for name, feature in features.items()
        if feature.names and name not in shard.labels and can_be_named(fields, name)
    }
    if typed:
        declared = replace(shard.asked, spec={**typed, **shard.asked.spec})
        shard = with_caller_fields(shard, declared)
    if named:
        return replace(shard, labels={**shard.labels, **check_labels(named)})
    return shard


def with_one_type(shards: Sequence[OpenShard]) -> list[OpenShard]:
    """Return shards in which each field has one type: whole numbers beside others are read as float, lists as JSON.

    Raises:
        SpecError: A number would change. Of shards whose tables are not loaded, it is raised when
            they are.
    """
    union = union_of_fields(shards)
    converted = [replace(_with_types(shard, union, shards), narrow=shard) for shard in shards]
    _warn_of_types(converted, union)
    return converted


def _warn_of_types(shards: Sequence[OpenShard], union: Mapping[str, Field]) -> None:
    """Log the fields whose values have the types of their files, because none is known that holds all of them."""
    named = set[str]()
    for shard in shards:
        for field in shard.fields:
            first = union.get(field.name, field)
            if field == first or not shard.samples or has_no_value(field.name, [shard]):
                continue
            is_either = wider(first, field) == first and wider(field, first) == field
            are_media = holds_media(first.codec) and holds_media(field.codec)
            same_kind = first.codec[:5] == field.codec[:5]
            is_any = same_kind and "array" in (first.codec, field.codec)
            if not is_either or are_media or is_any or field.name in named:
                continue
            named.add(field.name)
            log_warning(
                "field %r is %s in %s, and %s in files before it: each value has the type of its "
                "file; spec={%r: TYPE} reads all as one",
                field.name,
                field.type,
                shard.path(0),
                first.type,
                field.name,
            )


def _is_narrower(field: Field, union: Field) -> bool:
    if field.sequence != union.sequence:
        return True
    if time_dtype(field.codec) is not None:
        return field != union and wider(field, union) == union
    if field.codec in ("int", "uint"):
        return union.codec == "float"
    return field.codec.startswith("array") and union.codec == "json"


def _with_types(
    shard: OpenShard, union: Mapping[str, Field], shards: Sequence[OpenShard]
) -> OpenShard:
    widened = {
        field.name: union[field.name]
        for field in shard.fields
        if field.name in union and _is_narrower(field, union[field.name])
    }
    if not widened:
        return shard
    declared = replace(shard.asked, spec={**widened, **shard.asked.spec})
    if any(field.sequence for field in shard.fields if field.name in widened):
        return _made_again(shard, declared)
    try:
        return with_caller_fields(shard, declared)
    except SpecError as error:
        reason, _, _ = str(error).partition(". Leave it out")
        file = next(
            str(other.path(0)) for other in shards if set(widened.values()) & set(other.fields)
        )
        spec = dict.fromkeys(widened, "json")
        raise SpecError(
            f"{reason}. {file} has values of that type: "
            f"spec={spec} keeps each value as its file has it"
        ) from error


def _made_again(shard: OpenShard, declared: CallerFields) -> OpenShard:
    """Return a shard whose lists of texts are values of JSON, for which its table is made again.

    Raises:
        FormatError: It is a part of a file in a store.
    """
    if shard.section is not None:
        raise FormatError(
            "some files have lists of texts with nulls, and this one has none",
            shard.path(0),
            hint="run `bushel index` on the dataset, or read the field with spec=, as json",
        )
    from bushel._dataset.open.tables import build_table

    index = build_table(
        shard.container, shard.shard, ReadOptions(spec=declared.spec, pickle=declared.pickle), None
    )
    return OpenShard.of(shard.container, shard.shard, index, stored=False, asked=declared)


def labels_beside(container: str, shards: Sequence[Shard], manifest: Manifest | None) -> Labels:
    """Return the names of classes in a manifest that lists all shards, or in the file that the original tool keeps."""
    kind = get_container(container)
    labels: Labels = {}
    if kind.names_file is not None:
        first = shards[0].root
        if all(shard.root == first for shard in shards) or manifest_path(shards) is not None:
            labels = kind.class_names(first)
    if manifest is None:
        return labels
    return {**labels, **manifest.labels}


def narrowed(shard: OpenShard, names: Collection[str]) -> OpenShard:
    """Return a shard with only these fields. If its section is not read yet, only their bytes will be requested."""
    narrow = only(shard, names)
    if shard.section is None or shard.loaded:
        return narrow
    names = [field.name for field in narrow.fields]
    return replace(narrow, section=get_container(shard.container).narrowed(shard.section, names))


def unread_bytes(shards: Sequence[OpenShard]) -> int:
    """Return how many bytes of sections have to be read before all of their samples can be read at random."""
    from .sections import is_known

    return sum(
        shard.section.size
        for shard in shards
        if shard.section is not None
        and not shard.loaded
        and not is_known(shard.container, shard.shard, shard.section, shard.stamps[0])
    )


def warn_unread(path: str, shards: Sequence[OpenShard]) -> None:
    """Log how much of a remote dataset will be read to find its samples."""
    if size := unread_bytes(shards):
        log_warning(
            "%s has no index: up to %s bytes are read when their "
            "samples are needed. `bushel index` reads them once",
            path,
            f"{size:,}",
        )
