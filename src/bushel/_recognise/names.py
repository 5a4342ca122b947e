"""What names of files and folders say: splits, `test-00000-of-00002.parquet`, fields, `images`, classes, or junk."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import compress

from bushel._runtime.public import did_you_mean
from bushel.errors import SpecError

SAME = {
    "train": ("train", "training"),
    "validation": ("validation", "valid", "val", "dev"),
    "test": ("test", "testing"),
}
"""The names of a split, which the Hugging Face Hub calls by the first one."""

ROLES = {
    **dict.fromkeys(("images", "image", "imgs", "img", "jpegimages", "rgb"), "image"),
    **dict.fromkeys(("labels", "label", "labels_txt"), "label"),
    **dict.fromkeys(("masks", "mask", "segmentation", "segmentationclass"), "mask"),
    **dict.fromkeys(("annotations", "annotation"), "annotation"),
    "segmentationobject": "object_mask",
    **dict.fromkeys(("captions", "caption"), "caption"),
    **dict.fromkeys(("depths", "depth"), "depth"),
}
"""Folders whose files of the same names are fields of one sample, as YOLO lays them out: names in lower case."""

_ARGUMENTS = {"split": "split", "configuration": "config"}
_SHOWN = 10  # names of splits in an error
_RANK = {split: rank for rank, split in enumerate(SAME)}
_OF_NAME = {name: split for split, names in SAME.items() for name in names}
# Patterns are compiled when a folder is looked at, as most datasets are opened by their manifest.
_NAME = rf"(?i)(?P<split>{'|'.join(_OF_NAME)})(?:[-_][0-9]+(?:-of-[0-9]+)?)?(?:\..*)?"
# COCO: train2017/; also train_images/ and training_set/
_NAME_OF_FOLDER = rf"(?i)(?P<split>{'|'.join(_OF_NAME)})(?:20[0-9]{{2}}|[-_]?(?:images|imgs|set))?"
# TensorFlow Datasets: mnist-train.tfrecord-00000-of-00001
_NAME_OF_TFDS = rf"\w+-(?P<split>{'|'.join(_OF_NAME)})\.\w+-\d{{5,}}-of-\d{{5,}}"

# cats-00000-of-00002.tar; TensorFlow's suffix stands before the numbers: cats.tfrecord-00000-of-00002
_NUMBERED = (
    r"(?P<name>.+?)(?:\.(?:tfrecords?|array_record|riegeli))?-[0-9]{5,}-of-[0-9]{5,}(?:\..*)?"
)


def numbered_in(name: str) -> str | None:
    """Return the name that numbered files share, `cats` of `cats-00000-of-00002.tar`; None for others."""
    match = re.fullmatch(_NUMBERED, name)
    return None if match is None else match["name"]


def split_in(name: str, *, folder: bool) -> str | None:
    """Return the split that a name stands for, as it is spelled; None if it stands for none.

    Args:
        name: The name of a folder, or of a file with its suffixes.
        folder: Whether it is a folder, whose whole name has to be that of the split, perhaps with a year,
            `images` or `set`.

    Examples:
        >>> from bushel._recognise.names import split_in
        >>> split_in("val", folder=True), split_in("train-00000-of-00002.csv", folder=False)
        ('val', 'train')
        >>> split_in("mnist-test.tfrecord-00000-of-00001", folder=False)
        'test'
    """
    if folder:
        match = re.fullmatch(_NAME_OF_FOLDER, name)
    else:
        match = re.fullmatch(_NAME, name) or re.fullmatch(_NAME_OF_TFDS, name)
    return match and match["split"]


def splits_in(folders: Iterable[str], files: Iterable[str]) -> dict[str, list[str]]:
    """Return the splits of a folder: the names in it of each, training first; empty if it has fewer than two.

    Numbered files of several names are splits, too: `cats-00000-of-00002.tar`, `dogs-00000-of-00001.tar`.

    Args:
        folders: Names of the folders in it that may hold data.
        files: Names of the files in it that are data.

    Returns:
        Empty, too, if a folder or file has another name: then the names mean something else.
    """
    folders, files = sorted(folders), sorted(files)
    splits = [split_in(name, folder=True) for name in folders]
    splits += [split_in(name, folder=False) for name in files]
    if None in splits and not folders:  # files of several names
        splits = list(map(numbered_in, files))
    names_by_split: dict[str, list[str]] = {}
    for split, name in zip(splits, (*folders, *files), strict=True):
        if split is None:
            return {}
        names_by_split.setdefault(split, []).append(name)
    if len(names_by_split) < 2:
        return {}
    ranks = {split: _RANK.get(_OF_NAME.get(split.lower(), ""), 9) for split in names_by_split}
    return {split: names_by_split[split] for split in sorted(ranks, key=ranks.__getitem__)}


def splits_beside(
    folders: Iterable[str], files: Iterable[str], tables: Sequence[str]
) -> dict[str, list[str]]:
    """Return the splits of a folder (`splits_in`), in which tables may be about the other files.

    Beside `train/` and `test/`, `train.csv` and `labels.csv` are about them, and `val.csv` is a split.
    """
    splits = splits_in(folders, files)
    if splits:
        named = {name: split_in(name, folder=False) or numbered_in(name) for name in tables}
        tables = [name for name, split in named.items() if split and not split_named(splits, split)]
    return splits_in(folders, [*files, *tables]) or splits


def split_named(splits: Mapping[str, object], name: str) -> str | None:
    """Return the split that a caller means: the name that is there, or the only one that means the same."""
    if name in splits:
        return name
    meant = _OF_NAME.get(str(name).lower())
    same = [split for split in splits if meant is not None and _OF_NAME.get(split.lower()) == meant]
    if len(same) == 1:
        return same[0]
    return None


def role_of(folder: str) -> str:
    """Return the field that the files of a folder are, by its name; empty if it names none."""
    return ROLES.get(folder.lower(), "")


def roles_of(folders: Collection[str]) -> dict[str, str]:
    """Return the folders that hold a field each, with its name; empty if there are others, or no images."""
    if len(folders) < 2 or len(folders) > 2 * len(ROLES):
        return {}
    fields = {folder: role_of(folder) for folder in folders}
    different = len(set(fields.values())) == len(fields)
    if different and "" not in fields.values() and "image" in fields.values():
        return fields
    return {}


def tops_of(names: Iterable[str]) -> set[str]:
    """Return the folders at the top."""
    return {name.partition("/")[0] for name in names if "/" in name}


def inside_only_folder(names: Sequence[str]) -> tuple[str, Sequence[str], set[str]]:
    """Return the path of the folders around all others, which ends in a slash, and the names and folders in there."""
    around = ""
    while len(tops := tops_of(names)) == 1:
        top = f"{tops.pop()}/"
        around += top
        names = [name.removeprefix(top) for name in names if name.startswith(top)]
    return around, names, tops


def folders_of_splits(media: Iterable[str]) -> tuple[str, ...]:
    """Return the folders at the top of media files, if these are all splits; empty if not."""
    names = list(media)
    if all("/" in name for name in names):
        folders = tops_of(names)
        if splits_in(folders, ()):
            return tuple(sorted(folders))
    return ()


def class_folders(
    names: Sequence[str],
    counts: Sequence[int] | None = None,
    *,
    inside: bool,
    known: Collection[str] = (),
) -> list[str]:
    """Return the folder of each file that is its class; empty for a file outside of them.

    All are empty if most files are outside of folders, or if these are the only split, or fields, one
    or more (`images`, `masks`). A folder around all others is not a class: `data/cat/1.jpg`, or
    `set/cat/1.jpg` in an archive of the folder `set`.

    Args:
        names: The paths of the files.
        counts: The number of files that each name stands for in its folder; by default one.
        inside: Whether the first folder is a split, and the second one the class.
        known: Classes of other splits.
    """
    if inside:
        names = [name.partition("/")[2] for name in names]
    folders = [name.partition("/")[0] if "/" in name else "" for name in names]
    if counts is None:
        counts = [1] * len(folders)
    nested = sum(compress(counts, folders))
    outside = [""] * len(folders)
    different = {*folders, *known} - {""}
    if 2 * nested < sum(counts) or roles_of(different):
        return outside
    if len(different) == 1:
        below = [name.partition("/")[2] for name in names]
        are_splits = bool(folders_of_splits(name for name in below if "/" in name))
        inner = class_folders(below, counts, inside=are_splits)
        if all(inner) or len({*inner} - {""}) > 1:
            return inner
        within = {name.partition("/")[0] for name in below if "/" in name}
        if split_in(*different, folder=True) is not None or any(map(role_of, different | within)):
            return outside
    return folders


def one_of(
    source: object,
    what: str,
    names: Mapping[str, object],
    name: str | None,
    default: str | None = None,
) -> str:
    """Return the split or configuration (`what`) that a caller names, as it is spelled; else the default or only one.

    Raises:
        SpecError: The source has none of this name, or several, and none is named.
    """
    if name is None:
        if default is None and len(names) > 1:
            raise several(source, what, names)
        return default or next(iter(names))
    if (chosen := split_named(names, name)) is not None:
        return chosen
    meant = did_you_mean(str(name), list(names))
    raise SpecError(
        f"{source} has no {what} {name!r} ({_ARGUMENTS[what]}=): it has "
        f"{', '.join(names) or 'none'}{'; ' + meant if meant else ''}"
    )


def several(source: object, what: str, names: Iterable[str], instead: str = "") -> SpecError:
    """Return the error of a source with several splits or configurations that needs the name of one."""
    first, *rest = names
    shown = ", ".join([first, *rest[: _SHOWN - 1]]) + " and others" * (len(rest) >= _SHOWN)
    return SpecError(
        f"{source} has several {what}s: {shown}. Name one: {_ARGUMENTS[what]}={first!r}{instead}"
    )


# Junk: files that programs leave beside data, copies, previews and settings. They do not belong to any dataset.

_FOLDERS = ("__MACOSX", ".ipynb_checkpoints")
_FILES = (".DS_Store", "Thumbs.db", "desktop.ini")
_ENDS = ("~", ":Zone.Identifier")
_SIGNS = ("._", *_FOLDERS, *_FILES, *_ENDS)
"""A text of names that contains none of these has no junk."""

_BYTE_SIGNS = tuple(sign.encode() for sign in _SIGNS)
_HIDDEN = re.compile(r"(?:.*?/)??\.+[^./][^/]*(?P<folder>/?)", re.DOTALL)
"""A path up to its first name that begins with a dot and has other characters, and its slash if it is a folder."""


_KINDS = 5  # that a report names


def junk_kind(name: str) -> str | None:
    """Return how a report calls a junk file, `._*` or `.DS_Store`; None for a file that may be data.

    Args:
        name: Its path relative to the dataset.
    """
    if not any(sign in name for sign in _SIGNS):  # most names: dividing all would take longer
        return None
    *folders, file = name.split("/")
    if file in _FILES:
        return file
    if file.startswith("._"):
        return "._*"
    end = next(filter(file.endswith, _ENDS), None)
    if end is not None:
        return f"*{end}"
    return next((folder for folder in _FOLDERS if folder in folders), None)


class LeftOut:
    """Counts the files that are not data: junk, and hidden files and folders.

    Attributes:
        counts: How many there are of each kind, in words. A hidden folder is one.
    """

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self._hidden_folders = set[str]()

    def is_data(self, name: str) -> bool:
        """Return whether a file may be data; count it if not."""
        hidden, kind = _HIDDEN.match(name), junk_kind(name)
        if hidden is None and kind is None:
            return True
        if hidden is None or not hidden["folder"]:
            self.counts[kind or "hidden"] += 1
        elif hidden[0] not in self._hidden_folders:
            self._hidden_folders.add(hidden[0])
            self.counts[kind or "hidden folder"] += 1
        return False


def may_hold_junk(text: bytes) -> bool:
    """Return whether names, one after another in UTF-8, may have junk among them. It is quick for millions."""
    return any(sign in text for sign in _BYTE_SIGNS)


def without_junk(names: Sequence[str]) -> tuple[Sequence[str], Counter[str]]:
    """Return the names that may be data, in order, and how many of each kind of junk are left out."""
    text = "/".join(["", *names])
    left_out = LeftOut()
    if not any(sign in text for sign in ("/.", *_SIGNS)):
        return names, left_out.counts
    return list(filter(left_out.is_data, names)), left_out.counts


def counted(kinds: Iterable[tuple[str, int]]) -> str:
    """Return the files that are left out, in words: `3 files (2 ._*, 1 .txt)`."""
    ordered = sorted(kinds, key=lambda each: (-each[1], each[0]))
    total = sum(count for _, count in ordered)
    named = [f"{count:,} {kind}" for kind, count in ordered[:_KINDS]]
    more = ["…"] if len(ordered) > _KINDS else []
    return f"{total:,} file{'s' if total != 1 else ''} ({', '.join(named + more)})"
