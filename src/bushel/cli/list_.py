"""`bushel list`."""

from __future__ import annotations

from typing import Annotated

import typer

from bushel.cli.options import Debug, Json, Quiet

__all__ = ["command"]


def command(
    prefix: Annotated[str, typer.Argument(help="Where the lists go: PREFIX.lst, PREFIX_0_train.lst and so on.")],
    root: Annotated[str, typer.Argument(help="The folder of images.")],
    recursive: Annotated[
        bool, typer.Option("--recursive", help="Go into folders; each one with images is a label.")
    ] = False,
    exts: Annotated[
        list[str] | None, typer.Option("--exts", help="Suffix of images; may be repeated. [.jpeg .jpg .png]")
    ] = None,
    chunks: Annotated[int, typer.Option("--chunks", min=1, help="Cut the images into so many lists.")] = 1,
    train_ratio: Annotated[float, typer.Option("--train-ratio", min=0, max=1, help="Share for training.")] = 1.0,
    test_ratio: Annotated[
        float, typer.Option("--test-ratio", min=0, max=1, help="Share for testing; the rest is for validation.")
    ] = 0.0,
    shuffle: Annotated[bool, typer.Option("--shuffle/--no-shuffle", help="Put the images in a random order.")] = True,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the random order.")] = 0,
    im2rec_order: Annotated[
        bool, typer.Option("--im2rec-order", help="The order of MXNet's im2rec, which knows no seed.")
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    debug: Debug = False,
) -> None:
    """List the images of a folder: lines of index, label and path, as `bushel pack` and MXNet's im2rec read them.

    No image is lost, whatever the ratios.

    Example:
      bushel list lists/train photos/ --recursive --train-ratio 0.9
    """
    from bushel.cli.output import count, print_json, print_text
    from bushel.ingest.lists import IM2REC_SUFFIXES, ListPlan, find_images, list_parts, write_lists

    plan = ListPlan(chunks, train_ratio, test_ratio, seed if shuffle else None, im2rec_order)
    lists = list_parts(list(find_images(root, suffixes=exts or IM2REC_SUFFIXES, recursive=recursive)), plan)
    if not any(lists.values()):
        hint = "" if recursive else ": --recursive looks into its folders"
        raise FileNotFoundError(f"there is no image in {root}{hint}")
    paths = write_lists(prefix, lists)
    if as_json:
        print_json({str(path): len(lines) for path, lines in zip(paths, lists.values(), strict=True)})
    elif not quiet:
        for path, lines in zip(paths, lists.values(), strict=True):
            print_text(f"{path}: {count(len(lines), 'image')}")
