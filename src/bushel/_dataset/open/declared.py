"""The fields that the caller of `bushel.open` declares: they replace the fields of the same names."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

import numpy as np

from bushel._dataset.open.completeness import manifest_path
from bushel._index.file_spec import spec_from_file
from bushel._index.sidecar import Manifest, find_manifest
from bushel._index.table import MISSING, FieldExtents, Shard, ShardIndex
from bushel._runtime.log import log_info
from bushel.containers import get_container, writable_containers
from bushel.containers.base import ReadOptions
from bushel.errors import FormatError, SpecError
from bushel.spec import Field, Spec, wider

_NUMBERS, _ARRAY = frozenset(("int", "uint", "float")), "array"


def has_declared(index: ShardIndex, spec: Spec | None) -> bool:
    """Return whether a table has the declared fields, so that they need other codecs at most.

    A container that stores values as text makes another table for another type, and so does any for
    the types `jpg(path)` and `jpg(url)`.
    """
    declared = (spec or {}).values()
    as_text = get_container(index.container).stores_text
    return all(
        (extents := index.fields.get(field.name)) is not None
        and extents.field.sequence == field.sequence
        and (
            extents.field == field or not (as_text or field.names_file or extents.field.names_file)
        )
        for field in declared
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
                    name for name in index.fields if name not in types or _same(name, known, index)
                ]
                return index.select(names)
            if index.fields.keys() >= types.keys():
                return index
    return get_container(container).index(shard, options)


def listed_table(container: str, shard: Shard) -> ShardIndex | None:
    """Return a table of no samples with the fields and classes in the manifest of local files; None without one."""
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
            labels = {name: tuple(names) for name, names in manifest.labels.items()}
            return ShardIndex(0, (), fields, container, labels=labels)
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
        # a type that was declared for other values has no column
        return stored.name in known.columns and wider(stored, now) != stored
    bases = [field.codec.partition("(")[0] for field in (stored, now)]
    numeric = all(base in _NUMBERS or base.endswith(_ARRAY) for base in bases)
    return (
        numeric and stored.codec != now.codec and (bases[1] not in _NUMBERS or bases[0] in _NUMBERS)
    )


def _same(name: str, known: ShardIndex, index: ShardIndex) -> bool:
    return has_values(index.fields[name]) or not has_values(known.fields[name])


def has_values(extents: FieldExtents) -> bool:
    """Return whether any sample has the field."""
    if extents.starts is None:
        return bool((extents.length != MISSING).any())
    absent = extents.absent
    return bool(len(extents.offset)) or (absent is not None and not bool(np.all(absent)))


def _lists_field(index: ShardIndex, name: str) -> bool:
    """Return whether a file has a field: tables of containers that Bushel writes also have those that are declared."""
    return get_container(index.container) not in writable_containers() or has_values(
        index.fields[name]
    )


def check_declared(spec: Spec, tables: Sequence[ShardIndex], path: str) -> None:
    """Check that the dataset has the fields that the caller of `bushel.open` declares.

    Raises:
        SpecError: No file has one of them; or no sample, where files do not list their fields.
    """
    if not any(index.samples for index in tables):
        return
    for name in spec:
        if any(name in index.fields and _lists_field(index, name) for index in tables):
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
                f"spec= names the field {name!r}, which no sample of {path} has; its fields are"
                f" {', '.join(names)}"
            )
            + (f": {meant}" if meant else "")
        )
