"""Folders of files: any files unchanged, or images with their folders as labels."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bushel import kernels
from bushel._index.sidecar import FOLDER
from bushel._recognise.layout import FolderLayout, layout_of_kind
from bushel._runtime.arrays import I64
from bushel._runtime.system import room_for
from bushel.containers.folder import classes_beside, junk_of, layout_report
from bushel.containers.kept_folder import names_below
from bushel.containers.stored_column import StoredColumn
from bushel.spec import KEY
from bushel.storage import AnyLocation, AnyPath, as_path, list_names
from bushel.storage.names import below, leads_to_folder

from .base import FileSource, Sample, read_file
from .media import UNCHANGED, Image, Media

_ROOM = 4 << 20  # bytes of a buffer; files of a batch that need more are read into another one


def walk(
    root: AnyPath,
    suffixes: Collection[str] | None = None,
    *,
    recursive: bool = True,
    empty: bool = False,
) -> Iterator[str]:
    """Yield relative paths of the files under a folder, depth first over sorted names; links are followed.

    Args:
        root: The folder.
        suffixes: Only files with one of these suffixes, in any case, such as `.jpg`. None for all
            files.
        recursive: Whether to descend into folders.
        empty: Whether to yield empty folders, too, as paths that end in a slash.

    Raises:
        NotADirectoryError, FileNotFoundError: `root` is not a folder.

    Examples:
        >>> Path("tree/b").mkdir(parents=True)
        >>> Path("tree/b/1.txt").touch()
        >>> list(bushel.sources.walk(Path("tree"), [".txt"]))
        ['b/1.txt']
    """
    lowered_suffixes = {suffix.lower() for suffix in suffixes or ()}
    if isinstance(root, Path):
        folders = _folders(root, "", (), recursive=recursive)
    else:
        folders = _listed(root, recursive)
    for path, names in folders:
        if names is None and empty:
            yield path
        for name in names or ():
            if suffixes is None or os.path.splitext(name)[1].lower() in lowered_suffixes:
                yield path + name


def _folders(
    root: Path, path: str, above: tuple[tuple[int, int], ...], *, recursive: bool
) -> Iterator[tuple[str, list[str] | None]]:
    """Yield folders and the files that come next in them. A folder comes again after each folder inside it.

    An empty folder comes with None.
    """
    with os.scandir(root / path) as entries:
        children = sorted(
            (entry.name, leads_to_folder(entry)) for entry in entries if entry.name != FOLDER
        )
    if path and not children:
        yield path, None
        return
    stat = os.stat(root / path)
    identity = (stat.st_dev, stat.st_ino)
    if identity in above:  # a link to a folder that contains it
        return
    files: list[str] = []
    for name, is_folder in children:
        if not is_folder:
            files.append(name)
        elif recursive:
            yield path, files
            files = []
            yield from _folders(root, f"{path}{name}/", (*above, identity), recursive=recursive)
    yield path, files


def _listed(root: AnyPath, recursive: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield the same for a folder that is not local, from one listing, which shows no empty folders.

    Raises:
        FileNotFoundError: The folder does not exist.
    """
    paths = sorted(tuple(name.split("/")) for name in list_names(root))
    if not paths:
        raise FileNotFoundError(f"{root} does not exist")
    for *folders, name in paths:
        if FOLDER not in folders and (recursive or not folders):
            yield "".join(f"{folder}/" for folder in folders), [name]


class _Folder(FileSource):
    """Files of a folder, by their relative paths."""

    root: AnyPath
    _names: Sequence[str]

    def __len__(self) -> int:
        return len(self._names)

    def _files(self, position: int) -> list[AnyPath]:
        return [_file(self.root, self._names[position])]

    def origin(self, position: int) -> str:
        """Return the file's path."""
        return str(_file(self.root, self._names[position]))

    def _read(self, positions: Sequence[int]) -> StoredColumn:
        """Read local files into one buffer: those before one that cannot be read, and that it has room for."""
        room = room_for(_ROOM)
        names = _taken(self._names, positions)
        return StoredColumn(room, *kernels.read_files(names, room, folder=str(self.root)))

    def _identity(self, *facts: object) -> str:
        """Return a digest of the folder and its files, and other facts."""
        import hashlib  # which imports OpenSSL

        digest = hashlib.sha256(repr((str(self.root), *facts)).encode("utf-8", "surrogateescape"))
        digest.update("\0".join(self._names).encode("utf-8", "surrogateescape"))
        return digest.hexdigest()[:32]


