"""Complete files, local or remote: read in one call, and written so that they appear completely or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import FileIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bushel._runtime.messages import log_info, log_warning
from bushel._runtime.system import clone_file
from bushel.errors import UnsupportedError, name_file, naming

from .base import AnyPath
from .files import is_object, refuse_link

if TYPE_CHECKING:
    import threading

_PIECE = 1 << 22
_LARGE_COPY = 64 << 20
_ATTEMPTS = 100  # to make a folder


def read_whole(path: AnyPath) -> bytes:
    """Return the bytes of a file.

    Raises:
        FileNotFoundError: The file does not exist.
        OSError: The file cannot be read.
    """
    if isinstance(path, Path):
        with naming(path), open(path, "rb", buffering=0) as file:
            return file.read()
    if is_object(path):
        return path.read_bytes()
    with path.open("rb") as file:
        return bytes(file.read())


def read_text(path: AnyPath) -> str:
    """Return the text of a file. Bytes that are not valid UTF-8 become surrogates."""
    return read_whole(path).decode("utf-8", "surrogateescape")


def write_whole(path: AnyPath, data: bytes, *, sync: bool = True) -> None:
    """Write a file, or replace it, completely or not at all.

    A local file is written as `NAME.partial` and renamed. A file that a killed process has left
    under that name is written over by the next one.

    Args:
        path: The file; its folder is created if necessary.
        data: Its content.
        sync: Whether to wait until the file and its name are on disk. Without that, a power cut may
            leave an empty or damaged file.

    Raises:
        OSError: The file cannot be written. A file that was there before is unchanged.
    """
    if isinstance(path, Path):
        with replacing(path, sync=sync) as file:
            write_all(file, data)
    elif is_object(path):
        from bushel.storage.objects.upload import put_bytes

        put_bytes(path, data)
    else:
        with naming(path), path.open("wb") as stream:
            stream.write(data)


def write_all(file: FileIO, data: bytes | bytearray | memoryview, at: int | None = None) -> None:
    """Write all bytes, however few a call takes, to where a file is, or to an offset."""
    rest = memoryview(data)
    while rest:
        if at is None:
            written = file.write(rest)
        else:
            written = os.pwrite(file.fileno(), rest, at)
        rest, at = rest[written:], None if at is None else at + written


@contextmanager
def replacing(path: Path, *, sync: bool = True) -> Iterator[FileIO]:
    """Write a local file in the body of the `with`; it gets its name only after all bytes are written.

    Args:
        path: The file; its folder is created if necessary.
        sync: As for `write_whole`.

    Yields:
        The empty file `NAME.partial`, open for reading and writing.

    Raises:
        OSError: The file cannot be written. A file that was there before is unchanged.
    """
    partial = path.with_name(f"{path.name}.partial")
    make_folder(path.parent, sync=sync)
    try:
        with open_alone(partial) as file:
            try:
                file.truncate(0)
                yield file
                if sync:
                    os.fsync(file.fileno())
                os.replace(partial, path)
            except BaseException:
                partial.unlink(missing_ok=True)
                raise
        if sync:
            sync_folder(path.parent)
    except OSError as error:
        if error.errno is None:  # raised by the body, in its own words
            raise
        error.filename = str(path)  # the name that the caller gave
        if error.filename2 is not None:
            del error.filename2
        raise


def sync_whole(path: AnyPath) -> None:
    """Wait until a local file, its name, and the name of its folder are on disk. Other storages do not need it."""
    if not isinstance(path, Path):
        return
    with naming(path), open(path, "rb") as file:
        os.fsync(file.fileno())
    for folder in (path.parent, path.parent.parent):
        sync_folder(folder)


def create_whole(path: AnyPath, data: bytes) -> bool:
    """Write a file unless it exists, completely or not at all. If several write it at the same time, one succeeds.

    A local file is written under a name of its own and linked; an object is put with the condition
    that it is new.

    Args:
        path: The file; its folder is created if necessary.
        data: Its content.

    Returns:
        Whether this call created the file; also True if it exists with this content, which another
        attempt may have written.

    Raises:
        OSError: The file cannot be written.
    """
    if is_object(path):
        from bushel.storage.objects.upload import put_bytes

        try:
            put_bytes(path, data, new=True)
        except FileExistsError:
            return False
        return True
    if not isinstance(path, Path):
        raise UnsupportedError(
            f"{path} is neither a local path nor in an object "
            "store: nothing can be created there on a condition"
        )
    make_folder(path.parent)
    partial = path.with_name(f"{path.name}.{os.urandom(8).hex()}.partial")
    try:
        with naming(path), open(partial, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        try:
            os.link(partial, path)
        except FileExistsError:
            return read_whole(path) == data
    finally:
        partial.unlink(missing_ok=True)
    sync_folder(path.parent)
    return True


def open_alone(path: Path) -> FileIO:
    """Open a temporary file for writing. Other threads and processes that open it this way wait until it is closed."""
    import fcntl

    while True:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        file = open(handle, "r+b", buffering=0)  # noqa: SIM115 - the caller closes it
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError:  # a file system without locks
            return file
        except BaseException:
            file.close()
            raise
        try:
            if os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
                return file
        except FileNotFoundError:  # renamed by its last owner
            pass
        file.close()


def make_folder(folder: Path, *, sync: bool = True) -> None:
    """Create a folder and its parents if necessary. With `sync`, wait until the new entries are on disk.

    Every file that Bushel keeps beside data is written below such a folder. With `sync`, each
    folder is on disk before the next one is created in it. So only the last folder of a killed
    process can be missing on disk: if it exists and another one is created in it, its entry is put
    on disk first.

    Raises:
        OSError: It cannot be created; or a `.bushel` in its path, or anything below it, is a
            symbolic link.
    """
    refuse_link(folder)
    for left in reversed(range(_ATTEMPTS)):
        try:
            _make_missing(folder, sync=sync)
            break
        # another process has made it, or has removed one that was still empty
        except (FileNotFoundError, FileExistsError):
            if not left:
                raise
        except PermissionError as error:
            new = Path(error.filename)
            if new.exists():  # it was not to be created, but to be put on disk
                raise
            message = f"{error.strerror} to create {new.name!r} in this folder"
            raise PermissionError(error.errno, message, str(new.parent)) from error


def _make_missing(folder: Path, *, sync: bool) -> None:
    if not sync:
        folder.mkdir(parents=True, exist_ok=True)
        return
    missing = []
    at = folder
    while not at.exists():
        missing.append(at)
        at = at.parent
    if missing and not os.path.ismount(at):
        # the folder above it belongs to another user, who created it
        with suppress(PermissionError):
            sync_folder(at.parent)
    for parent in reversed(missing):
        parent.mkdir(exist_ok=True)
        sync_folder(parent.parent)


def sync_folder(folder: Path) -> None:
    """Write a folder's entries to disk, so that a rename in it survives a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        name_file(error, folder)
        raise
    finally:
        os.close(handle)


