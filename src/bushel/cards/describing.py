"""`bushel.card`: a description of a dataset, as a data card in Markdown or as metadata in Croissant."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bushel._dataset.open.discovery import expand_paths
from bushel._dataset.open.index_place import refuse_index_file
from bushel._runtime.progress import OnProgress, Progress, ShowProgress, callback_of, shows_progress
from bushel._runtime.public import public
from bushel.cards.about import About
from bushel.cards.croissant import croissant_of
from bushel.cards.croissant_files import Publisher
from bushel.cards.facts import Split, facts_of, open_splits
from bushel.cards.front_matter import front_matter
from bushel.cards.markdown import body
from bushel.errors import UnsupportedError
from bushel.storage import as_path, is_object, write_whole

_log = logging.getLogger("bushel")


@public()
@shows_progress("describing")
def card(
    source: Any,
    target: Any = None,
    *,
    croissant: bool = False,
    title: str | None = None,
    description: str | None = None,
    license: str | None = None,
    url: str | None = None,
    creators: Sequence[str] = (),
    license_column: str | None = None,
    source_column: str | None = None,
    base_url: str | None = None,
    index: Any = "auto",
    progress: ShowProgress = None,
) -> str:
    """Describe a dataset for others: as a data card in Markdown, or as metadata in Croissant 1.1 (docs/cards.md).

    A data card is made from the index, so no data are read. Croissant needs the SHA-256 of every file, which
    reads all files.

    Args:
        source: Anything that `bushel.open` takes; or a folder with a dataset in each folder, as `bushel.split` writes
            them, which are described together.
        target: The file to write, such as `README.md`; None: no file. For Croissant, the index is exported beside it,
            as `NAME.parquet` (`Dataset.export_index`), unless that would lie among the data.
        croissant: Whether to return Croissant, not Markdown.
        title: The name of the dataset. Default: the name of its folder.
        description: A description for people.
        license: Its licence: an identifier of SPDX, such as `cc-by-4.0`, or a URL.
        url: Its page.
        creators: Names of those who made it.
        license_column: The column that has the licence of each sample. Default: one that is called so.
        source_column: The column that has the source of each sample, such as a URL. Default: one that is called so.
        base_url: The prefix of paths of files in Croissant, for data that are published there.
        index: As for `bushel.open`.
        progress: True for a bar in a terminal or notebook; or a function that is called with the bytes that were read.

    Returns:
        The card, or the metadata as JSON. Values that Croissant cannot describe are logged as warnings.

    Raises:
        KeyError: The column does not exist.
        UnsupportedError: The data are not below the folder of `target`; or `source` is an exported
            index.
        OSError: A file cannot be read or written.

    Examples:
        >>> text = bushel.card("train/", title="Cats and dogs", license="cc-by-4.0")
        >>> text.splitlines()[:3]
        ['---', 'pretty_name: "Cats and dogs"', 'license: cc-by-4.0']
        >>> import json
        >>> metadata = json.loads(bushel.card("train/", croissant=True))
        >>> [each["name"] for each in metadata["recordSet"]]
        ['classes/label', 'image', 'label']
    """
    refuse_index_file(expand_paths(source))
    place = None if target is None else Path(os.fspath(target)).absolute()
    splits = open_splits(source, index)
    about = About(
        title if title is not None else _title(source),
        description,
        license,
        url,
        tuple(creators),
        license_column,
        source_column,
    )
    try:
        if croissant:
            text = _croissant(source, splits, about, place, base_url, callback_of(progress))
        else:
            folder = _folder(source, place)
            facts = [facts_of(split, about, index) for split in splits]
            text = f"{front_matter(facts, about, folder)}\n{body(facts, about)}"
    finally:
        for split in splits:
            split.dataset.close()
    if place is not None:
        write_whole(place, text.encode())
    return text


def _title(source: Any) -> str:
    paths = expand_paths(source)
    name = str(paths[0]).rstrip("/").rsplit("/", 1)[-1] if len(paths) == 1 else ""
    return name.partition(".")[0] or Path.cwd().name if isinstance(paths[0], Path) else name or str(paths[0])


def _folder(source: Any, place: Path | None) -> Path | None:
    """Return the folder to which paths are relative: of the target, else of the data; None for remote data."""
    if place is not None:
        return place.parent.resolve()
    first = as_path(expand_paths(source)[0])
    if not isinstance(first, Path):
        return None
    return (first if first.is_dir() else first.parent).resolve()


def _croissant(
    source: Any,
    splits: Sequence[Split],
    about: About,
    place: Path | None,
    base_url: str | None,
    show: OnProgress | None,
) -> str:
    shards = [shard for split in splits for shard in split.dataset.shards]
    meter = _Meter(sum(stamp.size for shard in shards for stamp in shard.index.files), show)
    publisher = Publisher(_folder(source, place) or Path.cwd(), base_url, meter.add)
    for shard in shards:  # an error comes before anything is written
        publisher.url_of(shard.shard.path(0))
    tables = _tables(splits, place)
    made = croissant_of(splits, about, publisher, tables)
    if not tables:
        why = "without a target, no index is exported" if place is None else f"{place} lies among the data"
        made.notes.append(f"no record set `samples` has keys, columns and places of values: {why}")
    for note in made.notes:
        _log.warning("%s", note)
    return made.text


class _Meter:
    """Reports the bytes that several threads have read."""

    def __init__(self, total: int, show: OnProgress | None) -> None:
        self._total, self._show, self._done, self._lock = total, show, 0, threading.Lock()

    def add(self, size: int) -> None:
        """Count bytes that were just read."""
        with self._lock:
            self._done += size
            if self._show is not None:
                self._show(Progress(min(self._done, self._total), self._total, "bytes", bytes=self._done))


def _tables(splits: Sequence[Split], place: Path | None) -> list[Path]:
    """Export the index of each split beside the target; none if that lies among the data, or has no such form."""
    if place is None:
        return []
    roots = {
        Path(str(shard.shard.root)).resolve()
        for split in splits
        for shard in split.dataset.shards
        if not is_object(shard.shard.root)
    }
    near = place.parent.resolve()
    if any(near.is_relative_to(root) for root in roots):
        return []
    stem = place.name.partition(".")[0]
    tables = []
    for split in splits:
        table = place.with_name(f"{stem}-{split.name}.parquet" if split.name else f"{stem}.parquet")
        try:
            tables.append(split.dataset.export_index(table))
        except UnsupportedError as error:
            _log.warning("the index is not exported: %s", error)
            return []
    return tables
