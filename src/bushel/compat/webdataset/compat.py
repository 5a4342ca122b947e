"""`WebDataset`: shards in, samples out, and stages as methods."""

from __future__ import annotations

import functools
import os
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, Self, TypeVar, cast
from urllib.parse import urlparse

from . import filters, shardlists
from .autodecode import Decoder, ImageHandler
from .cache import FileCache, pipe_cleaner, url_to_cache_name
from .errors import UrlsTypeError
from .handlers import Handler, reraise_exception
from .pipeline import DataPipeline
from .pytorch import DataLoader, IterableDataset
from .tariterators import tarfile_to_samples, with_local_paths
from .utils import is_iterable

_SHARDS_IN_BUFFER = 100
_T = TypeVar("_T", bound="FluidInterface")


class _Method(Protocol):
    def __get__(self, pipeline: _T, owner: type[_T]) -> Callable[..., _T]: ...


def _adds(make: Callable[..., Any]) -> _Method:
    """Return a method that returns a copy of the pipeline with the stage `make(…)` added."""

    @functools.wraps(make)
    def method(self: FluidInterface, *args: Any, **kw: Any) -> FluidInterface:
        return self.compose(make(*args, **kw))

    return cast("_Method", method)


class FluidInterface:
    """Methods that return a copy of the pipeline with one more stage; `filters` documents the stages."""

    def compose(self, *args: Any) -> Self:
        """Return a copy with more stages; `DataPipeline` implements it."""
        raise NotImplementedError

    batched = _adds(filters.batched)
    unbatched = _adds(filters.unbatched)
    unlisted = _adds(filters.unlisted)
    log_keys = _adds(filters.log_keys)
    map = _adds(filters.map)
    map_dict = _adds(filters.map_dict)
    select = _adds(filters.select)
    to_tuple = _adds(filters.to_tuple)
    map_tuple = _adds(filters.map_tuple)
    slice = _adds(filters.slice)
    rename = _adds(filters.rename)
    rsample = _adds(filters.rsample)
    rename_keys = _adds(filters.rename_keys)
    extract_keys = _adds(filters.extract_keys)
    xdecode = _adds(filters.xdecode)
    mcached = _adds(filters.Cached)
    lmdb_cached = _adds(filters.LMDBCached)

    def listed(self, batchsize: int, partial: bool = True) -> Self:
        """Make lists of `batchsize` samples."""
        return self.compose(filters.batched(batchsize, collation_fn=None, partial=partial))

    def shuffle(self, size: int, **kw: Any) -> Self:
        """Shuffle in a buffer of `size` samples; a size below 1 keeps the order."""
        return self if size < 1 else self.compose(filters.shuffle(size, **kw))

    def decode(
        self,
        *args: Any,
        pre: list[Any] | None = None,
        post: list[Any] | None = None,
        only: Any = None,
        partial: bool = False,
        handler: Handler = reraise_exception,
    ) -> Self:
        """Decode fields. Arguments are image specifications (`"rgb8"`) and decoders, as for `Decoder`."""
        handlers = [ImageHandler(x) if isinstance(x, str) else x for x in args]
        return self.map(
            Decoder(handlers, pre=pre, post=post, only=only, partial=partial), handler=handler
        )


def check_empty(source: Iterable[Any]) -> Iterator[Any]:
    """Yield all samples. A source without samples is a ValueError."""
    return shardlists.non_empty(
        source,
        "No samples found in dataset; perhaps you have fewer shards than workers.\n"
        "Turn off using empty_check=False in the WebDataset constructor.",
    )


