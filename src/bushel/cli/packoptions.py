"""The options of `bushel pack` about its source: which kinds of source accept each, and what they stand for.

An option without effect is an error.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct
from msgspec.structs import fields

from .command import Option
from .options import pairs
from .output import wrong_option

if TYPE_CHECKING:
    from bushel.sources import Clip, Frames, Source, Stream
    from bushel.transforms.values import Transform

_WITH_VIDEOS = ("videos", "table")
_KINDS: Mapping[str, Collection[str]] = {
    "--root": ("list", "table"),
    "--file": ("table",),
    "--columns": ("table",),
    "--exts": ("images", "files", "videos", "sounds"),
    "--rate": _WITH_VIDEOS,
    "--stride": _WITH_VIDEOS,
    "--clip": _WITH_VIDEOS,
    "--frames": _WITH_VIDEOS,
}
_OF_IMAGES = ("--center-crop", "--color", "--encoding", "--inter-method", "--images upright")
_OF_PIXELS = (*_OF_IMAGES, "--rate", "--stride", "--resize", "--quality")


class SourceOptions(Struct, frozen=True):
    """The options for reading the source.

    Attributes:
        kind: images, videos, sounds, list, table, arrays or dataset, detected from SOURCE by
            default; or files.
        root: Folder that the paths of a list are relative to.
        file: Pattern of the file name of each row of a table, such as '{id}.webm'.
        columns: Column names of a CSV file without a header, such as id,label.
        exts: Suffix of the files to pack; may be repeated.
        split: Split of a folder of splits, such as train/ and val/; 'all' joins them.
    """

    kind: str | None = None
    root: str | None = None
    file: str | None = None
    columns: str | None = None
    exts: list[str] | None = None
    split: str | None = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `bushel.sources.open_source` that are given."""
        arguments = {
            "suffixes": self.exts or None,
            "root": self.root,
            "file": self.file,
            "columns": None if self.columns is None else self.columns.split(","),
        }
        return {name: value for name, value in arguments.items() if value is not None}


class ImageOptions(Struct, frozen=True):
    """The options that change images, as im2rec has them.

    Attributes:
        resize: Pixels of the shorter edge, or WIDTHxHEIGHT.
        center_crop: Crop to the middle square first.
        quality: JPEG quality, 1 to 100 [95], or PNG compression level, 0 to 9 [3].
        color: 1 RGB, 0 grey, -1 unchanged.
        encoding: .jpg or .png.
        inter_method: 0 nearest, 1 linear, 2 cubic, 3 area, 4 Lanczos, 9, 10.
    """

    resize: str | None = None
    center_crop: bool = False
    quality: int | None = None
    color: int | None = None
    encoding: str | None = None
    inter_method: int | None = None

    @property
    def codec(self) -> str:
        """The codec of changed images."""
        return "png" if self.encoding == ".png" else "jpg"

    def transforms(self) -> list[Transform] | None:
        """Return the transforms of these options, or None if none is given.

        Raises:
            BadParameter: `--resize` is neither a number nor a width and a height.
        """
        if not given_options(self):
            return None
        from bushel.compat.mxnet.steps import im2rec_steps

        return im2rec_steps(
            self._size(),
            center_crop=self.center_crop,
            quality=self.quality,
            color=1 if self.color is None else self.color,
            encoding=self.encoding or ".jpg",
            inter_method=1 if self.inter_method is None else self.inter_method,
        )

    def shorter_edge(self) -> int | None:
        """Return the number of pixels to which the shorter edge is resized, or None.

        Raises:
            BadParameter: `--resize` is not a number.
        """
        size = self._size()
        if isinstance(size, tuple):
            raise wrong_option(
                "--resize", "frames are resized by their shorter edge: give one number"
            )
        return size

    def _size(self) -> int | tuple[int, int] | None:
        if self.resize is None:
            return None
        numbers = self.resize.lower().split("x")
        if len(numbers) > 2 or not all(number.isdecimal() for number in numbers):
            raise wrong_option(
                "--resize", f"{self.resize!r} is not a number of pixels or WIDTHxHEIGHT"
            )
        if len(numbers) == 1:
            return int(numbers[0])
        return (int(numbers[0]), int(numbers[1]))


