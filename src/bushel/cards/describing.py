"""`bushel.card`: a description of a dataset, as a data card in Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bushel._dataset.open.source_paths import expand_paths
from bushel._runtime.public import public
from bushel.storage import AnyLocation, AnySource, as_path, write_whole

from .facts import About, facts_of, open_splits
from .front_matter import front_matter
from .markdown import body


@public()
def card(
    source: AnySource,
    target: AnyLocation | None = None,
    *,
    title: str | None = None,
    description: str | None = None,
    license: str | None = None,
    url: str | None = None,
    creators: Sequence[str] = (),
    license_column: str | None = None,
    source_column: str | None = None,
    index: AnyLocation = "auto",
) -> str:
    """Describe a dataset for others: as a data card in Markdown (docs/cards.md).

    It is made from the index, so no data are read.

    Args:
        source: Anything that `bushel.open` takes; or a folder with a dataset in each folder, as
            `bushel.split` writes them, which are described together.
        target: The file to write, such as `README.md`; None: no file.
        title: The name of the dataset. Default: the name of its folder.
        description: A description for people.
        license: Its licence: an identifier of SPDX, such as `cc-by-4.0`, or a URL.
        url: Its page.
        creators: Names of those who made it.
        license_column: The column that has the licence of each sample. Default: one that is called
            so.
        source_column: The column that has the source of each sample, such as a URL. Default: one
            that is called so.
        index: As for `bushel.open`.

    Returns:
        The card.

    Raises:
        KeyError: The column does not exist.
        OSError: A file cannot be read or written.

    Examples:
        >>> text = bushel.card("train/", title="Cats and dogs", license="cc-by-4.0")
        >>> text.splitlines()[:3]
        ['---', 'pretty_name: "Cats and dogs"', 'license: "cc-by-4.0"']
    """
    place = None if target is None else Path(str(target)).absolute()
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
        facts = [facts_of(split, about, index) for split in splits]
        text = f"{front_matter(facts, about, _folder(source, place))}\n{body(facts, about)}"
    finally:
        for split in splits:
            split.dataset.close()
    if place is not None:
        write_whole(place, text.encode())
    return text


def _title(source: Any) -> str:
    paths = expand_paths(source)
    name = ""
    if len(paths) == 1:
        name = str(paths[0]).rstrip("/").rsplit("/", 1)[-1]
    if isinstance(paths[0], Path):
        return name.partition(".")[0] or Path.cwd().name
    return name or str(paths[0])


def _folder(source: Any, place: Path | None) -> Path | None:
    """Return the folder to which paths are relative: of the target, else of the data; None for remote data."""
    if place is not None:
        return place.parent.resolve()
    first = as_path(expand_paths(source)[0])
    if not isinstance(first, Path):
        return None
    return (first if first.is_dir() else first.parent).resolve()