class WebDataset(DataPipeline, FluidInterface):
    """The samples of tar shards.

    Args:
        urls: Text with braces and `::`, a list, a folder (with a slash at its end, see
            `DirectoryShardList`), or a specification for `MultiShardSample`: a `.yaml` file or a
            dict. Or a source of shards, such as `SimpleShardList(…)`.
        mode: `"resampled"`, or a mode of `DirectoryShardList`.
        repeat: Ignored, as in the original: call `repeat()`.
        seed: Seed of the order of shards, which with `shardshuffle` is the same in each epoch, and
            with `detshuffle` is not. Default: `WDS_SEED`, else a number from Python's global
                generator.
        allow_commands: Whether `pipe:` may run commands; None: if `BUSHEL_ALLOW_COMMANDS=1` is set.

    The other arguments work as in the original.
    """

    def __init__(
        self,
        urls: Any,
        handler: Handler = reraise_exception,
        mode: str | None = None,
        resampled: bool = False,
        repeat: bool = False,
        shardshuffle: int | bool | None = None,
        cache_size: int = -1,
        cache_dir: str | None = None,
        url_to_name: Callable[[str], str] = pipe_cleaner,
        detshuffle: bool = False,
        nodesplitter: Callable[..., Iterator[Any]] | None = shardlists.single_node_only,
        workersplitter: Callable[..., Iterator[Any]] | None = shardlists.split_by_worker,
        select_files: Callable[[str], bool] | None = None,
        rename_files: Callable[[str], str] | None = None,
        empty_check: bool = True,
        verbose: bool = False,
        seed: Any = None,
        *,
        allow_commands: bool | None = None,
    ) -> None:
        super().__init__()
        mode = "resampled" if resampled else mode
        shardshuffle = _shards_in_buffer(shardshuffle, mode)
        chosen_seed = os.environ.get("WDS_SEED") if seed is None else seed
        # as in the original, where random.seed() counts
        drawn_seed = random.randint(0, 1000000) if seed is None else None
        self.seed = drawn_seed if chosen_seed is None else chosen_seed
        self.append(_shards_of(urls, mode, chosen_seed))
        self.pipeline += [splitter for splitter in (nodesplitter, workersplitter) if splitter]
        if shardshuffle is not None and detshuffle:
            self.append(filters.detshuffle(shardshuffle, seed=int(str(self.seed))))
        elif shardshuffle is not None:
            self.append(filters.shuffle(shardshuffle, seed=self.seed))
        options: dict[str, Any] = {"handler": handler, "allow_commands": allow_commands}
        cache_size = int(os.environ.get("WDS_CACHE_SIZE", cache_size))
        cache_dir = os.environ.get("WDS_CACHE", cache_dir)
        if cache_dir is not None and cache_size != 0:
            folder = os.path.expanduser(cache_dir)
            if not os.path.exists(folder):
                raise ValueError(f"cache directory {folder} does not exist")
            to_name = url_to_cache_name if url_to_name is pipe_cleaner else url_to_name
            self.append(
                FileCache(
                    folder, url_to_name=to_name, verbose=verbose, cache_size=cache_size, **options
                )
            )
        else:
            self.append(with_local_paths)
        self.append(
            tarfile_to_samples(select_files=select_files, rename_files=rename_files, **options)
        )
        if empty_check:
            self.append(check_empty)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()


def _shards_in_buffer(asked: int | bool | None, mode: str | None) -> int | None:
    if mode == "resampled" and asked not in (False, None):
        warnings.warn(
            "WebDataset(shardshuffle=...) is ignored for resampled datasets", stacklevel=3
        )
        return None
    if asked is None and mode != "resampled":
        warnings.warn(
            "WebDataset(shardshuffle=...) is None; set explicitly to False or a number",
            stacklevel=3,
        )
    if asked is True:
        warnings.warn(
            "set WebDataset(shardshuffle=...) to a positive integer or 0 or False", stacklevel=3
        )
        return _SHARDS_IN_BUFFER
    return int(asked) if asked else None


def _shards_of(urls: Any, mode: str | None, seed: Any) -> Any:
    if isinstance(urls, IterableDataset):
        return urls
    if isinstance(urls, Mapping) or (isinstance(urls, str) and urls.endswith((".yaml", ".yml"))):
        return shardlists.MultiShardSample(urls)
    if isinstance(urls, str) and urls.endswith(".json"):
        raise ValueError(
            f"{urls} is an index of wids: open it with "
            "bushel.compat.webdataset.wids.ShardListDataset"
        )
    if isinstance(urls, str) and urlparse(urls).path.endswith("/"):
        return shardlists.DirectoryShardList(urls, mode=mode)
    if not isinstance(urls, str) and not is_iterable(urls):
        raise UrlsTypeError(f"cannot handle urls of type {type(urls)}")
    if mode != "resampled":
        return shardlists.SimpleShardList(urls)
    if seed is None:
        return shardlists.ResampledShards(urls)
    return shardlists.ResampledShards(urls, seed=int(seed), deterministic=True)


class FluidWrapper(DataPipeline, FluidInterface):
    """A pipeline with the methods of `FluidInterface`, from any source."""

    def __init__(self, initial: Any) -> None:
        super().__init__([initial])


class WebLoader(DataPipeline, FluidInterface):
    """PyTorch's `DataLoader` with the methods of `FluidInterface`, and with PyTorch's arguments."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(DataLoader(*args, **kw))
