"""`bushel im2rec-list`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Struct
from msgspec.structs import asdict

from .command import Argument, Option
from .options import OutputOptions


class DivideOptions(Struct, frozen=True):
    """How the images are divided among the lists, and in which order they are listed."""

    chunks: Annotated[int, Option("Number of chunks to cut the images into.", min=1)] = 1
    train_ratio: Annotated[float, Option("Share for training.", min=0, max=1)] = 1.0
    test_ratio: Annotated[
        float,
        Option("Share for testing; the rest is for validation.", min=0, max=1),
    ] = 0.0
    shuffle: Annotated[
        bool, Option("Shuffle the images or sort them by name.", "--shuffle/--no-shuffle")
    ] = True
    seed: Annotated[int, Option("Seed of the random order.", min=0)] = 0
    im2rec_order: Annotated[
        bool,
        Option(
            "Number classes and shuffle as MXNet's im2rec does: every folder is a class;"
            " --seed has no effect."
        ),
    ] = False


def command(
    prefix: Annotated[
        str, Argument("Prefix of the lists' names: PREFIX.lst, PREFIX_0_train.lst, …")
    ],
    root: Annotated[str, Argument("Folder of images.")],
    recursive: Annotated[
        bool,
        Option("Descend into subfolders. Each folder in ROOT is a class, numbered as by pack."),
    ] = False,
    exts: Annotated[
        list[str] | None,
        Option("Suffix of images; may be repeated. [default: .jpeg .jpg .png]"),
    ] = None,
    *,
    dividing: DivideOptions,
    shown: OutputOptions,
) -> None:
    """Write lists of images for `bushel pack` and MXNet's im2rec.

    Every image is in exactly one list, for all ratios. The numbers of the classes are printed.

    Example:
      bushel im2rec-list lists/train photos/ --recursive --train-ratio 0.9
    """
    from bushel.compat.mxnet.lists import (
        IM2REC_SUFFIXES,
        ListPlan,
        find_images,
        list_parts,
        number_as_im2rec,
        number_as_pack,
        write_lists,
    )

    from .output import count, say

    plan = ListPlan(**asdict(dividing))
    images = find_images(root, suffixes=exts or IM2REC_SUFFIXES, recursive=recursive)
    if dividing.im2rec_order:
        lines, names, left_out = number_as_im2rec(images)
    else:
        lines, names, left_out = number_as_pack(images)
    lists = list_parts(lines, plan)
    if not any(lists.values()):
        hint = "" if recursive else ": --recursive descends into its subfolders"
        raise FileNotFoundError(f"no image found in {root}{hint}")
    paths = write_lists(prefix, lists)
    counts = {str(path): len(lines) for path, lines in zip(paths, lists.values(), strict=True)}
    shown.show(
        {"lists": counts, "labels": {"label": names} if names else {}, "left_out": left_out},
        *(f"{path}: {count(number, 'image')}" for path, number in counts.items()),
        *(f"class {number}: {name}" for number, name in enumerate(names)),
    )
    if left_out and not (shown.as_json or shown.quiet):
        say(f"note: skipped {count(left_out, 'image')} outside the class folders")
