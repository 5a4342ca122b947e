"""The eight commands that gulp a dataset."""

from __future__ import annotations

from argparse import Namespace
from typing import Any

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
from bushel.compat.gulpio2.commands.options import Command
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
    parser = Command(
        "gulp2_20bn_json_videos",
        "Gulp a 20BN dataset: a JSON list of videos, and a folder with an MP4 for each.",
        'list:    [{"id": 1, "template": "Picking [something] up"}, ...]\nvideos:  videos_directory/1/any.mp4',
    )
    parser.add_places("input_json", "videos_directory", "output_directory")
    parser.add_twentybn(label="template")
    given = parser.parse_args(arguments)
    return _ingest(Custom20BNJsonVideoAdapter(given.input_json, **_twentybn(given)), given, given.videos_per_chunk)


def gulp2_20bn_csv_webm(arguments: list[str]) -> int:
    """Gulp videos listed in a CSV file."""
    parser = Command(
        "gulp2_20bn_csv_webm",
        "Gulp a 20BN dataset: a CSV list of videos, and a WebM for each.",
        "list:    1;Picking [something] up\nvideos:  videos_directory/1.webm",
    )
    parser.add_places("input_csv", "videos_directory", "output_directory")
    parser.add_twentybn(label="label")
    given = parser.parse_args(arguments)
    return _ingest(Custom20BNCsvWebmAdapter(given.input_csv, **_twentybn(given)), given, given.videos_per_chunk)


def gulp2_20bn_csv_jpeg(arguments: list[str]) -> int:
    """Gulp folders of frames listed in a CSV file."""
    parser = Command(
        "gulp2_20bn_csv_jpeg",
        "Gulp a 20BN dataset: a CSV list of videos, and a folder of JPEGs for each.",
        "list:    1;Picking [something] up\nframes:  jpeg_directory/1/*.jpg, in the order of their names",
    )
    parser.add_places("input_csv", "jpeg_directory", "output_directory")
    parser.add_size("image_size")
    parser.add_shm()
    given = parser.parse_args(arguments)
    adapter = Custom20BNCsvJpegAdapter(
        given.input_csv,
        given.jpeg_directory,
        given.output_directory,
        shuffle=given.shuffle,
        frame_size=given.image_size,
        shm_dir_path=given.shm_dir,
    )
    return _ingest(adapter, given, given.videos_per_chunk)


def gulp2_activitynet(arguments: list[str]) -> int:
    """Gulp ActivityNet."""
    parser = Command(
        "gulp2_activitynet",
        "Gulp a subset of ActivityNet.",
        'list:    {"database": {"<id>": {"subset": "training", ...}, ...}}\nvideos:  videos_directory/<id>.<suffix>',
    )
    parser.add_places("input_json", "videos_directory", "output_directory")
    parser.add_size("image_size")
    parser.add_shm()
    parser.add_argument(
        "--phase",
        default="training",
        choices=("training", "validation", "testing"),
        help="the subset [training]",
    )
    given = parser.parse_args(arguments)
    adapter = ActivitynetAdapter(
        given.input_json,
        given.videos_directory,
        shuffle=given.shuffle,
        frame_size=given.image_size,
        shm_dir_path=given.shm_dir,
        phase=given.phase,
    )
    return _ingest(adapter, given, given.videos_per_chunk)


def gulp2_kinetics(arguments: list[str]) -> int:
    """Gulp Kinetics."""
    parser = Command(
        "gulp2_kinetics",
        "Gulp Kinetics, trimmed.",
        'list:    {"<id>": {...}, ...}\nvideos:  videos_directory/<class>/<id>_000010_000020.mp4',
    )
    parser.add_places("input_json", "videos_directory", "output_directory")
    parser.add_size("image_size")
    parser.add_shm()
    given = parser.parse_args(arguments)
    adapter = KineticsAdapter(
        given.input_json,
        given.videos_directory,
        shuffle=given.shuffle,
        frame_size=given.image_size,
        shm_dir_path=given.shm_dir,
    )
    return _ingest(adapter, given, given.videos_per_chunk)


def gulp2_image_folder(arguments: list[str]) -> int:
    """Gulp images in folders."""
    parser = Command(
        "gulp2_image_folder",
        "Gulp images (.jpg, .png) in a folder for each label.",
        "images:  images_directory/<label>/<name>.jpg",
        items="images",
    )
    parser.add_places("images_directory", "output_directory")
    parser.add_size("image_size")
    given = parser.parse_args(arguments)
    adapter = ImageFolderAdapter(
        given.images_directory, given.output_directory, shuffle=given.shuffle, img_size=given.image_size
    )
    return _ingest(adapter, given, given.images_per_chunk)


def gulp2_image_list(arguments: list[str]) -> int:
    """Gulp images of a list."""
    parser = Command(
        "gulp2_image_list",
        "Gulp the images of a list.",
        "list:  image/path1.jpg, label1\n       image/path2.jpg, label2",
        items="images",
    )
    parser.add_places("image_list_file", "output_directory")
    parser.add_size("image_size")
    parser.add_argument("--root_path", default="", metavar="DIR", help="what the paths are relative to [here]")
    given = parser.parse_args(arguments)
    adapter = ImageListAdapter(
        given.image_list_file,
        given.output_directory,
        root_folder=given.root_path,
        shuffle=given.shuffle,
        img_size=given.image_size,
    )
    return _ingest(adapter, given, given.images_per_chunk)


def gulp2_video_folder(arguments: list[str]) -> int:
    """Gulp videos in folders."""
    parser = Command(
        "gulp2_video_folder",
        "Gulp videos (.mp4, .webm) in a folder for each label.",
        "videos:  video_directory/<label>/<name>.mp4",
    )
    parser.add_places("video_directory", "output_directory")
    parser.add_size("frame_size")
    parser.add_shm()
    given = parser.parse_args(arguments)
    adapter = VideoFolderAdapter(
        given.video_directory,
        given.output_directory,
        shuffle=given.shuffle,
        frame_size=given.frame_size,
        shm_dir_path=given.shm_dir,
    )
    return _ingest(adapter, given, given.videos_per_chunk)


def _twentybn(given: Namespace) -> dict[str, Any]:
    return {
        "folder": given.videos_directory,
        "output_folder": given.output_directory,
        "shuffle": given.shuffle,
        "frame_size": given.frame_size,
        "frame_rate": given.frame_rate,
        "shm_dir_path": given.shm_dir,
        "label_name": given.label_name,
        "remove_duplicate_ids": given.remove_duplicates,
    }


def _ingest(adapter: AbstractDatasetAdapter, given: Namespace, per_chunk: int) -> int:
    GulpIngestor(adapter, given.output_directory, per_chunk, given.num_workers)()
    return 0
