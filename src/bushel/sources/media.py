"""Convert a file to a field: an image, clip or sound unchanged, or a video as its frames, decoded by PyAV."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from bushel._kinds import JPEG, kind_of
from bushel._recognise.layout import ending_of, media_of, suffix_of
from bushel._runtime.arrays import check_count, refuse_bools
from bushel._runtime.parallel import map_all
from bushel.codecs import codec_of_extension, get_codec, holds_clip, holds_image, holds_sound
from bushel.codecs.base import reason
from bushel.codecs.extensions import extensions_of
from bushel.codecs.video import say_narrowed
from bushel.errors import FormatError, SpecError, needed_by
from bushel.storage import AnyPath, is_local, names_in, read_whole

IMAGES = tuple(f".{suffix}" for suffix in extensions_of(holds_image))
"""Suffixes of the images that the image codecs read."""

_CLIPS = tuple(f".{suffix}" for suffix in extensions_of(holds_clip))
VIDEOS = (*_CLIPS, ".avi", ".mpg", ".mpeg", ".ogv", ".flv", ".wmv")
"""Suffixes of the videos that PyAV reads."""


SOUNDS = tuple(f".{suffix}" for suffix in extensions_of(holds_sound))
"""Suffixes of the sounds that the audio codecs read."""


class Media(Protocol):
    """Turns a file into the value of one field.

    Examples:
        >>> class Text:  # the text of a file, in the field `text`
        ...     suffixes = [".txt"]
        ...     def field(self, names):
        ...         return "text", "utf8"
        ...     def read(self, path):
        ...         return path.read_text("utf-8")
        >>> Path("texts/a").mkdir(parents=True)
        >>> _ = Path("texts/a/1.txt").write_text("straw")
        >>> bushel.sources.LabelledFolder("texts/", Text())[0]
        {'__key__': 'a/1', 'text': 'straw', 'label': 0}
    """

    @property
    def suffixes(self) -> Sequence[str]:
        """Usual suffixes of the files."""

    def field(self, names: Collection[str]) -> tuple[str, str]:
        """Return name and type of the field that files with these names make."""

    def read(self, path: AnyPath) -> Any:
        """Return the value.

        Raises:
            OSError: The file is missing or cannot be read.
            FormatError: The file is damaged.
        """


@dataclass(frozen=True, slots=True)
class Unchanged:
    """Files unchanged, in a field that is called like their kind."""

    kind: ClassVar[str] = "file"
    suffixes: ClassVar[Sequence[str]] = ()

    def field(self, names: Collection[str]) -> tuple[str, str]:
        """Return the kind, with the codec of all names, or the codec of the kind if there are several.

        Raises:
            SpecError: No codec reads files of one of the names.
        """
        endings = set(map(ending_of, names))
        codecs = {codec_of_extension(ending[1:]) for ending in endings}
        if self.kind == "clip" and not all(map(holds_clip, codecs)):
            raise SpecError(
                f"clips are stored unchanged if all are {', '.join(_CLIPS)}: select "
                "these with suffixes= (--exts), or store frames: Frames() (--frames)"
            )
        return self.kind, codecs.pop() if len(codecs) == 1 else self.kind

    def read(self, path: AnyPath) -> bytes:
        """Return the file's bytes."""
        return read_whole(path)


class Image(Unchanged):
    """Images unchanged, in the field `image`.

    Examples:
        >>> from bushel.sources import Image
        >>> Image().field(["a.jpg", "b.jpg"]), Image().field(["a.jpg", "b.png"])
        (('image', 'jpg'), ('image', 'image'))
    """

    kind, suffixes = "image", IMAGES


class Clip(Unchanged):
    """Video files unchanged, in the field `clip`.

    Examples:
        >>> from bushel.sources import Clip, LabelledFolder
        >>> LabelledFolder("clips/", Clip()).spec
        {'clip': 'mp4', 'label': 'int'}
    """

    kind, suffixes = "clip", VIDEOS


class Audio(Unchanged):
    """Sound files unchanged, in the field `audio`.

    Examples:
        >>> from bushel.sources import Audio
        >>> Audio().field(["a.wav", "b.wav"])
        ('audio', 'wav')
    """

    kind, suffixes = "audio", SOUNDS


