"""The eight commands that gulp a dataset. The exit code is 1 when items were left out, which are named."""

from __future__ import annotations

from collections.abc import Callable

from bushel.compat.gulpio2.adapters import (
    AbstractDatasetAdapter,
    ActivitynetAdapter,
    Custom20BNCsvJpegAdapter,
    Custom20BNCsvWebmAdapter,
    Custom20BNJsonVideoAdapter,
    ImageFolderAdapter,
    ImageListAdapter,
    KineticsAdapter,
    VideoFolderAdapter,
)
from bushel.compat.gulpio2.commands.options import Command, made_by
from bushel.compat.gulpio2.ingest import GulpIngestor

__all__ = [
    "gulp2_20bn_csv_jpeg",
    "gulp2_20bn_csv_webm",
    "gulp2_20bn_json_videos",
    "gulp2_activitynet",
    "gulp2_image_folder",
    "gulp2_image_list",
    "gulp2_kinetics",
    "gulp2_video_folder",
]


def gulp2_20bn_json_videos(arguments: list[str]) -> int:
    """Gulp videos listed in a JSON file."""
    command = Command(
        "gulp2_20bn_json_videos",
        "Gulp a 20BN dataset: a JSON list of videos, and a folder with an MP4 for each.",
        'list:    [{"id": 1, "template": "Picking [something] up"}, ...]\nvideos:  videos_directory/1/any.mp4',
    )
    command.add_places(json_file="input_json", folder="videos_directory", output_folder="output_directory")
    command.add_twentybn(label="template")
    return _gulp(Custom20BNJsonVideoAdapter, command, arguments)


def gulp2_20bn_csv_webm(arguments: list[str]) -> int:
    """Gulp videos listed in a CSV file."""
    command = Command(
        "gulp2_20bn_csv_webm",
        "Gulp a 20BN dataset: a CSV list of videos, and a WebM for each.",
        "list:    1;Picking [something] up\nvideos:  videos_directory/1.webm",
    )
    command.add_places(csv_file="input_csv", folder="videos_directory", output_folder="output_directory")
    command.add_twentybn(label="label")
    return _gulp(Custom20BNCsvWebmAdapter, command, arguments)


def gulp2_20bn_csv_jpeg(arguments: list[str]) -> int:
    """Gulp folders of frames listed in a CSV file."""
    command = Command(
        "gulp2_20bn_csv_jpeg",
        "Gulp a 20BN dataset: a CSV list of videos, and a folder of JPEGs for each.",
        "list:    1;Picking [something] up\nframes:  jpeg_directory/1/*.jpg, in the order of their names",
    )
    command.add_places(csv_file="input_csv", folder="jpeg_directory", output_folder="output_directory")
    command.add_size("image_size")
    command.add_shm()
    return _gulp(Custom20BNCsvJpegAdapter, command, arguments)


def gulp2_activitynet(arguments: list[str]) -> int:
    """Gulp ActivityNet."""
    command = Command(
        "gulp2_activitynet",
        "Gulp a subset of ActivityNet.",
        'list:    {"database": {"<id>": {"subset": "training", ...}, ...}}\nvideos:  videos_directory/<id>.<suffix>',
    )
    command.add_places(json_file="input_json", folder="videos_directory", output_folder="output_directory")
    command.add_size("image_size")
    command.add_shm()
    command.add_argument(
        "--phase",
        default="training",
        choices=("training", "validation", "testing"),
        help="the subset [training]",
    )
    return _gulp(ActivitynetAdapter, command, arguments)


def gulp2_kinetics(arguments: list[str]) -> int:
    """Gulp Kinetics."""
    command = Command(
        "gulp2_kinetics",
        "Gulp Kinetics, trimmed.",
        'list:    {"<id>": {...}, ...}\nvideos:  videos_directory/<class>/<id>_000010_000020.mp4',
    )
    command.add_places(json_file="input_json", folder="videos_directory", output_folder="output_directory")
    command.add_size("image_size")
    command.add_shm()
    return _gulp(KineticsAdapter, command, arguments)


def gulp2_image_folder(arguments: list[str]) -> int:
    """Gulp images in folders."""
    command = Command(
        "gulp2_image_folder",
        "Gulp images (.jpg, .png) in a folder for each label.",
        "images:  images_directory/<label>/<name>.jpg",
        items="images",
    )
    command.add_places(folder="images_directory", output_folder="output_directory")
    command.add_size("image_size", "img_size")
    return _gulp(ImageFolderAdapter, command, arguments)


def gulp2_image_list(arguments: list[str]) -> int:
    """Gulp images of a list."""
    command = Command(
        "gulp2_image_list",
        "Gulp the images of a list.",
        "list:  image/path1.jpg, label1\n       image/path2.jpg, label2",
        items="images",
    )
    command.add_places(input_file="image_list_file", output_folder="output_directory")
    command.add_size("image_size", "img_size")
    command.add_argument(
        "--root_path", dest="root_folder", default="", metavar="DIR", help="what the paths are relative to [here]"
    )
    return _gulp(ImageListAdapter, command, arguments)


def gulp2_video_folder(arguments: list[str]) -> int:
    """Gulp videos in folders."""
    command = Command(
        "gulp2_video_folder",
        "Gulp videos (.mp4, .webm) in a folder for each label.",
        "videos:  video_directory/<label>/<name>.mp4",
    )
    command.add_places(folder="video_directory", output_folder="output_directory")
    command.add_size("frame_size")
    command.add_shm()
    return _gulp(VideoFolderAdapter, command, arguments)


def _gulp(kind: Callable[..., AbstractDatasetAdapter], command: Command, arguments: list[str]) -> int:
    given = vars(command.parse_args(arguments))
    adapter = made_by(kind, given)
    written = GulpIngestor(adapter, given["output_folder"], given["items_per_chunk"], given["num_workers"])()
    return 0 if written == len(adapter) else 1
