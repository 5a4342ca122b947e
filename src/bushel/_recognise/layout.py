"""Which samples, fields and classes the files of a folder have: a pure function of their names.

docs/folders.md has the rules. The majority decides: a stray file never takes a field or a
class from a dataset.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import TypeVar

from msgspec import Struct
from msgspec.structs import replace

from bushel.codecs import codec_of_extension, holds_clip, holds_image, holds_sound
from bushel.errors import FormatError

from .names import (
    class_folders,
    folders_of_splits,
    inside_only_folder,
    role_of,
    roles_of,
    split_in,
    tops_of,
)

T = TypeVar("T")
OUTSIDE = "outside class folders"
"""How a report calls files that have no class."""

LABEL = "label"
"""The field of the numbers of classes."""

# the kinds of media; a codec with the name of a kind reads all codecs of it
_MEDIA: Mapping[str, Callable[[str], bool]] = {
    "image": holds_image,
    "clip": holds_clip,
    "audio": holds_sound,
}
MANY = 2  # an extension is a field of samples if a sample of this many has it
_SOME = 20  # in samples of several files, the same
MIXED = 4  # a second kind of media counts if one file of this many is of it


class FileField(Struct, frozen=True):
    """A field whose values are files."""

    codec: str
    files: Sequence[int]  # number of the file of each sample in the listing; -1: none


class FolderLayout(Struct, frozen=True):
    """The samples that the files of a folder form."""

    keys: list[str]  # in order of code points
    fields: dict[str, FileField]
    classes: tuple[str, ...] = ()  # names of the classes in the order of their numbers
    class_of: Sequence[int] = ()  # the number of the class of each sample
    left_out: tuple[tuple[str, str], ...] = ()  # names of files, and their kinds in words
    twins: int = 0  # samples with whole names as keys, as others are the same without suffix
    splits: tuple[str, ...] = ()  # names of the folders of the splits, in which the classes are


class _Listing(Struct, frozen=True):
    """Files, with the parts of their names."""

    names: Sequence[str]
    stems: Sequence[str]
    extensions: Sequence[str]

    @classmethod
    def of(cls, names: Sequence[str], cut: Callable[[str], tuple[str, str]]) -> _Listing:
        """Return files with these names, and the two parts that a function cuts each into.

        The pairs do not live on: a million of them would keep the garbage collector busy for seconds.
        """
        stems, extensions = [], []
        for stem, extension in map(cut, names):
            stems.append(stem)
            extensions.append(extension)
        return cls(names, stems, extensions)

    def left_out(self, numbers: Iterable[int], why: str = "") -> tuple[tuple[str, str], ...]:
        """Return the names of some files, and their kinds in words."""
        return tuple(
            (self.names[number], _kind_left_out(self.extensions[number]) + why)
            for number in numbers
        )


@lru_cache(maxsize=4096)
def media_of(extension: str) -> str | None:
    """Return the kind of media that an extension stands for: `image`, `clip` or `audio`; None for others."""
    codec = codec_of_extension(extension)
    return next((kind for kind, holds in _MEDIA.items() if holds(codec)), None)


def suffix_of(name: str) -> str:
    """Return the last suffix of a file's name in lower case, without its dot; `txt.gz` for one that is compressed."""
    return _cut(name)[1]


def ending_of(name: str) -> str:
    """Return the last suffix of a file's name in lower case, with its dot."""
    return os.path.splitext(name)[1].lower()


def codec_of_files(kind: str, extensions: Iterable[str]) -> str | None:
    """Return the codec that reads all files of one kind of media; None if no codec reads several."""
    codecs = {codec_of_extension(extension) for extension in extensions}
    if len(codecs) == 1:
        return codecs.pop()
    return kind if kind in _MEDIA else None


