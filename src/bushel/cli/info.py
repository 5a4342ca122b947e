"""`bushel info`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from bushel.cli.command import Option
from bushel.cli.options import Debug, Json, Kind, Path, Pickle

if TYPE_CHECKING:
    from bushel.cli.histograms import ColumnSummary

__all__ = ["command"]

_SHOWN = 5
"""Number of class names that are shown."""


def command(
    path: Path,
    columns_too: Annotated[
        bool, Option("--columns", help="Show the columns in the index: ranges, frequent values, and histograms.")
    ] = False,
    container: Kind = None,
    pickle: Pickle = False,
    as_json: Json = False,
    debug: Debug = False,
) -> None:
    """Describe a dataset: container, samples, fields, sizes, keys, checksums.

    Examples:
      bushel info train/
      bushel info --columns train/
    """
    import bushel
    from bushel.cli.describe import summarise
    from bushel.cli.output import columns, count, print_json, print_text, size
    from bushel.core.dataset.info import unlisted_shards

    dataset = bushel.open(path, container=container, pickle=pickle)
    info, fields = dataset.info, summarise(dataset.shards, dataset.spec)
    stray = unlisted_shards(dataset.shards)
    summaries = []
    if columns_too:
        from bushel.cli.histograms import summary

        summaries = [summary(name, dataset.column(name)) for name in dataset.columns]
    if as_json:
        print_json(
            {
                "path": path,
                "container": info.container,
                "shards": info.shards,
                "files": info.files,
                "samples": info.samples,
                "bytes": info.bytes,
                "keyed": info.keyed,
                "checksums": info.checksums,
                "indexed": info.indexed,
                "complete": info.complete,
                "expected": info.expected,
                "fingerprint": dataset.fingerprint,
                "labels": dataset.labels,
                "stray": stray,
                "fields": [asdict(field) for field in fields],
                **({"columns": [asdict(each) for each in summaries]} if columns_too else {}),
            }
        )
        return
    keys = ", ".join(map(repr, dataset.keys[:3])) + (", …" if len(dataset) > 3 else "")
    for name, value in (
        ("container", f"{info.container}, {count(info.shards, 'shard')}, {count(info.files, 'file')}"),
        ("samples", f"{info.samples:,}"),
        ("bytes", f"{info.bytes:,} ({size(info.bytes)})"),
        ("keys", keys if info.keyed else "none: samples have positions only"),
        (
            "checksums",
            "of every field" if info.checksums else "missing for some or all fields: `bushel index` records them",
        ),
        ("index", "beside the data" if info.indexed else "not stored, made at every opening: `bushel index` stores it"),
        *(() if info.complete else (("complete", f"no{_expected(info.expected)}"),)),
        *((("stray", _strays(stray)),) if stray else ()),
        *(("classes", f"{name}: {_named(names)}") for name, names in dataset.labels.items()),
    ):
        print_text(f"{name:<11}{value}")
    header = ("field", "type", "stored as", "samples", "values", "mean", "min", "max", "bytes")
    rows = [
        (
            f.name,
            f.type,
            f.codecs,
            f"{f.samples:,}",
            f"{f.elements:,}",
            f"{f.mean:,.0f}",
            f"{f.min:,}",
            f"{f.max:,}",
            f"{f.bytes:,}",
        )
        for f in fields
    ]
    print_text("")
    for line in columns([header, *rows]):
        print_text(line)
    if columns_too:
        print_text("")
        table = [_COLUMN_HEADER, *map(_row, summaries)]
        wide = max(len(row[-1]) for row in table)
        for line in columns([(*row[:-1], row[-1].ljust(wide)) for row in table]) if summaries else (_NO_COLUMNS,):
            print_text(line.rstrip())


_COLUMN_HEADER = ("column", "kind", "values", "missing", "distinct", "mean", "min", "max", "")
_NO_COLUMNS = "no columns: `bushel index --columns auto` records numbers, short texts and sizes of images"


def _row(column: ColumnSummary) -> tuple[str, ...]:
    from bushel.cli.histograms import bars

    numbers = ("" if each is None else f"{each:,.6g}" for each in (column.mean, column.min, column.max))
    shown = ", ".join(
        f"{str(value) if str(value).isprintable() else ascii(value)} ({many:,})" for value, many in column.top
    )
    more = ", …" if column.top and len(column.top) < column.distinct else ""
    counts = (f"{column.values:,}", f"{column.missing:,}", f"{column.distinct:,}")
    return (column.name, column.kind, *counts, *numbers, bars(column.histogram) if column.histogram else shown + more)


def _named(names: Sequence[str]) -> str:
    first = [(number, name) for number, name in enumerate(names[:_SHOWN]) if name]
    shown = ", ".join(f"{number} {name if name.isprintable() else ascii(name)}" for number, name in first)
    return f"{sum(map(bool, names)):,} ({shown}{', …' * (len(names) > _SHOWN)})"


def _strays(paths: Sequence[str]) -> str:
    shown = ", ".join(paths[:_SHOWN]) + ", …" * (len(paths) > _SHOWN)
    return f"{shown}: not listed in the manifest; `bushel index` adds what belongs to the dataset"


def _expected(samples: int | None) -> str:
    return "" if samples is None else f": {samples:,} samples expected"
