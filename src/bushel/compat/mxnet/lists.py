"""Lists of images, as MXNet's im2rec makes them."""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bushel.loader import Exact
from bushel.sources import ListLine, extend_labels, format_line, parse_line
from bushel.storage import AnyPath, as_path, read_text, walk_names, write_whole

IM2REC_SUFFIXES = (".jpeg", ".jpg", ".png")
"""The suffixes of images that im2rec takes."""

_IM2REC_SEED = 100


@dataclass(frozen=True)
class ListPlan:
    """The division of images into lists."""

    chunks: int = 1  # number of chunks that the images are cut into, one after another
    train_ratio: float = 1.0  # share of each chunk for training
    # share for testing; the rest is for validation; if the two add up to 1, the images that
    # rounding leaves over are for training, so that no image is lost
    test_ratio: float = 0.0
    shuffle: bool = True  # whether to shuffle the images; if not, they are sorted by name
    seed: int = 0  # seed of the shuffled order
    # shuffle in the one order of im2rec, which does not depend on a seed
    im2rec_order: bool = False

    def __post_init__(self) -> None:
        if self.chunks < 1:
            raise ValueError(f"chunks={self.chunks} is too small: give 1 or more")
        train, test = self.train_ratio, self.test_ratio
        if not (0 <= train <= 1 and 0 <= test <= 1 and train + test <= 1 + 1e-9):
            raise ValueError(
                f"train_ratio={train} and test_ratio={test} "
                "must be between 0 and 1, and so must their sum"
            )


def find_images(
    root: str | os.PathLike[str] | AnyPath,
    *,
    suffixes: Collection[str] = IM2REC_SUFFIXES,
    recursive: bool = False,
) -> Iterator[ListLine]:
    """Yield the images under a folder, with a label for each folder.

    Folders are numbered in the order in which their first images are found: images of a folder come
    before the images of its subfolders, both sorted by name. Without `recursive` only images of the
    folder itself are found, all with label 0. Links are followed, and suffixes may be in upper or
    lower case.

    Raises:
        NotADirectoryError: `root` is not a folder.
    """
    suffixes_in_lower_case = {suffix.lower() for suffix in suffixes}
    place = as_path(root)
    if not place.is_dir():
        raise NotADirectoryError(f"{root} is not a folder")
    folders = (
        _found_in(place, recursive) if isinstance(place, Path) else _listed_in(place, recursive)
    )
    labels: dict[str, int] = {}
    index = 0
    for folder, files in folders:
        for name in files:
            if os.path.splitext(name)[1].lower() in suffixes_in_lower_case:
                label = labels.setdefault(folder, len(labels))
                yield ListLine(index, (float(label),), os.path.join(folder, name))
                index += 1


def number_as_pack(lines: Iterable[ListLine]) -> tuple[list[ListLine], tuple[str, ...], int]:
    """Number the classes as `bushel.pack` does: by the first folder of the paths, in sorted order.

    Returns:
        The images in folders; the names of the classes in order, none if all images are in the root
        itself; and the number of images that were left out, since they are beside the folders.
    """
    all_lines = list(lines)
    inside = [line for line in all_lines if os.sep in line.path]
    if not inside:
        return all_lines, (), 0
    numbers = extend_labels(line.path.split(os.sep)[0] for line in inside)
    numbered = [
        ListLine(index, (float(numbers[line.path.split(os.sep)[0]]),), line.path)
        for index, line in enumerate(inside)
    ]
    return numbered, tuple(numbers), len(all_lines) - len(inside)


def number_as_im2rec(lines: Iterable[ListLine]) -> tuple[list[ListLine], tuple[str, ...], int]:
    """Keep the numbers of `find_images`, where each folder is a class, and do else what `number_as_pack` does."""
    all_lines = list(lines)
    names = dict.fromkeys(os.path.dirname(line.path) or "." for line in all_lines)
    return all_lines, tuple(names) if len(names) > 1 else (), 0


def _found_in(root: Path, recursive: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield folders, relative to the root, and the file names in each."""
    for folder, folders, files in os.walk(root, followlinks=True):
        folders[:] = sorted(folders) if recursive else []
        relative = os.path.relpath(folder, root)
        above = (os.path.join(root, parent) for parent in Path(relative).parents)
        if folder != os.fspath(root) and any(os.path.samefile(folder, parent) for parent in above):
            folders[:] = []  # a link to a folder that contains it
            continue
        # no broken links
        images = [name for name in sorted(files) if os.path.isfile(os.path.join(folder, name))]
        yield "" if relative == "." else relative, images


def _listed_in(root: AnyPath, recursive: bool) -> Iterator[tuple[str, list[str]]]:
    """Yield the same from one listing of a remote folder."""
    contents: dict[tuple[str, ...], list[str]] = {}
    for path in walk_names(root):
        *folders, name = path.split("/")
        contents.setdefault(tuple(folders), []).append(name)
    for folder in sorted(contents) if recursive else [()]:
        yield "/".join(folder), sorted(contents.get(folder, ()))


def list_parts(lines: Sequence[ListLine], plan: ListPlan) -> dict[str, list[ListLine]]:
    """Divide images into lists.

    Returns:
        End of the list's name (`""`, `_0`, `_train`, `_0_train`, …) to its images.
    """
    lines = _ordered(lines, plan)
    size = -(-len(lines) // plan.chunks)
    lists: dict[str, list[ListLine]] = {}
    for chunk in range(plan.chunks):
        images = lines[chunk * size : (chunk + 1) * size]
        name = f"_{chunk}" if plan.chunks > 1 else ""
        if plan.train_ratio == 1:
            lists[name] = images
            continue
        # im2rec cuts a shorter last chunk as it does the others
        base = size if plan.im2rec_order else len(images)
        test = int(base * plan.test_ratio)
        validates = plan.train_ratio + plan.test_ratio < 1 - 1e-9
        end = test + int(base * plan.train_ratio) if validates else len(images)
        if plan.test_ratio:
            lists[f"{name}_test"] = images[:test]
        if validates:
            lists[f"{name}_val"] = images[end:]
        lists[f"{name}_train"] = images[test:end]
    return lists


def read_list(path: str | os.PathLike[str] | AnyPath) -> list[ListLine]:
    """Return the lines of a list, without empty ones."""
    lines = read_text(as_path(path)).replace("\r\n", "\n").split("\n")
    return [parse_line(line) for line in lines if line.strip()]


def write_lists(
    prefix: str | os.PathLike[str] | AnyPath, lists: dict[str, list[ListLine]]
) -> list[AnyPath]:
    """Write each list to `PREFIX<name>.lst`.

    Returns:
        Paths of the files, in the order of `lists`.
    """
    written = []
    base = as_path(prefix)
    for name, lines in lists.items():
        path = base.parent / f"{base.name}{name}.lst"
        write_whole(path, "".join(map(format_line, lines)).encode("utf-8", "surrogateescape"))
        written.append(path)
    return written


def _ordered(lines: Sequence[ListLine], plan: ListPlan) -> list[ListLine]:
    ordered = list(lines)
    if plan.shuffle and plan.im2rec_order:
        random.Random(_IM2REC_SEED).shuffle(ordered)
        return ordered
    if plan.shuffle:
        positions = Exact(len(ordered), plan.seed).take(0, np.arange(len(ordered), dtype=np.int64))
        ordered = [ordered[position] for position in positions.tolist()]
    return ordered