class VideoOptions(Struct, frozen=True):
    """The options for storing videos.

    Attributes:
        rate: Frames per second to take from videos.
        clip: Store video files unchanged, as a folder of videos is.
        frames: Store the frames of videos as JPEGs.
    """

    rate: float | None = None
    stride: Annotated[int, Option("Keep every STRIDE-th of these frames.", min=1)] = 1
    clip: bool = False
    frames: bool = False

    def framed(self, kind: str, *, resized: bool) -> bool:
        """Return whether the videos of a source of this kind are stored as frames.

        Args:
            kind: The kind.
            resized: Whether an option changes the size or the quality of images.
        """
        sampled = self.frames or self.rate is not None or self.stride > 1
        is_framed = (kind == "videos" and (sampled or resized)) or (kind == "table" and sampled)
        return is_framed and not self.clip

    def media(self, *, framed: bool, images: ImageOptions) -> Clip | Frames | None:
        """Return how videos are read, or None for the default. Raise BadParameter if `--resize` is not a number."""
        from bushel.sources import Clip, Frames

        if self.clip:
            return Clip()
        if not framed:
            return None
        quality = 95 if images.quality is None else images.quality
        return Frames(self.rate, self.stride, images.shorter_edge(), quality)


def given_options(*groups: SourceOptions | ImageOptions | VideoOptions) -> list[str]:
    """Return the options that differ from their defaults, such as `--root`.

    Args:
        groups: Instances of the structs of this file.
    """
    return [
        f"--{option.name.replace('_', '-')}"
        for group in groups
        for option in fields(group)
        if getattr(group, option.name) != option.default
    ]


def check_options(kind: str, given: Collection[str], *, framed: bool) -> None:
    """Check that every option has an effect on this source. Raise BadParameter if an option has no effect."""
    for option in given:
        kinds = _KINDS.get(option, (kind,))
        if kind not in kinds:
            raise wrong_option(
                option,
                f"the option has no effect on a source of kind {kind}: it is for {', '.join(kinds)}",
            )
        if "--clip" in given and (option in _OF_PIXELS or option.startswith("--images")):
            raise wrong_option(
                option, "the option has no effect with --clip, which stores videos unchanged"
            )
        if (framed or kind == "videos") and option in _OF_IMAGES:
            message = "videos take only --rate, --stride, --resize and --quality"
            raise wrong_option(option, message)


def image_types(source: Source | Stream, encoding: str) -> dict[str, str]:
    """Return new types for the image fields of a source, all with the codec `encoding`.

    Raises:
        BadParameter: The source has no image field.
    """
    from bushel.codecs import holds_image
    from bushel.spec import parse_spec

    fields_of_source = parse_spec(source.spec)
    names = [
        name
        for name, field in fields_of_source.items()
        if name == "image" or holds_image(field.codec)
    ]
    if not names:
        raise wrong_option(
            "SOURCE", f"the source has no image field: its fields are {', '.join(fields_of_source)}"
        )
    return {
        name: f"{encoding}[]" if fields_of_source[name].sequence else encoding for name in names
    }


def allowed_errors(text: str) -> int | float | None:
    """Parse `100`, `1%`, `0.01` or `all`. Raise BadParameter if the text has another form."""
    if text == "all":
        return None
    try:
        if text.endswith("%"):
            return float(text[:-1]) / 100
        if "." in text:
            return float(text)
        return int(text)
    except ValueError:
        message = f"{text!r} is not a number, a share such as 1%, or all"
        raise wrong_option("--max-errors", message) from None


def functions(items: list[str] | None) -> dict[str, Transform] | None:
    """Import the functions that `--transform FIELD=MODULE:FUNCTION` names. Modules of this folder are found, too.

    Raises:
        BadParameter: An option has another form, or the module or function does not exist.
    """
    from bushel._runtime.public import imported

    functions_by_field: dict[str, Transform] = {}
    for field, name in pairs(items, "--transform").items():
        try:
            function = imported(name, "tokenizer:encode")
        except ValueError as error:
            raise wrong_option("--transform", str(error)) from None
        if not callable(function):
            raise wrong_option("--transform", f"{name!r} is not a function")
        functions_by_field[field] = function
    return functions_by_field or None
