"""Options that GulpIO2's commands share."""

from __future__ import annotations

import argparse

from bushel.compat.gulpio2 import __version__

__all__ = ["Command"]

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


class Command(argparse.ArgumentParser):
    """A parser with the options of all commands that gulp something.

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
            f"--{items}_per_chunk", type=int, default=100, metavar="N", help=f"{items} in one chunk [100]"
        )
        self.add_argument("--num_workers", type=int, default=4, metavar="N", help="parallel processes [4]")
        self.add_argument("--shuffle", action="store_true", help="shuffle the dataset before it is gulped")

    def add_places(self, *names: str) -> None:
        """The arguments, in order."""
        for name in names:
            self.add_argument(name, help=_PLACES[name])

    def add_size(self, name: str) -> None:
        """The size of the shorter edge."""
        self.add_argument(
            f"--{name}", type=int, default=-1, metavar="PIXELS", help="shorter edge of resized frames [-1: as they are]"
        )

    def add_shm(self) -> None:
        """The directory for frames, which are no longer written to one."""
        self.add_argument("--shm_dir", default="/dev/shm", metavar="DIR", help="taken, and not needed any more")

    def add_twentybn(self, *, label: str) -> None:
        """Options of the two commands for videos of 20BN."""
        self.add_size("frame_size")
        self.add_argument("--frame_rate", type=int, default=8, metavar="N", help="frames to keep of a second [8]")
        self.add_argument("--label_name", default=label, metavar="KEY", help=f"key of the label in the list [{label}]")
        self.add_argument("--extend", action="store_true", help="add to the chunks that are there, as always")
        self.add_argument(
            "--remove_duplicates",
            action="store_true",
            help="leave out ids that are listed twice, or are in the output directory already",
        )
        self.add_shm()
