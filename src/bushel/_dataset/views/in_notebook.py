"""Datasets and samples in a notebook: facts, fields, pictures, sounds, and names of classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bushel._dataset.read.shard_fields import labels_of
from bushel._pictures.notebook import Gallery, facts_html, sample_html
from bushel._runtime.messages import size
from bushel.codecs import holds_sound
from bushel.errors import BushelError
from bushel.spec import format_spec

from .info import Info

if TYPE_CHECKING:
    from bushel._dataset.read.reader import Reader
    from bushel._pictures.notebook import Readable

_SHOWN = 6


def dataset_html(dataset: Any) -> str:
    """Return the description of a dataset with the pictures of its first samples."""
    info: Info = dataset.info
    samples = len(dataset)
    if samples == info.samples:
        count = f"{samples:,}"
    else:
        count = f"{samples:,} of {info.samples:,}"
    facts = [
        ("container", info.container),
        ("shards", f"{info.shards:,}"),
        ("bytes", size(info.bytes)),
        ("checksums", "of every field" if info.checksums else "missing"),
        ("keys", "yes" if info.keyed else "no"),
        ("complete", "yes" if info.complete else info.shortfall),
    ]
    columns = _columns(dataset)
    if columns:
        facts.append(("columns", ", ".join(columns[:8]) + (", …" if len(columns) > 8 else "")))
    rows = [("field", "type"), *dataset.spec.items()]
    readable: Readable = dataset
    return facts_html(
        f"bushel.Dataset, {count} samples", facts, rows, Gallery(readable, _SHOWN)._repr_html_()
    )


def sample_in_notebook(sample: Mapping[str, Any], origin: tuple[Reader, int] | None) -> str:
    """Return a sample as a table.

    `origin` is its reader and its position in the whole dataset; without it, sounds are arrays like
    others, and classes have no names.
    """
    if origin is None:
        return sample_html(sample)
    reader, position = origin
    sounds: dict[str, bytes] = {}
    try:
        labels = labels_of(reader.shards, reader.fields)
        names = [
            name
            for name, kind in format_spec(reader.fields).items()
            if holds_sound(kind) and name in sample
        ]
        if names:
            [stored] = reader.read(
                np.array([position], np.int64), dict.fromkeys(names), decode=False
            )
            sounds = {name: stored[name] for name in names if name in stored}
    except (BushelError, OSError):
        # the file was deleted in the meantime: the decoded sample is still shown
        labels = {}
    return sample_html(sample, labels, sounds)


def _columns(dataset: Any) -> tuple[str, ...]:
    try:
        columns: tuple[str, ...] = dataset.columns
    except (BushelError, OSError):  # a damaged index: reading samples raises the error
        return ()
    return columns
