"""Which samples, fields and classes the files of a folder have: a pure function of their names.

docs/folders.md has the rules. The many decide, not the one: a stray file never takes a field or a
class from a dataset.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeVar

from msgspec import Struct

from bushel.codecs import codec_of_extension, holds_clip, holds_image, holds_sound
from bushel.errors import FormatError

from .splits import ROLES, role_of, split_in, splits_in

T = TypeVar("T")
OUTSIDE = "outside class folders"
"""How a report calls files that have no class."""

LABEL = "label"
"""The field of the numbers of classes."""

_MEDIA: Mapping[str, Callable[[str], bool]] = {
    "image": holds_image,
    "clip": holds_clip,
    "audio": holds_sound,
}
SEVERAL = {
    "image": "image",
    "clip": "clip",
    "audio": "audio",
}  # the codec that reads all codecs of a kind
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
    # names of the classes in the order of their numbers; empty without classes
    classes: tuple[str, ...] = ()
    class_of: Sequence[int] = ()  # the number of the class of each sample
    # name of each file that is left out, and its kind in words
    left_out: tuple[tuple[str, str], ...] = ()
    # samples that have their whole names as keys, since others have the same without suffix
    twins: int = 0
    splits: tuple[str, ...] = ()  # names of the folders of the splits, in which the classes are


class _Listing(Struct, frozen=True):
    """Files, with the parts of their names."""

    names: Sequence[str]
    stems: list[str]
    extensions: list[str]


@lru_cache(maxsize=4096)
def media_of(extension: str) -> str | None:
    """Return the kind of media that an extension stands for: `image`, `clip` or `audio`; None for others."""
    codec = codec_of_extension(extension)
    return next((kind for kind, holds in _MEDIA.items() if holds(codec)), None)


def suffix_of(name: str) -> str:
    """Return the last suffix of a file's name in lower case, without its dot; `txt.gz` for one that is compressed."""
    return _cut(name)[1]


