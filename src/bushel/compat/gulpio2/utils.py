"""`gulpio2.utils`: images, videos by the program ffmpeg, and lists of entries."""

from __future__ import annotations

import glob
import os
import random
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bushel import jpeg

from .errors import DuplicateIdException as DuplicateIdException
from .errors import FFMPEGNotFound as FFMPEGNotFound
from .errors import GulpWarning, ImageShapeError, VideoNotFoundError
from .errors import ImageNotFound as ImageNotFound
from .images import Image
from .images import jpeg_bytes_to_img as jpeg_bytes_to_img
from .tables import ids_in

if TYPE_CHECKING:
    import PIL.Image

_JPEG_WRITE_QUALITY = 90
"""Quality of the frames that `img_to_jpeg_bytes` encodes. Programs set it, by this name of GulpIO2's."""

_ACCURATE = 96  # the lowest quality for which simplejpeg does not use the fast DCT


def img_to_jpeg_bytes(img: Any) -> bytes:
    """Encode a frame (uint8, HxW or HxWx3, or a Pillow image): quality 90, 4:4:4, the same bytes as GulpIO2's."""
    array = np.asarray(img)
    if array.dtype == np.bool_:  # as bytes, which are 0 and 1
        array = array.view(np.uint8)
    if (
        array.dtype != np.uint8
        or array.ndim not in (2, 3)
        or array.shape[2:] not in ((), (3,))
        or 0 in array.shape
    ):
        raise ImageShapeError(
            f"Unsupported img shape: {array.shape}, "
            f"{array.dtype}; expected uint8 of shape HxW or HxWx3"
        )
    quality = _JPEG_WRITE_QUALITY
    return jpeg.encode(array, quality or 1, (1, 1), fast=quality < _ACCURATE)


# Videos through the program ffmpeg. The adapters decode with PyAV and write no temporary files.


def check_ffmpeg_exists() -> bool:
    """Return whether the program `ffmpeg` is installed."""
    return shutil.which("ffmpeg") is not None


@contextmanager
def temp_dir_for_bursting(shm_dir_path: str = "/dev/shm") -> Iterator[str]:
    """Make a temporary directory with a random name, and remove it at the end."""
    path = os.path.join(shm_dir_path, str(random.SystemRandom().getrandbits(128)))
    os.makedirs(path)
    try:
        yield path
    finally:
        shutil.rmtree(path)


def burst_frames_to_shm(
    vid_path: str, temp_burst_dir: str, frame_rate: float | None = None
) -> None:
    """Write the frames of a video as `%010d.jpg`. A video that ffmpeg cannot decode is named on standard error."""
    if not check_ffmpeg_exists():
        raise FFMPEGNotFound(
            "the program ffmpeg is missing: install it, or use the adapters, which do not need it"
        )
    rate = [] if not frame_rate else ["-r", str(frame_rate)]
    target = os.path.join(temp_burst_dir, "%010d.jpg")
    command = [
        "ffmpeg",
        "-nostdin",
        "-loglevel",
        "error",
        "-i",
        vid_path,
        *rate,
        "-q:v",
        "1",
        "-f",
        "image2",
        target,
    ]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        print(
            f"{vid_path}: ffmpeg ended with {result.returncode}: {result.stderr.strip()}",
            file=sys.stderr,
        )


def burst_video_into_frames(
    vid_path: str, temp_burst_dir: str, frame_rate: float | None = None
) -> list[str]:
    """Write the frames of a video, and return their paths in order."""
    burst_frames_to_shm(vid_path, temp_burst_dir, frame_rate=frame_rate)
    return find_images_in_folder(temp_burst_dir, formats=["jpg"])


# Images


def resize_images(imgs: Iterable[str], img_size: int = -1) -> Iterator[Image]:
    """Read and resize images: see `resize_by_short_edge`."""
    for path in imgs:
        yield resize_by_short_edge(path, img_size)


def resize_by_short_edge(img: str | os.PathLike[str] | PIL.Image.Image | Image, size: int) -> Image:
    """Resize a path, Pillow image or array so that its shorter edge has `size` pixels; below 1 it keeps its size.

    Returns:
        uint8 of shape HxWx3, or HxW for a grey image. Palettes, transparency and CMYK become RGB.
    """
    from PIL import Image as Pillow

    if isinstance(img, str | os.PathLike):
        with Pillow.open(img) as opened:
            return resize_by_short_edge(_plain(opened), size)
    picture = _plain(Pillow.fromarray(img) if isinstance(img, np.ndarray) else img)
    if size >= 1:
        width, height = picture.size
        if height < width:
            edges = int(size * (width / float(height))), size
        else:
            edges = size, int(size * (height / float(width)))
        picture = picture.resize(edges, Pillow.Resampling.BILINEAR)
    return np.asarray(picture)


def _plain(picture: PIL.Image.Image) -> PIL.Image.Image:
    """Convert an image to grey or RGB, which a JPEG of GulpIO holds."""
    if picture.mode in ("L", "RGB"):
        picture.load()
        return picture
    return picture.convert("L" if picture.mode in ("1", "LA") else "RGB")


# Entries


def remove_entries_with_duplicate_ids(
    output_directory: str | os.PathLike[str], meta_dict: Sequence[Mapping[str, Any]]
) -> list[Mapping[str, Any]]:
    """Return the entries whose id is new to the directory and the list, and print the others."""
    # which prints, also if the directory cannot be read
    entries = _remove_duplicates_in_metadict(meta_dict)
    # about tables that are empty
    with warnings.catch_warnings(category=GulpWarning, action="ignore"):
        existing = ids_in(output_directory)
    new_entries = []
    for entry in entries:
        if str(entry["id"]) in existing:
            print(f"Id {entry['id']} already in GulpDirectory, I skip it!")
        else:
            new_entries.append(entry)
    if not new_entries:
        print("no items to add... Abort")
        raise DuplicateIdException(
            f"all {len(meta_dict)} items are in {os.fspath(output_directory)} already"
        )
    return new_entries


def _remove_duplicates_in_metadict(
    meta_dict: Sequence[Mapping[str, Any]],
) -> list[Mapping[str, Any]]:
    first: dict[str, Mapping[str, Any]] = {}
    for entry in meta_dict:
        if first.setdefault(str(entry["id"]), entry) is not entry:
            print(f"Id {entry['id']} more than once in json file, I skip it!")
    return list(first.values())


# Files


def find_images_in_folder(
    folder: str | os.PathLike[str], formats: Sequence[str] = ("jpg",)
) -> list[str]:
    """Return the paths of the images with these suffixes, sorted."""
    paths = [
        path
        for suffix in formats
        for path in glob.glob(os.path.join(glob.escape(str(folder)), f"*.{suffix}"))
    ]
    return sorted(paths)


def get_single_video_path(folder_name: str | os.PathLike[str], format_: str = "mp4") -> str:
    """Return the path of the one video in a folder."""
    paths = glob.glob(os.path.join(glob.escape(str(folder_name)), f"*.{format_}"))
    if len(paths) != 1:
        raise VideoNotFoundError(
            f"{Path(folder_name)} holds {len(paths)} videos *.{format_}; expected one"
        )
    return paths[0]
