"""One shard: its files, where its sidecars are, what tables record of files, and the keys of its samples. No I/O."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from os.path import exists
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from bushel import kernels
from bushel._runtime.arrays import (
    I64,
    NO_NUMBERS,
    U8,
    U32,
    U64,
    LazySequence,
    joined,
    offsets_of,
    ranges,
)
from bushel._runtime.public import public
from bushel.storage.files import as_path, below, leads_out

if TYPE_CHECKING:
    from bushel.storage import AnyPath, File

MANY_FILES, SMALL_FILE = 64, 1 << 20
"""A shard of more files than this keeps small ones, of up to 1 MiB, closed between reads."""
FOLDER = ".bushel"
"""The folder of the sidecars. It can be deleted at any time; the shards are then scanned again."""


REMOVED = "removed.safetensors"
"""Name of the list of the samples that were removed from a folder."""
LISTS_OF_FILES = f"{FOLDER}/removed"
"""The folder of the lists of files."""


def _first_of_bags(name: str) -> str:
    """Return the folder of sidecars of the first of several bags, given the name of one."""
    return f"{'0' * len(name)}/{FOLDER}"


def is_url(name: str) -> bool:
    """Return whether a name is the URL of a file on a server."""
    return name.startswith(("http://", "https://", "s3://", "gs://", "az://"))


@public("bushel.containers")
class Shard(Struct, frozen=True):
    """The files that form one shard.

    Attributes:
        root: The folder in which the files are.
        name: The shard's name within its dataset: `train-000003.tar`, `000003`, or empty for a
            dataset that is one folder.
        files: Paths relative to `root`, data before tables.
        sidecars: The folder for sidecar files, relative to `root` or `index`; it ends in `.bushel`.
        index: The folder that has the folder for sidecar files; None for `root`.
        urls: Whether files may be URLs, because the caller of `bushel.open` declares a field as
            `jpg(url)`, say.
        alias: The file that its first file is a link to; or the link by which that was found. Lists
            of removed samples may be beside both.
    """

    root: AnyPath
    name: str
    files: tuple[str, ...]
    sidecars: str = ".bushel"
    index: AnyPath | None = None
    urls: bool = False
    alias: AnyPath | None = None

    @classmethod
    def of(cls, path: AnyPath) -> Shard:
        """Return the shard that consists of one file."""
        return cls(path.parent, path.name, (path.name,))

    def path(self, number: int) -> AnyPath:
        """Return the path of one of its files."""
        name = self.files[number]
        if not leads_out(name):
            return self.root / name
        if self.urls and is_url(name):
            return as_path(name)
        return below(self.root, name, any_text=True)

    def open(self, number: int = 0) -> File:
        """Open one of its files for reading."""
        from bushel.storage.files import fetched, open_file

        return fetched(open_file(self.path(number)))

    def path_texts(self, numbers: Sequence[int]) -> list[str]:
        """Return the paths of some of its local files as text, without the time that a `Path` takes."""
        root, files = f"{self.root}/", self.files
        return [
            str(self.path(number)) if leads_out(files[number]) else root + files[number]
            for number in numbers
        ]

    @property
    def paths(self) -> list[AnyPath]:
        """The paths of its files."""
        return [self.path(number) for number in range(len(self.files))]

    @property
    def beside(self) -> AnyPath:
        """The folder that has the folder for sidecar files."""
        return self.root if self.index is None else self.index

    @property
    def shared(self) -> str:
        """The folder of what belongs to the whole dataset, relative to `beside`: list of removed samples, and views.

        Of several bags it is in the folder of the first one: Granular takes everything beside these
        folders for a bag.
        """
        if self.sidecars != FOLDER and self.name.isdecimal():
            return _first_of_bags(self.name)
        return FOLDER

    @property
    def own_folder(self) -> str | None:
        """The folder that contains all of its files and nothing else, relative to `root`, or None."""
        if self.sidecars != FOLDER:
            return self.sidecars.removesuffix(f"/{FOLDER}")
        return None

    @property
    def removal_lists(self) -> list[AnyPath]:
        """The lists of removed samples of folders that may name its samples: also above a bag's folder, or a part."""
        lists = [root / f"{self.shared}/{REMOVED}" for root in self.roots]
        folder = self.real_root
        # paths of others may lack a parent
        above, name = getattr(folder, "parent", None), folder.name
        if above is not None and name.startswith("part-"):
            lists.append(above / FOLDER / REMOVED)
        if above is not None and not self.name and name.isdecimal():
            lists.append(above / _first_of_bags(name) / REMOVED)
        return lists

    @property
    def real_root(self) -> AnyPath:
        """Its root; of a link, or of a path such as `.`, the folder by its own name."""
        root = self.root
        if isinstance(root, Path) and (root.name in ("", "..") or root.is_symlink()):
            return root.resolve()
        return root

    @property
    def roots(self) -> list[AnyPath]:
        """The folders of its files, of its index and of its alias."""
        return [*filter(None, (self.root, self.index, self.alias and self.alias.parent))]

    def locate(self, place: Place) -> tuple[str, int]:
        """Return the path of the file that holds a byte, and the offset there: the sidecar for what the table holds."""
        return str(self.sidecar if place.file is None else self.path(place.file)), place.offset

    @property
    def sidecar(self) -> AnyPath:
        """The path of the shard's index."""
        return self.beside_it(self.sidecar_name)

    def beside_it(self, name: str) -> AnyPath:
        """Return the path of a file of Bushel's, by its name relative to `beside`."""
        if leads_out(name):
            return below(self.beside, name, any_text=True)
        return self.beside / name

    @property
    def sidecar_name(self) -> str:
        """The path of the shard's index, relative to `beside`."""
        own_folder = self.sidecars != ".bushel" or not self.name
        stem = "index" if own_folder else self.name.replace("/", "%2F")
        return f"{self.sidecars}/{stem}.safetensors"


