"""Files: paths from users and from names in files, opening by path, a pool of open files, and prefetching.

A name in a manifest, a table, a plan, a list or a packed folder is as untrusted as the file that
holds it: it never leads out of its folder, and links are not followed for writing. So every place
that joins such a name to a folder uses `below`, or `inside` if it writes or removes there.
SECURITY.md lists the rules for each kind of name; `tests/test_joined_paths.py` finds the places.
"""

from __future__ import annotations

import errno
import io
import os
import re
import threading
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import TYPE_CHECKING, TypeVar, cast

from bushel import kernels
from bushel.errors import FormatError, UnsupportedError
from bushel.kernels import MappedFile

from .base import AnyPath, Extents, File, StorePath

if TYPE_CHECKING:
    from typing_extensions import TypeIs

    from bushel.storage.objects.location import ObjectPath

T = TypeVar("T")
COMMIT_LIST = "commit.json"
"""Name of the file in a staging folder that commits it: `storage.publish` moves what it lists."""
_SIDECARS = ".bushel"
_FOREIGN = r"" if os.sep == "/" else r"|[\\:]"  # other systems than POSIX have drives
leads_out = re.compile(rf"(?:\A|/)\.{{0,2}}(?:/|\Z)|\0{_FOREIGN}").search
"""Matches names that do not name a file below a folder. `below` refuses them."""
_SHOWN = 200
_HINT = (
    "the file that holds this name is damaged or forged: delete it, or use a copy that you trust"
)

PathT = TypeVar("PathT", bound=AnyPath)


def as_path(path: object) -> AnyPath:
    """Turn a path as users give it into an object with `open()`.

    Text is a local path or a URL. URLs of object stores and HTTP servers become an `ObjectPath`;
    URLs of other schemes need universal-pathlib. A `~` or `~name` at the beginning of a local path
    becomes the home directory.

    Raises:
        UnsupportedError: The scheme needs universal-pathlib, which is not installed.
        ValueError: The URL has no bucket or host, or the text is empty.
        TypeError: `path` is not a path.
    """
    if isinstance(path, str) and "://" in path:
        return _from_url(path)
    if isinstance(path, str) and not path:  # which pathlib reads as the current folder
        raise ValueError("the path is empty: name a file or a folder; '.' is the current folder")
    if isinstance(path, Path):
        return _without_tilde(path)
    if is_object(path):
        return path
    if not isinstance(path, str | os.PathLike) or (
        hasattr(path, "open") and hasattr(path, "iterdir")
    ):
        if hasattr(path, "open") and hasattr(path, "name"):
            return path  # type: ignore[return-value]
        hint = ""
        if hasattr(path, "fingerprint"):
            hint = ": give the path that it was opened by"
        raise TypeError(
            f"expected a path or an object with open(), not {type(path).__name__}{hint}"
        )
    return _without_tilde(Path(os.fsdecode(path)))


def _without_tilde(path: Path) -> Path:
    if not path.parts or not path.parts[0].startswith("~"):
        return path
    return Path(os.path.expanduser(path))  # a name of no user stays as it is


def absolute(path: AnyPath) -> AnyPath:
    """Return a local path as an absolute one, which names the same file when the current folder changes."""
    return path.absolute() if isinstance(path, Path) else path


def real_file(path: AnyPath) -> AnyPath:
    """Return the file that a local link names, if the names end alike; every other path unchanged."""
    if isinstance(path, Path) and path.is_symlink() and not path.is_dir():
        real = Path(os.path.realpath(path))
        if real.suffix == path.suffix:
            return real
    return path


def path_of_stream(stream: object) -> str | None:
    """Return the path of a file that `open(path, "rb")` opened; None for every other stream.

    Streams that wrap a file, such as `gzip.open(path)`, have its name and descriptor too, but other
    bytes. None also if the path names another file by now.
    """
    raw = stream.raw if type(stream) in (io.BufferedReader, io.BufferedRandom) else stream  # type: ignore[attr-defined]
    if type(raw) is not io.FileIO or not isinstance(raw.name, str) or not os.path.isfile(raw.name):
        return None
    if os.path.samestat(os.fstat(raw.fileno()), os.stat(raw.name)):
        return raw.name
    return None


def _from_url(url: str) -> AnyPath:
    if url.startswith("file://"):
        return Path(url.removeprefix("file://"))
    from bushel.storage.objects.client import SCHEMES

    scheme, rest = url.split("://", 1)
    if scheme not in SCHEMES and scheme.lower() in SCHEMES:  # they may be written in capitals
        scheme = scheme.lower()
        url = f"{scheme}://{rest}"
    if scheme == "hf":
        from bushel.storage.objects.hub import HubPath

        return HubPath.parse(url)
    if scheme in SCHEMES:
        from bushel.storage.objects.location import ObjectPath

        return ObjectPath.parse(url)
    try:
        from upath import UPath
    except ImportError as error:
        raise UnsupportedError(
            f"{url}: {scheme}:// needs a package that is not "
            "installed; run: pip install universal-pathlib"
        ) from error
    remote: AnyPath = UPath(url)
    return remote


