"""Lists of shards, their order, and their distribution among ranks and workers."""

from __future__ import annotations

import contextlib
import glob
import os
import random
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

from bushel.compat.errors import NoFolderError, WrongTypeError, WrongUseError
from bushel.storage import expand_braces

from .errors import NoShardsError, UnsetVariableError
from .pytorch import IterableDataset
from .stages import pipelinefilter
from .utils import is_iterable, make_seed, pytorch_worker_info, pytorch_worker_seed

Shard = dict[str, Any]


def envsubst(s: str) -> str:
    """Replace `${var}` by the environment variable `WDS_var`."""

    def value(match: re.Match[str]) -> str:
        name = f"WDS_{match[1]}"
        if name not in os.environ:
            raise UnsetVariableError(f"environment variable {name} is not set; {s!r} needs it")
        return os.environ[name]

    return re.sub(r"\$\{(\w+)\}", value, s)


def split_by_node(src: Iterable[Any], group: Any = None) -> Iterator[Any]:
    """Yield every `world_size`-th item, starting at this rank."""
    rank, world_size, _, _ = pytorch_worker_info(group=group)
    return islice(src, rank, None, world_size)


def single_node_only(src: Iterable[Any], group: Any = None) -> Iterator[Any]:
    """Yield all items; several ranks are a ValueError."""
    if pytorch_worker_info(group=group)[1] > 1:
        raise ValueError(
            "you need to add an explicit nodesplitter to your input "
            "pipeline for multi-node training (nodesplitter=split_by_node)"
        )
    yield from src


def split_by_worker(src: Iterable[Any]) -> Iterator[Any]:
    """Yield every `num_workers`-th item, starting at this worker."""
    _, _, worker, num_workers = pytorch_worker_info()
    return islice(src, worker, None, num_workers)


def expand_urls(urls: str) -> list[str]:
    """Expand `"a-{000..012}.tar::${root}/b.tar"` to URLs: parts between `::`, variables `WDS_…`, braces."""
    result = []
    for part in urls.split("::"):
        url, last = part, None
        for _ in range(10):
            if url == last:
                break
            url, last = envsubst(url), url
        result += expand_braces(url)
    return result


def expand_source(source: str | Iterable[str], max_urls: int = int(1e9)) -> list[str]:
    """Return the URLs of a text or of an iterable."""
    if isinstance(source, str):
        return expand_urls(source)
    if is_iterable(source):
        return list(islice(source, max_urls))
    raise ValueError(f"cannot handle {type(source)}")


def _check_urls(urls: list[str]) -> list[str]:
    if not urls:
        raise NoShardsError("no shards: the list of URLs is empty")
    wrong = next((url for url in urls if not isinstance(url, str)), None)
    if wrong is not None:
        raise WrongTypeError(f"the URL of a shard must be a str, not {wrong!r}")
    return urls


class SimpleShardList(IterableDataset):
    """Shards in the given order, or shuffled: a number as `seed` gives always the same order, True a random one."""

    def __init__(self, urls: str | Iterable[str], seed: int | float | bool | None = None) -> None:
        super().__init__()
        self.urls = _check_urls(expand_urls(urls) if isinstance(urls, str) else list(urls))
        self.seed = time.time() if seed is True else seed

    def __len__(self) -> int:
        return len(self.urls)

    def __iter__(self) -> Iterator[Shard]:
        urls = self.urls.copy()
        if self.seed is not None:
            random.Random(self.seed).shuffle(urls)
        for url in urls:
            yield {"url": url}


def resampled_(src: Iterable[Any], n: int = sys.maxsize) -> Iterator[Any]:
    """Yield `n` items of the source, each chosen at random."""
    items = list(src)
    rng = random.Random(os.urandom(20))
    for _ in range(n if items else 0):
        yield rng.choice(items)


resampled = pipelinefilter(resampled_)


