"""Comparing the manifest of a dataset with the tables of its shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from msgspec.structs import replace

from bushel._dataset.open.completeness import listed_names, manifest_path
from bushel._dataset.read.listed import manifest_of_tables
from bushel._index.class_names import Labels, join_labels
from bushel._index.sidecar import Manifest, ManifestShard, load_manifest
from bushel._index.table import ShardIndex
from bushel.containers import container_names
from bushel.errors import FormatError, SpecError
from bushel.integrity.discover import Place
from bushel.integrity.problems import Findings
from bushel.spec import parse_spec
from bushel.storage import below

_MEND = "`bushel index` writes the manifest again"


def check_manifest(
    places: Sequence[Place], tables: Sequence[ShardIndex | None], found: Findings
) -> None:
    """Report what the manifest says otherwise than the tables of the shards.

    Args:
        places: The shards.
        tables: The table of each shard that describes its files as they are; None for others, which
            are left out.
        found: Gets the problems.
    """
    path = manifest_path([place.shard for place in places])
    try:
        manifest = None if path is None else load_manifest(path)
    except FormatError as error:
        found.add_error(error, "index")
        return
    if manifest is None or path is None:
        return
    container = places[0].container.name
    if manifest.container != container:
        if manifest.container not in container_names():
            message = (
                f"the manifest is of the container {manifest.container!r}, but the files"
                f" are {container}: {_MEND}"
            )
            found.add_file(path, "index", message)
        return
    names = listed_names([place.shard for place in places])
    described = {
        name: table for name, table in zip(names, tables, strict=True) if table is not None
    }
    now = manifest_of_tables(container, list(described), list(described.values()))
    listed = {entry.name: entry for entry in manifest.shards}
    for entry in now.shards:
        if entry.name in listed:
            for what in _entry_differences(listed[entry.name], entry):
                found.add_file(path, "index", f"shard {entry.name!r}: {what}: {_MEND}")
    if len(now.shards) == len(manifest.shards) == len(listed) and manifest.complete:
        for what in _whole_differences(manifest, now, described):
            found.add_file(path, "index", f"{what}: {_MEND}")


def check_names_file(place: Place, labels: Labels, found: Findings) -> None:
    """Report a file with the names of classes, which original tools read, that differs from the index."""
    container, root = place.container, place.shard.root
    if container.names_file is None or not labels:
        return
    path = below(root, container.names_file)
    if not path.exists():
        return
    named = container.class_names(root)
    for field, names in labels.items():
        if field in named and named[field] != names:
            message = (
                "its names of classes differ from those in the index, which are"
                f" {', '.join(names[:5])} …"
            )
            found.add_file(path, "labels", message)
    if not named:
        found.add_file(path, "format", "it has no usable names of classes, but the index has some")


def _entry_differences(listed: ManifestShard, now: ManifestShard) -> Iterator[str]:
    """Yield the facts of a shard, other than times, that differ from its table."""
    entries = [
        replace(entry, files=[(name, size, 0) for name, size, _ in entry.files])
        for entry in (listed, now)
    ]
    for name in now.__struct_fields__:
        was, is_now = (getattr(entry, name) for entry in entries)
        if was != is_now:
            yield f"the manifest has {name} {was}, but the index of the shard has {is_now}"


def _whole_differences(
    manifest: Manifest, now: Manifest, tables: Mapping[str, ShardIndex]
) -> Iterator[str]:
    """Yield types, codecs and names of classes of the manifest that differ from all tables."""
    for what, listed, actual in (
        ("type", manifest.spec, now.spec),
        ("codec", manifest.codecs, now.codecs),
    ):
        for name in listed.keys() | actual.keys():
            if listed.get(name) != actual.get(name):
                was, is_now = (values.get(name, "nothing") for values in (listed, actual))
                yield (
                    f"the {what} of field {name!r} is {was} in the manifest, but {is_now} in"
                    " the shards"
                )
    try:
        labels = join_labels(
            ((name, table.labels) for name, table in tables.items()), parse_spec(now.spec)
        )
    except SpecError:  # reported as a problem of labels
        return
    for name in labels.keys() | manifest.labels.keys():
        pairs = zip_longest(manifest.labels.get(name, ()), labels.get(name, ()), fillvalue="")
        for number, (was, is_now) in enumerate(pairs):
            if was != is_now:
                where = f"class {number} of field {name!r}"
                yield f"{where} is {was!r} in the manifest, but {is_now!r} in the shards"
                break
