"""Local copies of remote shards."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from bushel.compat.errors import WrongTypeError, WrongUseError
from bushel.errors import FormatError
from bushel.storage import inside, is_compressed

from .errors import MalformedError
from .gopen import gopen
from .handlers import Handler, reraise_exception
from .stages import handled
from .tariterators import local_path_of

_PATHS = frozenset(("", "file", "http", "https", "ftp", "ftps", "gs", "s3", "ais"))
_LONGEST = 128


def islocal(url: str) -> bool:
    """Return whether a URL names a local file."""
    return urlparse(url).scheme in ("", "file")


def check_tar_format(fname: str) -> bool:
    """Return whether a file starts like a tar archive, or like a compressed file."""
    with open(fname, "rb") as stream:
        head = stream.read(512)
    return is_compressed(head) or head[257:262] == b"ustar" or (len(head) == 512 and not any(head))


def pipe_cleaner(spec: str) -> str:
    """Return the URL in a `pipe:` command, if there is one; else `spec` as it is."""
    if spec.startswith("pipe:"):
        for word in spec.removeprefix("pipe:").split(" "):
            if re.match(r"(https?|hdfs|gs|ais|s3):", word):
                return word
    return spec


def url_to_cache_name(url: str, ndir: int = 0) -> str:
    """Return the file name of a copy: the last `ndir + 1` parts of a URL's path; commands are quoted."""
    if not isinstance(url, str):
        raise WrongTypeError(f"a URL is text, not a {type(url).__name__}")
    parsed = urlparse(url)
    if parsed.scheme in _PATHS:
        return "/".join(parsed.path.lstrip("/").split("/")[-1 - ndir :])
    return urllib.parse.quote(url, safe="_+{}*,-")[-_LONGEST:]


class LRUCleanup:
    """Removal of the oldest files of a folder (by `keyfn`), down to `cache_size` bytes, once per `interval` seconds."""

    def __init__(
        self,
        cache_dir: str | None = None,
        cache_size: float = int(1e12),
        keyfn: Callable[[str], float] = os.path.getctime,
        verbose: bool = False,
        interval: float | None = 30,
    ) -> None:
        self.cache_dir, self.cache_size, self.keyfn = cache_dir, cache_size, keyfn
        self.verbose, self.interval, self.last_run = verbose, interval, 0.0

    def set_cache_dir(self, cache_dir: str) -> None:
        self.cache_dir = cache_dir

    def cleanup(self) -> None:
        """Remove the oldest files until the rest fits. Files that other processes remove first are skipped."""
        if self.cache_dir is None or not os.path.exists(self.cache_dir):
            return
        if self.interval is not None and time.time() - self.last_run < self.interval:
            return
        files = []
        for folder, _, names in os.walk(self.cache_dir):
            for path in (os.path.join(folder, name) for name in names):
                try:
                    files.append((self.keyfn(path), os.path.getsize(path), path))
                except FileNotFoundError:
                    continue
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.cache_size:
                break
            if self.verbose:
                print(f"# deleting {path}", file=sys.stderr)
            try:
                os.remove(path)
            except FileNotFoundError:
                continue
            finally:
                total -= size
        self.last_run = time.time()


def download(
    url: str, dest: str, chunk_size: int = 1 << 20, *, allow_commands: bool | None = None
) -> None:
    """Download a URL into a file, which gets its name when it is complete."""
    part = f"{dest}.temp{os.getpid()}"
    try:
        with gopen(url, allow_commands=allow_commands) as stream, open(part, "wb") as sink:
            shutil.copyfileobj(stream, sink, chunk_size)
        os.rename(part, dest)
    except BaseException:
        if os.path.exists(part):
            os.remove(part)
        raise


def _url_of(url: str | dict[str, Any]) -> str:
    return url["url"] if isinstance(url, dict) else url


class StreamingOpen:
    """A stage that opens shards: URLs, or `{"url": …}`, become `{"url", "stream"}`, with `local_path` if local."""

    def __init__(
        self,
        verbose: bool = False,
        handler: Handler = reraise_exception,
        *,
        allow_commands: bool | None = None,
    ) -> None:
        self.verbose, self.handler, self.allow_commands = verbose, handler, allow_commands

    def __call__(self, urls: Iterable[str | dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Yield the open shards."""
        return handled(map(_url_of, urls), self._open, self.handler)

    def _open(self, url: str) -> dict[str, Any]:
        path = self._path_of(url)
        if path is None:
            return {"url": url, "stream": gopen(url, allow_commands=self.allow_commands)}
        return {"url": url, "stream": open(path, "rb"), "local_path": path}

    def _path_of(self, url: str) -> str | None:
        return local_path_of(url)


class FileCache(StreamingOpen):
    """A stage that downloads remote shards into a folder, once: `{"url": …}` gets a `stream` and a `local_path`.

    `validator` returns whether a copy is valid; a `cache_size` of -1 means no limit. The other
    arguments are as in the original; `allow_commands` is as in `gopen`.
    """

    def __init__(
        self,
        cache_dir: str | None = None,
        *,
        url_to_name: Callable[[str], str] = url_to_cache_name,
        verbose: bool = False,
        validator: Callable[[str], bool] | None = check_tar_format,
        handler: Handler = reraise_exception,
        cache_size: int = -1,
        cache_cleanup_interval: float = 30,
        allow_commands: bool | None = None,
    ) -> None:
        self.cache_dir = os.environ.get("WDS_CACHE", "./_cache") if cache_dir is None else cache_dir
        verbose = verbose or os.environ.get("WDS_VERBOSE_CACHE", "0") not in ("", "0")
        super().__init__(verbose, handler, allow_commands=allow_commands)
        self.url_to_name, self.validator = url_to_name, validator
        self.cleaner = (
            LRUCleanup(
                self.cache_dir, cache_size, verbose=self.verbose, interval=cache_cleanup_interval
            )
            if cache_size > 0
            else None
        )

    def get_file(self, url: str) -> str:
        """Return the path of a local file, or of the copy of a remote one, which is downloaded first if necessary.

        Raises:
            FormatError: The downloaded file is not a tar archive.
            ValueError: `url_to_name` returned an unusable file name.
        """
        path = local_path_of(url)
        if path is not None:
            return path
        name = self.url_to_name(url)
        try:
            dest = str(inside(Path(self.cache_dir), name))
        except FormatError:
            message = (
                f"{name!r} cannot be the file name of a copy of {url}: pass another url_to_name="
            )
            raise WrongUseError(message) from None
        if not os.path.exists(dest):
            os.makedirs(os.path.dirname(dest), exist_ok=True)
            if self.verbose:
                print(f"# downloading {url} to {dest}", file=sys.stderr)
            if self.cleaner is not None:
                self.cleaner.cleanup()
            download(url, dest, allow_commands=self.allow_commands)
            if self.validator is not None and not self.validator(dest):
                with open(dest, "rb") as stream:
                    head = stream.read(200)
                os.remove(dest)
                raise MalformedError(
                    f"the download is not a tar archive, but contains {head!r}", file=url
                )
        return dest

    def _path_of(self, url: str) -> str:
        return self.get_file(url)