def _taken(values: Sequence[str], positions: Sequence[int]) -> list[str]:
    """Return the values at some positions. Raise IndexError if one is negative or too large."""
    if min(positions, default=0) < 0:
        raise IndexError(f"position {min(positions)} is negative")
    return [values[position] for position in positions]


class Files(_Folder):
    """Every file under a folder as one sample: its bytes, and its relative path as key.

    An ffrecord file stores these samples as FFRecord's `pack_folder` does, with empty folders.

    Args:
        root: The folder.
        suffixes: Only files with one of these suffixes; None for all.
        field: Name of the one field.
        listing: The attribute `listing` of another process; by default the folder is listed.

    Attributes:
        root: The folder.
        spec: One field of `bytes`.
        folders: Relative paths of the empty folders; empty if `suffixes` is given.

    Examples:
        >>> from bushel.sources import Files
        >>> bushel.pack(Files("photos/"), "photos.ffr").samples
        12
        >>> bushel.open("photos.ffr").keys[0]
        'cat/0.jpg'
    """

    def __init__(
        self,
        root: AnyLocation,
        *,
        suffixes: Collection[str] | None = None,
        field: str = "data",
        listing: Iterable[str] | None = None,
    ) -> None:
        self.root, self._field = as_path(root), field
        empty: list[str] = []
        if listing is None:
            listing = walk(self.root, suffixes, empty=suffixes is None)
        self._names = tuple(_without_folders(listing, empty))
        self.folders: Sequence[str] | None = empty
        self.spec: Mapping[str, str] = {field: "bytes"}

    @property
    def file_field(self) -> str | None:
        """The field of the files."""
        return self._field

    @property
    def has_columns(self) -> bool:
        """Whether the files are local."""
        return isinstance(self.root, Path)

    def columns(self, positions: I64) -> tuple[Mapping[str, Any], Sequence[str]]:
        """Return the bytes of the first of these files, and their paths as keys."""
        rows = positions.tolist()
        files = self._read(rows)
        return {self._field: files}, _taken(self._names, rows[: len(files)])

    def __getitem__(self, position: int) -> Sample:
        name = self._names[position]
        return {KEY: name, self._field: read_file(self._at(_file(self.root, name)))}

    @property
    def listing(self) -> Sequence[str]:
        """The paths of the files, and of empty folders, which end in a slash."""
        return [*self._names, *(f"{folder}/" for folder in self.folders or ())]

    @property
    def fingerprint(self) -> str:
        """A digest of the folder and the paths in it."""
        return self._identity(self._field)


