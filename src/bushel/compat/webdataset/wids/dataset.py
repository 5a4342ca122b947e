"""`ShardListDataset`: the samples of many shards by their positions. Shards are indexed and read by Bushel."""

from __future__ import annotations

import io
import os
import sys
import warnings
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from typing import Any, Self
from urllib.parse import quote, urlparse

from bushel import Dataset
from bushel.compat.webdataset.cache import download
from bushel.compat.webdataset.tariterators import local_path_of
from bushel.compat.webdataset.wids.decode import default_decoder
from bushel.compat.webdataset.wids.descriptor import load, resolve, urldir
from bushel.errors import FormatError

__all__ = ["ShardListDataset", "open_shard"]

_MANY_SHARDS = 200


@contextmanager
def open_shard(path: str) -> Iterator[Dataset]:
    """An archive, indexed in memory.

    Raises:
        FormatError: It is damaged.
    """
    dataset = _opened(path)
    try:
        yield dataset
    finally:
        dataset.close()


def _opened(path: str) -> Dataset:
    import bushel

    if not os.path.exists(path):
        raise FileNotFoundError(f"there is no shard {path}")
    return bushel.open([path], container="tar", index="memory")


@dataclass(frozen=True, slots=True)
class _Place:
    """Where copies of remote shards are.

    Attributes:
        folder: Of them all.
        by_name: Whether they have the names of the shards, and not their whole URLs.
    """

    folder: str
    by_name: bool

    def __call__(self, url: str) -> str:
        name = os.path.basename(urlparse(url).path) if self.by_name else quote(url, safe="+-")
        return os.path.join(self.folder, name)


def _transformations(asked: Any) -> list[Callable[[dict[str, Any]], Any]]:
    found = []
    for one in asked if isinstance(asked, list) else [asked]:
        if one in ("PIL", "numpy"):
            one = partial(default_decoder, format=one)
        if not callable(one):
            raise TypeError(f"transformations={one!r} is neither a function nor PIL or numpy")
        found.append(one)
    return found


class ShardListDataset:
    """A dataset with a length, whose samples are found by position.

    Args:
        shards: An index (a URL, or open for reading), or a list of `{"url": …, "nsamples": …}`.
        cache_size: Not used.
        cache_dir: Where remote shards are copied, by their names.
        lru_size: Shards that are kept open.
        dataset_name: Of the dataset, where no index has it.
        localname: From a URL to the path of its copy, which gets the ending `.tar` if it has none.
        transformations: `"PIL"`, `"numpy"`, a function of samples, or a list of these.
        keep: Not used: copies are kept.
        base: What URLs are relative to; the index's place if not given.
        options: Entries that replace those of the index.
        allow_commands: Whether `pipe:` may run commands; None: if `BUSHEL_ALLOW_COMMANDS=1` is set.

    Raises:
        FormatError: The index is malformed.
    """

    def __init__(
        self,
        shards: Any,
        *,
        cache_size: float = 1e12,
        cache_dir: str | None = None,
        lru_size: int = 10,
        dataset_name: str | None = None,
        localname: Callable[[str], str] | None = None,
        transformations: Any = "PIL",
        keep: bool = False,
        base: str | None = None,
        options: Mapping[str, Any] | None = None,
        allow_commands: bool | None = None,
    ) -> None:
        self.allow_commands = allow_commands
        listed: Mapping[str, Any] = {"wids_version": 1, "shardlist": shards}
        if isinstance(shards, str) or hasattr(shards, "read"):
            listed = load(shards, allow_commands=allow_commands)
            if base is None and isinstance(shards, str):
                base = listed.get("base") or urldir(shards)
        self.base = base
        self.spec = resolve(listed, base, options or {}, allow_commands=allow_commands)
        self.shards: list[dict[str, Any]] = self.spec["shardlist"]
        self.dataset_name = dataset_name or self.spec.get("name") or str(shards)[:50]
        self.lengths: Sequence[int] = [shard["nsamples"] for shard in self.shards]
        self.cum_lengths = list(accumulate(self.lengths))
        self.total_length = self.cum_lengths[-1]
        self.cache_dir = cache_dir or os.environ.get("WIDS_CACHE", "/tmp/_wids_cache")
        self.localname = localname or _Place(self.cache_dir, cache_dir is not None)
        self.transformations = _transformations(transformations)
        if lru_size > _MANY_SHARDS:
            warnings.warn("LRU size is very large; file descriptors may run out", stacklevel=2)
        self._most_open = max(lru_size, 1)
        self._open: OrderedDict[str, Dataset] = OrderedDict()
        self._accesses = self._misses = 0
        if os.environ.get("WIDS_VERBOSE", "0") not in ("", "0"):
            print(f"{self.dataset_name}: {len(self.shards)} shards, {self.total_length} samples", file=sys.stderr)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": OrderedDict()}

    def add_transform(self, transform: Callable[[dict[str, Any]], Any]) -> Self:
        """Lead samples through one more function."""
        self.transformations.append(transform)
        return self

    def __len__(self) -> int:
        return self.total_length

    def get_stats(self) -> tuple[int, int]:
        """How often a shard was asked for, and how often it was not open."""
        return self._accesses, self._misses

    def _shard(self, desc: Mapping[str, Any]) -> Dataset:
        url = desc["url"]
        self._accesses += 1
        if url in self._open:
            self._open.move_to_end(url)
            return self._open[url]
        self._misses += 1
        path = local_path_of(url)
        if path is None:
            path = self.localname(url).removesuffix(".tar") + ".tar"
            if not os.path.exists(path):
                os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
                download(url, path, allow_commands=self.allow_commands)
        dataset = _opened(path)
        if len(dataset) != desc["nsamples"]:
            found = len(dataset)
            dataset.close()
            message = f"the index says that this shard has {desc['nsamples']} samples, and it has {found}"
            raise FormatError(message, file=path, hint="make the index anew with `bushel widsindex create`")
        self._open[url] = dataset
        if len(self._open) > self._most_open:
            self._open.popitem(last=False)[1].close()
        return dataset

    def get_shard(self, index: int) -> tuple[Dataset, int, dict[str, Any]]:
        """The shard of a sample, the position in it, and its entry in the index.

        Raises:
            IndexError: There is no such sample.
        """
        position = index + self.total_length if index < 0 else index
        if not 0 <= position < self.total_length:
            raise IndexError(f"sample {index} of a dataset of {self.total_length}")
        number = bisect_right(self.cum_lengths, position)
        inner = position - (self.cum_lengths[number - 1] if number else 0)
        return self._shard(self.shards[number]), inner, self.shards[number]

    def __getitem__(self, index: int) -> Any:
        """A sample: streams by extension (with its dot) and `__key__`, led through the transformations.

        Raises:
            IndexError: There is no such sample.
        """
        shard, inner, desc = self.get_shard(index)
        [stored] = shard.read([inner], decode=False)
        sample: Any = {
            name if name.startswith("__") else f".{name}": value if name.startswith("__") else io.BytesIO(value)
            for name, value in stored.items()
            if value is not None
        }
        sample |= {
            "__dataset__": desc.get("dataset"),
            "__index__": index,
            "__shard__": desc["url"],
            "__shardindex__": inner,
        }
        for transform in self.transformations:
            sample = transform(sample)
        return sample

    def __iter__(self) -> Iterator[Any]:
        """All samples, in their order."""
        return (self[index] for index in range(len(self)))

    def close(self) -> None:
        """Close all shards."""
        while self._open:
            self._open.popitem()[1].close()
