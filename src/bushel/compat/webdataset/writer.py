"""Write samples into tar archives, with the headers and end marks of Bushel's `tar` container."""

from __future__ import annotations

import bz2
import contextlib
import gzip
import lzma
import os
import tarfile
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any, Literal, Self, cast

from bushel.containers.tar import end_of_archive, header_of
from bushel.errors import name_file

from .encoders import *  # noqa: F403
from .encoders import make_encoder
from .gopen import gopen, rewrite_url
from .permission import secure
from .tariterators import local_path_of

_BLOCK = 512
_READABLE = 0o444
_FORMATS: dict[Any, int] = {
    name: getattr(tarfile, name) for name in ("USTAR_FORMAT", "GNU_FORMAT", "PAX_FORMAT")
}
_COMPRESSORS: dict[Any, Callable[[Any], Any]] = {
    "gz": lambda stream: gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0),
    "bz2": lambda stream: bz2.BZ2File(stream, "wb"),
    "xz": lambda stream: lzma.LZMAFile(stream, "wb"),  # noqa: SIM115
}


class TarWriter:
    """A writer of samples into one archive. Arguments that are not listed work as in the original.

    Args:
        fileobj: A path, whose file gets its name when it is complete; a URL for `gopen`; or a
            binary file object, which is left open.
        compress: `"gz"` (or True), `"bz2"`, `"xz"`, or False. Default: by the file name.
        encoder: True: by extension; False: values are bytes; a dict of encoders by extension; or a
            function.
        mtime: Time of all files in seconds. Default: now, as an integer. A float adds 1 KiB to each
            file.
        format: `tarfile`'s `USTAR_FORMAT`, `GNU_FORMAT` or `PAX_FORMAT`, or the name of one.
            Default: pax.
        allow_commands: Whether `pipe:` may run a command; None: if `BUSHEL_ALLOW_COMMANDS=1` is
            set.
    """

    _closed = True

    def __init__(
        self,
        fileobj: str | IO[bytes],
        user: str = "bigdata",
        group: str = "bigdata",
        mode: int = _READABLE,
        compress: bool | Literal["gz", "bz2", "xz"] | None = None,
        encoder: Any = True,
        keep_meta: bool = False,
        mtime: float | None = None,
        format: int | str | None = None,
        *,
        allow_commands: bool | None = None,
    ) -> None:
        self.mtime, self.user, self.group, self.mode, self.compress = (
            mtime,
            user,
            group,
            mode,
            compress,
        )
        tar_format = tarfile.PAX_FORMAT if format is None else _FORMATS.get(format, format)
        if tar_format not in _FORMATS.values():
            raise ValueError(f"unknown format {format!r}: use one of {', '.join(_FORMATS)}")
        self.format = cast("Literal[0, 1, 2]", tar_format)
        self.encoder, self.keep_meta = make_encoder(encoder), keep_meta
        compressor = _compressor(fileobj, compress)
        self.own_fileobj: Any = None
        self._part: _Part | None = None
        self.stream: Any = fileobj
        if isinstance(fileobj, str):
            self._part = _Part.of(fileobj)
            self.stream = self.own_fileobj = (
                gopen(fileobj, "wb", allow_commands=allow_commands)
                if self._part is None
                else self._part.open()
            )
        self._packer: Any = None if compressor is None else compressor(self.stream)
        self._sink: Any = self.stream if self._packer is None else self._packer
        self._position = 0
        self._closed = False
        self._lean = self.format == tarfile.PAX_FORMAT and (user, group, mode) == (
            "bigdata",
            "bigdata",
            _READABLE,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed and self._part is not None and self._part.pid == os.getpid():
            warnings.warn(f"{self._part.path} was not closed", ResourceWarning, stacklevel=1)
            self.close()

    def close(self) -> None:
        """Write the end mark and close what this writer opened. A local file gets its name."""
        if self._closed:
            return
        try:
            self._sink.write(end_of_archive(self._position))
            if self._packer is not None:
                self._packer.close()
            self._closed = True
            if self.own_fileobj is not None:
                self.own_fileobj.close()
            if self._part is not None:
                self._part.name()
        except BaseException as error:
            if isinstance(error, OSError) and self._part is not None:
                name_file(error, self._part.path)
            self.discard()
            raise

    def discard(self) -> None:
        """Close what this writer opened, and remove a local file. Not in the original."""
        self._closed = True
        if self.own_fileobj is not None:
            with contextlib.suppress(OSError):  # something else has failed before
                self.own_fileobj.close()
        if self._part is not None:
            self._part.remove()

    def write(self, obj: Mapping[str, Any]) -> int:
        """Write a sample: one file for each field, in the order of their names. Return the bytes of the fields."""
        sample = self.encoder(obj)
        if "__key__" not in sample:
            raise ValueError("object must contain a __key__")
        fields = [
            k
            for k in sorted(sample)
            if k != "__key__" and (self.keep_meta or not k.startswith("_"))
        ]
        contents = []
        for field in fields:
            value = sample[field]
            if isinstance(value, str) and field.startswith("_"):
                value = value.encode("utf-8")
            if not isinstance(value, bytes | bytearray | memoryview):
                raise ValueError(f"{field} doesn't map to a bytes after encoding ({type(value)})")  # noqa: TRY004
            contents.append(value)
        return sum(
            self.write_file(f"{sample['__key__']}.{field}", value)
            for field, value in zip(fields, contents, strict=True)
        )

    def write_file(self, name: str, data: bytes | bytearray | memoryview) -> int:
        """Write a file as it is, and return its size. Not in the original."""
        size = memoryview(data).nbytes
        header = self._header(name, size)
        try:
            for part in (header, data, bytes(-size % _BLOCK)):
                self._sink.write(part)
        except OSError as error:
            if self._part is not None:
                name_file(error, self._part.path)
            raise
        self._position += len(header) + size + -size % _BLOCK
        return size

    def _header(self, name: str, size: int) -> bytes:
        mtime = int(time.time()) if self.mtime is None else self.mtime
        if self._lean and type(mtime) is int and mtime == 0:
            return header_of(name, size)
        member = tarfile.TarInfo(name)
        member.size, member.mtime, member.mode = size, mtime, self.mode
        member.uname, member.gname = self.user, self.group
        return member.tobuf(self.format, "utf-8", "surrogateescape")


def _compressor(fileobj: object, compress: bool | str | None) -> Callable[[Any], Any] | None:
    if compress not in (None, True, False, *_COMPRESSORS):
        raise ValueError(f"unknown compress={compress!r}: use gz, bz2, xz, True or False")
    if compress is None:
        compress = next(
            (k for k in _COMPRESSORS if isinstance(fileobj, str) and fileobj.endswith(k)), False
        )
    return _COMPRESSORS.get("gz" if compress is True else compress)


@dataclass(frozen=True)
class _Part:
    """An unfinished local file, which process `pid` writes beside its final path."""

    path: str
    pid: int

    @classmethod
    def of(cls, url: str) -> _Part | None:
        """Return None for anything except a regular local file: other URLs, pipes, devices, folders."""
        path = local_path_of(rewrite_url(url))
        if path is None or secure() or (os.path.exists(path) and not os.path.isfile(path)):
            return None
        return cls(os.path.realpath(path), os.getpid())

    @property
    def _own(self) -> str:
        folder, name = os.path.split(self.path)
        return os.path.join(folder, f".{name}.{self.pid}.part")

    def open(self) -> IO[bytes]:
        try:
            return open(self._own, "wb", buffering=int(os.environ.get("GOPEN_BUFFER", "-1")))
        except OSError as error:
            error.filename = self.path
            raise

    def name(self) -> None:
        """Rename the file to its final path."""
        os.replace(self._own, self.path)

    def remove(self) -> None:
        """Remove the unfinished file."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._own)


class ShardWriter:
    """A writer of samples into shards of limited size, named by a pattern such as `train-%06d.tar`.

    The next shard starts after `maxcount` samples or `maxsize` bytes of fields. `post` is called
    with the name of each finished shard, `opener` opens a shard for writing. For the other
    arguments, see `TarWriter`.
    """

    def __init__(
        self,
        pattern: str,
        maxcount: int = 100000,
        maxsize: float = 3e9,
        post: Callable[[str], Any] | None = None,
        start_shard: int = 0,
        verbose: int = 1,
        opener: Callable[[str], Any] | None = None,
        **kw: Any,
    ) -> None:
        self.pattern, self.maxcount, self.maxsize, self.post = pattern, maxcount, maxsize, post
        self.verbose, self.opener, self.kw = verbose, opener, kw
        self.shard = start_shard
        self.total = self.count = self.size = 0
        self.fname: str | None = None
        self.tarstream: TarWriter | None = None
        self._opened: Any = None
        self.next_stream()

    def next_stream(self) -> None:
        """Finish a shard and start the next one."""
        self.finish()
        try:
            self.fname = self.pattern % self.shard
        except TypeError as error:
            raise TypeError(
                f"{self.pattern!r} has no single place for the number of a shard, such as %06d"
            ) from error
        if self.verbose:
            print("# writing", self.fname, self.count, f"{self.size / 1e9:.1f} GB", self.total)
        self.shard += 1
        self._opened = None if self.opener is None else self.opener(self.fname)
        self.tarstream = TarWriter(self.fname if self._opened is None else self._opened, **self.kw)
        self.count = self.size = 0

    def write(self, obj: Mapping[str, Any]) -> None:
        if self.tarstream is None or self.count >= self.maxcount or self.size >= self.maxsize:
            self.next_stream()
        size = cast("TarWriter", self.tarstream).write(obj)
        self.count += 1
        self.total += 1
        self.size += size

    def finish(self) -> None:
        """Finish a shard. The next sample starts another one."""
        if self.tarstream is None:
            return
        self.tarstream.close()
        self.tarstream = None
        if self._opened is not None and hasattr(self._opened, "close"):
            self._opened.close()
        if self.post is not None:
            self.post(cast("str", self.fname))

    def close(self) -> None:
        self.finish()

    def discard(self) -> None:
        """Remove the unfinished shard. Not in the original."""
        if self.tarstream is not None:
            self.tarstream.discard()
            self.tarstream = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
