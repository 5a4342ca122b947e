"""Folders of files: any files unchanged, or images with their folders as labels."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from msgspec.structs import replace

from bushel import kernels
from bushel._index.identity import digest_of_value
from bushel._index.shard import FOLDER
from bushel._recognise.layout import FileField, FolderLayout, ending_of, layout_of_kind
from bushel._runtime.arrays import I64
from bushel._runtime.system import room_for
from bushel.containers.folder import classes_beside, junk_of, layout_report
from bushel.containers.kept_folder import list_below
from bushel.containers.stored_column import StoredColumn
from bushel.spec import KEY
from bushel.storage import AnyLocation, AnyPath, absolute, as_path, list_names
from bushel.storage.files import below, leads_to_folder

from .base import FileSource, Sample
from .media import UNCHANGED, Image, Media, Unchanged

T = TypeVar("T")
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
    lowered = {suffix.lower() for suffix in suffixes or ()}
    if isinstance(root, Path):
        names = _walk(root, "", (), recursive)
    else:
        names = _listed(root, recursive)
    for name in names:
        if name.endswith("/"):
            if empty:
                yield name
        elif suffixes is None or ending_of(name) in lowered:
            yield name


def _walk(
    root: AnyPath, folder: str, above: tuple[tuple[int, int], ...], recursive: bool
) -> Iterator[str]:
    """Yield the files below a local folder, and empty folders, which end in a slash."""
    path = str(root / folder)
    with os.scandir(path) as entries:
        children = sorted(
            (entry.name, leads_to_folder(entry)) for entry in entries if entry.name != FOLDER
        )
    stat = os.stat(path)
    identity = (stat.st_dev, stat.st_ino)
    if identity in above:  # a link to a folder that contains it
        return
    if folder and not children:
        yield folder
    for name, is_folder in children:
        if not is_folder:
            yield folder + name
        elif recursive:
            yield from _walk(root, f"{folder}{name}/", (*above, identity), recursive)


def _listed(root: AnyPath, recursive: bool) -> Iterator[str]:
    """Yield the same for a folder that is not local, from one listing, which shows no empty folders.

    Raises:
        FileNotFoundError: The folder does not exist.
    """
    paths = sorted(tuple(name.split("/")) for name in list_names(root))
    if not paths:
        raise FileNotFoundError(f"{root} does not exist")
    for path in paths:
        if FOLDER not in path[:-1] and (recursive or len(path) == 1):
            yield "/".join(path)


class _Folder(FileSource):
    """Files of a folder, each as one sample: what a medium makes of it, and the number of its class, if it has one."""

    root: AnyPath
    spec: Mapping[str, str]
    labels: Mapping[str, Sequence[str]] = {}
    _media: Media
    file_field: str  # the field of the files
    # the paths of the files, also of removed samples, and of empty folders, which end in a slash
    listing: Sequence[str]
    _names: Sequence[str]
    _keys: Sequence[str]
    _classes: I64  # the number of the class of each file, if it has one

    def __len__(self) -> int:
        return len(self._names)

    def __getitem__(self, position: int) -> Sample:
        value = self._media.read(self._path(position))
        sample = {KEY: self._keys[position], self.file_field: value}
        if self.labels:
            sample["label"] = int(self._classes[position])
        return sample

    def _path(self, position: int) -> AnyPath:
        # another process may have read the listing from a file
        return below(self.root, self._names[position], any_text=True)

    @property
    def has_columns(self) -> bool:
        """Whether the files are local, and the medium does not change them."""
        unchanged = getattr(type(self._media), "read", None) is Unchanged.read
        return unchanged and isinstance(self.root, Path)

    def columns(self, positions: I64) -> tuple[Mapping[str, Any], Sequence[str]]:
        """Return files, the numbers of their classes, if they have some, and their keys.

        The files are read into one buffer: those before one that cannot be read, and that it has
        room for.
        """
        rows, room = positions.tolist(), room_for(_ROOM)
        names, keys = _taken(self._names, rows), _taken(self._keys, rows)
        offsets, sums = kernels.read_files(names, room, folder=str(self.root))
        count = len(sums)
        columns: dict[str, Any] = {self.file_field: StoredColumn(room, offsets, sums)}
        if self.labels:
            columns["label"] = self._classes[positions[:count]]
        return columns, keys[:count]

    def _drop_removed(self) -> None:
        """Leave out the files of samples that were removed from the opened folder."""
        remaining = self._remaining(self.root)
        if len(remaining) < len(self._names):
            self._names = tuple(_taken(self._names, remaining))
            self._keys = _taken(self._keys, remaining)
            if self.labels:
                self._classes = self._classes[remaining]

    @property
    def fingerprint(self) -> str:
        """A digest of the folder, the paths in it, the medium and the classes."""
        facts = repr((str(self.root), self.file_field, self._media, self.labels))
        return f"{digest_of_value([facts, self._names]):08x}"


def _taken(values: Sequence[T], positions: Sequence[int]) -> list[T]:
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
        self.root, self.file_field, self._media = absolute(as_path(root)), field, Unchanged()
        if listing is None:
            listing = walk(self.root, suffixes, empty=suffixes is None)
        self.listing = paths = list(listing)
        self._names = self._keys = tuple(path for path in paths if not path.endswith("/"))
        self.folders: Sequence[str] = [path[:-1] for path in paths if path.endswith("/")]
        self.spec = {field: "bytes"}
        self._drop_removed()


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
        >>> source[0]["__key__"], source.origin(0).endswith("photos/cat/0.jpg")
        ('cat/0', True)
    """

    def __init__(
        self,
        root: AnyLocation,
        media: Media | None = None,
        suffixes: Collection[str] | None = None,
        listing: Iterable[str] | None = None,
    ) -> None:
        self.root, media = absolute(as_path(root)), media or Image()
        if suffixes is None:
            suffixes = media.suffixes
        names = list_below(self.root) if listing is None else list(listing)
        lowered = {suffix.lower() for suffix in suffixes}
        classes = classes_beside(self.root)
        layout = layout_of_kind(names, lowered, classes, ordered=listing is not None)
        if not layout.keys:
            raise FileNotFoundError(
                f"{root} has no file with one of the suffixes {', '.join(suffixes)}"
            )
        files = layout.fields["file"].files
        field, codec = media.field(_taken(names, files))
        self._lay_out(names, replace(layout, fields={field: FileField(codec, files)}), media)
        self._drop_removed()
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
        field, *other_fields = layout.fields
        if other_fields or field not in UNCHANGED:
            return None
        source = cls.__new__(cls)
        source.root = absolute(root)
        source._lay_out(names, layout, UNCHANGED[field])
        return source

    def _lay_out(self, names: Sequence[str], layout: FolderLayout, media: Media) -> None:
        """Keep the samples of a layout whose one field are files."""
        [(field, files)] = layout.fields.items()
        self.file_field, self._media = field, media
        self._classes = np.asarray(layout.class_of, np.int64)
        self._names = self.listing = tuple(_taken(names, files.files))
        self._keys = layout.keys
        self.spec = {field: files.codec}
        if layout.classes:
            self.labels = {"label": layout.classes}
            self.spec = {field: files.codec, "label": "int"}
        junk = junk_of(names)
        self.report = layout_report(self.root, layout, [field], junk)
        left_out = junk + Counter(kind for _, kind in layout.left_out)
        self.skipped: Mapping[str, int] = dict(sorted(left_out.items()))
