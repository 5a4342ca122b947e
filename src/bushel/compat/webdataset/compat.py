"""`WebDataset`: shards in, samples out, and stages by the names of methods."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Self
from urllib.parse import urlparse

from bushel.compat.webdataset import filters, shardlists
from bushel.compat.webdataset.cache import FileCache, pipe_cleaner, url_to_cache_name
from bushel.compat.webdataset.handlers import Handler, reraise_exception
from bushel.compat.webdataset.pipeline import DataPipeline
from bushel.compat.webdataset.pytorch import DataLoader
from bushel.compat.webdataset.tariterators import tarfile_to_samples
from bushel.compat.webdataset.utils import is_iterable

__all__ = ["FluidInterface", "FluidWrapper", "WebDataset", "WebLoader", "check_empty"]

_MANY = 100


class FluidInterface:
    """Methods that give a copy of the pipeline with one more stage. The stages are documented where they are."""

    def compose(self, *args: Any) -> Self:
        """A copy with more stages; `DataPipeline` has it."""
        raise NotImplementedError

    def batched(
        self,
        batchsize: int,
        collation_fn: Callable[[list[Any]], Any] | None = filters.default_collation_fn,
        partial: bool = True,
    ) -> Self:
        """Batches of so many samples."""
        return self.compose(filters.batched(batchsize, collation_fn=collation_fn, partial=partial))

    def unbatched(self) -> Self:
        """The samples of batches."""
        return self.compose(filters.unbatched())

    def listed(self, batchsize: int, partial: bool = True) -> Self:
        """Lists of so many samples."""
        return self.compose(filters.batched(batchsize, collation_fn=None, partial=partial))

    def unlisted(self) -> Self:
        """The samples of lists."""
        return self.compose(filters.unlisted())

    def log_keys(self, logfile: str | None = None) -> Self:
        """Append the keys of samples to a file."""
        return self.compose(filters.log_keys(logfile))

    def shuffle(self, size: int, **kw: Any) -> Self:
        """Shuffle in a buffer of so many samples; not at all if there is none."""
        return self if size < 1 else self.compose(filters.shuffle(size, **kw))

    def map(self, f: Callable[[Any], Any], handler: Handler = reraise_exception) -> Self:
        """Lead samples through a function."""
        return self.compose(filters.map(f, handler=handler))

    def decode(
        self,
        *args: Any,
        pre: list[Any] | None = None,
        post: list[Any] | None = None,
        only: Any = None,
        partial: bool = False,
        handler: Handler = reraise_exception,
    ) -> Self:
        """Decode fields: kinds of images (`"rgb8"`) and decoders, as for `Decoder`."""
        from bushel.compat.webdataset.autodecode import Decoder, ImageHandler

        handlers = [ImageHandler(x) if isinstance(x, str) else x for x in args]
        return self.map(Decoder(handlers, pre=pre, post=post, only=only, partial=partial), handler=handler)

    def map_dict(self, handler: Handler = reraise_exception, **kw: Callable[[Any], Any]) -> Self:
        """Apply functions to fields."""
        return self.compose(filters.map_dict(handler=handler, **kw))

    def select(self, predicate: Callable[[Any], Any], **kw: Any) -> Self:
        """Only samples of which the predicate is true."""
        return self.compose(filters.select(predicate, **kw))

    def to_tuple(self, *args: Any, **kw: Any) -> Self:
        """Tuples of these fields."""
        return self.compose(filters.to_tuple(*args, **kw))

    def map_tuple(self, *args: Any, handler: Handler = reraise_exception) -> Self:
        """Apply functions to the values of tuples."""
        return self.compose(filters.map_tuple(*args, handler=handler))

    def slice(self, *args: int | None) -> Self:
        """Some of the samples, as `itertools.islice`."""
        return self.compose(filters.slice(*args))

    def rename(self, **kw: Any) -> Self:
        """Give fields new names."""
        return self.compose(filters.rename(**kw))

    def rsample(self, p: float = 0.5) -> Self:
        """Every sample with this probability."""
        return self.compose(filters.rsample(p))

    def rename_keys(self, *args: tuple[str, str], **kw: Any) -> Self:
        """Give new names to fields that match patterns."""
        return self.compose(filters.rename_keys(*args, **kw))

    def extract_keys(self, *args: Any, **kw: Any) -> Self:
        """Tuples of the fields that match patterns."""
        return self.compose(filters.extract_keys(*args, **kw))

    def xdecode(self, *args: Any, **kw: Any) -> Self:
        """Decode fields by patterns."""
        return self.compose(filters.xdecode(*args, **kw))

    def mcached(self) -> Self:
        """Keep all samples in memory."""
        return self.compose(filters.Cached())

    def lmdb_cached(self, *args: Any, **kw: Any) -> Self:
        """Keep all samples in an LMDB database."""
        return self.compose(filters.LMDBCached(*args, **kw))


def check_empty(source: Iterable[Any]) -> Iterator[Any]:
    """All samples.

    Raises:
        ValueError: There are none.
    """
    count = 0
    for count, sample in enumerate(source, 1):  # noqa: B007
        yield sample
    if count == 0:
        raise ValueError(
            "No samples found in dataset; perhaps you have fewer shards than workers.\n"
            "Turn off using empty_check=False in the WebDataset constructor."
        )


class WebDataset(DataPipeline, FluidInterface):
    """The samples of tar shards.

    Args:
        urls: Text with braces and `::`, a list, a folder (with a slash at its end, see `DirectoryShardList`), or a
            specification for `MultiShardSample`: a `.yaml` file or a dict.
        handler: What to do about shards that cannot be read.
        mode: `"resampled"`, or how a folder's shards are treated.
        resampled: Whether shards are chosen at random, without end. With `seed` the choice follows from it.
        repeat: Not used, as in the original: call `repeat()`.
        shardshuffle: Size of the buffer that shards are shuffled in; False for none.
        cache_size: Bytes of the cache; 0 for none.
        cache_dir: Where remote shards are kept.
        url_to_name: From a URL to the name of its copy there.
        detshuffle: Whether the order of shards follows from seed and epoch.
        nodesplitter: Shares shards among ranks: `split_by_node`.
        workersplitter: Shares shards among the workers of a loader.
        select_files: Which files to read, by their names.
        rename_files: What to call them.
        empty_check: Whether no samples at all are an error.
        verbose: Whether the cache says what it does.
        seed: Of the order of shards, which with `shardshuffle` is the same in each epoch, and with `detshuffle` is not.
            `WDS_SEED` if not given; with neither, a number from Python's global generator.
        allow_commands: Whether `pipe:` may run commands; None: if `BUSHEL_ALLOW_COMMANDS=1` is set.

    Raises:
        ValueError: There are no shards, or the folder of the cache does not exist.
        TypeError: `urls` is nothing of these.
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
        given = os.environ.get("WDS_SEED") if seed is None else seed
        made = random.randint(0, 1000000) if seed is None else None  # as in the original, where random.seed() counts
        self.seed = made if given is None else given
        self.append(_shards_of(urls, mode, given))
        self.pipeline += [splitter for splitter in (nodesplitter, workersplitter) if splitter]
        if shardshuffle is not None and detshuffle:
            self.append(filters.detshuffle(shardshuffle, seed=int(str(self.seed))))
        elif shardshuffle is not None:
            self.append(filters.shuffle(shardshuffle, seed=self.seed))
        cache_size = int(os.environ.get("WDS_CACHE_SIZE", cache_size))
        cache_dir = os.environ.get("WDS_CACHE", cache_dir)
        if cache_dir is not None and cache_size != 0:
            self.append(
                FileCache(
                    _existing(cache_dir),
                    url_to_name=url_to_cache_name if url_to_name is pipe_cleaner else url_to_name,
                    verbose=verbose,
                    handler=handler,
                    cache_size=cache_size,
                    allow_commands=allow_commands,
                )
            )
        self.append(
            tarfile_to_samples(
                handler=handler, select_files=select_files, rename_files=rename_files, allow_commands=allow_commands
            )
        )
        if empty_check:
            self.append(check_empty)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self.close()