def non_empty(
    src: Iterable[Any],
    message: str = "pipeline stage received no data at all and this was declared as an error",
) -> Iterator[Any]:
    """Yield all items. An empty source is a ValueError with this message."""
    count = 0
    for count, item in enumerate(src, 1):  # noqa: B007
        yield item
    if count == 0:
        raise ValueError(message)


class ResampledShards(IterableDataset):
    """Shards chosen at random, with replacement; if `deterministic`, only by seed, worker and epoch."""

    def __init__(
        self,
        urls: str | Iterable[str],
        nshards: int = sys.maxsize,
        seed: Any = 0,
        worker_seed: Callable[[], int] | None = None,
        deterministic: bool = False,
        max_urls: int = int(1e6),
        empty_check: bool = True,
    ) -> None:
        super().__init__()
        self.urls = _check_urls(expand_source(urls, max_urls))
        self.nshards, self.seed, self.deterministic = nshards, seed, deterministic
        self.worker_seed = pytorch_worker_seed if worker_seed is None else worker_seed
        self.epoch = -1

    def __iter__(self) -> Iterator[Shard]:
        self.epoch += 1
        noise = () if self.deterministic else (os.getpid(), time.time_ns(), os.urandom(4))
        seed = make_seed(self.worker_seed(), self.epoch, self.seed, *noise)
        if os.environ.get("WDS_SHOW_SEED", "0") == "1":
            print(f"# ResampledShards seed {seed}")
        rng = random.Random(seed)
        for _ in range(self.nshards):
            yield {"url": self.urls[rng.randint(0, len(self.urls) - 1)]}


ResampledShardList = ResampledShards


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


class DirectoryShardList(IterableDataset):
    """Shards that appear in a folder, which several processes may share: each takes a shard by renaming it.

    After it was read, `mode="resample"` renames a shard back, `keep` renames it to `…_done_`, and
    `unlink` removes it. A shard that was not read to its end stays taken: until the next iteration
    if the mode is `resample`, else until this process ends.
    An empty folder is looked at again after `poll` seconds (None: stop). The next shard is a
    `random` or the `oldest` one.
    """

    def __init__(
        self,
        path: str,
        pattern: str = "*.{tar,tgz,tar.gz}",
        poll: float | None = 1,
        timeout: float = 1e12,
        mode: str | None = "resample",
        select: str = "random",
        fate: object = None,
    ) -> None:
        mode = "resample" if mode in (None, "resampled") else mode
        if (
            not path.endswith("/")
            or mode not in ("resample", "keep", "unlink")
            or select not in ("random", "oldest")
        ):
            arguments = f"{path!r}, mode={mode!r}, select={select!r}"
            raise WrongUseError(f"invalid DirectoryShardList({arguments}): see its documentation")
        if not os.path.isdir(path):
            raise NoFolderError(f"no such folder: {path}")
        self.path, self.pattern, self.poll, self.timeout = path, pattern, poll, timeout
        self.mode, self.select = mode, select
        self._left: set[str] = set()

    def _recycle(self, taken: str) -> None:
        if self.mode == "unlink":
            os.unlink(taken)
        else:
            original = taken.rpartition("._")[0]
            os.rename(taken, original + "._done_" if self.mode == "keep" else original)

    def cleanup_files_without_processes(self) -> None:
        """Rename the shards back that belong to processes which have ended."""
        for taken in glob.glob(os.path.join(glob.escape(self.path), "*._*_")):
            match = re.fullmatch(r".*\._([0-9]+)_", taken)
            if match and not _is_running(int(match[1])):
                with contextlib.suppress(FileNotFoundError):  # another process was faster
                    os.rename(taken, taken.rpartition("._")[0])

    def __iter__(self) -> Iterator[Shard]:
        start = time.monotonic()
        while self._left and self.mode == "resample":
            with contextlib.suppress(FileNotFoundError):
                self._recycle(self._left.pop())
        while time.monotonic() - start < self.timeout:
            self.cleanup_files_without_processes()
            names = sorted(
                name
                for pattern in expand_braces(self.pattern)
                for name in glob.glob(glob.escape(self.path) + pattern)
            )
            if not names:
                if self.poll is None:
                    return
                time.sleep(self.poll)
                continue
            chosen = (
                min(names, key=os.path.getmtime)
                if self.select == "oldest"
                else random.choice(names)
            )
            taken = f"{chosen}._{os.getpid()}_"
            try:
                os.rename(chosen, taken)
            except FileNotFoundError:  # another process was faster
                continue
            try:
                yield {"url": taken}
            except GeneratorExit:
                self._left.add(taken)
                raise
            self._recycle(taken)


