"""`bushel im2rec` and `bushel rec2idx`: MXNet's command lines, of the Python tools and of the C++ im2rec."""

from __future__ import annotations

import argparse
import errno
import os
from pathlib import Path

import bushel
from bushel.compat.mxnet.io.im2rec import Im2recParams, convert
from bushel.containers.recordio import format_idx, scan_records
from bushel.storage import as_path, open_file, write_whole

from .lists import IM2REC_SUFFIXES, ListPlan, find_images, list_parts, write_lists

_NATIVE: dict[str, int | None] = {
    "color": 1,
    "resize": -1,
    "label_width": 1,
    "pack_label": 0,
    "nsplit": 1,
    "part": 0,
    "center_crop": 0,
    "quality": None,
    "inter_method": 1,
    "unchanged": 0,
}
"""Numeric options of the C++ tool, with their defaults."""


def im2rec(arguments: list[str]) -> int:
    """Make lists of images, or record files of lists. Return 1 if images could not be packed, else 0."""
    if len(arguments) > 2 and not any(argument.startswith("-") for argument in arguments[:3]):
        return _native(arguments)
    options = _options().parse_args(arguments)
    return _list(options) if options.list else _record(options)


def rec2idx(arguments: list[str]) -> int:
    """Make an index of a record file, with the keys 0, 1, 2…, and return 0."""
    summary = "Make an index of a record file, with the keys 0, 1, 2… in the order of the records."
    parser = argparse.ArgumentParser(prog="bushel rec2idx", description=summary)
    parser.add_argument("record", help="path of the .rec file")
    parser.add_argument("index", help="path of the index file, which is replaced if it exists")
    options = parser.parse_args(arguments)
    records, _, fault = scan_records(open_file(as_path(options.record)))
    if fault is not None:
        raise fault
    write_whole(as_path(options.index), format_idx(records.offset))
    print(f"{options.index}: {len(records.offset)} records")
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="bushel im2rec",
        allow_abbrev=False,  # --list and --recursive decide whether files are replaced
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
        description="Make lists of the images in a folder (--list), or record files of these lists.",
        epilog="Exit codes: 0 fine, 1 images could not be packed "
        "(NAME.rec.errors.jsonl lists them), 2 wrong use. The C++ tool's form works "
        "too: bushel im2rec image.list root output.rec resize=256 quality=90 …",
    )
    parser.add_argument(
        "prefix", help="prefix of the lists and record files: PREFIX.lst, PREFIX_0_train.lst …"
    )
    parser.add_argument("root", help="folder of the images")
    _add_options_of_lists(parser)
    _add_options_of_records(parser)
    return parser


def _add_options_of_lists(parser: argparse.ArgumentParser) -> None:
    lists = parser.add_argument_group("lists")
    lists.add_argument("--list", action="store_true", help="make lists, not record files")
    lists.add_argument(
        "--exts", nargs="+", default=list(IM2REC_SUFFIXES), help="suffixes of images"
    )
    lists.add_argument(
        "--chunks", type=int, default=1, help="number of chunks to divide the images into"
    )
    lists.add_argument(
        "--train-ratio", type=float, default=1.0, help="share of each chunk for training"
    )
    lists.add_argument(
        "--test-ratio",
        type=float,
        default=0.0,
        help="share for testing; the rest is for validation",
    )
    lists.add_argument(
        "--recursive", action="store_true", help="descend into folders; each with images is a label"
    )
    lists.add_argument(
        "--no-shuffle", dest="shuffle", action="store_false", help="keep the order of the names"
    )


def _add_options_of_records(parser: argparse.ArgumentParser) -> None:
    records = parser.add_argument_group("record files")
    records.add_argument("--pass-through", action="store_true", help="keep the bytes of the files")
    records.add_argument(
        "--resize", type=int, default=0, help="pixels of the shorter edge; 0 to keep the size"
    )
    records.add_argument(
        "--center-crop", action="store_true", help="crop to the middle square first"
    )
    records.add_argument(
        "--quality", type=int, help="JPEG 1-100 (95 if not given), or PNG compression 0-9 (3)"
    )
    records.add_argument(
        "--num-thread",
        dest="num_workers",
        type=int,
        default=1,
        help="threads; the order of the list is always kept",
    )
    records.add_argument(
        "--color",
        type=int,
        default=1,
        choices=[-1, 0, 1],
        help="1 colour, 0 grey, -1 as in the file",
    )
    records.add_argument(
        "--encoding", default=".jpg", choices=[".jpg", ".png"], help="how images are stored"
    )
    records.add_argument(
        "--pack-label", action="store_true", help="keep all labels of a line, not only the first"
    )