def names_in(folder: AnyPath) -> list[str]:
    """Return the names in a folder."""
    if isinstance(folder, Path):
        return os.listdir(folder)
    return [entry.name for entry in folder.iterdir()]


def is_local(path: AnyPath) -> bool:
    """Return whether a path is in the file system of this machine."""
    return isinstance(path, Path)


def is_object(path: object) -> TypeIs[ObjectPath]:
    """Return whether a path is in an object store."""
    return isinstance(path, StorePath)


def below(folder: PathT, name: str, *, any_text: bool = False) -> PathT:
    """Return the path of a file in a folder, by its name in a file.

    Args:
        folder: The folder.
        name: The name, relative to the folder, with `/`.
        any_text: Whether control characters may be in it, as in the names of photos. Files of
            datasets have none.

    Raises:
        FormatError: The name is empty, absolute, a URL, or no text; or it has a part that is empty,
            `.` or `..`, a NUL or, without `any_text`, another control character.

    Examples:
        >>> from bushel.storage import below
        >>> below(Path("train"), "000000/image.bag").as_posix()
        'train/000000/image.bag'
    """
    if not isinstance(name, str) or leads_out(name):
        shown = repr(name)
        if len(shown) > _SHOWN:
            shown = f"{shown[:_SHOWN]}…"
        raise FormatError(f"{shown} is not the name of a file in this folder", folder, hint=_HINT)
    if not any_text and (min(name) < " " or "\x7f" in name):
        raise FormatError(
            f"{name!r} has a control character, which no file of a dataset has", folder, hint=_HINT
        )
    return folder / name  # type: ignore[return-value]


def inside(folder: PathT, name: str) -> PathT:
    """Return the same path for writing, moving or removing: links must not lead out of the folder either.

    Control characters may be in the name.

    Raises:
        FormatError: As for `below`; or a part of the path is a symbolic link to a place outside the
            folder.
        OSError: The path is in a `.bushel` that is a symbolic link.
    """
    path = below(folder, name, any_text=True)
    if isinstance(path, Path):
        refuse_link(path.parent)
        if path.parent == folder:  # no part of the path could be a link
            return path
        real, above = os.path.realpath(str(folder)), os.path.realpath(path.parent)
        if above != real and not above.startswith(real.rstrip(os.sep) + os.sep):
            raise FormatError(
                f"{name!r} leads through a symbolic link to {above}, out of its folder",
                folder,
                hint=_HINT,
            )
    return path


def refuse_link(path: Path) -> None:
    """Refuse a path to write to if a `.bushel` in it, or anything below that, is a symbolic link.

    Raises:
        OSError: It is (`ELOOP`).
    """
    text = os.fspath(path)
    if _SIDECARS not in text:
        return
    parts = path.parts
    if _SIDECARS not in parts:
        return
    for end in range(parts.index(_SIDECARS) + 1, len(parts) + 1):
        link = os.path.join(*parts[:end])
        if os.path.islink(link):
            raise OSError(
                errno.ELOOP, "this is a symbolic link, through which nothing is written", link
            )


def remove_tree(folder: Path) -> None:
    """Remove a folder with all that is in it, as far as possible. Links in it are removed, not followed.

    Raises:
        OSError: The folder is in a `.bushel` that is a symbolic link.
    """
    refuse_link(folder)
    try_remove_tree(folder)


def try_remove_tree(folder: Path) -> None:
    """Remove a folder with its contents, as far as possible. Files that cannot be removed stay, without an error."""
    import shutil  # which imports the modules of all kinds of archives

    # `ignore_errors` does not cover fstat, which may fail with ESTALE on a network
    with suppress(OSError):
        shutil.rmtree(folder, ignore_errors=True)


def remove_empty(*folders: Path) -> None:
    """Remove the empty ones of some folders, in this order: others hold sidecars, or unfinished files."""
    for folder in folders:
        with suppress(OSError):
            folder.rmdir()


