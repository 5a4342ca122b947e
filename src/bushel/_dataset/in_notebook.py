"""A dataset in a notebook: its facts, its fields, and its first samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from bushel._dataset.info import Info, readable_size
from bushel._pictures.notebook import Gallery, facts_html
from bushel.errors import BushelError

if TYPE_CHECKING:
    from bushel._pictures.notebook import Readable

__all__ = ["dataset_html"]

_SHOWN, _MEASURED = 6, 1000


def dataset_html(dataset: Any) -> str:
    """Return the description of a dataset with the pictures of its first samples.

    Args:
        dataset: A `Dataset`.
    """
    info: Info = dataset.info
    size = len(dataset)
    count = f"{size:,}" if size == info.samples else f"{size:,} of {info.samples:,}"
    facts = [
        ("container", info.container),
        ("shards", f"{info.shards:,}"),
        ("bytes", readable_size(info.bytes)),
        ("checksums", "of every field" if info.checksums else "missing"),
        ("keys", "yes" if info.keyed else "no"),
        ("complete", "yes" if info.complete else info.shortfall),
    ]
    columns = _columns(dataset)
    if columns:
        facts.append(("columns", ", ".join(columns[:8]) + (", …" if len(columns) > 8 else "")))
    rows = [("field", "type", "mean size")]
    rows += [(name, kind, _mean_size(dataset, name)) for name, kind in dataset.spec.items()]
    readable: Readable = dataset
    return facts_html(f"bushel.Dataset, {count} samples", facts, rows, Gallery(readable, _SHOWN)._repr_html_())


def _columns(dataset: Any) -> tuple[str, ...]:
    try:
        columns: tuple[str, ...] = dataset.columns
    except (BushelError, OSError):  # a damaged index: reading samples says so
        return ()
    return columns


def _mean_size(dataset: Any, name: str) -> str:
    """Return the mean size of the first values, or the error."""
    try:
        lengths = dataset.lengths(range(min(len(dataset), _MEASURED)), name)
    except (BushelError, OSError) as error:
        return str(error)
    there = lengths[lengths >= 0]
    return readable_size(round(float(there.mean()))) if len(there) else "–"
