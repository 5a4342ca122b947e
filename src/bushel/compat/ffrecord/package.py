"""Packed folders: the files of a folder in one file, by their paths."""

from __future__ import annotations

import builtins
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias, cast, overload

from bushel.compat.errors import WrongTypeError
from bushel.containers.ffrecord import MAGIC, parse_folder
from bushel.errors import FormatError
from bushel.sources import Files

from .errors import MissingPathError, NoFileError, NoFolderError, as_runtime_errors
from .fileio import FileReader, PathLike, Record, checked_name, drop_index, new_writer

Tree: TypeAlias = "dict[str, int | Tree]"


def pack_folder(folder: PathLike, out_file: PathLike, verbose: bool = False) -> None:
    """Pack a folder into one file `*.ffr`, which `PackedFolder` reads. Empty folders are kept, links are followed."""
    if not Path(folder).is_dir():
        raise NoFolderError(f"{os.fspath(folder)} is not a folder")
    target = checked_name(out_file)
    new_writer(target, {"data": "bytes"}).suspend()  # an old file in the folder is not packed
    source = Files(Path(folder).absolute())
    total = len(source)
    with new_writer(target, source.spec, expected=total, folders=source.folders) as writer:
        for number in range(total):
            writer.append(source[number])
            if verbose:
                print(f"{number:0{len(str(total))}d}/{total} {source.origin(number)}", flush=True)
    drop_index(target)


class PackedFolder:
    """The files of a folder that `pack_folder` packed, by their paths.

    `check_data` compares files with their checksums. An FFRecord file of another kind is a
    `ValueError`.
    """

    def __init__(self, ffr_file: PathLike, check_data: bool = True) -> None:
        self.reader = FileReader(ffr_file, check_data)
        last = self.reader.read_one(self.reader.n - 1).tobytes() if self.reader.n else b""
        if not last.startswith(MAGIC):
            raise ValueError(f"{os.fspath(ffr_file)} is not a packed folder")
        with as_runtime_errors():
            self._root = _tree(last, self.reader)

    def num_files(self) -> int:
        """Return the number of files."""
        return self.reader.n - 1

    @overload
    def read(self, fnames: PathLike) -> Record: ...  # type: ignore[overload-overlap]  # text is a sequence of text
    @overload
    def read(self, fnames: Sequence[PathLike]) -> list[Record]: ...

    def read(self, fnames: PathLike | Sequence[PathLike]) -> Record | list[Record]:
        """Read one file as uint8[length], or several files at once as a list of such arrays.

        Raises:
            MissingPathError: A path does not exist; also a `FileNotFoundError` and an
                `AssertionError`.
            NoFileError: A path is a folder.
            DamagedRecordError: A file does not match its checksum.
        """
        if isinstance(fnames, (str, os.PathLike)):
            return self.read_one(fnames)
        if not isinstance(fnames, (builtins.list, tuple)):
            raise WrongTypeError(f"expected a path or a list of paths, not {type(fnames).__name__}")
        return self.reader.read([self._number(fname) for fname in fnames])

    def read_one(self, fname: PathLike) -> Record:
        """Read one file: uint8[length]. Raises as `read`."""
        return self.reader.read_one(self._number(fname))

    def list(
        self,
        path: PathLike | None = None,
        list_file: bool = True,
        list_dir: bool = True,
        recursive: bool = False,
    ) -> builtins.list[str]:
        """List a folder (default: the packed folder itself): files, then folders, each sorted by name.

        With `recursive`, each folder is followed by its content, as paths relative to `path`.

        Raises:
            MissingPathError: The path does not exist.
            NoFolderError: The path is a file.
        """
        entry = self._find("" if path is None else path)
        if entry is None:
            raise MissingPathError(f"{path} does not exist")
        if isinstance(entry, int):
            raise NoFolderError(f"{path} is not a directory but a file")
        return _names(entry, list_file, list_dir, recursive)

    def exists(self, path: PathLike) -> bool:
        return self._find(path) is not None

    def is_file(self, path: PathLike) -> bool:
        return isinstance(self._find(path), int)

    def is_dir(self, path: PathLike) -> bool:
        return isinstance(self._find(path), dict)

    def _find(self, path: PathLike) -> int | Tree | None:
        entry: int | Tree | None = self._root
        for part in Path(path).parts:
            entry = entry.get(part) if isinstance(entry, dict) else None
        return entry

    def _number(self, fname: PathLike) -> int:
        entry = self._find(fname)
        if entry is None:
            raise MissingPathError(f"{fname} does not exist")
        if not isinstance(entry, int):
            raise NoFileError(f"{fname} is not a file but a directory")
        return entry


def _tree(table: bytes, reader: FileReader) -> Tree:
    """Return a dict from names to record numbers, or to such dicts for folders."""
    try:
        paths, empty = parse_folder(table)
    except FormatError as error:
        raise FormatError(error.message, file=reader.fnames[-1], hint=error.hint) from error
    numbers = range(reader.n) if reader.numbers is None else reader.numbers.tolist()
    if len(paths) != numbers[-1]:
        raise FormatError(
            f"the table lists {len(paths)} files, and the file has {numbers[-1]}",
            file=reader.fnames[-1],
        )
    root: Tree = {}
    for position, number in enumerate(numbers[:-1]):  # without removed files
        *folders, name = paths[number].split("/")
        _folder(root, folders)[name] = position
    for path in empty:
        _folder(root, path.split("/"))
    return root


def _folder(root: Tree, names: Sequence[str]) -> Tree:
    for name in names:
        root = cast("Tree", root.setdefault(name, {}))
    return root


def _names(folder: Tree, files: bool, folders: bool, recursive: bool) -> list[str]:
    names = (
        sorted(name for name, entry in folder.items() if isinstance(entry, int)) if files else []
    )
    for name, entry in sorted(folder.items()) if folders or recursive else ():
        if isinstance(entry, dict):
            names += [name] if folders else []
            names += (
                [f"{name}/{inner}" for inner in _names(entry, files, folders, recursive)]
                if recursive
                else []
            )
    return names