def layout_of(
    names: Sequence[str],
    declared: Collection[str] = (),
    known: Collection[str] = (),
    place: str | None = None,
) -> FolderLayout:
    """Return the samples that files form.

    Args:
        names: Their paths relative to the folder, without junk and without tables of metadata.
        declared: Fields that the caller declares, which are read in any case.
        known: Classes of other splits, which are numbered, too.
        place: The folder, for errors.

    Raises:
        FormatError: Folders are named like fields of samples, and their files have other names.
    """
    around, inside, folders = inside_only_folder(names)
    splits = _folders_of_splits(inside, folders)
    if splits:
        folders = {name.split("/", 2)[1] for name in inside if name.count("/") > 1}
    depth, named = around.count("/") + bool(splits), set(filter(role_of, folders))
    if named != folders and roles_of(named) and not declared:
        divided = [name.split("/", depth + 1) for name in names if name.count("/") > depth]
        stems = [_cut(parts[-1])[0] for parts in divided if parts[depth] in named]
        if len({*stems}) < len(stems):  # fields of the same samples
            # ImageSets/ of VOC has lists, and no media
            folders = named | {parts[depth] for parts in divided if media_of(suffix_of(parts[-1]))}
    if roles := roles_of(folders):
        return _by_roles(names, depth, splits, roles, place)
    listing = _Listing.of(names, _cut)
    if "." in "".join(listing.stems):
        # `cat.0.jpg` and `cat.1.jpg` are photos of their own, unless the caller declares `0.jpg`
        numbers = "" if any(name[:1].isdigit() for name in declared) else r"(?![0-9]+\.)"
        dotted = _Listing.of(names, partial(_cut_first, re.compile(rf"\.{numbers}")))
        shared = _shared_extensions(dotted)
        if media := set(filter(media_of, shared)):
            return _by_extension(dotted, shared.union(declared), media, declared)
    counts = Counter(listing.extensions)
    kind_of = main_media(counts)
    companions = set[str]()
    if len(set(listing.stems)) < len(names) or counts.keys() & declared:
        companions = _companions(listing, counts, kind_of, declared)
    main, *other_kinds = {*kind_of.values()} or {""}
    codec = codec_of_files(main, kind_of)
    if companions or other_kinds or codec is None:
        return _by_extension(listing, kind_of.keys() | companions, kind_of, declared)
    return _one_kind(listing, main, codec, kind_of, () if around else splits, known)


def main_media(
    counts: Mapping[str, int], kind_of: Callable[[str], str | None] = media_of
) -> dict[str, str]:
    """Return the extensions of media files, with their kinds; not of a kind that few of the files have.

    Args:
        counts: The number of files with each extension.
        kind_of: Returns the kind of an extension; by default `media_of`.
    """
    media = {name: kind for name in counts if (kind := kind_of(name)) is not None}
    kinds = Counter[str]()
    for extension, kind in media.items():
        kinds[kind] += counts[extension]
    return {name: kind for name, kind in media.items() if kinds[kind] * MIXED >= kinds.total()}


def _cut(name: str) -> tuple[str, str]:
    """Return a name without its last suffix, and that suffix in lower case."""
    stem, _, extension = name.rpartition(".")
    if not stem or "/" in extension or stem[-1] == "/":
        return name, ""
    extension = extension.lower()
    if extension == "gz":
        inner = stem.rfind(".", stem.rfind("/") + 2)
        if inner > 0:
            return stem[:inner], name[inner + 1 :].lower()
    return stem, extension


def _cut_first(first_dot: re.Pattern[str], name: str) -> tuple[str, str]:
    """Return a name up to its first dot after its folder, and the rest in lower case."""
    dot = first_dot.search(name, name.rfind("/") + 2)
    if dot is None:
        return name, ""
    return name[: dot.start()], name[dot.end() :].lower()


def _folders_of_splits(names: Sequence[str], tops: Iterable[str]) -> tuple[str, ...]:
    """Return the folders at the top (`tops`) that have media, if these are all splits; empty if not."""
    if sum(split_in(top, folder=True) is not None for top in tops) < 2:
        return ()
    return folders_of_splits([name for name in names if media_of(suffix_of(name)) is not None])


def _companions(
    listing: _Listing, counts: Counter[str], media: Collection[str], declared: Collection[str]
) -> set[str]:
    """Return the extensions of files that stand beside the media files of many samples."""
    beside: dict[str, set[str]] = {}
    for stem, extension in zip(listing.stems, listing.extensions, strict=True):
        beside.setdefault(stem, set()).add(extension)
    samples, having = 0, Counter[str]()
    for extensions in beside.values():
        if extensions.isdisjoint(media):
            continue
        samples += 1
        if len(extensions) > 1:
            first = max(extensions.intersection(media), key=lambda name: (counts[name], name))
            same = codec_of_extension(first)
            having.update(name for name in extensions if name and codec_of_extension(name) != same)
    if max(having.values(), default=0) * MANY < samples:
        having.clear()
    some = {name for name, count in having.items() if count * _SOME >= samples}
    return some | (counts.keys() & set(declared))


