"""Options that GulpIO2's commands share."""

from __future__ import annotations

import argparse
import errno
import inspect
import os
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from bushel.compat.gulpio2 import __version__

__all__ = ["Command", "made_by"]

Made = TypeVar("Made")

_PLACES = {
    "input_json": "the list, .json or .json.gz",
    "input_csv": "the list",
    "image_list_file": "the list",
    "videos_directory": "where the videos are",
    "video_directory": "where the videos are",
    "images_directory": "where the images are",
    "jpeg_directory": "where the folders of frames are",
    "output_directory": "where the chunks go; new ones are added to those that are there",
}

_FOLDERS = frozenset(("videos_directory", "video_directory", "images_directory", "jpeg_directory"))


def _folder(path: str) -> str:
    """A folder that is there: an adapter finds nothing in others, and says that."""
    if not os.path.isdir(path):
        raise FileNotFoundError(errno.ENOENT, "there is no such folder", path)
    return path


def frame_rate(text: str) -> int:
    """Frames a second, of which there is at least one."""
    rate = int(text)
    if rate < 1:
        raise argparse.ArgumentTypeError(f"at least one frame of a second is kept, not {rate}")
    return rate


def made_by(kind: Callable[..., Made], given: Mapping[str, Any]) -> Made:
    """An adapter, of what a command line has for the parameters of its constructor."""
    return kind(**{name: given[name] for name in inspect.signature(kind).parameters if name in given})


class Command(argparse.ArgumentParser):
    """A parser with the options of all commands that gulp something, which has the names of adapters' parameters.

    Args:
        name: The command.
        summary: What it gulps.
        layout: What that looks like, line by line.
        items: What a chunk holds, `videos` or `images`.
    """

    def __init__(self, name: str, summary: str, layout: str, *, items: str = "videos") -> None:
        super().__init__(
            prog=f"bushel {name}",
            description=summary,
            epilog=layout,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        self.add_argument("--version", action="version", version=f"GulpIO2 {__version__}, by Bushel")
        self.add_argument(
            f"--{items}_per_chunk",
            dest="items_per_chunk",
            type=int,
            default=100,
            metavar="N",
            help=f"{items} in one chunk [100]",
        )
        self.add_argument("--num_workers", type=int, default=4, metavar="N", help="parallel processes [4]")
        self.add_argument("--shuffle", action="store_true", help="shuffle the dataset before it is gulped")

    def add_places(self, **names: str) -> None:
        """The arguments, in order: the adapter's parameters, and what the help calls them."""
        for parameter, name in names.items():
            kind = _folder if name in _FOLDERS else str
            self.add_argument(parameter, metavar=name, help=_PLACES[name], type=kind)

    def add_size(self, name: str, parameter: str = "frame_size") -> None:
        """The size of the shorter edge."""
        self.add_argument(
            f"--{name}",
            dest=parameter,
            type=int,
            default=-1,
            metavar="PIXELS",
            help="shorter edge of resized frames [-1: as they are]",
        )

    def add_shm(self) -> None:
        """The directory for frames, which are no longer written to one."""
        self.add_argument(
            "--shm_dir", dest="shm_dir_path", default="/dev/shm", metavar="DIR", help="taken, and not needed any more"
        )

    def add_twentybn(self, *, label: str) -> None:
        """Options of the two commands for videos of 20BN."""
        self.add_size("frame_size")
        self.add_argument("--frame_rate", type=frame_rate, default=8, metavar="N", help="frames kept of a second [8]")
        self.add_argument("--label_name", default=label, metavar="KEY", help=f"key of the label in the list [{label}]")
        self.add_argument("--extend", action="store_true", help="add to the chunks that are there, as always")
        self.add_argument(
            "--remove_duplicates",
            dest="remove_duplicate_ids",
            action="store_true",
            help="leave out ids that are listed twice, or are in the output directory already",
        )
        self.add_shm()
