"""Write samples into tar archives. Headers and ends of archives are those of Bushel's `tar` container."""

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

from bushel.compat.webdataset.encoders import (
    bytestr,
    default_handlers,
    encode_based_on_extension,
    encode_based_on_extension1,
    imageencoder,
    make_encoder,
    numpy_dumps,
    numpy_npz_dumps,
    torch_dumps,
)
from bushel.compat.webdataset.gopen import gopen, rewrite_url
from bushel.compat.webdataset.permission import secure
from bushel.compat.webdataset.tariterators import local_path_of
from bushel.containers.tar import end_of_archive, header_of
from bushel.errors import name_file

__all__ = [
    "ShardWriter",
    "TarWriter",
    "bytestr",
    "default_handlers",
    "encode_based_on_extension",
    "encode_based_on_extension1",
    "imageencoder",
    "make_encoder",
    "numpy_dumps",
    "numpy_npz_dumps",
    "torch_dumps",
]

_BLOCK = 512
_READABLE = 0o444


class TarWriter:
    """Writes samples into one archive.

    Args:
        fileobj: A path, whose file has its name when it is whole; a URL for `gopen`; or what is open for writing bytes
            (and is left open).
        user: Name of the owner of all files.
        group: Name of their group.
        mode: Their permissions.
        compress: `"gz"` (or True), `"bz2"`, `"xz"`, or False; None: as the name says.
        encoder: True: by extensions; False: values are bytes; a dict of encoders by extension; or a function.
        keep_meta: Whether fields that begin with `_` are written.
        mtime: Time of all files, seconds. A whole number, or None for now, which is written as one, takes no extra
            room; a float (other than None's) puts a kilobyte before each file.
        format: `tarfile`'s `USTAR_FORMAT`, `GNU_FORMAT` or `PAX_FORMAT`, or the name of one; None: pax.
        allow_commands: Whether `pipe:` may run a command; None: if `BUSHEL_ALLOW_COMMANDS=1` is set.

    Raises:
        ValueError: Compression or format is none of these.
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
        self.mtime, self.user, self.group, self.mode, self.compress = mtime, user, group, mode, compress
        self.format = _format_of(format)
        self.encoder, self.keep_meta = make_encoder(encoder), keep_meta
        packing = _packing(fileobj, compress)
        self.own_fileobj: Any = None
        self._part: _Part | None = None
        self.stream: Any = fileobj
        if isinstance(fileobj, str):
            self._part = _Part.of(fileobj)
            self.stream = self.own_fileobj = (
                gopen(fileobj, "wb", allow_commands=allow_commands) if self._part is None else self._part.open()
            )
        self._packer: Any = None if packing is None else packing(self.stream)
        self._sink: Any = self.stream if self._packer is None else self._packer
        self._position = 0
        self._closed = False
        self._lean = self.format == tarfile.PAX_FORMAT and (user, group, mode) == ("bigdata", "bigdata", _READABLE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not self._closed and self._part is not None and self._part.pid == os.getpid():
            warnings.warn(f"{self._part.path} was not closed", ResourceWarning, stacklevel=1)
            self.close()

    def close(self) -> None:
        """Write the end of the archive, and close what was opened here. A local file gets its name."""
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
        """Close what was opened here; a local file is removed. Not in the original."""
        self._closed = True
        if self.own_fileobj is not None:
            with contextlib.suppress(OSError):  # something else has failed before
                self.own_fileobj.close()
        if self._part is not None:
            self._part.remove()

    def write(self, obj: Mapping[str, Any]) -> int:
        """Write a sample: one file for each field, in the order of their names.

        Args:
            obj: The fields, and `__key__`.

        Returns:
            Bytes of the fields.

        Raises:
            ValueError: There is no key, or a field has no encoder.
        """
        sample = self.encoder(obj)
        if "__key__" not in sample:
            raise ValueError("object must contain a __key__")
        fields = [k for k in sorted(sample) if k != "__key__" and (self.keep_meta or not k.startswith("_"))]
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
        """Write a file as it is. Not in the original.

        Returns:
            Its bytes.
        """
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


def _format_of(name: int | str | None) -> Literal[0, 1, 2]:
    known = {"USTAR_FORMAT": tarfile.USTAR_FORMAT, "GNU_FORMAT": tarfile.GNU_FORMAT, "PAX_FORMAT": tarfile.PAX_FORMAT}
    if name is None:
        return tarfile.PAX_FORMAT
    found = known.get(name) if isinstance(name, str) else name
    if found not in known.values():
        raise ValueError(f"format={name!r} is none of {', '.join(known)}")
    return cast("Literal[0, 1, 2]", found)


def _packing(fileobj: object, compress: bool | str | None) -> Callable[[Any], Any] | None:
    if compress not in (None, True, False, "gz", "bz2", "xz"):
        raise ValueError(f"compress={compress!r} is none of gz, bz2, xz, True and False")
    if compress is False:
        return None
    name = fileobj if isinstance(fileobj, str) else ""
    kind = "gz" if compress is True else compress or next((k for k in ("gz", "bz2", "xz") if name.endswith(k)), None)
    if kind == "gz":
        return lambda stream: gzip.GzipFile(filename="", mode="wb", fileobj=stream, mtime=0)
    return {"bz2": lambda stream: bz2.BZ2File(stream, "wb"), "xz": lambda stream: lzma.LZMAFile(stream, "wb")}.get(
        kind or ""
    )


@dataclass(frozen=True, slots=True)
class _Part:
    """A local file under construction, beside the one that it becomes.

    Attributes:
        path: What it becomes.
        pid: Of the process that writes it.
    """

    path: str
    pid: int

    @classmethod
    def of(cls, url: str) -> _Part | None:
        """None for what is no local file: other URLs, pipes, devices; and folders, which cannot be opened."""
        path = local_path_of(rewrite_url(url))
        if path is None or secure() or (os.path.exists(path) and not os.path.isfile(path)):
            return None
        return cls(os.path.realpath(path), os.getpid())

    @property
    def _own(self) -> str:
        folder, name = os.path.split(self.path)
        return os.path.join(folder, f".{name}.{self.pid}.part")

    def open(self) -> IO[bytes]:
        """Begin it."""
        try:
            return open(self._own, "wb", buffering=int(os.environ.get("GOPEN_BUFFER", "-1")))
        except OSError as error:
            error.filename = self.path
            raise

    def name(self) -> None:
        """Give it its name."""
        os.replace(self._own, self.path)

    def remove(self) -> None:
        """Remove it, if it has not got its name."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self._own)