def _shared_extensions(dotted: _Listing) -> set[str]:
    """Return the extensions after the first dot that many samples share, if one has several parts; else none."""
    samples = len(set(dotted.stems))
    counts = Counter(filter(None, dotted.extensions))
    many = {name for name, count in counts.items() if count > 1 and count * MANY >= samples}
    if len(many) > 1 and "." in "".join(many):
        return many
    return set()


def layout_of_kind(
    names: Sequence[str],
    suffixes: Collection[str],
    known: Collection[str],
    *,
    ordered: bool,
) -> FolderLayout:
    """Return the samples of the files with some suffixes: one in the field `file` of each.

    Args:
        names: The paths of all files, as for `layout_of`.
        suffixes: The last suffixes of the files, in lower case, with their dots.
        known: Classes of other splits, which are numbered, too.
        ordered: Whether the samples have the order of the names instead of that of the keys.
    """
    listing = _Listing.of(names, _cut)
    extensions = set(listing.extensions) - {""}
    kinds = {name for name in extensions if f".{name.rpartition('.')[2]}" in suffixes}
    pairs = zip(names, listing.extensions, strict=True)
    read = [name for name, extension in pairs if extension in kinds]
    splits = _folders_of_splits(read, tops_of(read))
    return _one_kind(listing, "file", "bytes", kinds, splits, known, ordered=ordered)


def _kind_left_out(extension: str) -> str:
    return f".{extension}" if extension else "no extension"


def _by_extension(
    listing: _Listing,
    read: Collection[str],
    media: Collection[str],
    declared: Collection[str],
) -> FolderLayout:
    """Return samples of files that share a stem; each extension in `read` is a field, as in a tar.

    A sample has a file with an extension of `media`, or one that is `declared`.
    """
    samples: dict[str, dict[str, int]] = {}
    left_out, whole = list[int](), 0
    for number, (stem, extension) in enumerate(zip(listing.stems, listing.extensions, strict=True)):
        if extension not in read:
            left_out.append(number)
            continue
        sample = samples.setdefault(stem, {})
        if extension in sample:  # a.jpg and a.JPG
            whole += 1
            sample = samples.setdefault(listing.names[number], {})
        sample[extension] = number
    needed = {*media, *declared}
    for stem in [stem for stem, sample in samples.items() if needed.isdisjoint(sample)]:
        left_out += samples.pop(stem).values()
    keys = sorted(samples)
    fields = {
        name: FileField(codec_of_extension(name), [samples[key].get(name, -1) for key in keys])
        for name in sorted(set().union(*samples.values()))
    }
    return FolderLayout(keys, fields, left_out=listing.left_out(left_out), twins=whole)


def _one_kind(
    listing: _Listing,
    kind: str,
    codec: str,
    media: Collection[str],
    splits: tuple[str, ...],
    known: Collection[str],
    *,
    ordered: bool = False,
) -> FolderLayout:
    """Return samples of one media file each; folders are classes unless most files are outside of them."""
    names, extensions = listing.names, listing.extensions
    left_out: tuple[tuple[str, str], ...] = ()
    files: Sequence[int] = range(len(names))
    if len(media) < len(set(extensions)):
        left_out = listing.left_out(number for number in files if extensions[number] not in media)
        files = [number for number in files if extensions[number] in media]
    folders = class_folders(_taken(names, files), inside=bool(splits), known=known)
    if any(folders) and "" in folders:
        pairs = list(zip(files, folders, strict=True))
        left_out += listing.left_out(
            (number for number, folder in pairs if not folder), f" {OUTSIDE}"
        )
        files = [number for number, folder in pairs if folder]
        folders = list(filter(None, folders))
    keys, twins = unique_keys(_taken(listing.stems, files), _taken(names, files))
    in_order = sorted(keys)
    if not ordered and in_order != keys:
        order = sorted(range(len(keys)), key=keys.__getitem__)
        keys, files, folders = in_order, _taken(files, order), _taken(folders, order)
    fields = {kind: FileField(codec, files)}
    layout = FolderLayout(keys, fields, left_out=left_out, twins=twins, splits=splits)
    if not any(folders):
        return layout
    classes = tuple(sorted({*folders, *known}))
    number_of = {name: number for number, name in enumerate(classes)}
    return replace(layout, classes=classes, class_of=[number_of[folder] for folder in folders])