_PARAMS = (
    "pass_through",
    "resize",
    "center_crop",
    "quality",
    "num_workers",
    "color",
    "encoding",
    "pack_label",
    "root",
)


def _list(options: argparse.Namespace) -> int:
    plan = ListPlan(
        options.chunks,
        options.train_ratio,
        options.test_ratio,
        shuffle=options.shuffle,
        im2rec_order=True,
    )
    lines = list(find_images(options.root, suffixes=options.exts, recursive=options.recursive))
    if not lines:
        hint = "" if options.recursive else ": --recursive looks into its folders"
        raise FileNotFoundError(f"no image was found in {options.root}{hint}")
    if options.recursive:
        folders = {int(line.labels[0]): os.path.dirname(line.path) or "." for line in lines}
        for label, folder in sorted(folders.items()):
            print(folder, label)
    write_lists(os.path.abspath(options.prefix), list_parts(lines, plan))
    return 0


def _record(options: argparse.Namespace) -> int:
    prefix = Path(os.path.abspath(options.prefix))
    # the lists in a folder of this name, or those beside it: it may be the folder of the images
    lists = sorted(filter(Path.is_file, prefix.glob("*.lst"))) or sorted(
        path
        for path in prefix.parent.glob("*.lst")
        if path.is_file() and _belongs(path.name, prefix.name)
    )
    if not lists:
        raise FileNotFoundError(f"no such list: {prefix}.lst: --list makes it")
    folder = lists[0].parent
    _check_root(options.root)
    params = Im2recParams(**{name: getattr(options, name) for name in _PARAMS})
    errors = 0
    for path in lists:
        print(f"Creating .rec file from {path} in {folder}")
        errors += _report(convert(path, folder / f"{path.stem}.rec", params))
    return 1 if errors else 0


def _check_root(root: str) -> None:
    """Raise an error if the folder is missing: without images, existing record files would become empty."""
    if root and "://" not in root and not os.path.isdir(root):
        raise FileNotFoundError(errno.ENOENT, "no such folder", root)


def _belongs(name: str, start: str) -> bool:
    """Return whether a list has this prefix: `p1.lst` and `p1_0_train.lst` have the prefix `p1`, `p10.lst` not."""
    if not name.startswith(start):
        return False
    border = start[-1:] + name[len(start) : len(start) + 1]
    return not (len(border) == 2 and border.isalnum())


def _report(packed: bushel.runs.PackResult) -> int:
    """Print a summary, and return the number of images that could not be packed, which are logged already."""
    print(f"{', '.join(packed.paths)}: {packed.samples} images in {packed.seconds:.1f} s")
    return packed.errors


def _native(arguments: list[str]) -> int:
    listed, root, output, *rest = arguments
    options = dict(argument.partition("=")[::2] for argument in rest)
    encoding = options.pop("encoding", ".jpg")
    if unknown := [name for name in options if name not in _NATIVE]:
        raise ValueError(
            f"im2rec has no option {unknown[0]!r}: there are {', '.join(_NATIVE)} and encoding"
        )
    if not output.endswith(".rec"):
        raise ValueError(f"the output must be called something.rec, not {output}")
    numbers = dict(_NATIVE)
    for name, value in options.items():
        try:
            numbers[name] = int(value)
        except ValueError:
            raise ValueError(f"{name}={value}: expected a whole number") from None
    parts, quality = numbers["nsplit"] or 1, numbers["quality"]
    params = Im2recParams(
        pass_through=bool(numbers["unchanged"]),
        pack_label=bool(numbers["pack_label"]),
        parts=parts,
        part=numbers["part"] if parts > 1 else None,
        root=root,
        resize=max(numbers["resize"] or 0, 0),
        center_crop=bool(numbers["center_crop"]),
        quality=3 if encoding == ".png" and quality is not None and quality > 9 else quality,
        color=numbers["color"] or 0,
        encoding=encoding,
        inter_method=numbers["inter_method"] or 0,
    )
    if not os.path.exists(listed):
        raise FileNotFoundError(f"no such list: {listed}")
    _check_root(root)
    return 1 if _report(convert(listed, as_path(output), params)) else 0