class ShardWriter:
    """Writes samples into archives of limited size.

    Args:
        pattern: Path with a place for the number: `train-%06d.tar`.
        maxcount: Samples of an archive.
        maxsize: Bytes of the fields of an archive, after which the next one begins.
        post: Called with the name of each archive that is done.
        start_shard: Number of the first.
        verbose: Whether to say what is written.
        opener: Opens an archive for writing; its result is closed here.
        **kw: As for `TarWriter`.
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
        """Finish an archive and begin the next."""
        self.finish()
        try:
            self.fname = self.pattern % self.shard
        except TypeError as error:
            raise TypeError(f"{self.pattern!r} needs one place for the number of a shard, such as %06d") from error
        if self.verbose:
            print("# writing", self.fname, self.count, f"{self.size / 1e9:.1f} GB", self.total)
        self.shard += 1
        self._opened = None if self.opener is None else self.opener(self.fname)
        self.tarstream = TarWriter(self.fname if self._opened is None else self._opened, **self.kw)
        self.count = self.size = 0

    def write(self, obj: Mapping[str, Any]) -> None:
        """Write a sample."""
        if self.tarstream is None or self.count >= self.maxcount or self.size >= self.maxsize:
            self.next_stream()
        size = cast("TarWriter", self.tarstream).write(obj)
        self.count += 1
        self.total += 1
        self.size += size

    def finish(self) -> None:
        """Finish an archive. The next sample begins another one."""
        if self.tarstream is None:
            return
        self.tarstream.close()
        self.tarstream = None
        if self._opened is not None and hasattr(self._opened, "close"):
            self._opened.close()
        if self.post is not None:
            self.post(cast("str", self.fname))

    def close(self) -> None:
        """Finish the last archive."""
        self.finish()

    def discard(self) -> None:
        """Drop the archive that is being written. Not in the original."""
        if self.tarstream is not None:
            self.tarstream.discard()
            self.tarstream = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
