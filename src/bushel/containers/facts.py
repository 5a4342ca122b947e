"""The facts by which the files of a container are recognised, and the facts of Bushel's own containers."""

from __future__ import annotations

import re
from typing import Any

from msgspec import Struct

DIGITS = re.compile(r"[0-9]+")
"""A run of digits, for which suffixes have `#`."""


class Facts(Struct, frozen=True):
    """The facts by which files of a container are recognised, before it is imported: see `Container`."""

    module: str = ""  # of Bushel's own, below `bushel.containers`
    suffixes: tuple[str, ...] = ()
    file_names: tuple[str, ...] = ()
    suffix: str | None = None  # its `suffix`; None if it is only read
    recovery: str = ""  # the module whose `recover` takes the place of the class's
    forward: tuple[str, ...] = ()  # ends of names of files that are read in a stream
    slow: tuple[str, ...] = ()  # the same, of streams unless they have an index
    alone: tuple[str, ...] = ()  # the same, of those that are its data only if a caller names them
    first_bytes: bool = False  # whether its files are recognised by their first bytes, too
    partitioned: bool = False  # whether folders `year=2020` may have its files
    episodes: str | None = None  # the container of the same files with an episode as a sample
    container: Any = None  # itself, if it was registered


def _with_compressed(*suffixes: str) -> tuple[str, ...]:
    return tuple(suffix + end for suffix in suffixes for end in ("", ".gz", ".zst"))


_INDEXED_TAR = (".tar.gz", ".tgz", ".tar.zst")
_TFRECORD = tuple(
    f".tfrecord{plural}{numbers}{end}"
    for numbers in ("", "-#-of-#")
    for end in ("", ".gz")
    for plural in ("", "s")
)
_ARRAY_RECORD = (".array_record", ".array_record-#-of-#", ".arrayrecord", ".arrayrecord-#-of-#")
_TAR_LISTS = ("index.json", "shardindex.json", ".nv-meta")
_STREAMED_TAR = (".tbz", ".tbz2", ".txz", ".tar.bz2", ".tar.xz")

_LINES = _with_compressed(".jsonl", ".ndjson")
_LISTS = _with_compressed(".json")
_CSV = _with_compressed(".csv", ".tsv")
TABLES = _LINES + _LISTS + _CSV
"""The ends of the names of files with rows of text, which may be about the files beside them."""

BUILT_IN: dict[str, Facts] = {
    "bag": Facts("bag", (".bag",), ("spec.json", "#"), suffix="", recovery="bag.recover"),
    "tar": Facts(
        "tar",
        (".tar", *_INDEXED_TAR),
        _TAR_LISTS,
        suffix=".tar",
        recovery="tar.recover",
        forward=_STREAMED_TAR,
        slow=_INDEXED_TAR,
    ),
    "ffrecord": Facts("ffrecord", (".ffr",), suffix=".ffr", recovery="ffrecord.container"),
    "gulp": Facts("gulp", (".gulp", ".gmeta"), suffix=".gulp", recovery="gulp.reading"),
    # im2rec names parts x.rec.part000
    "recordio": Facts(
        "recordio", (".rec", ".rec.part#"), suffix=".rec", recovery="recordio.container"
    ),
    "lerobot": Facts("lerobot.container", file_names=("meta",), episodes="lerobot-episodes"),
    "lerobot-episodes": Facts("lerobot.episodes", file_names=("meta/info.json",)),
    "parquet": Facts(
        "parquet.container", (".parquet", ".pq"), ("data",), first_bytes=True, partitioned=True
    ),
    "mds": Facts("mds", file_names=("index.json",)),
    "litdata": Facts("litdata", file_names=("index.json",)),
    "arrayrecord": Facts("arrayrecord", _ARRAY_RECORD),
    "zip": Facts("zip", (".zip",)),
    "npy": Facts("npy", (".npy", ".npz")),
    "megatron": Facts("megatron", (".bin",)),
    "tfrecord": Facts("tfrecord.container", _TFRECORD, first_bytes=True),
    "jsonl": Facts("jsonl", _LINES, alone=_LISTS),
    "csv": Facts("csv", _CSV),
    "arrow": Facts("arrow.container", (".arrow", ".feather"), first_bytes=True),
    "folder": Facts("folder"),
}
"""The containers in the order in which they are tried on an unknown path. A new one of Bushel gets a line here."""
