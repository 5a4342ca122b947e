"""Making lists of images: what `im2rec --list` does. Choosing and cutting are pure; `write_lists` writes."""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bushel.core.order import Exact
from bushel.sources.lists import ListLine, format_line
from bushel.storage import AnyPath, as_path, walk_names, write_whole

__all__ = ["IM2REC_SUFFIXES", "ListPlan", "find_images", "list_parts", "write_lists"]

IM2REC_SUFFIXES = (".jpeg", ".jpg", ".png")
"""The suffixes that im2rec takes."""

_IM2REC_SEED = 100


@dataclass(frozen=True, slots=True)
class ListPlan:
    """How images are put into lists.

    Attributes:
        chunks: Lists that the images are cut into, one after another.
        train_ratio: Share of each chunk that is for training.
        test_ratio: Share that is for testing. The rest is for validation; where the two make 1, what rounding leaves
            over is for training, so that no image is lost.
        shuffle: Seed of the order; None for the order of the names.
        im2rec_order: Use the order of im2rec, which has only one, instead of the seed's.
    """

    chunks: int = 1
    train_ratio: float = 1.0
    test_ratio: float = 0.0
    shuffle: int | None = 0
    im2rec_order: bool = False

    def __post_init__(self) -> None:
        if self.chunks < 1:
            raise ValueError(f"chunks is at least 1, not {self.chunks}")
        train, test = self.train_ratio, self.test_ratio
        if not (0 <= train <= 1 and 0 <= test <= 1 and train + test <= 1 + 1e-9):
            raise ValueError(f"the ratios lie between 0 and 1, and so does their sum: {train}, {test}")


def find_images(
    root: str | os.PathLike[str] | AnyPath, *, suffixes: Collection[str] = IM2REC_SUFFIXES, recursive: bool = False
) -> Iterator[ListLine]:
    """The images under a folder, with a label for each folder.

    Folders are numbered in the order in which the first image of each is found: its own images before those of the
    folders in it, by sorted names. Without `recursive` only images of the folder itself are found, all with label 0.

    Args:
        root: The folder.
        suffixes: Those of images, whatever their case.
        recursive: Whether to go into folders; links are followed.

    Raises:
        NotADirectoryError: `root` is no folder.
    """
    wanted = {suffix.lower() for suffix in suffixes}
    place = as_path(root)
    if not place.is_dir():
        raise NotADirectoryError(f"{root} is no folder")
    found = _found_in(place, recursive) if isinstance(place, Path) else _listed_in(place, recursive)
    labels: dict[str, int] = {}
    index = 0
    for folder, files in found:
        for name in files:
            if os.path.splitext(name)[1].lower() in wanted:
                label = labels.setdefault(folder, len(labels))
                yield ListLine(index, (float(label),), os.path.join(folder, name))
                index += 1


def _found_in(root: Path, recursive: bool) -> Iterator[tuple[str, list[str]]]:
    """Folders, relative to the root, and the names in each."""
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(folders) if recursive else []
        relative = os.path.relpath(folder, root)
        above = (os.path.join(root, parent) for parent in Path(relative).parents)
        if folder != os.fspath(root) and any(os.path.samefile(folder, parent) for parent in above):
            folders[:] = []  # a link to a folder that it lies in
            continue
        images = [name for name in sorted(files) if os.path.isfile(os.path.join(folder, name))]  # no broken links
        yield "" if relative == "." else relative, images


def _listed_in(root: AnyPath, recursive: bool) -> Iterator[tuple[str, list[str]]]:
    """The same from one listing of a folder that is not local."""
    contents: dict[tuple[str, ...], list[str]] = {}
    for path in walk_names(root):
        *folders, name = path.split("/")
        contents.setdefault(tuple(folders), []).append(name)
    for folder in sorted(contents) if recursive else [()]:
        yield "/".join(folder), sorted(contents.get(folder, ()))


def list_parts(lines: Sequence[ListLine], plan: ListPlan) -> dict[str, list[ListLine]]:
    """Cut images into lists.

    Returns:
        For each list, by what its name ends in: `""`, `_0`, `_train`, `_0_train` and so on.
    """
    lines = _ordered(lines, plan)
    size = -(-len(lines) // plan.chunks)
    found: dict[str, list[ListLine]] = {}
    for chunk in range(plan.chunks):
        mine = lines[chunk * size : (chunk + 1) * size]
        name = f"_{chunk}" if plan.chunks > 1 else ""
        if plan.train_ratio == 1:
            found[name] = mine
            continue
        of = size if plan.im2rec_order else len(mine)  # im2rec cuts a shorter last chunk as it does the others
        test = int(of * plan.test_ratio)
        validates = plan.train_ratio + plan.test_ratio < 1 - 1e-9
        behind = test + int(of * plan.train_ratio) if validates else len(mine)
        if plan.test_ratio:
            found[f"{name}_test"] = mine[:test]
        if validates:
            found[f"{name}_val"] = mine[behind:]
        found[f"{name}_train"] = mine[test:behind]
    return found


def write_lists(prefix: str | os.PathLike[str] | AnyPath, lists: dict[str, list[ListLine]]) -> list[AnyPath]:
    """Write each list to `PREFIX<name>.lst`.

    Returns:
        The files, in the order of `lists`.
    """
    written = []
    place = as_path(prefix)
    for name, lines in lists.items():
        path = place.parent / f"{place.name}{name}.lst"
        write_whole(path, "".join(map(format_line, lines)).encode("utf-8", "surrogateescape"))
        written.append(path)
    return written


def _ordered(lines: Sequence[ListLine], plan: ListPlan) -> list[ListLine]:
    ordered = list(lines)
    if plan.shuffle is None:
        return ordered
    if plan.im2rec_order:
        random.Random(_IM2REC_SEED).shuffle(ordered)
        return ordered
    positions = Exact(len(ordered), plan.shuffle).take(0, np.arange(len(ordered), dtype=np.int64))
    return [ordered[position] for position in positions.tolist()]
