"""The lists of video datasets as they are published: 20BN, Kinetics, ActivityNet."""

from __future__ import annotations

import csv
import os
import re
from typing import Any

from bushel.errors import FormatError
from bushel.sources import Row, parse_json, read_list, read_rows
from bushel.storage import AnyPath, as_path

_CUT = re.compile(r"_\d{6}_\d{6}$")  # the first and last second, which Kinetics appends to the id
Place = str | os.PathLike[str] | AnyPath


def read_twentybn(path: Place) -> list[Row]:
    r"""Return the rows of a 20BN list: JSON objects, or lines `id;label` (only the id in a test set).

    Raises:
        FormatError: The file is malformed.

    Examples:
        >>> from bushel.compat.gulpio2.layouts import read_twentybn
        >>> _ = Path("list.csv").write_text("7;Pushing\n8;Pulling\n")
        >>> read_twentybn("list.csv")
        [{'id': '7', 'label': 'Pushing'}, {'id': '8', 'label': 'Pulling'}]
    """
    if as_path(path).name.lower().removesuffix(".gz").endswith((".json", ".jsonl")):
        return read_rows(path)
    lines = read_list(as_path(path)).replace("\r\n", "\n").split("\n")
    return [
        dict(zip(("id", "label"), row, strict=False))
        for row in csv.reader(lines, delimiter=";")
        if row
    ]


def read_annotations(path: Place, member: str | None = None) -> dict[str, Any]:
    """Return the annotations of a JSON list by video id.

    Args:
        path: The list, gzipped or not.
        member: The member of the JSON object that holds them, such as `database` in ActivityNet's.

    Raises:
        FormatError: The file is malformed.

    Examples:
        >>> from bushel.compat.gulpio2.layouts import read_annotations
        >>> _ = Path("list.json").write_text('{"database": {"a": {"subset": "training", "annotations": []}}}')
        >>> read_annotations("list.json", "database")
        {'a': {'subset': 'training', 'annotations': []}}
    """
    content = parse_json(read_list(as_path(path)), str(path))
    expected = (
        "an object of videos by id"
        if member is None
        else f"an object with a {member!r}, videos by id"
    )
    videos = content.get(member) if isinstance(content, dict) and member is not None else content
    if not isinstance(videos, dict):
        raise FormatError(f"expected {expected}, found a {type(videos).__name__}", file=str(path))
    return videos


def kinetics_id(name: str) -> str:
    """Return the video id in the name of a Kinetics file: `<id>_000010_000020.mp4`.

    Examples:
        >>> from bushel.compat.gulpio2.layouts import kinetics_id
        >>> kinetics_id("ab_000003_000013.mp4")
        'ab'
    """
    return _CUT.sub("", os.path.splitext(os.path.basename(name))[0])
