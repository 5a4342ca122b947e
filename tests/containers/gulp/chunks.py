"""A chunk as the documentation of the format writes it out, and what is read from such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.containers.writing import stored_samples

from bushel.containers.base import ReadOptions
from bushel.containers.gulp import CONTAINER

DATA = b"abc\0defgh\0\0\0ijkl"
META = (
    b'{"v1": {"frame_info": [[0, 1, 4], [4, 3, 8]], "meta_data": [{"label": "x"}]},'
    b' "v2": {"frame_info": [[12, 0, 4]], "meta_data": [{}]}}'
)


def chunk(folder: Path, data: bytes = DATA, meta: bytes = META, number: int = 0) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / f"data_{number}.gulp").write_bytes(data)
    (folder / f"meta_{number}.gmeta").write_bytes(meta)
    return folder


def read(path: Path, **options: Any) -> list[tuple[str, dict[str, Any]]]:
    shards = CONTAINER.shards(path)
    assert shards is not None
    return [row for shard in shards for row in stored_samples(shard, CONTAINER.index(shard, ReadOptions(**options)))]