_NUMBERED = r"(?P<stem>.*?)(?P<number>\d+)"


def next_name(names: Sequence[str], *, suffix: str, stem: str = "") -> str:
    """Return a name that sorts after `names`, in the pattern of the last one if possible.

    Args:
        names: The names of the shards so far, sorted.
        suffix: The end of all names, such as `.tar`.
        stem: The start of the first shard's name.
    """
    if not names:
        return f"{stem}{0:06d}{suffix}"
    numbered = [
        match for name in names if (match := re.fullmatch(_NUMBERED, name.removesuffix(suffix)))
    ]
    number = max([len(names), *(int(match["number"]) + 1 for match in numbered)])
    last = re.fullmatch(_NUMBERED, names[-1].removesuffix(suffix))
    if last is not None and len(str(number)) <= len(last["number"]):
        return f"{last['stem']}{number:0{len(last['number'])}d}{suffix}"
    # `_` sorts after the dot of the suffix
    return f"{names[-1].removesuffix(suffix)}_{number:06d}{suffix}"


def may_lack_samples(shards: Sequence[Shard]) -> bool:
    """Return whether any list of removed samples is beside shards; of remote ones, that has to be asked."""
    for shard in of_each_folder(shards):
        if not isinstance(shard.root, Path) or shard.index is not None:
            return True
        of_files = [root / LISTS_OF_FILES for root in shard.roots]
        if any(map(exists, map(str, (*shard.removal_lists, *of_files)))):
            return True
    return False


def of_each_folder(shards: Iterable[Shard]) -> Iterable[Shard]:
    """Return one shard of each kind in each folder: they have the same lists of removed samples of folders."""
    # by identity: the names of 100,000 folders take four times as long
    return {
        (
            id(shard.root),
            id(shard.index),
            shard.alias and str(shard.alias.parent),
            not shard.name,
        ): shard
        for shard in shards
    }.values()


