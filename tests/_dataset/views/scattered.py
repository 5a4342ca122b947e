"""Datasets whose values are scattered over block files: the bytes of plain ones, cut into blocks of every filter."""

from __future__ import annotations

import random
from pathlib import Path

from msgspec.structs import replace
from tests.storage.block_files import FILTERS, Cut, block_file

from bushel._dataset.read.shards import OpenShard
from bushel._dataset.views.dataset import Dataset
from bushel._index.shard import FileStamp, Shard
from bushel._index.table import ShardIndex
from bushel.storage import IN_TABLE, Blocks, open_file

__all__ = ["scattered"]


def scattered(plain: Dataset, folder: Path, seed: int) -> Dataset:
    """Return a dataset with the samples of a local one, whose files are cut into blocks at random."""
    draw = random.Random(seed)
    shards = [_scattered(shard, folder / str(number), draw) for number, shard in enumerate(plain.shards)]
    return Dataset(shards, verify=True)


def _scattered(opened: OpenShard, folder: Path, draw: random.Random) -> OpenShard:
    index = opened.index
    names: list[str] = []
    blocks: list[Blocks] = []
    for number in range(len(index.files)):
        content = Path(str(opened.path(number))).read_bytes()
        made = block_file(folder / str(number), content, _cuts(len(content), draw), open_file)
        homes = len(names)
        names += [f"{number}/{file}" for file in range(2)]
        own = made.blocks
        blocks.append(replace(own, file=own.file + (own.file != IN_TABLE).astype(own.file.dtype) * homes))
    stamps = [(folder / name).stat() for name in names]
    files = tuple(FileStamp(name, stat.st_size, stat.st_mtime_ns) for name, stat in zip(names, stamps, strict=True))
    fields = {name: replace(own, file=len(names) + own.file) for name, own in index.fields.items()}
    table = ShardIndex(
        index.samples, files, fields, index.container, index.keys, index.labels, index.columns, tuple(blocks)
    )
    shard = Shard(folder, opened.shard.name, tuple(names))
    return OpenShard.of(index.container, shard, table.check("scattered"), stored=False)


def _cuts(size: int, draw: random.Random) -> list[Cut]:
    """Return random cuts; most blocks are smaller than values, some hold several, and some are empty."""
    cuts: list[Cut] = []
    left = size
    while left:
        own = min(
            left, draw.choice([0, 1, draw.randrange(1, 200), draw.randrange(1, 4000), draw.randrange(1, 1 << 16)])
        )
        kind = draw.choice(FILTERS)
        cuts.append(Cut(own, kind, draw.choice([IN_TABLE, 0, 0, 1]), 0, draw.randrange(4)))
        left -= own
    return cuts
