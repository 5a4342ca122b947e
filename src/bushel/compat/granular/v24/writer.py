"""Writing datasets of generation C, and going on with them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from bushel.compat.granular.closing import Closing
from bushel.compat.granular.errors import MismatchError, WrongUseError
from bushel.compat.granular.formats import Codecs, bind_codecs, stored_bytes
from bushel.compat.granular.paths import granular_path, make_folder
from bushel.compat.granular.v24.bag import BagWriter
from bushel.compat.granular.writer import Shards, checked_point, checked_spec
from bushel.containers.bag.writer import plan_layout
from bushel.containers.base import WriteOptions
from bushel.errors import SpecError
from bushel.spec import Field
from bushel.storage import AnyPath
from bushel.storage.whole import read_whole, write_whole

__all__ = ["DatasetWriter", "ShardedDatasetWriter"]


class DatasetWriter(Closing):
    """Writes a dataset without sequences: one folder with a `.bag` and an `.idx` for each key.

    What was flushed can be read, and survives the death of this process. When a dataset is there already, the writer
    goes on with it: `len(writer)` datapoints are whole, and what is behind them (keys that are ahead of others) is
    written again.

    Args:
        directory: The folder, which is made with its parents.
        spec: Keys to types.
        encoders: Types to functions from a value to bytes; None for bytes.

    Raises:
        MismatchError: The dataset that is there has another spec.
        SpecError: A type is a sequence, or a key cannot be the name of a file.
        KeyError: A type has no encoder.
        FormatError: The dataset that is there is damaged.
    """

    def __init__(self, directory: Any, spec: Mapping[str, str], encoders: Codecs) -> None:
        super().__init__()
        self._spec = checked_spec(spec)
        fields = {name: Field(name, "bytes", kind.endswith("[]")) for name, kind in self._spec.items()}
        fields.pop("__key__", None)
        plan_layout(fields, WriteOptions(keyed="__key__" in self._spec, generation="C", single=True))
        self._encoders = bind_codecs(encoders, self._spec)
        self.directory, path = directory, granular_path(directory)
        _put_spec(path, self._spec)
        with ExitStack() as opened:
            self._bags = {name: opened.enter_context(BagWriter(path / f"{name}.bag")) for name in self._spec}
            self._length = min(len(bag) for bag in self._bags.values())
            for bag in self._bags.values():
                bag.cut(self._length)
            opened.pop_all()  # they are closed by close()

    @property
    def spec(self) -> dict[str, str]:
        """Keys to types, in the order of the keys."""
        return dict(self._spec)

    @property
    def size(self) -> int:
        """Bytes of all bags and indices."""
        return sum(bag.size for bag in self._bags.values())

    def __len__(self) -> int:
        return self._length

    def append(self, datapoint: Mapping[str, Any], flush: bool = True) -> int:
        """Add one datapoint, or, if it does not encode, nothing of it.

        Returns:
            Its number.

        Raises:
            WrongTypeError: It is no dict, or an encoder gives something else than bytes.
            WrongUseError: Its keys are not those of the spec; or the writer is closed.
        """
        if self.closed:
            raise WrongUseError("the writer is closed")
        checked_point(datapoint, self._spec)
        records = {
            name: stored_bytes(name, kind, self._encoders[name], datapoint[name]) for name, kind in self._spec.items()
        }
        for name, record in records.items():
            self._bags[name].append(record, flush=False)
        self._length += 1
        if flush:
            self.flush()
        return self._length - 1

    def flush(self) -> None:
        """Hand what was written to the operating system."""
        for bag in self._bags.values():
            bag.flush()

    def close(self) -> None:
        """Flush, and close the files."""
        for bag in self._bags.values():
            bag.close()
        super().close()


class ShardedDatasetWriter(Shards):
    """Writes a folder of datasets named by number, or every so-manieth of them, and goes on with what is there.

    Args:
        directory: The folder, which may be there already.
        spec: As of `DatasetWriter`.
        encoders: As of `DatasetWriter`.
        shardlen: Datapoints in a shard; some 10 GB make a good shard. None: one shard.
        shardstart: Number of the first shard.
        shardstep: How many numbers to go from one shard to the next.

    Raises:
        WrongUseError: `shardstart` or `shardstep` is given without `shardlen`.
        MismatchError: The dataset that is there has another spec.
    """

    def __init__(
        self,
        directory: Any,
        spec: Mapping[str, str],
        encoders: Codecs,
        shardlen: int | None = None,
        shardstart: int = 0,
        shardstep: int = 1,
    ) -> None:
        super().__init__(shardlen, shardstart, shardstep)
        if (shardstart > 0 or shardstep > 1) and not shardlen:
            raise WrongUseError("shardstart and shardstep need a shardlen, or all would go into the first shard")
        self._spec = checked_spec(spec)
        bind_codecs(encoders, self._spec)
        self.directory, self.encoders = directory, encoders
        self._path = granular_path(directory)
        make_folder(self._path)
        while (self._path / f"{self.shardnum:06}" / "spec.json").exists():
            self.writer = self._begin(f"{self.shardnum:06}")
            if not self._full():
                break
            self._next()

    @property
    def spec(self) -> dict[str, str]:
        """Keys to types."""
        return dict(self._spec)

    def _begin(self, name: str) -> DatasetWriter:
        return DatasetWriter(self._path / name, self._spec, self.encoders)


def _put_spec(path: AnyPath, spec: Mapping[str, str]) -> None:
    """Write `spec.json`, or make sure that the one that is there is the same."""
    target = path / "spec.json"
    if not target.exists():
        make_folder(path, parents=True)
        write_whole(target, json.dumps(spec).encode())
        return
    try:
        there = json.loads(read_whole(target))
    except ValueError as error:
        raise SpecError(f"{target} is no JSON: {error}") from error
    if there != spec:
        raise MismatchError(f"{path} has the spec {there}: a writer with {dict(spec)} cannot go on with it")
