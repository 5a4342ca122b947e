"""`gulpio2.sanity_utils`: the checks of `gulp2_sanity_check`. Each returns the failures."""

from __future__ import annotations

import collections
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from .chunk import GulpChunk
from .tables import JSONSerializer


class Chunked(Protocol):
    """A `GulpDirectory`, as far as the checks need it."""

    def chunks(self) -> Iterator[GulpChunk]: ...


def check_meta_file_size_larger_zero(gulp_directory: Chunked) -> list[str]:
    """Return the paths of empty meta files."""
    return _empty(chunk.meta_file_path for chunk in gulp_directory.chunks())


def check_data_file_size_larger_zero(gulp_directory: Chunked) -> list[str]:
    """Return the paths of empty data files."""
    return _empty(chunk.data_file_path for chunk in gulp_directory.chunks())


def _empty(paths: Iterable[str]) -> list[str]:
    return [path for path in paths if not os.stat(path).st_size]


def check_data_file_size(gulp_directory: Chunked) -> list[str]:
    """Return the paths of data files whose size is not the end of the last frame of their meta file."""

    def end(chunk: GulpChunk) -> int:
        infos = (info for entry in chunk.meta_dict.values() for info in entry["frame_info"])
        return max((info[0] + info[2] for info in infos), default=0)

    return [
        chunk.data_file_path
        for chunk in gulp_directory.chunks()
        if os.stat(chunk.data_file_path).st_size != end(chunk)
    ]


def check_for_duplicate_ids(gulp_directory: Chunked) -> list[str]:
    """Return the ids that appear more than once: in several chunks, or in one."""
    return get_duplicate_entries(extract_all_ids(gulp_directory))


def extract_all_ids(gulp_directory: Chunked) -> list[str]:
    """Return all ids, each as often as it appears."""
    return [id_ for chunk in gulp_directory.chunks() for id_ in ids_of(chunk)]


def get_duplicate_entries(list_: Iterable[str]) -> list[str]:
    """Return the entries that a list has more than once."""
    return [entry for entry, count in collections.Counter(list_).items() if count > 1]


def check_for_failures(result: Mapping[str, Any]) -> None:
    """Print the outcome of a check: `{"message": ..., "failures": [...]}`."""
    print(f"Sanity Check: {result['message']}")
    failures: Sequence[str] = result["failures"]
    print(f"Test failed for: {list(failures)}" if failures else "Test passed")


def ids_of(chunk: GulpChunk) -> list[str]:
    """Return the ids of a chunk, each as often as it was appended to, or is written in the meta file."""
    ids = [id_ for id_, entry in chunk.meta_dict.items() for _ in range(_times(entry))]
    if isinstance(chunk.serializer, JSONSerializer) and os.stat(chunk.meta_file_path).st_size:
        # A dict keeps only the last of two entries with the same id, so the text is parsed into
        # pairs.
        pairs = json.loads(Path(chunk.meta_file_path).read_bytes(), object_pairs_hook=_Pairs)
        ids += get_duplicate_entries(id_ for id_, _ in pairs)
    return ids


def _times(entry: Any) -> int:
    """Return how often an item was appended to; a malformed entry counts once."""
    metas = entry.get("meta_data") if isinstance(entry, dict) else None
    return max(1, len(metas)) if isinstance(metas, list) else 1


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object in the order of the text."""