def _shards_in_buffer(asked: int | bool | None, mode: str | None) -> int | None:
    if mode == "resampled" and asked not in (False, None):
        warnings.warn("WebDataset(shardshuffle=...) is ignored for resampled datasets", stacklevel=3)
        return None
    if asked is None and mode != "resampled":
        warnings.warn("WebDataset(shardshuffle=...) is None; set explicitly to False or a number", stacklevel=3)
    if asked is True:
        warnings.warn("set WebDataset(shardshuffle=...) to a positive integer or 0 or False", stacklevel=3)
        return _MANY
    return int(asked) if asked else None


def _existing(cache_dir: str) -> str:
    folder = os.path.expanduser(cache_dir)
    if not os.path.exists(folder):
        raise ValueError(f"cache directory {folder} does not exist")
    return folder


def _shards_of(urls: Any, mode: str | None, seed: Any) -> Any:
    if isinstance(urls, Mapping) or (isinstance(urls, str) and urls.endswith((".yaml", ".yml"))):
        return shardlists.MultiShardSample(urls)
    if isinstance(urls, str) and urls.endswith(".json"):
        raise ValueError(f"{urls}: an index of wids is opened by bushel.compat.webdataset.wids.ShardListDataset")
    if isinstance(urls, str) and urlparse(urls).path.endswith("/"):
        return shardlists.DirectoryShardList(urls, mode=mode)
    if not isinstance(urls, str) and not is_iterable(urls):
        raise TypeError(f"cannot handle urls of type {type(urls)}")
    if mode != "resampled":
        return shardlists.SimpleShardList(urls)
    if seed is None:
        return shardlists.ResampledShards(urls)
    return shardlists.ResampledShards(urls, seed=int(seed), deterministic=True)


class FluidWrapper(DataPipeline, FluidInterface):
    """A pipeline with the methods, from any source."""

    def __init__(self, initial: Any) -> None:
        super().__init__()
        self.append(initial)


class WebLoader(DataPipeline, FluidInterface):
    """PyTorch's `DataLoader` with the methods. Takes what that takes."""

    def __init__(self, *args: Any, **kw: Any) -> None:
        super().__init__(DataLoader(*args, **kw))
