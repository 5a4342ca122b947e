"""The eight commands that gulp a dataset, as a table. Their exit code is 1 if items were left out."""

from __future__ import annotations

import argparse
import errno
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from bushel.compat.gulpio2 import GulpIngestor, __version__, adapters

Made = TypeVar("Made")

_HELP = {
    "input_json": "the list, .json or .json.gz",
    "input_csv": "the list",
    "image_list_file": "the list",
    "videos_directory": "folder of the videos",
    "video_directory": "folder of the videos",
    "images_directory": "folder of the images",
    "jpeg_directory": "folder of the folders of frames",
    "output_directory": "folder of the chunks; new chunks are added to existing ones",
}
_FOLDERS = frozenset(("videos_directory", "video_directory", "images_directory", "jpeg_directory"))


def _folder(path: str) -> str:
    """Return the path of a folder that exists: an adapter would find nothing in others."""
    if not os.path.isdir(path):
        raise FileNotFoundError(errno.ENOENT, "no such folder", path)
    return path


def frame_rate(text: str) -> int:
    """Return a positive number of frames a second."""
    rate = int(text)
    if rate < 1:
        raise argparse.ArgumentTypeError(f"expected at least one frame a second, not {rate}")
    return rate


_SIZE = {
    "type": int,
    "metavar": "PIXELS",
    "help": "shorter edge of resized frames [-1: the original size]",
}
_OPTIONS: dict[str, dict[str, Any]] = {
    "frame_size": _SIZE,
    "image_size": {**_SIZE, "dest": "frame_size"},
    "img_size": {**_SIZE, "dest": "img_size"},
    "frame_rate": {
        "type": frame_rate,
        "default": 8,
        "metavar": "N",
        "help": "frames kept of a second [8]",
    },
    "label_name": {"metavar": "KEY", "help": "key of the label in the list [{default}]"},
    "extend": {"action": "store_true", "help": "add to existing chunks, which is the default"},
    "remove_duplicates": {
        "dest": "remove_duplicate_ids",
        "action": "store_true",
        "help": "leave out ids that are listed twice, or are in the output directory already",
    },
    "shm_dir": {"dest": "shm_dir_path", "metavar": "DIR", "help": "accepted, and not used"},
    "phase": {"choices": ("training", "validation", "testing"), "help": "the subset [training]"},
    "root_path": {
        "dest": "root_folder",
        "metavar": "DIR",
        "help": "folder that the paths are relative to [here]",
    },
}
"""Options by name. An option without a default has the default of the adapter's parameter."""