def _taken(values: Sequence[T], places: Sequence[int]) -> list[T]:
    if isinstance(places, range):
        return list(values)
    return [values[place] for place in places]


def unique_keys(stems: list[str], names: Sequence[str]) -> tuple[list[str], int]:
    """Return a key for each file: its stem, or its whole name where others have the same key."""
    keys, twins = stems, 0
    while len(set(keys)) < len(keys):
        counts = Counter(keys)
        keys = [key if counts[key] == 1 else name for key, name in zip(keys, names, strict=True)]
        twins = sum(key == name for key, name in zip(keys, names, strict=True))
    return keys, twins


# Archives


def labelled_media(counts: Mapping[str, int], samples: int) -> set[str]:
    """Return the extensions of an archive's files that folders of classes label; empty if it has other samples.

    Args:
        counts: The number of files with each extension.
        samples: The number of samples: files that share a path up to the first dot.
    """
    media = main_media(counts, media_of_members)
    kinds = set(media.values())
    several = sum(counts[extension] for extension in media) - samples
    beside = [count for extension, count in counts.items() if extension not in media]
    if len(kinds) != 1 or max([several, *beside]) * MANY >= samples:
        return set()
    if codec_of_files(kinds.pop(), media) is None:
        return set()
    return set(media)


def media_of_members(field: str) -> str | None:
    """Return the kind of media of a field of an archive that is named like the suffix of its members: `jpg`.

    It is None for another field, for a suffix with a dot, since the name may have the dot, and for
    `image` and `audio`, which writers use as names of fields.
    """
    if "." in field or field in _MEDIA:
        return None
    return media_of(field)


@lru_cache(maxsize=256)
def has_media(fields: frozenset[str]) -> bool:
    """Return whether any field of an archive is named like the suffix of its media files."""
    return any(map(media_of_members, fields))


# Folders of fields


def _by_roles(
    names: Sequence[str],
    depth: int,
    splits: tuple[str, ...],
    roles: dict[str, str],
    place: str | None,
) -> FolderLayout:
    """Return samples whose fields are files of the same name in several folders: `images/a.jpg`, `masks/a.png`.

    Raises:
        FormatError: Most images of a folder have no file of their name in another one.
    """
    files: dict[str, dict[str, int]] = {field: {} for field in roles.values()}
    left_out = []
    for number, name in enumerate(names):
        parts, extension = name.split("/", depth + 1), suffix_of(name)
        field = roles.get(parts[depth]) if len(parts) > depth + 1 else None
        if field is None or (field == "image" and media_of(extension) != "image"):
            left_out.append((name, _kind_left_out(extension)))
            continue
        stem, _ = _cut("/".join((*parts[:depth], parts[depth + 1])))
        if stem in files[field]:
            left_out.append((name, "second of a name"))
        else:
            files[field][stem] = number
    keys = sorted(files["image"])
    for folder, field in roles.items():
        imageless = sorted(files[field].keys() - files["image"].keys())
        matching = len(files[field]) - len(imageless)
        if MANY * matching < min(len(keys), len(files[field])):
            images = {field: folder for folder, field in roles.items()}["image"]
            raise FormatError(
                f"the files of {folder}/ would be the field {field!r} of the images in {images}/, "
                f"but only {matching} of {len(files[field])} have the name of an image",
                place,
                hint=f"open {images}/ alone, give the files the names of "
                "their images, or name both in a table (docs/references.md)",
            )
        for stem in imageless:
            name = names[files[field].pop(stem)]
            left_out.append((name, f"{_kind_left_out(suffix_of(name))} without an image"))
    fields = {}
    for field in sorted(files, key=lambda name: (name != "image", name)):
        extensions = {suffix_of(names[number]) for number in files[field].values()}
        kind, *other_kinds = {media_of(extension) for extension in extensions} or {None}
        codec = codec_of_files("" if other_kinds else str(kind), extensions) or "bytes"
        fields[field] = FileField(codec, [files[field].get(key, -1) for key in keys])
    return FolderLayout(keys, fields, left_out=tuple(left_out), splits=splits)
