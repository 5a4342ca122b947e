"""The labels of archives of class folders, kept beside their index: making them takes the names of all samples.

They are in `.bushel/labels`, for the samples of all archives one after another. The name of the file is a hash of all
that decides them: the digests of the tables of the archives, in order, and of archives of other splits beside. So the
labels of other archives are never found.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from bushel._dataset.read.shards import OpenShard
from bushel._index.named_arrays import encode, parse, whole_crc32
from bushel._index.sidecar import DAMAGES
from bushel._index.table import FOLDER, ShardIndex
from bushel._runtime.arrays import I64
from bushel._runtime.messages import log_info
from bushel.kernels import map_array
from bushel.storage import make_folder, write_whole

from .caller_fields import NO_CALLER_FIELDS
from .tables import index_is_in_cache

_ARRAYS = {"labels": "I64"}
_MOST = 8  # files of labels that a folder keeps: of all its archives, and of some of them


class _Header(msgspec.Struct):
    classes: list[str]
    crc32: int = 0


_HEADER = msgspec.json.Decoder(_Header)  # made at import, as the decoders of sidecars


class KeptLabels(NamedTuple):
    """The labels of the samples of archives."""

    numbers: I64  # int64[samples]
    classes: list[str]  # the names of the classes


def place_of_labels(shards: Sequence[OpenShard], beside: Sequence[ShardIndex]) -> Path | None:
    """Return the path at which the labels of shards are kept; None if their tables are not kept beside the data.

    Args:
        shards: The archives.
        beside: The tables of the archives of other splits.
    """
    root = shards[0].shard.root
    if not isinstance(root, Path) or index_is_in_cache():
        return None
    for shard in shards:
        is_kept = shard.stored and shard.damage is None and shard.asked is NO_CALLER_FIELDS
        if not is_kept or shard.shard.root != root or shard.shard.index is not None:
            return None
    digests = [shard.digest for shard in shards], [index.digest for index in beside]
    if not all(digests[1]):
        return None
    name = hashlib.sha256(msgspec.json.encode(digests)).hexdigest()[:32]
    return root / f"{FOLDER}/labels/{name}.safetensors"


def load_labels(place: Path, samples: int) -> KeptLabels | None:
    """Return the labels at a path; None if they are missing or damaged, or of another number of samples."""
    try:
        text, arrays = parse(map_array(str(place)).data, _ARRAYS)
        header, numbers = _HEADER.decode(text), arrays["labels"]
        if whole_crc32(header, arrays) != header.crc32 or len(numbers) != samples:
            return None
    except (OSError, *DAMAGES):
        return None
    if int(numbers.min(initial=0)) < 0 or int(numbers.max(initial=0)) >= len(header.classes):
        return None
    return KeptLabels(numbers, header.classes)


def save_labels(labels: KeptLabels, place: Path) -> None:
    """Keep the labels of archives, if the folder can be written to."""
    arrays, header = {"labels": labels.numbers}, _Header(labels.classes)
    header.crc32 = whole_crc32(header, arrays)
    try:
        make_folder(place.parent)
        files = sorted(place.parent.iterdir(), key=lambda path: path.stat().st_mtime_ns)
        for path in files[: 1 - _MOST]:
            path.unlink(missing_ok=True)
        write_whole(place, encode(arrays, header), sync=False)
    except OSError as error:
        log_info("%s: the labels are not stored: %s", place, error)
