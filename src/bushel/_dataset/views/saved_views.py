"""Views by name, beside the manifest: a query, or a list of samples, with the fingerprint of what they were made of.

A view is the safetensors file `.bushel/views/NAME.safetensors`, which docs/views.md specifies. A
condition is evaluated when the view is opened, and is stale if the dataset has changed. A list is
stale if its samples have: shards that were appended leave it as it is.
"""

from __future__ import annotations

import errno
import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec
import numpy as np

from bushel._dataset.open.completeness import above_parts
from bushel._dataset.read.key_file import positions_of_keys
from bushel._dataset.read.remaining import digests_at
from bushel._dataset.read.shards import kinds
from bushel._index.saving import encode, parse, whole_crc32
from bushel._index.shard import FOLDER, Strings
from bushel._runtime.arrays import I64, NO_NUMBERS, U64
from bushel._runtime.messages import warn
from bushel._runtime.public import did_you_mean, public
from bushel.errors import FormatError, StateError, UnsupportedError
from bushel.storage import AnyPath, below, list_names, read_whole, remove, update

D = TypeVar("D")

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_SUFFIX = ".safetensors"
_ARRAYS = {"positions": "I64", "keys.text": "U8", "keys.offsets": "I64", "digests": "U64"}
_VERSION = 1


@public("bushel.datasets")
@dataclass(frozen=True, slots=True)
class SavedView:
    """A view that `Dataset.save` stored.

    Attributes:
        name: Its name.
        made: How its samples were chosen, in words.
        samples: Number of its samples when it was saved.
        time: When that was, in seconds since 1970.
        stale: Whether the dataset has changed since.

    Examples:
        >>> ds.where("label == 'dog'").save_view("dogs")
        >>> [(view.name, view.made, view.samples, view.stale) for view in bushel.list_views("train/")]
        [('dogs', "where label == 'dog'", 6, False)]
    """

    name: str
    made: str
    samples: int
    time: float
    stale: bool


class _Header(msgspec.Struct):
    version: int
    crc32: int
    of: str
    made: str
    where: str | None
    fields: list[str]
    samples: int
    time: int


# made at import, as the decoders of sidecars
_HEADER = msgspec.json.Decoder(_Header)


def save_view(view: Any, name: str, *, overwrite: bool) -> None:
    """Save a view: see `Dataset.save`."""
    path = _path(folder := _folder(view), name)
    if isinstance(folder, Path) and not (root := folder.parent.parent).is_dir():
        raise FileNotFoundError(errno.ENOENT, "the folder of the dataset does not exist", str(root))
    origin = view.selection.made
    where = None
    if origin.startswith("where ") and ", then " not in origin:
        where = origin.removeprefix("where ")
    positions, keys, digests = NO_NUMBERS, Strings.of([]), np.zeros(0, np.uint64)
    fingerprint = _whole(view).fingerprint
    if where is None:
        positions = np.ascontiguousarray(view.selection.positions, np.int64)
        fingerprint = _listed(view, positions).fingerprint
        digests = digests_at(view.reader, positions)
        if view.reader.keyed:
            keys = Strings.of(view.reader.keys(positions))
    columns = (positions, keys.text, keys.offsets, digests)
    arrays: dict[str, Any] = dict(zip(_ARRAYS, columns, strict=True))
    choice = (fingerprint, origin, where, list(view.spec), len(view))
    header = _Header(_VERSION, 0, *choice, time.time_ns())
    header.crc32 = whole_crc32(header, arrays)

    def replaced(known: bytes | None) -> bytes:
        if known is not None and not overwrite:
            raise FileExistsError(
                f"view {name!r} exists already: give overwrite=True, or another name"
            )
        return encode(arrays, header)

    update(path, replaced)


def saved_view(dataset: D, name: str, *, allow_stale: bool) -> D:
    """Return the view of a dataset that was saved under a name.

    Raises:
        KeyError: The view does not exist.
        StateError: The dataset has changed since, and `stale` is false.
        FormatError: The file is damaged.
    """
    folder = _folder(dataset)
    try:
        header, positions, keys, digests = _load(_path(folder, name))
    except FileNotFoundError:
        raise _unknown(name, _names(folder)) from None
    whole: Any = dataset
    fields = [field for field in header.fields if field in whole.spec]
    changed = _has_changed(dataset, header, positions)
    if changed and not allow_stale:
        raise StateError(
            f"the view {name!r} is stale: the dataset has changed since it was saved. "
            "Save it again, or open the remaining samples with allow_stale=True"
        )
    if header.where is not None:
        view: D = whole.where(header.where).select_fields(fields)
    else:
        if changed:
            positions = _left(dataset, header, keys, digests)
        view = whole._view(positions, fields, made=f"{header.made} (view {name!r})".strip())
    if changed:
        message = (
            f"the view {name!r} is stale: it had {header.samples:,} "
            f"samples, and {len(cast('Any', view)):,} are left"
        )
        warn(message, UserWarning)
    return view