def media_of_names(names: Collection[str]) -> Media:
    """Return the class of files with these names: `Image()`, `Audio()` or `Clip()`.

    Raises:
        SpecError: They are of several kinds.
    """
    kinds = {media_of(suffix_of(name)) for name in names} - {None}
    if len(kinds) > 1:
        raise SpecError(
            "the table names files of several kinds, "
            f"{' and '.join(sorted(map(str, kinds)))}: divide it"
        )
    [kind] = kinds or {"image"}
    return UNCHANGED[str(kind)]


UNCHANGED: Mapping[str, Media] = {"image": Image(), "clip": Clip(), "audio": Audio()}
"""The media whose value is the file, by the field that a layout has for them."""


@dataclass(frozen=True, slots=True)
class Frames:
    """The frames of a video, or the images of a folder, as JPEGs in the field `frames`.

    JPEG files in a folder are kept unchanged unless a size is given. Videos need PyAV
    (`pip install 'bushel[video]'`); no temporary files are written.

    Attributes:
        rate: Frames per second: frame k is the one displayed at k / rate seconds. None for all
            frames.
        stride: Keep every `stride`-th of these frames.
        short_edge: Length of the shorter edge in pixels after scaling up or down; None to keep the
            size.
        quality: Quality of the JPEGs, 1 to 100.

    Examples:
        >>> from bushel.sources import Frames, LabelledFolder
        >>> source = LabelledFolder("clips/", Frames(rate=4, short_edge=32))
        >>> source.spec, len(source[0]["frames"])
        ({'frames': 'jpg[]', 'label': 'int'}, 8)
    """

    suffixes: ClassVar[Sequence[str]] = VIDEOS
    rate: float | None = None
    stride: int = 1
    short_edge: int | None = None
    quality: int = 95

    def __post_init__(self) -> None:
        refuse_bools(rate=self.rate)
        if self.rate is not None and not 0 < self.rate <= 1000:
            raise ValueError(
                f"the rate must be between 0 and 1000 frames per second, not at {self.rate}"
            )
        check_count("stride", self.stride, least=1)
        if self.short_edge is not None:
            check_count("short_edge", self.short_edge, least=1)
        get_codec(f"jpg({self.quality})")

    def field(self, names: Collection[str]) -> tuple[str, str]:
        """Return `frames`, a sequence of JPEGs.

        Raises:
            MissingPackageError: There are videos among the files, and PyAV is not installed.
        """
        if any(ending_of(name) in VIDEOS for name in names):
            pyav()
        return "frames", "jpg[]"

    def read(self, path: AnyPath) -> list[bytes]:
        """Return the frames of a video file, or the images of a folder in the order of their names."""
        if ending_of(path.name) not in VIDEOS and path.is_dir():
            names = sorted(names_in(path))
            images = [path / name for name in names if ending_of(name) in IMAGES]
            # samples of remote folders are read at the same time, too
            images, threads = images[:: self.stride], 1 if is_local(path) else 8
            frames = list(map(self._image, map_all(read_whole, images, threads=threads)))
        else:
            frames = list(self._video(path))
        if not frames:
            raise FormatError("the video or folder has no frames", path)
        return frames

    def _image(self, data: bytes) -> bytes:
        if self.short_edge is None and data.startswith(JPEG):
            return data
        from PIL import Image as Pillow

        picture = Pillow.fromarray(get_codec("jpg").decode(data))
        if self.short_edge is not None:
            picture = picture.resize(self._size(*picture.size), Pillow.Resampling.BILINEAR)
        return bytes(get_codec(f"jpg({self.quality})").encode(np.asarray(picture)))

    def _video(self, path: AnyPath) -> Iterator[bytes]:
        """Decode a video, and encode each selected frame once."""
        encode = get_codec(f"jpg({self.quality})").encode
        for picture, times in decode_video(read_whole(path), str(path), self._wanted, self._size):
            yield from [bytes(encode(picture))] * times

    def _wanted(self, frames: Iterator[Any], stream: Any) -> Iterator[tuple[Any, int]]:
        """Yield the selected frames, each with the number of times it is used."""
        if self.rate is None:
            for number, frame in enumerate(frames):
                if number % self.stride == 0:
                    yield frame, 1
            return
        step = self.stride / Fraction(self.rate).limit_denominator(1001)
        usual = 1 / Fraction(stream.average_rate or stream.guessed_rate or 25)
        shown, start, yielded, at = None, None, 0, Fraction(0)
        for frame in itertools.chain(frames, [None]):  # after the last one
            if frame is not None and frame.pts is not None:
                now = Fraction(frame.pts) * Fraction(frame.time_base)
                if start is None:
                    start = now
                at = now - start
            if shown is not None:
                count = -(-at // step) - yielded  # of the times 0, step, 2 step … before this one
                if count > 0:
                    yield shown, count
                    yielded += count
            shown = frame
            at += usual  # the time of the next frame if it has none, and the end of this one

    def _size(self, width: int, height: int) -> tuple[int, int]:
        if self.short_edge is None:
            return width, height
        short = min(width, height)
        return max(width * self.short_edge // short, 1), max(height * self.short_edge // short, 1)


Pick = Callable[[Iterator[Any], Any], Iterator[tuple[Any, int]]]
"""Selects frames of a stream: yields those to keep, each with the number of times it is used."""

_DEMUXERS = {
    ".webm": "matroska",
    ".mkv": "matroska",
    ".avi": "avi",
    ".mpg": "mpeg",
    ".mpeg": "mpeg",
    ".ogv": "ogg",
    ".flv": "flv",
    ".wmv": "asf",
    ".mp4": "mov",
    ".ogg": "ogg",
}
"""FFmpeg's demuxers by suffix or kind; `mov` reads all of the mp4 family. FFmpeg's own detection also accepts
playlists, which open other files."""


def decode_video(
    data: bytes, path: str, pick: Pick, size: Callable[[int, int], tuple[int, int]] | None = None
) -> Iterator[tuple[npt.NDArray[np.uint8], int]]:
    """Decode frames of a video, upright.

    Args:
        data: The video file.
        path: Its name, whose suffix gives the format if the first bytes do not.
        pick: Called with PyAV's frames and the stream.
        size: Maps the stored width and height to those to scale to (bilinear).

    Yields:
        A frame, uint8 of shape HxWx3 (RGB), and the number of times it is used.

    Raises:
        FormatError: The file is damaged, or holds no video.
        SpecError: PyAV is not installed.

    Examples:
        >>> from bushel.sources import decode_video
        >>> def every_fourth(frames, stream):
        ...     return ((frame, 1) for number, frame in enumerate(frames) if number % 4 == 0)
        >>> [image.shape for image, _ in decode_video(Path("clips/red/a.mp4").read_bytes(), "a.mp4", every_fourth)]
        [(48, 64, 3), (48, 64, 3), (48, 64, 3), (48, 64, 3), (48, 64, 3), (48, 64, 3)]
    """
    av = pyav()
    endings = (f".{kind_of(data)}", ending_of(path))
    demuxer = next((_DEMUXERS[ending] for ending in endings if ending in _DEMUXERS), "mov")
    try:
        with av.open(io.BytesIO(data), format=demuxer) as video:
            if not video.streams.video:
                raise FormatError("the file holds no video", path)  # noqa: TRY301
            stream = video.streams.video[0]
            # decoding many videos at once uses processors better
            stream.codec_context.thread_count = 1
            scaler = av.video.reformatter.VideoReformatter()  # its tables serve all frames
            for frame, times in pick(video.decode(stream), stream):
                say_narrowed(frame)
                if size is None:
                    width, height = frame.width, frame.height
                else:
                    width, height = size(frame.width, frame.height)
                picture = scaler.reformat(
                    frame, width, height, "rgb24", interpolation="BILINEAR"
                ).to_ndarray()
                yield np.ascontiguousarray(np.rot90(picture, round(frame.rotation / 90))), times
    except (FormatError, OSError):
        raise
    except Exception as error:
        # Beside FFmpeg's errors, PyAV raises its own IndexError, ValueError … for invalid streams.
        raise FormatError(f"the video cannot be decoded: {reason(error)}", path) from error


def pyav() -> Any:
    """Return the package `av`. Raise MissingPackageError if it is not installed."""
    with needed_by("reading frames of videos", "bushel[video]"):
        import av
        import av.video.reformatter
    return av
