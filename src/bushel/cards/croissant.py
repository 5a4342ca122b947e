"""Metadata of a dataset in Croissant 1.1 (https://docs.mlcommons.org/croissant/docs/croissant-spec-1.1.html).

It is JSON-LD: the files with their SHA-256 (`croissant_files`), and record sets, by which consumers read keys, columns,
the places of values, and the values themselves where the files are tars, zips, Parquet, CSV or JSON lines.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bushel.cards.about import About
from bushel.cards.croissant_files import Publisher, file_objects, table_object
from bushel.cards.croissant_records import class_sets, sample_set, value_sets
from bushel.cards.facts import Split

_VERSION = "http://mlcommons.org/croissant/1.1"

_SAME = (
    *("annotation", "arrayShape", "citeAs", "column", "containedIn", "equivalentProperty", "excludes", "extract"),
    *("field", "fileObject", "fileProperty", "fileSet", "format", "includes", "isArray", "isLiveDataset", "jsonPath"),
    *("key", "md5", "parentField", "path", "readLines", "recordSet", "references", "regex", "repeated", "replace"),
    *("samplingRate", "sdVersion", "separator", "source", "subField", "transform", "unArchive", "value"),
)
"""Terms of Croissant that have the same name in its namespace."""

_CONTEXT: dict[str, Any] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "description": {"@container": "@language"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "name": {"@container": "@language"},
    **{term: f"cr:{term}" for term in _SAME},
}


@dataclass(slots=True)
class Croissant:
    """Metadata in Croissant."""

    json: dict[str, Any]
    notes: list[str] = field(default_factory=list)  # the fields that it leaves out, and why

    @property
    def text(self) -> str:
        """The metadata as JSON."""
        return json.dumps(self.json, indent=2, ensure_ascii=False) + "\n"


def croissant_of(splits: Sequence[Split], about: About, publisher: Publisher, tables: Sequence[Path]) -> Croissant:
    """Return the metadata of datasets.

    Raises:
        UnsupportedError: A file has no place for a consumer.
        OSError: A file cannot be read.
    """
    found = Croissant({})
    distribution: list[Any] = []
    records: list[Any] = []
    for number, split in enumerate(splits):
        prefix = f"{split.name}/" if split.name else ""
        own = file_objects(split, publisher)
        distribution += own
        records += class_sets(split.dataset, prefix)
        table = None
        if tables:
            table = table_object(tables[number], publisher)
            distribution.append(table)
            records.append(sample_set(split.dataset, prefix, table["@id"]))
        values = value_sets(split.dataset, prefix, own, publisher, None if table is None else table["@id"])
        distribution += values.file_sets
        records += values.record_sets
        found.notes += [f"{split.name}: {note}" if split.name else note for note in values.notes]
    today = datetime.now(UTC).strftime("%Y-%m-%d")
    description = about.description or ". ".join(repr(split.dataset).strip("<>") for split in splits)
    found.json = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": _VERSION,
        "name": about.title,
        "description": description,
        **({} if about.license is None else {"license": about.license_url}),
        **({} if about.url is None else {"url": about.url}),
        **({"creator": [{"@type": "sc:Person", "name": name} for name in about.creators]} if about.creators else {}),
        "datePublished": today,
        "version": f"1.0.0+{_fingerprint(splits)}",
        "distribution": distribution,
        "recordSet": records,
    }
    lacking = [name for name in ("license", "url", "creator") if name not in found.json]
    if lacking:
        found.notes.append(f"Croissant requires {', '.join(lacking)}, which are missing: give them as options")
    return found


def _fingerprint(splits: Sequence[Split]) -> str:
    """Return the fingerprints of the datasets as metadata of a version, which says what else it depends on."""
    return ".".join(split.dataset.fingerprint.partition(":")[2] or split.dataset.fingerprint for split in splits)