class LabelledFolder(_Folder):
    """Files of one medium in one folder per class: the fields that `media` makes, and `label`.

    The class of a file is the first folder of its relative path, and its key is that path without
    the suffix, as when the folder is opened (docs/folders.md). If most files are in the folder
    itself, they have no label. Files with other suffixes, and stray files beside the folders of the
    classes, are skipped and counted.

    Args:
        root: The folder.
        media: Turns a file into a field: `Image()`, `Audio()`, `Clip()`, or such as
            `Frames(rate=12, short_edge=256)`.
        suffixes: Suffixes of the files to use; by default all of the medium.
        listing: The attribute `listing` of another process; by default the folder is listed.

    Attributes:
        root: The folder.
        spec: The field that `media` makes, and `label`, an `int`.
        skipped: Number of files that are skipped, by kind, such as `{".nef": 3}`.
        report: Logs how many classes and files there are, and which are skipped.

    Raises:
        FileNotFoundError: The folder does not exist, or holds no such file.

    Examples:
        >>> from bushel.sources import LabelledFolder
        >>> source = LabelledFolder("photos/")
        >>> source.spec, source.labels
        ({'image': 'jpg', 'label': 'int'}, {'label': ('cat', 'dog')})
        >>> source[0]["__key__"], source.origin(0)
        ('cat/0', 'photos/cat/0.jpg')
    """

    def __init__(
        self,
        root: AnyLocation,
        media: Media | None = None,
        suffixes: Collection[str] | None = None,
        listing: Iterable[str] | None = None,
    ) -> None:
        self.root, media = as_path(root), media or Image()
        if suffixes is None:
            suffixes = media.suffixes
        names = names_below(self.root) if listing is None else list(listing)
        lowered_suffixes = {suffix.lower() for suffix in suffixes}
        classes = classes_beside(self.root)
        layout = layout_of_kind(names, lowered_suffixes, classes, ordered=listing is not None)
        if not layout.keys:
            raise FileNotFoundError(
                f"{root} has no file with one of the suffixes {', '.join(suffixes)}"
            )
        files = [names[number] for number in layout.fields["file"].files]
        self._lay_out(names, layout, files, media, *media.field(files))
        if listing is None:
            self.report()

    @classmethod
    def of_layout(
        cls, root: AnyPath, names: Sequence[str], layout: FolderLayout
    ) -> LabelledFolder | None:
        """Return the media files of a folder with the fields that `bushel.open` finds.

        Args:
            root: The folder.
            names: Its files, without junk.
            layout: The samples that they form.

        Returns:
            None if a sample is not one media file and its class.
        """
        field, *others = layout.fields
        if others or field not in UNCHANGED:
            return None
        files, source = layout.fields[field], cls.__new__(cls)
        source.root = root
        paths = [names[number] for number in files.files]
        source._lay_out(names, layout, paths, UNCHANGED[field], field, files.codec)
        return source

    def _lay_out(
        self,
        names: Sequence[str],
        layout: FolderLayout,
        files: Sequence[str],
        media: Media,
        field: str,
        codec: str,
    ) -> None:
        """Keep the samples of a layout: `files` has the file of each."""
        self._media, self._field, self._classes = media, field, layout.class_of
        left_out = Counter(kind for _, kind in layout.left_out)
        self.report = layout_report(self.root, layout, [field], junk_of(names))
        self.skipped: Mapping[str, int] = dict(sorted((junk_of(names) + left_out).items()))
        self._names, self._keys = tuple(files), layout.keys
        self.labels: Mapping[str, Sequence[str]] = {}
        self.spec: Mapping[str, str] = {field: codec}
        if layout.classes:
            self.labels = {"label": layout.classes}
            self.spec = {field: codec, "label": "int"}

    @property
    def file_field(self) -> str | None:
        """The field of the files."""
        return self._field

    @property
    def has_columns(self) -> bool:
        """Whether the files are local, and the medium does not change them."""
        return self._media in UNCHANGED.values() and isinstance(self.root, Path)

    def columns(self, positions: I64) -> tuple[Mapping[str, Any], Sequence[str]]:
        """Return the bytes of the first of these files, their labels, if they have some, and their keys."""
        rows = positions.tolist()
        files = self._read(rows)
        rows = rows[: len(files)]
        columns: dict[str, Any] = {self._field: files}
        if self.labels:
            columns["label"] = [self._classes[row] for row in rows]
        return columns, _taken(self._keys, rows)

    def __getitem__(self, position: int) -> Sample:
        name = self._names[position]
        sample = {
            KEY: self._keys[position],
            self._field: self._media.read(self._at(_file(self.root, name))),
        }
        if self.labels:
            sample["label"] = self._classes[position]
        return sample

    @property
    def listing(self) -> Sequence[str]:
        """The paths of the files."""
        return self._names

    @property
    def fingerprint(self) -> str:
        """A digest of the folder, the paths in it and the classes."""
        return self._identity(self._field, self._media, *self.labels.get("label", ()))


def _without_folders(paths: Iterable[str], folders: list[str]) -> Iterator[str]:
    """Yield the paths of files; move those that end in a slash, without it, into `folders`."""
    for path in paths:
        if path.endswith("/"):
            folders.append(path[:-1])
        else:
            yield path


def _file(root: AnyPath, name: str) -> AnyPath:
    """Return the path of a file by its name in a listing, which another process may have read from a file."""
    return below(root, name, any_text=True)
