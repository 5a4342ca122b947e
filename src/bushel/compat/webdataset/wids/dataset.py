"""`ShardListDataset`: the samples of many shards by their positions, and the decoder of its samples."""

from __future__ import annotations

import gzip
import io
import os
import sys
import warnings
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote, urlparse

import numpy as np

from bushel import Dataset
from bushel.compat.webdataset.autodecode import decoders, torch_loads
from bushel.compat.webdataset.cache import download
from bushel.compat.webdataset.errors import MalformedError
from bushel.compat.webdataset.tariterators import local_path_of
from bushel.compat.webdataset.utils import Sample
from bushel.storage import below

from .index import load, open_shard, resolve, urldir

_MANY_SHARDS = 200
_IMAGES = frozenset(("jpg", "png", "ppm", "pgm", "pbm", "pnm"))


def _safetensors(data: bytes) -> Any:
    from safetensors.torch import load

    return load(data)


_DECODERS: dict[str, Callable[[bytes], Any]] = {
    **{
        name: decoders[name]
        for name in ("txt", "text", "cls", "cls2", "json", "npy", "mp", "pth", "pickle", "pkl")
    },
    "pt": torch_loads,
    "safetensors": _safetensors,
}


def default_decoder(sample: Sample, format: str = "PIL", gz_update_key: bool = False) -> Sample:
    """Decode a sample.

    Args:
        sample: Streams or bytes by extension (with its dot). Fields whose names start with `__` are
            copied.
        format: The type of images: `"PIL"` or `"numpy"`.
        gz_update_key: Whether a compressed field loses its `.gz`.
    """
    if format.lower() not in ("pil", "numpy"):
        raise ValueError(f"Unknown format: {format}")
    result: Sample = {}
    for key, value in sample.items():
        if key.startswith("__"):
            result[key] = value
            continue
        if not key.startswith("."):
            raise ValueError(f"Key {key} must start with a dot")
        name, data = key, value if isinstance(value, bytes) else value.read()
        if key.lower().endswith(".gz") and key.count(".") > 1:
            name, data = key[:-3], gzip.decompress(data)
        result[name if gz_update_key else key] = _decoded(
            name.rpartition(".")[2].lower(), data, format.lower()
        )
    return result


def _decoded(extension: str, data: bytes, images: str) -> Any:
    if extension in _DECODERS:
        return _DECODERS[extension](data)
    if extension not in _IMAGES:
        return io.BytesIO(data)
    from PIL import Image

    image = Image.open(io.BytesIO(data))
    return image if images == "pil" else np.asarray(image)


@dataclass(frozen=True)
class _CopyPath:
    """The path of the copy of a remote shard: in `folder`, by the shard's name or by its whole URL."""

    folder: str
    by_name: bool

    def __call__(self, url: str) -> str:
        name = os.path.basename(urlparse(url).path) if self.by_name else quote(url, safe="+-")
        return str(below(Path(self.folder), name, any_text=True))


def _transformations(asked: Any) -> list[Callable[[Sample], Any]]:
    functions = []
    for transformation in asked if isinstance(asked, list) else [asked]:
        if transformation in ("PIL", "numpy"):
            transformation = partial(default_decoder, format=transformation)
        if not callable(transformation):
            raise TypeError(
                f"transformations={transformation!r} is neither a function nor PIL or numpy"
            )
        functions.append(transformation)
    return functions


class ShardListDataset:
    """A dataset with a length, whose samples are read by position.

    Args:
        shards: An index (a URL, or a file object), or a list of `{"url": …, "nsamples": …}`.
        cache_dir: Folder of the copies of remote shards, by their names. `cache_size` and `keep`
            are ignored.
        lru_size: Number of shards to keep open.
        dataset_name: Name of a dataset whose index has none.
        localname: A function from a URL to the path of its copy, which gets the suffix `.tar` if it
            has none.
        transformations: `"PIL"`, `"numpy"`, a function of samples, or a list of these.
        base: Base of relative URLs. Default: the URL of the index.
        options: Entries that replace entries of the index.
        allow_commands: Whether `pipe:` may run commands; None: if `BUSHEL_ALLOW_COMMANDS=1` is set.

    Raises:
        MalformedError: The index is malformed.
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
        self.localname = localname or _CopyPath(self.cache_dir, cache_dir is not None)
        self.transformations = _transformations(transformations)
        if lru_size > _MANY_SHARDS:
            warnings.warn("LRU size is very large; file descriptors may run out", stacklevel=2)
        self._most_open = max(lru_size, 1)
        self._open: OrderedDict[str, Dataset] = OrderedDict()
        self._accesses = self._misses = 0
        if os.environ.get("WIDS_VERBOSE", "0") not in ("", "0"):
            print(
                f"{self.dataset_name}: {len(self.shards)} shards, {self.total_length} samples",
                file=sys.stderr,
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_open": OrderedDict()}

    def add_transform(self, transform: Callable[[Sample], Any]) -> Self:
        self.transformations.append(transform)
        return self

    def __len__(self) -> int:
        return self.total_length

    def get_stats(self) -> tuple[int, int]:
        """Return how often a shard was used, and how often it had to be opened."""
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
        dataset = open_shard(path)
        if len(dataset) != desc["nsamples"]:
            message = f"this shard has {len(dataset)} samples; the index lists {desc['nsamples']}"
            dataset.close()
            raise MalformedError(
                message, file=path, hint="make a new index with `bushel widsindex create`"
            )
        self._open[url] = dataset
        if len(self._open) > self._most_open:
            self._open.popitem(last=False)[1].close()
        return dataset

    def get_shard(self, index: int) -> tuple[Dataset, int, dict[str, Any]]:
        """Return the shard of a sample, the position in it, and its entry in the index."""
        position = index + self.total_length if index < 0 else index
        if not 0 <= position < self.total_length:
            raise IndexError(
                f"sample {index} is out of range: the dataset has {self.total_length} samples"
            )
        number = bisect_right(self.cum_lengths, position)
        inner = position - (self.cum_lengths[number - 1] if number else 0)
        return self._shard(self.shards[number]), inner, self.shards[number]

    def __getitem__(self, index: int) -> Any:
        """Return a sample: streams by extension (with its dot) and `__key__`, after the transformations."""
        shard, inner, desc = self.get_shard(index)
        [stored] = shard.read([inner], decode=False)
        sample: Any = {
            name if name.startswith("__") else f".{name}": value
            if name.startswith("__")
            else io.BytesIO(value)
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
        return (self[index] for index in range(len(self)))

    def close(self) -> None:
        while self._open:
            self._open.popitem()[1].close()
