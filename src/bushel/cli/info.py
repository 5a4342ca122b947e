"""Descriptions of a dataset: `bushel info`, `bushel card` and `bushel views`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct, structs

import bushel

from .command import Option
from .options import DatasetOptions, IndexPlace, Json, OnePath, OutputOptions, Path, Pickle, Quiet
from .output import columns, count, print_json, print_text, size

if TYPE_CHECKING:
    from bushel import Dataset
    from bushel._dataset.views.info import ColumnSummary, FieldSummary


_SHOWN = 5  # number of class names that are shown
_NOT_FACTS = ("spec", "expansion", "unread", "joins")  # what JSON has elsewhere, or not


def info(
    path: Path,
    columns_too: Annotated[
        bool, Option("Show the columns in the index: ranges and frequent values.", "--columns")
    ] = False,
    *,
    chosen: DatasetOptions,
    pickle: Pickle = False,
    index: IndexPlace = "auto",
    as_json: Json = False,
) -> None:
    """Describe a dataset: container, samples, fields, sizes, keys, checksums.

    Examples:
      bushel info train/
      bushel info --columns train/
    """
    from bushel._dataset.views.info import summarise, summary

    dataset = bushel.open(
        chosen.files(path), container=chosen.container, pickle=pickle, index=index
    )
    fields = summarise(dataset.shards, dataset.spec)
    summaries = []
    if columns_too:
        summaries = [summary(name, dataset.column(name)) for name in dataset.columns]
    if as_json:
        described = {"path": path, **_facts_for_programs(dataset), "fields": fields}
        if columns_too:
            described["columns"] = summaries
        print_json(described)
        return
    for name, value in _facts(dataset):
        print_text(f"{name:<11}{value}")
    tables = [_table_of_fields(fields)]
    if columns_too:
        tables.append(_table_of_columns(summaries) if summaries else [_NO_COLUMNS])
    for table in tables:
        print_text("")
        for line in table:
            print_text(line)


def _facts_for_programs(dataset: Dataset) -> dict[str, Any]:
    facts = asdict(dataset.info)
    info = {name: value for name, value in facts.items() if name not in _NOT_FACTS}
    return {**info, "fingerprint": dataset.fingerprint, "labels": dataset.labels}


def _facts(dataset: Dataset) -> Iterator[tuple[str, str]]:
    """Yield the name and the text of each line about the whole dataset."""
    info = dataset.info
    yield (
        "container",
        f"{info.container}, {count(info.shards, 'shard')}, {count(info.files, 'file')}",
    )
    yield "samples", f"{info.samples:,}"
    if info.removed:
        yield "removed", f"{info.removed:,}: `bushel remove --list` prints when and why"
    if info.removed_missing:
        what = (
            f"{info.removed_missing:,} samples that the list "
            "of removed samples names are not stored any more"
        )
        yield "missing", f"{what}: `bushel remove --list` counts them by call"
    yield "bytes", f"{info.bytes:,} ({size(info.bytes)})"
    keys = "none: samples have positions only"
    if info.keyed:
        keys = ", ".join(map(repr, dataset.keys[:3])) + ", …" * (len(dataset) > 3)
    yield "keys", keys
    missing = (
        "missing for some or all fields, so the fingerprint "
        "has stamps of files: `bushel index` records them"
    )
    yield "checksums", "of every field" if info.checksums else missing
    yield (
        "index",
        "beside the data"
        if info.indexed
        else "in your cache of tables, or made at every opening: `bushel index` stores it",
    )
    if not info.complete:
        yield (
            "complete",
            "no" if info.expected is None else f"no: {info.expected:,} samples expected",
        )
    if info.costly is not None:
        yield "compressed", f"{info.costly}: `bushel convert` makes a copy that is not compressed"
    for name, names in dataset.labels.items():
        yield "classes", f"{name}: {_named(names)}"


def _table_of_fields(fields: Sequence[FieldSummary]) -> list[str]:
    header = ("field", "type", "stored as", "samples", "values", "mean", "min", "max", "bytes")
    rows = []
    for field in fields:
        counts = (
            field.samples,
            field.elements,
            round(field.mean),
            field.min,
            field.max,
            field.bytes,
        )
        rows.append((field.name, field.type, field.codecs, *(f"{count:,}" for count in counts)))
    return list(columns([header, *rows]))


def _table_of_columns(summaries: Sequence[ColumnSummary]) -> list[str]:
    header = ("column", "kind", "values", "missing", "distinct", "mean", "min", "max", "")
    table = [header, *((*column.cells, column.frequent) for column in summaries)]
    wide = max(len(row[-1]) for row in table)
    return [line.rstrip() for line in columns([(*row[:-1], row[-1].ljust(wide)) for row in table])]


_NO_COLUMNS = (
    "no columns: `bushel index --columns auto` records numbers, short texts and sizes of images"
)


def _named(names: Sequence[str]) -> str:
    first = [(number, name) for number, name in enumerate(names[:_SHOWN]) if name]
    shown = ", ".join(
        f"{number} {name if name.isprintable() else ascii(name)}" for number, name in first
    )
    return f"{sum(map(bool, names)):,} ({shown}{', …' * (len(names) > _SHOWN)})"


class AboutOptions(Struct, frozen=True):
    """Options for facts that the dataset does not have.

    Attributes:
        title: Name of the dataset. [default: its folder's]
        description: Description in a few sentences.
        license: Licence: an SPDX identifier, such as cc-by-4.0, or a URL.
        url: Its page.
        creator: Creator of the dataset; may be repeated.
    """

    title: str | None = None
    description: str | None = None
    license: str | None = None
    url: str | None = None
    creator: list[str] | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `bushel.card`."""
        arguments = structs.asdict(self)
        arguments["creators"] = arguments.pop("creator") or ()
        return arguments


def card(
    path: OnePath,
    *,
    output: Annotated[
        str | None, Option("File to write, such as README.md.", "--output", "-o")
    ] = None,
    about: AboutOptions,
    index: IndexPlace = "auto",
    quiet: Quiet = False,
) -> None:
    """Describe a dataset for others: a data card in Markdown.

    The card has counts, sizes, fields, classes, columns, removed samples and checksums, all from
    the index, and front matter that the Hugging Face Hub reads. A folder with a dataset in each
    folder, as `bushel split` writes them, is described as one dataset with splits.

    Examples:
      bushel card train/ -o train/README.md --license cc-by-4.0
    """
    text = bushel.card(path, output, **about.arguments(), index=index)
    if output is None:
        print_text(text.rstrip("\n"))
    elif not quiet:
        print_text(f"{output}: written")


def views(
    path: OnePath,
    *,
    delete: str | None = None,
    as_json: Json = False,
) -> None:
    """List the views that are saved beside a dataset, or delete one.

    `ds.save_view("clean")` saves a view, and `bushel.open(path, view="clean")` opens it. A view is
    stale if the dataset has changed since.

    Options:
        delete: Delete the view of this name.

    Examples:
      bushel views train/
      bushel views train/ --delete clean
    """
    from bushel._dataset.views.saved_views import delete_view, saved_views

    with bushel.open(path) as dataset:
        if delete is not None:
            delete_view(dataset, delete)
        views = saved_views(dataset)
    rows = [
        (view.name, f"{view.samples:,}", "stale" if view.stale else "", view.made) for view in views
    ]
    lines = [*columns(rows)] or ["no views are saved"]
    OutputOptions(as_json, quiet=delete is not None).show(views, *lines)
