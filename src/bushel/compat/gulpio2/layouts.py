"""Video datasets as they are published: 20BN, Kinetics, ActivityNet.

Each function returns a `Table` with the field that `media` makes, `label` and its number `idx`; the
key is the video's id. A listed video that is missing is an error of its item. If a list has no
labels, the samples have none.
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

from bushel.errors import FormatError
from bushel.sources import VIDEOS, Frames, Media, Row, Table, parse_json, read_list, read_rows, walk
from bushel.storage import AnyPath, as_path

_CUT = re.compile(r"_\d{6}_\d{6}$")  # the first and last second, which Kinetics appends to the id
Place = str | os.PathLike[str] | AnyPath


def twentybn_json(
    path: Place,
    root: Place,
    media: Media | None = None,
    *,
    label: str = "template",
    label2idx: Mapping[str, int] | None = None,
) -> Table:
    """Return a source of the videos `root/<id>/*.mp4` that a JSON list of objects with `id` and a label names.

    Examples:
        >>> from bushel.compat.gulpio2.layouts import twentybn_json
        >>> _ = Path("list.json").write_text('[{"id": "red", "template": "Pushing"}]')
        >>> twentybn_json("list.json", "clips").labels
        {'template': ('Pushing',), 'idx': ('Pushing',)}
    """
    rows = read_twentybn(path)
    return Table(
        rows,
        media or Frames(rate=8),
        root=root,
        file="{id}/*.mp4",
        key="{id}",
        label=label,
        label2idx=label2idx,
    )


def twentybn_csv_webm(
    path: Place,
    root: Place,
    media: Media | None = None,
    *,
    label2idx: Mapping[str, int] | None = None,
) -> Table:
    r"""Return a source of the videos `root/<id>.webm` that lines of `id;label` name.

    Examples:
        >>> from bushel.compat.gulpio2.layouts import twentybn_csv_webm
        >>> _ = Path("list.csv").write_text("7;Pushing\n")
        >>> twentybn_csv_webm("list.csv", "webm").labels
        {'label': ('Pushing',), 'idx': ('Pushing',)}
    """
    rows = read_twentybn(path)
    return Table(
        rows, media or Frames(rate=12), root=root, file="{id}.webm", key="{id}", label2idx=label2idx
    )


def twentybn_csv_jpeg(
    path: Place,
    root: Place,
    media: Media | None = None,
    *,
    label2idx: Mapping[str, int] | None = None,
) -> Table:
    r"""Return a source of the frames `root/<id>/*.jpg` of the videos that lines of `id;label` name.

    Examples:
        >>> from bushel.compat.gulpio2.layouts import twentybn_csv_jpeg
        >>> _ = Path("list.csv").write_text("cat;Purring\ndog;Barking\n")
        >>> source = twentybn_csv_jpeg("list.csv", "photos")  # a folder of frames for each id
        >>> len(source[0]["frames"]), source.labels
        (6, {'label': ('Barking', 'Purring'), 'idx': ('Barking', 'Purring')})
    """
    rows = read_twentybn(path)
    return Table(rows, media or Frames(), root=root, file="{id}", key="{id}", label2idx=label2idx)


def kinetics(
    path: Place,
    root: Place,
    media: Media | None = None,
    *,
    label2idx: Mapping[str, int] | None = None,
) -> Table:
    """Return a source of the videos `root/<class>/<id>_<from>_<to>.mp4` that a JSON object of annotations by id lists.

    Videos that exist but are not listed are left out.

    Examples:
        >>> import json, shutil
        >>> from bushel.compat.gulpio2.layouts import kinetics
        >>> Path("videos/juggling").mkdir(parents=True)
        >>> path = shutil.copy("clips/red/a.mp4", "videos/juggling/ab_000003_000013.mp4")
        >>> one = {"annotations": {"label": "juggling", "segment": [3, 13]}, "subset": "train"}
        >>> _ = Path("list.json").write_text(json.dumps({"ab": one}))
        >>> len(kinetics("list.json", "videos"))
        1
    """
    listed = read_annotations(path)
    rows = [
        {"path": name, "id": video, "label": _annotated(listed[video], path, video)["label"]}
        for name, video in _videos(root)
        if video in listed
    ]
    return Table(rows, media or Frames(), root=root, key="{id}", label2idx=label2idx)


def activitynet(
    path: Place,
    root: Place,
    media: Media | None = None,
    *,
    subset: str = "training",
    label2idx: Mapping[str, int] | None = None,
) -> Table:
    """Return a source of the videos `root/<id>` or `root/v_<id>`, with any video suffix, that a JSON object lists.

    The member `database` of the object has the annotations by id. The label comes from the first
    annotation of a video. The field `annotations` has all of them, with their times.

    Examples:
        >>> import json
        >>> from bushel.compat.gulpio2.layouts import activitynet
        >>> video = {"subset": "training", "annotations": [{"label": "Juggling", "segment": [0.5, 9.0]}]}
        >>> _ = Path("list.json").write_text(json.dumps({"database": {"a": video}}))
        >>> activitynet("list.json", "clips/red").labels
        {'label': ('Juggling',), 'idx': ('Juggling',)}
    """
    database = read_annotations(path, "database")
    files = {video.removeprefix("v_"): name for name, video in _videos(root)}
    rows = []
    for video, about in database.items():
        if not isinstance(about, dict) or about.get("subset") != subset:
            continue
        row = {"path": files.get(video, f"{video}.mp4"), "id": video}
        if annotations := about.get("annotations"):
            row |= {"label": _annotated(about, path, video)["label"], "annotations": annotations}
        rows.append(row)
    return Table(rows, media or Frames(), root=root, key="{id}", label2idx=label2idx)


LAYOUTS: Mapping[str, Any] = {
    "20bn-json": twentybn_json,
    "20bn-csv-webm": twentybn_csv_webm,
    "20bn-csv-jpeg": twentybn_csv_jpeg,
    "kinetics": kinetics,
    "activitynet": activitynet,
}
"""The layouts by their names on the command line."""


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


def _annotated(about: Any, path: Place, video: str) -> Row:
    """Return the first annotation of a video."""
    annotations = about.get("annotations") if isinstance(about, dict) else None
    first = annotations[0] if isinstance(annotations, list) and annotations else annotations
    if not isinstance(first, dict) or not isinstance(first.get("label"), str):
        raise FormatError(f"video {video!r} has no annotation with a label", file=str(path))
    return first


def _videos(root: Place) -> Iterator[tuple[str, str]]:
    """Yield relative paths of videos, and their ids."""
    for name in walk(as_path(root), VIDEOS):
        yield name, kinetics_id(name)