def _left(dataset: Any, header: _Header, keys: Strings, digests: U64) -> I64:
    """Return the samples of a stale view that still exist, by key and digest: not others under the same keys."""
    names = keys.tolist()
    positions, _ = positions_of_keys(dataset.reader, names)
    current = digests_at(dataset.reader, positions)
    if {len(names), len(digests)} != {header.samples} or len(current) != len(positions):
        raise StateError(
            "the view is stale, and its samples have no keys, or no checksums "
            "(`bushel index`), by which they could be found again: save it again"
        )
    present = zip(dataset.reader.keys(positions), current.tolist(), strict=True)
    place = dict(zip(present, positions.tolist(), strict=True))
    samples = zip(names, digests.tolist(), strict=True)
    left = np.array([place[sample] for sample in samples if sample in place], np.int64)
    is_left = np.zeros(int(dataset.reader.starts[-1]), np.bool_)
    is_left[np.asarray(dataset.reader.whole, np.int64)] = True
    return left[is_left[left]]


def saved_views(dataset: Any) -> list[SavedView]:
    """Return the views of a dataset that were saved, by name."""
    folder, views = _folder(dataset), []
    for name in _names(folder):
        header, positions, _, _ = _load(_path(folder, name))
        stale = _has_changed(dataset, header, positions)
        views.append(SavedView(name, header.made, header.samples, header.time / 1e9, stale))
    return views


def delete_view(dataset: Any, name: str) -> None:
    """Delete a view. Raise KeyError if the view does not exist."""
    folder = _folder(dataset)
    names = _names(folder)
    if name not in names:
        raise _unknown(name, names)
    remove(_path(folder, name))


def _unknown(name: str, names: list[str]) -> KeyError:
    views = f"the views are {', '.join(names)}"
    if not names:
        views = "no view is saved; ds.save_view(name) makes one"
    return KeyError(f"unknown view {name!r}: {did_you_mean(name, names) or views}")


def _whole(dataset: Any) -> Any:
    return _listed(dataset, dataset.reader.whole)


def _listed(dataset: Any, positions: I64) -> Any:
    return dataset._view(positions, list(dataset.reader.fields))


def _has_changed(dataset: Any, header: _Header, positions: I64) -> bool:
    """Return whether a view was saved of other data than these. What was appended does not matter to a list."""
    if header.where is not None:
        return bool(header.of != _whole(dataset).fingerprint)
    reader = dataset.reader
    if len(positions) and positions.max() >= reader.starts[-1]:
        return True
    if reader.remaining is not None and np.isin(positions, reader.remaining.removed).any():
        return True
    return bool(header.of != _listed(dataset, positions).fingerprint)


def _folder(dataset: Any) -> AnyPath:
    """Return the folder of the views of a dataset.

    Raises:
        UnsupportedError: The dataset is joined, or is in several folders.
    """
    view_shards = [opened.shard for opened in kinds(dataset.shards)]
    above = above_parts(view_shards) if view_shards else None
    made_of_others = dataset.reader.sides or dataset.reader.windows is not None
    if (
        not view_shards
        or made_of_others
        or (above is None and any(shard.beside != view_shards[0].beside for shard in view_shards))
    ):
        what = "this one is joined, has windows, or is in several folders"
        raise UnsupportedError(f"a view is saved beside a dataset: {what}")
    if above is not None and view_shards[0].index is None:
        return above / f"{FOLDER}/views"
    return view_shards[0].beside / f"{view_shards[0].shared}/views"


def _path(folder: AnyPath, name: str) -> AnyPath:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ValueError(
            f"{name!r} cannot be the name of a view: up to 100 letters, digits and . _ -"
        )
    return below(folder, f"{name}{_SUFFIX}")


def _names(folder: AnyPath) -> list[str]:
    if isinstance(folder, Path) and not folder.is_dir():
        return []
    return sorted(
        file_name.removesuffix(_SUFFIX)
        for file_name in list_names(folder)
        if file_name.endswith(_SUFFIX)
    )


def _load(path: AnyPath) -> tuple[_Header, I64, Strings, U64]:
    data = read_whole(path)
    try:
        header, arrays = parse(memoryview(data), _ARRAYS, _HEADER)
        keys = Strings(arrays["keys.text"], arrays["keys.offsets"])
        samples = len(arrays["positions"])
        fit = {len(arrays["digests"]), len(keys)} <= {0, samples}
        whole = header.crc32 == whole_crc32(header, arrays) and keys.are_valid and fit
    except ValueError as error:
        raise FormatError(
            f"not a view: {error}", path, hint="delete it, and save it again"
        ) from error
    if header.version != _VERSION or not whole:
        raise FormatError(
            "the view is damaged, or newer than this Bushel", path, hint="save it again"
        )
    return header, arrays["positions"], keys, arrays["digests"]