@dataclass
class MSSource:
    """A source of `MultiShardSample`: `perepoch` shards of an epoch (-1: all), or `resample` shards with repetition."""

    name: str = ""
    perepoch: int = -1
    resample: int = False
    urls: list[str] = field(default_factory=list)


class MultiShardSample(IterableDataset):
    """Shards of several sources, by a specification: a YAML file, or a dict.

    It has `prefix`, `buckets`, and `datasets`, each with `shards` and optionally `name`, `buckets`,
    `choose` or `resample`.
    """

    def __init__(self, fname: str | Mapping[str, Any]) -> None:
        spec = fname
        if isinstance(fname, str):
            spec = import_module("yaml").safe_load(Path(fname).read_text(encoding="utf-8"))
        if not isinstance(spec, Mapping) or not {"datasets"} <= spec.keys() <= {
            "prefix",
            "datasets",
            "buckets",
        }:
            raise WrongUseError(
                f"{fname}: a specification has `datasets`, and optionally `prefix` and `buckets`"
            )
        self.rng = random.Random()
        self.sources = [_source(entry, spec) for entry in spec["datasets"]]

    def set_epoch(self, seed: int) -> None:
        """Seed the choice of the next epoch, equally on all ranks."""
        self.rng = random.Random(seed)

    def get_shards_for_epoch(self) -> list[str]:
        """Return the shards of an epoch, shuffled."""
        result = []
        for source in self.sources:
            if source.resample > 0:
                result += self.rng.choices(source.urls, k=source.resample)
            elif source.perepoch > 0:
                urls = source.urls.copy()
                self.rng.shuffle(urls)
                result += urls[: source.perepoch]
            else:
                result += source.urls
        self.rng.shuffle(result)
        return result

    def __iter__(self) -> Iterator[Shard]:
        for url in self.get_shards_for_epoch():
            yield {"url": url}


def _expand(text: str) -> str:
    return os.path.expanduser(os.path.expandvars(text))


def _source(entry: Mapping[str, Any], spec: Mapping[str, Any]) -> MSSource:
    if not {"shards"} <= entry.keys() <= {"buckets", "name", "shards", "resample", "choose"}:
        raise WrongUseError(
            f"{dict(entry)}: a dataset has shards, and optionally name, buckets, resample or choose"
        )
    buckets = entry.get("buckets", spec.get("buckets", [])) or [""]
    buckets = [buckets] if isinstance(buckets, str) else buckets
    if len(buckets) != 1:
        raise WrongUseError(f"{buckets}: a dataset has exactly one bucket")
    bucket = _expand(buckets[0])
    shards = [entry["shards"]] if isinstance(entry["shards"], str) else entry["shards"]
    prefix = _expand(spec.get("prefix", ""))
    urls = [
        prefix + os.path.join(bucket, url)
        for shard in shards
        for url in expand_braces(_expand(shard))
    ]
    resample, choose = entry.get("resample", -1), entry.get("choose", -1)
    if choose > len(urls) or (choose > 0 and resample > 0):
        raise ValueError(
            f"{dict(entry)}: choose is at most the number "
            f"of shards ({len(urls)}) and excludes resample"
        )
    return MSSource(entry.get("name", "@" + bucket), choose, resample, urls)


def shardspec(spec: str) -> IterableDataset:
    """Return the shards of a YAML file, or of text with braces."""
    return MultiShardSample(spec) if spec.endswith((".yaml", ".yml")) else SimpleShardList(spec)