@dataclass(frozen=True)
class Gulp:
    """A command that gulps a dataset; it takes the command line's words and returns the exit code.

    `layout` has examples of the files; `arguments` maps parameters of the adapter to their names in
    the help; `options` are names in `_OPTIONS`; a chunk holds `items`.
    """

    name: str
    adapter: Callable[..., adapters.AbstractDatasetAdapter]
    summary: str
    layout: str
    arguments: Mapping[str, str]
    options: tuple[str, ...]
    items: str = "videos"

    def __call__(self, arguments: list[str]) -> int:
        options = vars(self._parser().parse_args(arguments))
        adapter = made_by(self.adapter, options)
        written = GulpIngestor(
            adapter, options["output_folder"], options["items_per_chunk"], options["num_workers"]
        )()
        return 0 if written == len(adapter) else 1

    def _parser(self) -> argparse.ArgumentParser:
        parser = argparse.ArgumentParser(
            prog=f"bushel {self.name}",
            description=self.summary,
            epilog=self.layout,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        parser.add_argument(
            "--version", action="version", version=f"GulpIO2 {__version__}, by Bushel"
        )
        chunk: dict[str, Any] = {
            "dest": "items_per_chunk",
            "type": int,
            "default": 100,
            "metavar": "N",
        }
        parser.add_argument(
            f"--{self.items}_per_chunk", **chunk, help=f"{self.items} in one chunk [100]"
        )
        parser.add_argument(
            "--num_workers", type=int, default=4, metavar="N", help="parallel processes [4]"
        )
        parser.add_argument(
            "--shuffle", action="store_true", help="shuffle the dataset before it is gulped"
        )
        for parameter, name in self.arguments.items():
            kind = _folder if name in _FOLDERS else str
            parser.add_argument(parameter, metavar=name, help=_HELP[name], type=kind)
        parameters = inspect.signature(self.adapter).parameters
        for name in self.options:
            option = dict(_OPTIONS[name])
            if "default" not in option and "action" not in option:
                option["default"] = parameters[option.get("dest", name)].default
                option["help"] = option["help"].format(default=option["default"])
            parser.add_argument("--image_size" if name == "img_size" else f"--{name}", **option)
        return parser


def made_by(kind: Callable[..., Made], given: Mapping[str, Any]) -> Made:
    """Make an adapter from a command line's values for its parameters."""
    return kind(
        **{name: given[name] for name in inspect.signature(kind).parameters if name in given}
    )


_JSON = {
    "json_file": "input_json",
    "folder": "videos_directory",
    "output_folder": "output_directory",
}
_CSV = {"csv_file": "input_csv", "folder": "videos_directory", "output_folder": "output_directory"}
_TWENTYBN = ("frame_size", "frame_rate", "label_name", "extend", "remove_duplicates", "shm_dir")

COMMANDS = [
    Gulp(
        "gulp2_20bn_json_videos",
        adapters.Custom20BNJsonVideoAdapter,
        "Gulp a 20BN dataset: a JSON list of videos, and a folder with an MP4 for each.",
        (
            'list:    [{"id": 1, "template": "Picking [something] '
            'up"}, ...]\nvideos:  videos_directory/1/any.mp4'
        ),
        _JSON,
        _TWENTYBN,
    ),
    Gulp(
        "gulp2_20bn_csv_webm",
        adapters.Custom20BNCsvWebmAdapter,
        "Gulp a 20BN dataset: a CSV list of videos, and a WebM for each.",
        "list:    1;Picking [something] up\nvideos:  videos_directory/1.webm",
        _CSV,
        _TWENTYBN,
    ),
    Gulp(
        "gulp2_20bn_csv_jpeg",
        adapters.Custom20BNCsvJpegAdapter,
        "Gulp a 20BN dataset: a CSV list of videos, and a folder of JPEGs for each.",
        (
            "list:    1;Picking [something] up\nframes:  "
            "jpeg_directory/1/*.jpg, in the order of their names"
        ),
        {**_CSV, "folder": "jpeg_directory"},
        ("image_size", "shm_dir"),
    ),
    Gulp(
        "gulp2_activitynet",
        adapters.ActivitynetAdapter,
        "Gulp a subset of ActivityNet.",
        (
            'list:    {"database": {"<id>": {"subset": "training", '
            "...}, ...}}\nvideos:  videos_directory/<id>.<suffix>"
        ),
        _JSON,
        ("image_size", "shm_dir", "phase"),
    ),
    Gulp(
        "gulp2_kinetics",
        adapters.KineticsAdapter,
        "Gulp Kinetics, trimmed.",
        'list:    {"<id>": {...}, ...}\nvideos:  videos_directory/<class>/<id>_000010_000020.mp4',
        _JSON,
        ("image_size", "shm_dir"),
    ),
    Gulp(
        "gulp2_image_folder",
        adapters.ImageFolderAdapter,
        "Gulp images (.jpg, .png) in a folder for each label.",
        "images:  images_directory/<label>/<name>.jpg",
        {"folder": "images_directory", "output_folder": "output_directory"},
        ("img_size",),
        items="images",
    ),
    Gulp(
        "gulp2_image_list",
        adapters.ImageListAdapter,
        "Gulp the images of a list.",
        "list:  image/path1.jpg, label1\n       image/path2.jpg, label2",
        {"input_file": "image_list_file", "output_folder": "output_directory"},
        ("img_size", "root_path"),
        items="images",
    ),
    Gulp(
        "gulp2_video_folder",
        adapters.VideoFolderAdapter,
        "Gulp videos (.mp4, .webm) in a folder for each label.",
        "videos:  video_directory/<label>/<name>.mp4",
        {"folder": "video_directory", "output_folder": "output_directory"},
        ("frame_size", "shm_dir"),
    ),
]
