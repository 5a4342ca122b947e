"""Record sets of Croissant: classes, the rows of the exported index, and the values that consumers can read. Pure.

mlcroissant 1.1 joins two sources at most, and reads one file per record, so each field of an archive has a record set
of its own, which refers to the row of the index by the key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bushel._dataset.views.dataset import Dataset
from bushel._dataset.views.index_file import POSITION, column_name
from bushel.cards.croissant_files import FORMATS, Publisher, identifier
from bushel.codecs import holds_clip, holds_image, holds_sound
from bushel.containers.tar.names import extension_of
from bushel.errors import needed_by
from bushel.spec import KEY, Spec, parse_spec

_PARTS = {
    "uri": "sc:Text",
    "offset": "sc:Integer",
    "size": "sc:Integer",
    "content_type": "sc:Text",
    "checksum": "sc:Text",
}
"""Members of the structs of an exported index, with their types."""

_NUMBERS = {"b": "sc:Boolean", "i": "sc:Integer", "u": "sc:Integer", "f": "sc:Float"}
_MEDIA = ("sc:ImageObject", "sc:AudioObject", "sc:VideoObject")
_TEXTS = ("utf8", "json", "cls", "int", "float-text")
_READABLE = {
    "parquet": (".parquet",),
    "jsonl": (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz"),
    "csv": (".csv",),
}
"""Endings of files that mlcroissant reads as tables."""
_KEY_OF_MEMBER = r"((?:.*/)?[^/.]+)\..*$"  # the key of a member of an archive: folder and name up to the first dot


@dataclass(slots=True)
class Values:
    """The description of the values in files."""

    file_sets: list[dict[str, Any]] = field(default_factory=list)  # sets of files, or of members of archives
    record_sets: list[dict[str, Any]] = field(default_factory=list)  # record sets of their contents
    notes: list[str] = field(default_factory=list)  # fields that are left out, and why, in words


def _field(name: str, kind: str, source: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"@type": "cr:Field", "@id": name, "name": name, "dataType": kind, "source": source, **more}


def _column(table: str, column: str, json_path: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"fileObject": {"@id": table}, "extract": {"column": column}}
    return found if json_path is None else found | {"transform": {"jsonPath": json_path}}


def class_sets(dataset: Dataset, prefix: str) -> list[dict[str, Any]]:
    """Return the classes of each field as an enumeration."""
    found = []
    for name, names in dataset.labels.items():
        own = identifier(f"{prefix}classes", name)
        found.append(
            {
                "@type": "cr:RecordSet",
                "@id": own,
                "name": own,
                "description": f"The classes of the field {name}.",
                "dataType": "sc:Enumeration",
                "key": {"@id": f"{own}/number"},
                "field": [
                    {"@type": "cr:Field", "@id": f"{own}/number", "name": f"{own}/number", "dataType": "sc:Integer"},
                    {"@type": "cr:Field", "@id": f"{own}/name", "name": f"{own}/name", "dataType": "sc:Text"},
                ],
                "data": [{f"{own}/number": number, f"{own}/name": each} for number, each in enumerate(names)],
            }
        )
    return found


def sample_set(dataset: Dataset, prefix: str, table: str) -> dict[str, Any]:
    """Return the rows of an exported index: key, columns, and the place of each value."""
    own = identifier(f"{prefix}samples")
    columns = _own_columns(dataset)
    fields = [_field(f"{own}/{KEY}", "sc:Text", _column(table, KEY))] if dataset.info.keyed else []
    if dataset.info.removed:
        fields.append(_field(f"{own}/{POSITION}", "sc:Integer", _column(table, POSITION)))
    fields += _columns_of(dataset, own, table, columns)
    for name, kind in dataset.spec.items():
        structs, sequence = column_name(name, columns), kind.endswith("[]")
        parent = identifier(own, f"{name}.extent")
        fields.append(
            {
                "@type": "cr:Field",
                "@id": parent,
                "name": parent,
                "description": f"Where the stored bytes of the field {name} ({kind}) are.",
                **({"isArray": True, "arrayShape": "-1"} if sequence else {}),
                "subField": [
                    _field(f"{parent}/{part}", of_part, _column(table, structs, part))
                    for part, of_part in _PARTS.items()
                ],
            }
        )
    return {
        "@type": "cr:RecordSet",
        "@id": own,
        "name": own,
        "description": "A record per sample. The values are the bytes at `offset` of the file `uri`.",
        **({"key": {"@id": f"{own}/{KEY}"}} if dataset.info.keyed else {}),
        "field": fields,
    }


def _own_columns(dataset: Dataset) -> list[str]:
    """Return the columns that an exported index has."""
    own_fields = tuple(f"{name}." for name in dataset.spec)
    return [name for name in dataset.columns if f"{name}.".startswith(own_fields)]


def _columns_of(dataset: Dataset, own: str, table: str, columns: Sequence[str]) -> list[dict[str, Any]]:
    found = []
    for name in columns:
        values = np.ma.getdata(dataset.column(name))
        kind = _NUMBERS.get(values.dtype.kind, "sc:Text")
        if values.dtype.kind == "O" and len(values) and not isinstance(values[0], str):
            kind = "sc:Float"  # numbers that no dtype holds exactly
        found.append(_field(identifier(own, name), kind, _column(table, name)))
    return found


def value_sets(
    dataset: Dataset, prefix: str, files: Sequence[Mapping[str, Any]], publisher: Publisher, table: str | None
) -> Values:
    """Return sets of files and records for the values that a consumer of Croissant can read.

    `table` is the `@id` of the exported index, if there is one: records then have the columns, too.
    """
    container, found = dataset.info.container, Values()
    others = "their places are in the record set `samples`" if table is not None else "only the files are described"
    if dataset.info.removed:
        found.notes.append(
            f"no record set reads values from the files, which still have the {dataset.info.removed:,} removed samples "
            f"(`bushel convert` writes a dataset without them): {others}"
        )
    elif container in _READABLE:
        _tables(dataset, prefix, files, publisher, found)
    elif container in FORMATS:
        _members(dataset, prefix, files, table, found)
    else:
        found.notes.append(f"consumers of Croissant cannot read values from a {container}: {others}")
    return found


# Members of tars and zips


def _members(
    dataset: Dataset, prefix: str, files: Sequence[Mapping[str, Any]], table: str | None, found: Values
) -> None:
    fields_of = parse_spec(dict(dataset.spec))
    wanted, left_out = [], []
    for name, kind in dataset.spec.items():
        codecs = {shard.index.fields[name].codec for shard in dataset.shards if name in shard.index.fields}
        form, patterns = _form(codecs), _patterns(name, fields_of)
        if form is not None and form[0] == "sc:Integer" and table is not None and name in dataset.columns:
            continue  # the record set `samples` has these numbers
        if form is None or patterns is None or kind.endswith("[]"):
            left_out.append(name)
        else:
            wanted.append(_Member(name, kind, *form, patterns))
    unique = table is not None and dataset.info.keyed and _are_unique(dataset)
    for each in wanted:
        joined = table if unique and each.content in _MEDIA else None
        archives = [dict(one) for one in files]
        if joined is not None and len(wanted) > 1:
            # mlcroissant 1.1.1 joins the members of an archive only if no other set of files is in the same object
            archives = [{**one, "@id": identifier(f"{prefix}{each.name}.archives", one["@id"])} for one in files]
            found.file_sets += archives
        _add_members(dataset, prefix, each, archives, joined, found)
    if left_out:
        found.notes.append(f"no record set reads the values of {', '.join(left_out)}: Croissant has no type for them")
    if table is not None and not unique:
        found.notes.append("records of values have no columns: the keys of samples are not unique")


@dataclass(frozen=True, slots=True)
class _Member:
    """A field of an archive: name, type, type in Croissant, format of its members, and their patterns."""

    name: str
    kind: str
    content: str
    format: str
    patterns: Sequence[str]


def _add_members(
    dataset: Dataset,
    prefix: str,
    each: _Member,
    archives: Sequence[Mapping[str, Any]],
    table: str | None,
    found: Values,
) -> None:
    """Add the set of the members of a field, and its record set: with the columns of the index, if that is given."""
    own, members = identifier(prefix + each.name), identifier(f"{prefix}{each.name}.members")
    found.file_sets.append(
        {
            "@type": "cr:FileSet",
            "@id": members,
            "name": members,
            "containedIn": [{"@id": one["@id"]} for one in archives],
            "encodingFormat": each.format,
            "includes": list(each.patterns),
        }
    )
    path = {"fileSet": {"@id": members}, "extract": {"fileProperty": "fullpath"}}
    key = _field(f"{own}/{KEY}", "sc:Text", path | {"transform": {"regex": _KEY_OF_MEMBER}})
    fields = [key, _field(f"{own}/value", each.content, _content(members))]
    if table is not None:
        key["references"] = _column(table, KEY)
        fields += _columns_of(dataset, own, table, _own_columns(dataset))
    found.record_sets.append(
        {
            "@type": "cr:RecordSet",
            "@id": own,
            "name": own,
            "description": f"The values of the field {each.name} ({each.kind}), one per record.",
            "key": {"@id": f"{own}/{KEY}"},
            "field": fields,
        }
    )


def _content(members: str) -> dict[str, Any]:
    return {"fileSet": {"@id": members}, "extract": {"fileProperty": "content"}}


def _form(codecs: set[str]) -> tuple[str, str] | None:
    """Return the type of the values of a field, and the format of its members; None for those without one."""
    [codec, *others] = codecs or {""}
    base = codec.partition("(")[0]
    if others:
        return None
    if holds_image(codec):
        return "sc:ImageObject", {"jpg": "image/jpeg"}.get(base, f"image/{base}")
    if holds_sound(codec):
        return "sc:AudioObject", {"mp3": "audio/mpeg"}.get(base, f"audio/{base}")
    if holds_clip(codec):
        return "sc:VideoObject", f"video/{base}"
    if base in _TEXTS:
        return ("sc:Integer", "text/plain") if base in ("cls", "int") else ("sc:Text", "text/plain")
    return None


def _patterns(name: str, fields: Spec) -> list[str] | None:
    """Return the patterns of the members of a field; None if they would also match members of another field."""
    own = dict.fromkeys((extension_of(fields[name])[0], name))
    for other, each in fields.items():
        ending = extension_of(each)[0]
        if other != name and any(f".{one}".endswith(f".{mine}") for one in (other, ending) for mine in own):
            return None
    return [f"*.{ending}" for each in own for ending in dict.fromkeys((each, each.upper()))]


def _are_unique(dataset: Dataset) -> bool:
    hashes = [shard.index.keys.hashes for shard in dataset.shards if shard.index.keys is not None]
    return len(np.unique(np.concatenate(hashes))) == sum(map(len, hashes))


# Columns of tables


def _tables(
    dataset: Dataset, prefix: str, files: Sequence[Mapping[str, Any]], publisher: Publisher, found: Values
) -> None:
    container, own = dataset.info.container, identifier(f"{prefix}rows")
    if strange := [each["name"] for each in files if not each["name"].endswith(_READABLE[container])]:
        found.notes.append(f"no record set reads {strange[0]}: mlcroissant cannot expand it")
        return
    if len(files) > 1 and publisher.base_url is not None:
        found.notes.append("no record set reads the files: mlcroissant reads several tables from a local folder only")
        return
    source = {"fileObject": {"@id": files[0]["@id"]}}
    if len(files) > 1:
        tables = identifier(f"{prefix}tables")
        source = {"fileSet": {"@id": tables}}
        found.file_sets.append(
            {
                "@type": "cr:FileSet",
                "@id": tables,
                "name": tables,
                "encodingFormat": FORMATS[container],
                "includes": [each["contentUrl"] for each in files],
            }
        )
    structs = _structs(dataset) if container == "parquet" else frozenset[str]()
    fields, left_out = [], []
    for name, kind in dataset.spec.items():
        content = _cell(kind)
        if content is None:
            left_out.append(name)
            continue
        value: dict[str, Any] = {**source, "extract": {"column": name}}
        if name in structs:
            value["transform"] = {"jsonPath": "bytes"}
        fields.append(_field(identifier(own, name), content, value))
    if fields:
        found.record_sets.append(
            {"@type": "cr:RecordSet", "@id": own, "name": own, "description": "The rows of the files.", "field": fields}
        )
    if left_out:
        found.notes.append(f"no record set reads the values of {', '.join(left_out)}: Croissant has no type for them")


def _cell(kind: str) -> str | None:
    """Return the type of a column of a table; None for those that have none."""
    base = kind.partition("(")[0]
    if "(path)" in kind or "(url)" in kind or kind.endswith("[]"):
        return None
    media = (holds_image, "sc:ImageObject"), (holds_sound, "sc:AudioObject"), (holds_clip, "sc:VideoObject")
    for holds, content in media:
        if holds(kind):
            return content
    return {
        "utf8": "sc:Text",
        "int": "sc:Integer",
        "uint": "sc:Integer",
        "i64": "sc:Integer",
        "u64": "sc:Integer",
        "cls": "sc:Integer",
        "bool": "sc:Boolean",
        "float": "sc:Float",
        "f32": "sc:Float",
    }.get(base)


def _structs(dataset: Dataset) -> frozenset[str]:
    """Return the columns of Parquet that are structs of bytes and a path, as Hugging Face stores media."""
    with needed_by("Croissant for Parquet", "bushel[arrow]"):
        import pyarrow as pa
        import pyarrow.parquet as pq
    schema = pq.read_schema(str(next(iter(dataset.shards)).shard.path(0)))
    structs = (each for each in schema if pa.types.is_struct(each.type))
    return frozenset(each.name for each in structs if each.type.get_field_index("bytes") >= 0)
