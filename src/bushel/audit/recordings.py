"""Recordings of what a loader gives to a rank, and the recordings of an epoch joined.

There is a file for each rank and epoch, and for each time that it is resumed. After the header
(`HEADER`, little-endian: magic, rank, number of ranks, epoch, first step), each step has its number
of samples (uint32) and eight bytes for each sample (`digest`). `END` in the place of a
number says that the loader had no more batches.
"""

from __future__ import annotations

import os
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np

from bushel._runtime.arrays import U64
from bushel.errors import FormatError
from bushel.loader.base import detect_rank
from bushel.spec import KEY
from bushel.storage.files import inside

Batch = TypeVar("Batch")
Key = str | Callable[[Any], Any] | None

MAGIC = b"BUAUDIT1"
HEADER = struct.Struct("<8sIIQQ")
COUNT = struct.Struct("<I")
END = 0xFFFFFFFF
SUFFIX = ".audit"


def record(
    loader: Iterable[Batch],
    folder: str | os.PathLike[str],
    *,
    epoch: int = 0,
    step: int = 0,
    key: Key = None,
    rank: int | None = None,
    world_size: int | None = None,
) -> Iterator[Batch]:
    """Yield the batches of a loader, and note which samples each of them has.

    Args:
        loader: Any iterable of batches.
        folder: The folder of the run, which all its ranks share; made if it does not exist.
        epoch: The number of the epoch.
        step: The step of the first batch: how many the epoch had before the loader was resumed.
        key: The name of the field that identifies samples, or a function that takes a batch and
            returns the keys of its samples. Without it, the field `__key__` is used, and without
            that the contents: then the loader must give a sample with the same bytes each time,
            without random augmentation.
        rank: The rank of this process; by default that of torch.distributed, of JAX or of the
            environment (`RANK`), else 0.
        world_size: The number of ranks; found as the rank is.

    Raises:
        FileExistsError: This rank has recorded the same epoch from the same step before.
        TypeError: The samples of a batch cannot be distinguished: give `key`.
        KeyError: A batch has no field of the name `key`.

    Examples:
        >>> import bushel.audit
        >>> loader = bushel.Loader(ds, 4, shuffle=True, seed=0)
        >>> for batch in bushel.audit.record(loader, "runs/a"):
        ...     pass
        >>> print(bushel.audit.examine("runs/a"))
        runs/a: 1 rank, 1 epoch
        epoch 0: 3 steps, 12 samples, each of them once
        no problems
    """
    rank, world_size = detect_rank(rank, world_size)
    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    name = f"epoch{epoch:04d}-step{step:08d}-rank{rank:05d}-of-{world_size:05d}{SUFFIX}"
    path = inside(place, name)
    if path.exists():
        raise FileExistsError(
            f"{path}: rank {rank} has recorded epoch {epoch} from step "
            f"{step} before: record each run in a folder of its own"
        )
    with open(path, "xb", buffering=0) as file:
        file.write(HEADER.pack(MAGIC, rank, world_size, epoch, step))
        for batch in loader:
            samples = digests(batch, key)
            file.write(COUNT.pack(len(samples) // 8) + samples)
            yield batch
        file.write(COUNT.pack(END))


class Stretch(msgspec.Struct, frozen=True):
    """Steps of an epoch by the same number of ranks: a run that is resumed with others begins a new stretch.

    Attributes:
        world_size: The number of ranks.
        first: The number of the first step.
        ranks: The ranks that recorded it.
        steps: By step and rank, the digests of the samples.
        complete: The ranks whose loader had no more batches.
        unlike: By rank, the first step that was repeated after a resume, with other samples.
    """

    world_size: int
    first: int
    ranks: set[int] = set()
    steps: dict[tuple[int, int], U64] = {}
    complete: set[int] = set()
    unlike: dict[int, int] = {}

    @property
    def batch(self) -> int:
        """The number of samples that all ranks together had in the first step."""
        return sum(len(samples) for (step, _), samples in self.steps.items() if step == self.first)

    @property
    def ends(self) -> dict[int, int]:
        """By rank, the number of the step after its last one."""
        ends = dict.fromkeys(sorted(self.ranks), self.first)
        for step, rank in self.steps:
            ends[rank] = max(ends[rank], step + 1)
        return ends

    def add(self, rank: int, first: int, data: bytes) -> None:
        """Add the steps from the first one on, as the file of this rank has them, and compare the present ones."""
        self.ranks.add(rank)
        step, at = first, HEADER.size
        while at + COUNT.size <= len(data):
            (number,) = COUNT.unpack_from(data, at)
            if number == END:
                self.complete.add(rank)
                return
            begin, at = at + COUNT.size, at + COUNT.size + number * 8
            if at > len(data):  # killed while it wrote the last step, which is left out
                return
            samples = np.frombuffer(data, "<u8", number, begin)
            if not np.array_equal(self.steps.get((step, rank), samples), samples):
                self.unlike.setdefault(rank, step)
            self.steps[step, rank] = samples
            step += 1

    def cut(self, samples: int) -> None:
        """Leave out the steps after a number of samples of the epoch, which others did again."""
        end = samples // max(self.batch, 1)
        for place in [place for place in self.steps if place[0] >= end]:
            del self.steps[place]


def load_run(folder: str | os.PathLike[str]) -> dict[int, list[Stretch]]:
    """Return the stretches of each epoch of a run. A later one cuts off the steps that its ranks did again.

    Raises:
        FileNotFoundError: The folder has no recordings.
        FormatError: One is damaged.
    """
    recordings = []
    for path in sorted(Path(folder).glob(f"*{SUFFIX}")):
        data = path.read_bytes()
        if len(data) < HEADER.size or not data.startswith(MAGIC):
            hint = "delete it, if its process was killed when it began"
            raise FormatError("not a recording of bushel.audit", path, hint=hint)
        _, rank, world_size, epoch, first = HEADER.unpack_from(data)
        if rank >= world_size:
            raise FormatError(f"rank {rank} of {world_size} does not exist", path)
        recordings.append((epoch, first, world_size, rank, data))
    if not recordings:
        raise FileNotFoundError(
            f"{folder} does not exist, or has no recordings (*{SUFFIX}): "
            "bushel.audit.record(loader, folder) makes them"
        )
    epochs: dict[int, list[Stretch]] = {}
    for epoch, first, world_size, rank, data in sorted(recordings):
        stretches = epochs.setdefault(epoch, [])
        if not stretches or stretches[-1].world_size != world_size:
            stretches.append(Stretch(world_size, first))
        stretches[-1].add(rank, first, data)
    for stretches in epochs.values():
        for before, after in pairwise(stretches):
            before.cut(after.first * after.batch)
    return epochs


def digest(sample: str | bytes) -> bytes:
    """Return the eight bytes by which a sample is known, from its key or its contents."""
    if isinstance(sample, str):
        sample = sample.encode("utf-8", "surrogatepass")
    return blake2b(sample, digest_size=8).digest()


def digests(batch: Any, key: Key = None) -> bytes:
    """Return the digests of the samples of a batch, one after another.

    Args:
        batch: What a loader gives: a mapping of fields, a tuple of arrays, an array, a list of
            samples, or one sample.
        key: The name of the field that identifies samples, or a function that returns their keys
            for a batch. Without it, the field `__key__`; without that, the contents.

    Raises:
        TypeError: The samples of the batch cannot be distinguished.
        KeyError: The batch has no field of this name.
    """
    keys = _keys(batch, key)
    if keys is not None:
        return b"".join(map(digest, texts_of(keys)))
    if isinstance(batch, list) and batch and isinstance(batch[0], Mapping):
        return b"".join(digest(_contents(sample)) for sample in batch)
    columns = list(_columns(batch))
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise TypeError(
            f"samples of this {type(batch).__name__} cannot be distinguished: "
            f"its fields have {sorted(lengths)} elements. Give key=, the name "
            "of a field or a function that returns the keys of a batch"
        )
    return b"".join(digest(b"".join(map(_bytes, row))) for row in zip(*columns, strict=True))


def _keys(batch: Any, key: Key) -> Any:
    """Return the keys of a batch, None if it has none."""
    if callable(key):
        return key(batch)
    if isinstance(batch, list) and batch and isinstance(batch[0], Mapping):
        if key is None and not all(KEY in sample for sample in batch):
            return None
        return [sample[key or KEY] for sample in batch]
    if key is not None:
        return batch[key]
    if isinstance(batch, Mapping):
        return batch.get(KEY)
    return getattr(batch, KEY, None)


def texts_of(keys: Any) -> Iterable[str | bytes]:
    """Yield keys as texts, numbers too, also of the lists of lists that packed rows have."""
    if isinstance(keys, str | bytes):
        yield keys
    elif isinstance(keys, list | tuple):
        for part in keys:
            yield from texts_of(part)
    else:
        yield from map(str, np.asarray(_on_host(keys)).reshape(-1).tolist())


def _columns(batch: Any) -> Iterable[Any]:
    """Yield the fields of a batch, as sequences with an element for each sample."""
    if isinstance(batch, Mapping):
        for field in batch.values():
            yield from _columns(field)
    elif isinstance(batch, list) and isinstance(next(iter(batch), None), str | bytes | int | float):
        yield batch
    elif isinstance(batch, tuple | list):
        for field in batch:
            yield from _columns(field)
    else:
        column = np.asarray(_on_host(batch))
        if column.ndim:  # a number for the whole batch identifies nothing
            yield column


def _contents(sample: Any) -> bytes:
    """Return all bytes of one sample."""
    if isinstance(sample, Mapping):
        return b"".join(_bytes(name) + _contents(part) for name, part in sample.items())
    if isinstance(sample, list | tuple):
        return b"".join(map(_contents, sample))
    return _bytes(sample)


def _bytes(element: Any) -> bytes:
    if isinstance(element, bytes):
        return element
    if isinstance(element, str | int | float | None):
        return str(element).encode("utf-8", "surrogatepass")
    array = np.asarray(_on_host(element))
    if array.dtype.hasobject:
        raise TypeError(
            f"a sample has a {type(element).__name__}, whose bytes are not known: give "
            "key=, the name of a field or a function that returns the keys of a batch"
        )
    return array.tobytes()


def _on_host(tensor: Any) -> Any:
    """Return a tensor of torch in the memory of the CPU, in a type that NumPy has; anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):
        return tensor
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.float()
    return tensor
