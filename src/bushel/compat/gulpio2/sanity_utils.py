"""What `gulpio2.sanity_utils` has: the checks of `gulp2_sanity_check`, each of which returns what fails."""

from __future__ import annotations

import collections
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from bushel.compat.gulpio2.chunk import GulpChunk
from bushel.compat.gulpio2.serializers import JSONSerializer

__all__ = [
    "check_data_file_size",
    "check_data_file_size_larger_zero",
    "check_for_duplicate_ids",
    "check_for_failures",
    "check_meta_file_size_larger_zero",
    "extract_all_ids",
    "get_duplicate_entries",
    "ids_of",
]


class Chunked(Protocol):
    """A `GulpDirectory`, or as much of one as the checks need."""

    def chunks(self) -> Iterator[GulpChunk]:
        """The chunks."""


def check_meta_file_size_larger_zero(gulp_directory: Chunked) -> list[str]:
    """Paths of empty meta files."""
    return [chunk.meta_file_path for chunk in gulp_directory.chunks() if os.stat(chunk.meta_file_path).st_size == 0]


def check_data_file_size_larger_zero(gulp_directory: Chunked) -> list[str]:
    """Paths of empty data files."""
    return [chunk.data_file_path for chunk in gulp_directory.chunks() if os.stat(chunk.data_file_path).st_size == 0]


def check_data_file_size(gulp_directory: Chunked) -> list[str]:
    """Paths of data files that do not end where the last frame of their meta file ends."""
    return [
        chunk.data_file_path
        for chunk in gulp_directory.chunks()
        if os.stat(chunk.data_file_path).st_size != _end(chunk.meta_dict.values())
    ]


def check_for_duplicate_ids(gulp_directory: Chunked) -> list[str]:
    """Ids that appear more than once: in several chunks, or in one."""
    return get_duplicate_entries(extract_all_ids(gulp_directory))


def extract_all_ids(gulp_directory: Chunked) -> list[str]:
    """All ids, each as often as it appears."""
    return [id_ for chunk in gulp_directory.chunks() for id_ in ids_of(chunk)]


def get_duplicate_entries(list_: Iterable[str]) -> list[str]:
    """What is in a list more than once."""
    return [entry for entry, count in collections.Counter(list_).items() if count > 1]


def check_for_failures(result: Mapping[str, Any]) -> None:
    """Print the outcome of a check: `{"message": ..., "failures": [...]}`."""
    print(f"Sanity Check: {result['message']}")
    failures: Sequence[str] = result["failures"]
    print(f"Test failed for: {list(failures)}" if failures else "Test passed")


def ids_of(chunk: GulpChunk) -> list[str]:
    """The ids of a chunk: one that was appended to again, or is written twice in the meta file, as often as that."""
    ids = [id_ for id_, entry in chunk.meta_dict.items() for _ in range(max(1, len(entry["meta_data"])))]
    if isinstance(chunk.serializer, JSONSerializer) and os.stat(chunk.meta_file_path).st_size:
        # A parser keeps only the last of two entries with the same id, so the text is asked.
        pairs = json.loads(Path(chunk.meta_file_path).read_bytes(), object_pairs_hook=_Pairs)
        ids += get_duplicate_entries(id_ for id_, _ in pairs)
    return ids


class _Pairs(list[tuple[str, Any]]):
    """The members of a JSON object as they stand in the text."""


def _end(entries: Iterable[Mapping[str, Any]]) -> int:
    return max((info[0] + info[2] for entry in entries for info in entry["frame_info"]), default=0)