def warn_of_lists_above(shard: Shard) -> None:
    """Warn of lists in the two folders above a local shard: they are about samples with other keys and fields."""
    if not isinstance(shard.root, Path):
        return
    for folder in shard.root.parents[:2]:
        above = f"{folder}/{FOLDER}/{REMOVED}"
        if exists(above) and above not in map(str, shard.removal_lists):
            from bushel._runtime.messages import log_warning

            message = "samples that %s lists as removed are not left out of %s: open %s instead"
            log_warning(message, above, shard.root, folder)


@public("bushel.containers")
class FileStamp(Struct, frozen=True):
    """The facts that a table records of a file. If size or stamp differ later, the table is not used to read.

    Attributes:
        name: Path relative to the folder of the shard, with `/`.
        size: Size in bytes.
        mtime_ns: Modification time in nanoseconds; 0 if the storage has none. If it is the same,
            the file is not read.
        crc32: The stamp (`bushel._dataset.open.binding.stamp_of`), the CRC-32 of a few blocks; None
            if unknown.
    """

    name: str
    size: int
    mtime_ns: int = 0
    crc32: int | None = None


class FileStamps(LazySequence[FileStamp]):
    """The facts of very many files, without stamps. A `FileStamp` is made when it is asked for.

    Args:
        names: Paths relative to the folder of the shard.
        sizes: int64[files], in bytes.
        times: int64[files], times of modification in nanoseconds.
        forget: Called if a file turns out to have changed, when it is read: it removes what an
            earlier opening kept.

    Raises:
        ValueError: The numbers of names, sizes and times differ.
    """

    __slots__ = ("forget", "names", "sizes", "times")

    def __init__(
        self, names: Sequence[str], sizes: I64, times: I64, forget: Callable[[], None] | None = None
    ) -> None:
        if not len(names) == len(sizes) == len(times):
            raise ValueError(f"{len(names)} names, {len(sizes)} sizes and {len(times)} times")
        self.names, self.sizes, self.times, self.forget = names, sizes, times, forget

    def __len__(self) -> int:
        return len(self.names)

    def _made(self, numbers: range) -> list[FileStamp]:
        return [
            FileStamp(self.names[number], int(self.sizes[number]), int(self.times[number]))
            for number in numbers
        ]

    def __iter__(self) -> Iterator[FileStamp]:
        return map(FileStamp, self.names, self.sizes.tolist(), self.times.tolist())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]


def sizes_of(stamps: Sequence[FileStamp]) -> I64:
    """Return the sizes of files: int64[files], in bytes."""
    if isinstance(stamps, FileStamps):
        return stamps.sizes
    return np.array([stamp.size for stamp in stamps], np.int64)


class Place(Struct, frozen=True):
    """Where a byte of a value is stored."""

    file: int | None  # number of the file of the shard; None if the byte is in the table itself
    # bytes from the start of that file, or of what the table holds; in a block that is compressed,
    # the offset is the offset of the block
    offset: int


def stamps(shard: Shard, files: Sequence[File]) -> tuple[FileStamp, ...]:
    """Return the stamps of the open files of a shard."""
    return tuple(
        FileStamp(name, file.size, file.mtime_ns)
        for name, file in zip(shard.files, files, strict=True)
    )


_AT_ONCE = 1 << 16  # strings whose bytes are chosen at a time


