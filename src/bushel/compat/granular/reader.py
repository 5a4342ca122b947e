"""Reading datasets: `DatasetReader` and `ShardedDatasetReader`, of Granular 0.20 and 0.24 alike."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bushel.compat.granular.errors import WrongUseError
from bushel.compat.granular.formats import Codecs
from bushel.compat.granular.paths import granular_path
from bushel.compat.granular.points import PointReader
from bushel.errors import FormatError
from bushel.storage import AnyPath

__all__ = ["DatasetReader", "ShardedDatasetReader"]


class DatasetReader(PointReader):
    """Reads a dataset of any generation: one folder with a bag for each key.

    Args:
        directory: The folder.
        decoders: Types to functions from bytes to a value; None for bytes.
        cache_index: Whether the tables are kept in memory, 16 bytes per record; otherwise they are mapped from a
            temporary file.
        cache_keys: Keys whose bags are read into memory. The references (`refs`) are part of the index.
        parallel: Whether to read the keys of a datapoint with one request each, all at the same time.
        pool_name: Taken for the sake of Granular 0.24; each reader has a pool of its own.

    Raises:
        FileNotFoundError: There is no dataset.
        FormatError: It is damaged.
        KeyError: A type has no decoder.
    """

    def __init__(
        self,
        directory: Any,
        decoders: Codecs,
        cache_index: bool = True,
        cache_keys: Sequence[str] = (),
        parallel: bool = False,
        pool_name: str | None = None,
    ) -> None:
        folder = granular_path(directory)
        if not (folder / "spec.json").exists():
            raise FileNotFoundError(f"there is no dataset in {folder}: it has no spec.json")
        super().__init__([folder], decoders, cache_index, cache_keys, parallel)


class ShardedDatasetReader(PointReader):
    """Reads a folder of datasets named by number, or every so-manieth of them.

    Args:
        directory: The folder.
        decoders: As of `DatasetReader`.
        cache_index: As of `DatasetReader`.
        cache_keys: As of `DatasetReader`.
        parallel: As of `DatasetReader`.
        shardstart: Number of the first shard.
        shardstep: How many numbers to go from one shard to the next.

    Raises:
        FileNotFoundError: There is no such shard.
        FormatError: One is missing or damaged.
    """

    def __init__(
        self,
        directory: Any,
        decoders: Codecs,
        cache_index: bool = True,
        cache_keys: Sequence[str] = (),
        parallel: bool = False,
        shardstart: int = 0,
        shardstep: int = 1,
    ) -> None:
        if shardstart < 0 or shardstep < 1:
            raise WrongUseError(f"shardstart is at least 0 and shardstep at least 1, not {shardstart} and {shardstep}")
        folders = _shard_folders(granular_path(directory), shardstart, shardstep)
        super().__init__(folders, decoders, cache_index, cache_keys, parallel)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return len(self._shards)


def _shard_folders(directory: AnyPath, start: int, step: int) -> list[AnyPath]:
    """The folders of every `step`th shard from `start` on; what is not named by a number is none."""
    folders = {int(entry.name): entry.name for entry in directory.iterdir() if entry.name.isdecimal()}
    own = sorted(number for number in folders if number >= start and (number - start) % step == 0)
    if not own:
        raise FileNotFoundError(f"{directory} has no shard {start:06d}")
    for number, expected in zip(own, range(start, own[-1] + 1, step), strict=False):
        if number != expected:
            raise FormatError(
                f"shard {expected:06d} is missing, although there is a shard {number:06d}",
                file=str(directory),
                hint="wait until its writer is done, or restore the folder",
            )
    return [directory / folders[number] for number in own]
