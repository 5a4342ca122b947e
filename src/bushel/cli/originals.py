"""The commands of the original tools, such as `bushel im2rec` and `bushel tarp create`."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

__all__ = ["ORIGINALS", "Original"]


class Original(NamedTuple):
    """A command of an original tool.

    Attributes:
        path: `module:function` in `bushel.compat`. The function takes the arguments and returns the exit code.
        help: One line for the help.
    """

    path: str
    help: str

    def load(self) -> Callable[[list[str]], int]:
        """Import and return the function."""
        module, _, function = self.path.partition(":")
        loaded: Callable[[list[str]], int] = getattr(import_module(f"bushel.compat.{module}"), function)
        return loaded


ORIGINALS: dict[str, Original] = {
    "gulp2_20bn_json_videos": Original("gulpio2.commands:gulp2_20bn_json_videos", "Gulp videos listed in a JSON file."),
    "gulp2_20bn_csv_webm": Original("gulpio2.commands:gulp2_20bn_csv_webm", "Gulp videos listed in a CSV file."),
    "gulp2_20bn_csv_jpeg": Original(
        "gulpio2.commands:gulp2_20bn_csv_jpeg", "Gulp folders of frames listed in a CSV file."
    ),
    "gulp2_activitynet": Original("gulpio2.commands:gulp2_activitynet", "Gulp a subset of ActivityNet."),
    "gulp2_kinetics": Original("gulpio2.commands:gulp2_kinetics", "Gulp Kinetics."),
    "gulp2_image_folder": Original("gulpio2.commands:gulp2_image_folder", "Gulp images in a folder for each label."),
    "gulp2_image_list": Original("gulpio2.commands:gulp2_image_list", "Gulp the images of a list."),
    "gulp2_video_folder": Original("gulpio2.commands:gulp2_video_folder", "Gulp videos in a folder for each label."),
    "gulp2_register_adapter": Original(
        "gulpio2.commands:gulp2_register_adapter", "Make a command line for an adapter."
    ),
    "gulp2_sanity_check": Original("gulpio2.commands:gulp2_sanity_check", "Check the files of a gulp directory."),
    "im2rec": Original("mxnet.commands:im2rec", "Make lists of images and MXNet record files (both im2rec tools)."),
    "rec2idx": Original("mxnet.commands:rec2idx", "Rebuild the index of an MXNet record file."),
    "tarp": Original("webdataset.commands.tarp:main", "Make, join, split, sort and process WebDataset archives."),
    "widsindex": Original("webdataset.commands.widsindex:main", "Make, change and show the indexes of wids."),
}
"""The commands by name, in the order of the help."""