class Strings(Struct, frozen=True):
    """Many strings in one array."""

    text: U8  # uint8[bytes], UTF-8
    offsets: I64  # int64[n + 1]; string `i` is `text[offsets[i]:offsets[i + 1]]`

    @classmethod
    def of(cls, strings: Iterable[str]) -> Strings:
        """Return these strings."""
        return Strings(*joined([string.encode("utf-8", "surrogateescape") for string in strings]))

    @classmethod
    def join(cls, several: Iterable[Strings]) -> Strings:
        """Return the strings in all of these."""
        parts = [(NO_NUMBERS, np.zeros(0, np.uint8))]
        parts += [(np.diff(strings.offsets), strings.text) for strings in several]
        lengths, text = map(np.concatenate, zip(*parts, strict=True))
        return Strings(text, offsets_of(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> str:
        begin, end = self.offsets.item(number), self.offsets.item(number + 1)
        return self.text[begin:end].tobytes().decode("utf-8", "surrogateescape")

    def take(self, numbers: I64) -> list[str]:
        """Return the strings of these numbers."""
        return kernels.decode_keys(self.text, self.offsets, numbers)

    def chosen(self, numbers: I64) -> Strings:
        """Return the strings of these numbers, still in one array; a view of this one if they follow each other."""
        begins, ends = self.offsets[numbers], self.offsets[numbers + 1]
        offsets, steps = offsets_of(ends - begins), np.diff(numbers)
        if len(numbers) and (steps == 1).all():
            return Strings(self.text[begins[0] : ends[-1]], offsets)
        if 8 * len(numbers) > len(self) and (steps > 0).all():
            is_chosen = np.zeros(len(self), np.bool_)
            is_chosen[numbers] = True
            # a mask of the bytes is faster than their positions, if most of them are chosen
            text = self.text[: self.offsets[-1]]
            return Strings(text[np.repeat(is_chosen, np.diff(self.offsets))], offsets)
        parts = [self.text[:0]]
        for first in range(0, len(numbers), _AT_ONCE):
            some = slice(first, first + _AT_ONCE)
            parts.append(self.text[ranges(begins[some], ends[some] - begins[some])])
        return Strings(np.concatenate(parts), offsets)

    def tolist(self) -> list[str]:
        """Return all strings."""
        return self.take(np.arange(len(self)))

    @property
    def are_valid(self) -> bool:
        """Whether the offsets ascend from 0 to the end."""
        ends = len(self.offsets) > 0 and self.offsets[0] == 0 and self.offsets[-1] == len(self.text)
        return bool(ends and (np.diff(self.offsets) >= 0).all())


@public("bushel.containers")
class Keys(Strings, frozen=True):
    """The keys of one shard, and a hash table to find them without a dict.

    Attributes:
        text: uint8[total], the concatenated keys in UTF-8.
        offsets: int64[samples + 1] into `text`.
        hashes: uint64[samples], ascending hashes of the keys (`kernels.hash_keys`).
        order: int64 or uint32 [samples], the sample of each hash; ascending where hashes are equal.
    """

    hashes: U64
    order: I64 | U32

    @classmethod
    def build(cls, text: U8, offsets: I64, room: tuple[U64, I64] | None = None) -> Keys:
        """Return the table of keys that are given as text and offsets.

        `room` has arrays for hashes and order, such as maps of a file; by default, new ones are
        made.
        """
        count = len(offsets) - 1
        hashes, order = room or (np.empty(count, np.uint64), np.empty(count, np.int64))
        kernels.sort_keys(text, offsets, hashes, order)
        return cls(text, offsets, hashes, order)

    @classmethod
    def of(cls, keys: Iterable[str]) -> Keys:
        """Return the table of a few keys that are given as strings."""
        strings = Strings.of(keys)
        return cls.build(strings.text, strings.offsets)

    def samples_at(self, places: I64) -> I64:
        """Return the samples of hashes, given the places of these."""
        return self.order[places].astype(np.int64)

    def duplicates(self) -> list[str]:
        """Return the keys that more than one sample has, each once."""
        same = np.flatnonzero(self.hashes[1:] == self.hashes[:-1])
        counts = Counter(self.take(np.unique(self.samples_at(np.union1d(same, same + 1)))))
        return [key for key, count in counts.items() if count > 1]


def repeated_hashes(pieces: Sequence[U64]) -> U64:
    """Return the hashes that occur more than once, ascending."""
    hashes = np.concatenate([np.zeros(0, np.uint64), *pieces])
    hashes.sort()  # in place: a large run has gigabytes of them
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