def sync_nearest(folder: Path) -> None:
    """Sync a folder, or the first one above it that exists: other processes remove empty ones."""
    while True:
        try:
            return sync_folder(folder)
        except FileNotFoundError:
            folder = folder.parent


def place_file(
    source: Path, target: AnyPath, *, new: bool = False, stop: threading.Event | None = None
) -> None:
    """Move a local file to its place: rename it, upload it, or copy it.

    Args:
        source: The file. It does not exist after it was renamed.
        target: The new path.
        new: Refuse to replace an object of an object store.
        stop: Ends an upload soon after it is set.

    Raises:
        InterruptedError: `stop` was set.
        FileExistsError: `new`, and the object exists.
        OSError: The file cannot be written.
    """
    if isinstance(target, Path):
        make_folder(target.parent, sync=False)
        os.replace(source, target)
    elif is_object(target):
        from bushel.storage.objects.upload import put_file

        put_file(target, source, new=new, stop=stop)
    else:
        import shutil

        with open(source, "rb") as data, naming(target), target.open("wb") as sink:
            shutil.copyfileobj(data, sink, _PIECE)


def copy_to_append(source: AnyPath, target: Path) -> None:
    """Copy a file, local or remote, to which samples are added. The target's folder is created if necessary.

    A local file is cloned if the file system can do that, which takes no time and no room. If not,
    the log says that it is copied: as a warning if it is large.

    Raises:
        OSError: A file cannot be read or written.
    """
    import shutil

    target.parent.mkdir(parents=True, exist_ok=True)
    if isinstance(source, Path):
        with naming(source):
            if not clone_file(source, target):
                shutil.copyfile(source, target)  # in the kernel
                size = target.stat().st_size
                log = log_warning if size >= _LARGE_COPY else log_info
                log(
                    "%s: all %d bytes are copied to add samples, as this file system cannot "
                    "clone a file; samples are added to a folder of shards without copying",
                    source,
                    size,
                )
    else:
        with source.open("rb") as data, naming(target), open(target, "wb") as copy:
            shutil.copyfileobj(data, copy, _PIECE)


def remove(path: AnyPath, *, give_up: threading.Event | None = None) -> None:
    """Remove a file, if it exists. With `give_up`, a failed request is not retried."""
    if is_object(path):
        from bushel.storage.objects.upload import delete

        delete(path, give_up=give_up)
    elif path.exists():
        if isinstance(path, Path):
            refuse_link(path.parent)
        cast("Any", path).unlink()


def walk_names(root: AnyPath) -> Iterator[str]:
    """Yield the names of all files below a remote folder, relative to it, in any order."""
    if is_object(root):
        from bushel.storage.objects.location import walk_objects

        yield from walk_objects(root)
        return
    for child in root.iterdir():
        if child.is_dir():
            yield from (f"{child.name}/{name}" for name in walk_names(child))
        else:
            yield str(child.name)


def list_names(root: AnyPath) -> list[str]:
    """Return the names of all files below a remote folder, relative to it. Folders are listed in parallel."""
    if is_object(root):
        from bushel.storage.objects.location import list_objects

        return list_objects(root)
    return list(walk_names(root))