def leads_to_folder(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry is a folder or a link to one. A link to itself is not; `is_dir` raises for it."""
    return entry.is_dir(follow_symlinks=False) or (entry.is_symlink() and os.path.isdir(entry))


def open_file(path: AnyPath) -> File:
    """Open a file for reading by position.

    Raises:
        FileNotFoundError: The file does not exist.
        FormatError: It is a pipe or a device.
        OSError: The file cannot be read.
    """
    if isinstance(path, Path):
        try:
            return _mapped(str(path))
        except OSError as error:
            if error.errno != errno.ESPIPE:
                raise
            message = "not a file whose bytes can be read by position, but a pipe or device"
            raise FormatError(message, path, hint="copy its bytes into a file") from error
    if is_object(path):
        from bushel.storage.objects.remotefile import RemoteFile

        return RemoteFile.open(path)
    from .fileobject import FileObject

    return FileObject(path)


def look_at_file(path: str) -> File:
    """Return a local file that is opened for each read, with the size and the time that it has now.

    Raises:
        FileNotFoundError: The file does not exist.
        FormatError: It is a pipe or a device.
        OSError: The file cannot be read.
    """
    facts = os.stat(path)
    if not S_ISREG(facts.st_mode):
        return open_file(Path(path))  # which raises
    from .fileobject import SmallFile

    return SmallFile(path, facts.st_size, facts.st_mtime_ns)


@contextmanager
def mapped_once() -> Iterator[None]:
    """Let this thread map each file once, while it goes through a shard several times.

    The system maps pages one by one, which takes as long as reading them. A few files stay open
    until the end.
    """
    _MAPPED.files = {}
    try:
        yield
    finally:
        _MAPPED.files = None


class _Mapped(threading.local):
    """The files that this thread has mapped, by path; None outside of `mapped_once`."""

    files: dict[str, MappedFile] | None = None


_MAPPED = _Mapped()


def _mapped(path: str) -> MappedFile:
    files = _MAPPED.files
    if files is None:
        return MappedFile(path)
    if (file := files.get(path)) is None:
        file = MappedFile(path)
        if len(files) < 64:  # each has a descriptor
            files[path] = file
    return file


def open_known(path: AnyPath, size: int, mtime_ns: int) -> File:
    """Open a file whose size and modification time are known.

    No request is made to an object in a store; bytes read from it later are compared with them. Any
    other file is opened as `open_file` does, and has the size and time that it has now.
    """
    if is_object(path):
        from bushel.storage.objects.remotefile import RemoteFile

        return RemoteFile(path, size, mtime_ns)
    return open_file(path)


def prefetch(files: Sequence[File], extents: Extents) -> None:
    """Tell the operating system that these extents will be read soon. Does nothing for files that are not local.

    Raises:
        ExtentError: An extent is not in its file.
    """
    if not all(isinstance(file, MappedFile) for file in files):
        from .fetch import mapped_extents

        files, extents = mapped_extents(files, extents)
    local = cast("list[MappedFile]", list(files))
    kernels.prefetch(local, extents.file, extents.offset, extents.length)


class FilePool:
    """Open files by name. Opens a file on first use, and closes the oldest eighth if there are too many.

    A file that the pool drops stays usable for its other holders. The pool has no lock, so nothing
    can be held while the process forks: two threads may open the same file twice, and one of the
    two is kept. A pickled copy is empty, so a worker process opens its own files.

    Args:
        limit: Largest number of files to hold; by default half of what the process may open.
        direct: Whether local files are opened for direct reads, where their file system offers
            them.

    Attributes:
        limit: Largest number of files to hold.
        direct: Whether local files are opened for direct reads.
        files: The open files by name, to look for one that is open.
    """

    def __init__(self, limit: int | None = None, *, direct: bool = False) -> None:
        self.direct = direct
        self.limit = limit or max(16, os.sysconf("SC_OPEN_MAX") // 2)
        self.files: dict[Hashable, File] = {}

    def __reduce__(self) -> tuple[type[FilePool], tuple[int], dict[str, bool]]:
        return FilePool, (self.limit,), {"direct": self.direct}

    def get(self, name: Hashable, opener: Callable[[], File]) -> File:
        """Return the open file of this name; `opener` opens it if necessary."""
        file = self.files.get(name)
        if file is None:
            self.files[name] = file = self._open(opener)
            if len(self.files) > self.limit:
                for old in list(self.files)[: len(self.files) - self.limit + self.limit // 8]:
                    # many, as a list takes time
                    self.files.pop(old, None)
        return file

    def attempt(self, do: Callable[[], T]) -> T | None:
        """Call a function that opens files of this pool, and return its result; None if too many files are open.

        In that case the pool is empty afterwards. Only this function handles too many open files.
        """
        try:
            return do()
        except OSError as error:
            if error.errno != errno.EMFILE:
                raise
        self.close()  # after the except clause, whose traceback keeps files open
        return None

    def _open(self, opener: Callable[[], File]) -> File:
        file = self.attempt(opener) if self.files else None
        if file is None:
            file = opener()  # others hold most of what the process may open
        if self.direct and isinstance(file, MappedFile):
            return file.direct() or file
        return file

    def close(self) -> None:
        """Drop all files."""
        self.files.clear()


_LARGEST_POINTER = 1024  # bytes


def fetched(file: File) -> File:
    """Return a file. Raise FormatError if it is only a pointer of Git LFS."""
    if file.size < _LARGEST_POINTER and bytes(file.read(0, file.size)).startswith(
        b"version https://git-lfs"
    ):
        raise FormatError(
            "it is a pointer of Git LFS, not the file",
            file.path,
            hint="`git lfs pull` fetches the file",
        )
    return file