def codec_of_files(kind: str, extensions: Iterable[str]) -> str | None:
    """Return the codec that reads all files of one kind of media; None if no codec reads several."""
    codecs = {codec_of_extension(extension) for extension in extensions}
    if len(codecs) == 1:
        return codecs.pop()
    return SEVERAL.get(kind)


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
        FormatError: Folders are named like fields of the same samples, and their files have other
            names.
    """
    tops = {name[: name.find("/")] for name in names if "/" in name}
    splits = _folders_of_splits(names, tops)
    roles = roles_of(
        {name.split("/", 2)[1] for name in names if name.count("/") > 1} if splits else tops
    )
    if roles:
        return _by_roles(names, splits, roles, place)
    stems, extensions = _cut_all(names)
    counts = Counter(extensions)
    kinds = Counter[str]()
    for extension, count in counts.items():
        kind = media_of(extension)
        if kind is not None:
            kinds[kind] += count
    main = {kind for kind, count in kinds.items() if count * MIXED >= kinds.total()}
    media = {extension for extension in counts if media_of(extension) in main}
    companions = set[str]()
    if len(set(stems)) < len(stems) or counts.keys() & declared:
        companions = _companions(stems, extensions, counts, media, declared)
    first_dot = _first_dot_fields(names) if "." in "".join(stems) else set()
    if first_dot and any(media_of(extension) for extension in first_dot):
        stems, extensions = _cut_all(names, first=True)
        read = first_dot | (set(extensions) & set(declared))
        with_media = {extension for extension in first_dot if media_of(extension)}
        return _by_extension(names, stems, extensions, read, with_media, declared)
    codec = codec_of_files(next(iter(main)), media) if len(main) == 1 else None
    if companions or codec is None:
        return _by_extension(names, stems, extensions, media | companions, media, declared)
    return _one_kind(
        _Listing(names, stems, extensions), next(iter(main)), codec, media, splits, known
    )


def _cut(name: str) -> tuple[str, str]:
    """Return a name without its last suffix, and that suffix in lower case."""
    base = name.rfind("/") + 1
    dot = name.rfind(".")
    if dot <= base:
        return name, ""
    extension = name[dot + 1 :].lower()
    if extension == "gz":
        inner = name.rfind(".", base + 1, dot)
        if inner > 0:
            return name[:inner], name[inner + 1 :].lower()
    return name[:dot], extension


def _cut_first(name: str) -> tuple[str, str]:
    """Return a name up to the first dot after its folder, and the rest in lower case."""
    base = name.rfind("/") + 1
    dot = name.find(".", base + 1)
    if dot < 0:
        return name, ""
    return name[:dot], name[dot + 1 :].lower()


def _cut_all(names: Sequence[str], *, first: bool = False) -> tuple[list[str], list[str]]:
    if first:
        pairs = list(map(_cut_first, names))
        return [stem for stem, _ in pairs], [extension for _, extension in pairs]
    stems, extensions = [], []
    for name in names:  # what `_cut` does, for a million names
        dot = name.rfind(".")
        extension = name[dot + 1 :].lower()
        if dot <= name.rfind("/") + 1 or extension == "gz":
            stem, extension = _cut(name)
        else:
            stem = name[:dot]
        stems.append(stem)
        extensions.append(extension)
    return stems, extensions


def _folders_of_splits(names: Sequence[str], tops: Collection[str]) -> tuple[str, ...]:
    """Return the folders at the top (`tops`) that have media, if these are all splits; empty if not."""
    if sum(split_in(top, folder=True) is not None for top in tops) < 2:
        return ()
    return folders_of_splits([name for name in names if media_of(suffix_of(name)) is not None])


def folders_of_splits(media: Iterable[str]) -> tuple[str, ...]:
    """Return the folders at the top of media files, if these are all splits; empty if not."""
    folders = set[str]()
    for name in media:
        folder, slash, _ = name.partition("/")
        if not slash:
            return ()
        folders.add(folder)
    if splits_in(folders, ()):
        return tuple(sorted(folders))
    return ()


def _companions(
    stems: Sequence[str],
    extensions: Sequence[str],
    counts: Counter[str],
    media: Collection[str],
    declared: Collection[str],
) -> set[str]:
    """Return the extensions of files that stand beside the media files of many samples."""
    beside: dict[str, set[str]] = {}
    for stem, extension in zip(stems, extensions, strict=True):
        beside.setdefault(stem, set()).add(extension)
    samples, having = 0, Counter[str]()
    for own in beside.values():
        if own.isdisjoint(media):
            continue
        samples += 1
        if len(own) > 1:
            first = max(own & set(media), key=lambda extension: (counts[extension], extension))
            same = codec_of_extension(first)
            having.update(
                each for each in own if each != first and codec_of_extension(each) != same
            )
    found = {extension for extension, count in having.items() if count * MANY >= samples}
    if found:
        found |= {extension for extension, count in having.items() if count * _SOME >= samples}
    return found | (counts.keys() & set(declared))


def _first_dot_fields(names: Sequence[str]) -> set[str]:
    """Return the extensions after the first dot that many samples share, if one has several parts; else none."""
    stems, extensions = _cut_all(names, first=True)
    samples = len(set(stems))
    counts = Counter(extensions)
    many = {
        each for each, count in counts.items() if each and count > 1 and count * MANY >= samples
    }
    if len(many) > 1 and any("." in each for each in many):
        return many
    return set()


def layout_of_kind(
    names: Sequence[str],
    suffixes: Collection[str],
    known: Collection[str] = (),
    *,
    ordered: bool = False,
) -> FolderLayout:
    """Return the samples of the files with some suffixes: one in the field `file` of each.

    Args:
        names: The paths of all files, as for `layout_of`.
        suffixes: The last suffixes of the files, in lower case, with their dots.
        known: Classes of other splits, which are numbered, too.
        ordered: Whether the samples have the order of the names instead of that of the keys.
    """
    stems, extensions = _cut_all(names)
    last = {each: each and f".{each.rpartition('.')[2]}" for each in set(extensions)}
    kinds = {extension for extension, suffix in last.items() if suffix in suffixes}
    pairs = zip(names, extensions, strict=True)
    files = [name for name, extension in pairs if extension in kinds]
    tops = {name[: name.find("/")] for name in files if "/" in name}
    splits = _folders_of_splits(files, tops)
    listing = _Listing(names, stems, extensions)
    return _one_kind(listing, "file", "bytes", kinds, splits, known, ordered=ordered)


def _kind_left_out(extension: str) -> str:
    if extension:
        return f".{extension}"
    return "no extension"


def _by_extension(
    names: Sequence[str],
    stems: Sequence[str],
    extensions: Sequence[str],
    read: Collection[str],
    media: Collection[str],
    declared: Collection[str] = (),
) -> FolderLayout:
    """Return samples of files that share a stem; each extension is a field, as in a tar."""
    samples: dict[str, dict[str, int]] = {}
    left_out = []
    whole = 0
    for number, (stem, extension) in enumerate(zip(stems, extensions, strict=True)):
        if extension not in read:
            left_out.append((names[number], _kind_left_out(extension)))
            continue
        own = samples.setdefault(stem, {})
        if extension in own:  # a.jpg and a.JPG
            whole += 1
            own = samples.setdefault(names[number], {})
        own[extension] = number
    alone = [
        stem
        for stem, own in samples.items()
        if own.keys().isdisjoint(media) and own.keys().isdisjoint(declared)
    ]
    for stem in alone:
        left_out += [
            (names[number], _kind_left_out(extension))
            for extension, number in samples.pop(stem).items()
        ]
    keys = sorted(samples)
    used = sorted({extension for own in samples.values() for extension in own})
    fields = {
        name: FileField(codec_of_extension(name), [samples[key].get(name, -1) for key in keys])
        for name in used
    }
    return FolderLayout(keys, fields, left_out=tuple(left_out), twins=whole)


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
    names, stems, extensions = listing.names, listing.stems, listing.extensions
    left_out: list[tuple[str, str]] = []
    files: Sequence[int] = range(len(names))
    if len(media) < len(set(extensions)):
        files = [number for number in files if extensions[number] in media]
        left_out += [
            (name, _kind_left_out(extension))
            for name, extension in zip(names, extensions, strict=True)
            if extension not in media
        ]
    folders = class_folders(_taken(names, files), inside=bool(splits), known=known)
    if any(folders) and "" in folders:
        loose = [number for number, folder in zip(files, folders, strict=True) if not folder]
        left_out += [
            (names[number], f"{_kind_left_out(extensions[number])} {OUTSIDE}") for number in loose
        ]
        files = [number for number, folder in zip(files, folders, strict=True) if folder]
        folders = [folder for folder in folders if folder]
    keys, twins = unique_keys(_taken(stems, files), _taken(names, files))
    in_order = sorted(keys)
    if not ordered and in_order != keys:
        order = sorted(range(len(keys)), key=keys.__getitem__)
        keys, files, folders = in_order, _taken(files, order), _taken(folders, order)
    labelled = any(folders)
    classes = tuple(sorted({*folders, *known})) if labelled else ()
    number_of = {name: number for number, name in enumerate(classes)}
    return FolderLayout(
        keys=list(keys),
        fields={kind: FileField(codec, files)},
        classes=classes,
        class_of=[number_of[folder] for folder in folders] if labelled else (),
        left_out=tuple(left_out),
        twins=twins,
        splits=splits,
    )


def class_folders(
    names: Sequence[str],
    counts: Sequence[int] | None = None,
    *,
    inside: bool,
    known: Collection[str] = (),
) -> list[str]:
    """Return the folder of each file that is its class; empty for a file outside of them.

    All are empty if most files are outside of folders. A folder around all others is not a class:
    `data/cat/1.jpg`, or `set/cat/1.jpg` in an archive of the folder `set`.

    Args:
        names: The paths of the files.
        counts: The number of files that each name stands for in its folder; by default one.
        inside: Whether the first folder is a split, and the second one the class.
        known: Classes of other splits.
    """
    if inside:
        names = [name.partition("/")[2] for name in names]
    folders = [name[: max(name.find("/"), 0)] for name in names]
    if counts is None:
        counts = [1] * len(folders)
    nested = sum(count for count, folder in zip(counts, folders, strict=True) if folder)
    if 2 * nested < sum(counts):
        return [""] * len(folders)
    if len({*folders, *known} - {""}) == 1:
        below = [name.partition("/")[2] for name in names]
        inside = bool(folders_of_splits(name for name in below if "/" in name))
        inner = class_folders(below, counts, inside=inside)
        if all(inner) or len({*inner} - {""}) > 1:
            return inner
    return folders


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


# Folders of fields


def roles_of(folders: Collection[str]) -> dict[str, str]:
    """Return the folders that hold a field each, with its name; empty if there are others, or no images."""
    if len(folders) < 2 or len(folders) > 2 * len(ROLES):
        return {}
    fields = {folder: role_of(folder) for folder in folders}
    different = len(set(fields.values())) == len(fields)
    if different and "" not in fields.values() and "image" in fields.values():
        return fields
    return {}


def _by_roles(
    names: Sequence[str], splits: tuple[str, ...], roles: dict[str, str], place: str | None
) -> FolderLayout:
    """Return samples whose fields are files of the same name in several folders: `images/a.jpg`, `masks/a.png`.

    Raises:
        FormatError: Most images of a folder have no file of their name in another one.
    """
    at = 1 if splits else 0
    files: dict[str, dict[str, int]] = {field: {} for field in roles.values()}
    extensions: dict[str, set[str]] = {field: set() for field in roles.values()}
    left_out = []
    for number, name in enumerate(names):
        parts = name.split("/", at + 1)
        if len(parts) < at + 2:
            left_out.append((name, _kind_left_out(suffix_of(name))))
            continue
        field = roles[parts[at]]
        stem, extension = _cut("/".join((*parts[:at], parts[at + 1])))
        if field == "image" and media_of(extension) != "image":
            left_out.append((name, _kind_left_out(extension)))
        elif stem in files[field]:
            left_out.append((name, "second of a name"))
        else:
            files[field][stem] = number
            extensions[field].add(extension)
    keys = sorted(files["image"])
    for folder, field in roles.items():
        matching = len(files[field].keys() & files["image"].keys())
        if MANY * matching < min(len(keys), len(files[field])):
            images = next(folder for folder, field in roles.items() if field == "image")
            raise FormatError(
                f"the files of {folder}/ would be the field {field!r} of the images in {images}/,"
                f" but only {matching} "
                f"of {len(files[field])} have the name of an image",
                file=place,
                hint=f"open {images}/ alone, give the files the names of their images, or name"
                " both in a table "
                "(docs/references.md)",
            )
        left_out += [
            (names[number], f"{_kind_left_out(suffix_of(names[number]))} without an image")
            for stem, number in files[field].items()
            if stem not in files["image"]
        ]
    fields = {}
    for field in sorted(files, key=lambda name: (name != "image", name)):
        kind = media_of(next(iter(extensions[field]), "")) or ""
        codec = codec_of_files(kind, extensions[field]) or "bytes"
        fields[field] = FileField(codec, [files[field].get(key, -1) for key in keys])
    return FolderLayout(keys, fields, left_out=tuple(left_out), splits=splits)
