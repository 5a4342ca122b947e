"""Decode the fields of a sample by their extensions."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import msgpack
import numpy as np

from bushel import jpeg
from bushel.codecs import get_codec
from bushel.compat.errors import WrongTypeError
from bushel.errors import CodecError

from .handlers import Handler, reraise_exception
from .permission import NotAllowedError, check_pickle, refuse_if_secure
from .stages import map_ahead, pipelinefilter
from .utils import Sample

_NAMES = """
    blp bmp dib bufr cur pcx dcx dds ps eps fit fits fli flc ftc ftu gbr gif grib h5 hdf png apng jp2 j2k jpc jpf jpx
    j2c icns ico im iim tif tiff jfif jpe jpg jpeg mpg mpeg msp pcd pxr pbm pgm ppm pnm psd bw rgb rgba sgi ras tga
    icb vda vst webp wmf emf xbm xpm
"""
IMAGE_EXTENSIONS = _NAMES.split()
"""Extensions that are images."""

_MODES = ("l", "rgb", "rgba")
imagespecs: dict[str, tuple[str, str | None, str]] = {
    **{f"{mode}8": ("numpy", "uint8", mode) for mode in _MODES},
    **{mode: ("numpy", "float", mode) for mode in _MODES},
    **{f"torch{mode}8": ("torch", "uint8", mode) for mode in _MODES},
    **{f"torch{mode}": ("torch", "float", mode) for mode in _MODES},
    "torch": ("torch", "float", "rgb"),
    "pill": ("pil", None, "l"),
    "pil": ("pil", None, "rgb"),
    "pilrgb": ("pil", None, "rgb"),
    "pilrgba": ("pil", None, "rgba"),
}
"""Image specifications: the type (numpy, torch, pil), the dtype and the mode of each."""

_JPEG_MAGIC = b"\xff\xd8"
_CMYK = 4


class ImageHandler:
    """A decoder of the fields with extensions of images.

    `imagespec` is `rgb8` (uint8 HxWx3), `rgb` (float32 from 0 to 1), `l8` (HxW), `torchrgb8`
    (3xHxW), `pil` or another of `imagespecs`.
    """

    concurrent = True
    """Several threads may use it at once."""

    def __init__(self, imagespec: str, extensions: Iterable[str] = IMAGE_EXTENSIONS) -> None:
        if imagespec not in imagespecs:
            raise ValueError(f"Unknown imagespec: {imagespec}")
        self.imagespec = imagespec
        self.extensions = set(extensions)

    def __call__(self, key: str, data: bytes) -> Any:
        """Return the image, or None if images do not have this extension."""
        if re.sub(r".*[.]", "", key).lower() not in self.extensions:
            return None
        kind, numbers, mode = imagespecs[self.imagespec]
        if kind == "pil":
            return _pillow(data, mode)
        pixels = _pixels(data, mode)
        if numbers == "float":
            pixels = pixels.astype(np.float32) / 255.0
        if kind == "numpy":
            return pixels
        import torch

        return torch.from_numpy(
            pixels.transpose(2, 0, 1).copy() if pixels.ndim == 3 else pixels.copy()
        )


def _pixels(data: bytes, mode: str) -> np.ndarray[Any, Any]:
    if mode != "rgb" or (pixels := _jpeg(data)) is None:
        return np.asarray(_pillow(data, mode))
    return np.repeat(pixels[:, :, np.newaxis], 3, axis=2) if pixels.ndim == 2 else pixels


def _pillow(data: bytes, mode: str) -> Any:
    from PIL import Image

    if (pixels := _jpeg(data)) is not None:
        image: Any = Image.fromarray(pixels)
    else:
        image = Image.open(io.BytesIO(data))
        image.load()
    return image.convert(mode.upper())


def _jpeg(data: bytes) -> np.ndarray[Any, Any] | None:
    """Return the pixels of a JPEG; None for other data, and for JPEGs that only Pillow may be able to decode."""
    if data[:2] != _JPEG_MAGIC:
        return None
    try:
        return None if jpeg.read_header(data).components == _CMYK else jpeg.decode(data)
    except CodecError:
        return None


def imagehandler(imagespec: str, extensions: Iterable[str] = IMAGE_EXTENSIONS) -> ImageHandler:
    """Return an `ImageHandler`."""
    return ImageHandler(imagespec, extensions)


FieldDecoder = Callable[[str, Any], Any]
"""A function of extension (with its dot) and data. Returns a value, None for other extensions, or a `Continue`."""

pytorch_weights_only = os.environ.get("WDS_PYTORCH_WEIGHTS_ONLY", "1") != "0"
"""Whether `.pth` files may hold only tensors. The original runs code in the file by default."""


class Continue:
    """The result of a decoder after which the next decoders continue with another extension and other data."""

    def __init__(self, key: str, data: Any) -> None:
        self.key, self.data = key, data


class DecodingError(Exception):
    """A field could not be decoded: field `k` of the sample `key` in the shard `url`; `__cause__` is the reason."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        k: str | None = None,
        sample: Sample | None = None,
    ) -> None:
        super().__init__(url, key, k, sample)
        self.url, self.key, self.k, self.sample = url, key, k, sample

    def __str__(self) -> str:
        because = "" if self.__cause__ is None else f": {self.__cause__}"
        return (
            f"field {self.k!r} of sample {self.key!r} in {self.url} could not be decoded{because}"
        )


def torch_loads(data: bytes, weights_only: bool | None = None) -> Any:
    """Load what `torch.save` wrote. Anything except tensors is a pickle, and refused unless pickles are allowed."""
    import torch

    refuse_if_secure(
        "torch.loads is not allowed for security reasons when enforce_security is set.", ".pth"
    )
    only = pytorch_weights_only if weights_only is None else weights_only
    if not only:
        check_pickle(".pth")
    try:
        return torch.load(io.BytesIO(data), weights_only=only, map_location="cpu")
    except pickle.UnpicklingError as error:
        if not only:
            raise
        raise NotAllowedError(
            "'.pth' holds more than tensors, or other data: if you trust where the "
            "data come from, set the environment variables BUSHEL_ALLOW_PICKLE=1 "
            "and WDS_PYTORCH_WEIGHTS_ONLY=0, or pass your own decoder"
        ) from error


def unpickle_loads(data: bytes) -> Any:
    """Load a pickle, if pickles are allowed."""
    check_pickle(".pyd")
    return pickle.loads(data)


def _text(data: bytes) -> str:
    return data.decode("utf-8")


class ArrayDataError(CodecError, ValueError):
    """A field is not the file of an array that it should be."""


class ArrayTypeError(ArrayDataError, TypeError):
    """A field is not bytes at all."""


def _as_value_error(kind: str) -> Callable[[bytes], Any]:
    decode_stored = get_codec(kind).decode

    def decode_array(data: bytes) -> Any:
        try:
            return decode_stored(data)
        except CodecError as error:
            raise ArrayDataError(error.message, **error.details) from error
        except TypeError as error:
            raise ArrayTypeError(
                f"expected the bytes of arrays ({kind}), not {type(data).__name__}"
            ) from error

    return decode_array


def _cbor(data: bytes) -> Any:
    return import_module("cbor").loads(data)


decoders: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("txt", "text", "transcript"), _text),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), int),
    **dict.fromkeys(("json", "jsn"), json.loads),
    **dict.fromkeys(("pkl", "pickle", "pyd"), unpickle_loads),
    "pth": torch_loads,
    **dict.fromkeys(("ten", "tb"), _as_value_error("tenbin")),
    **dict.fromkeys(("mp", "msg"), msgpack.unpackb),
    "npy": _as_value_error("npy"),
    "npz": _as_value_error("npz"),
    "cbor": _cbor,
}
"""Decoders of `basichandlers`, by the last part of the extension. Programs add their own."""


def basichandlers(key: str, data: bytes) -> Any:
    """Decode by the last part of the extension. Return None for unknown extensions."""
    decoder = decoders.get(re.sub(r".*[.]", "", key))
    return None if decoder is None else decoder(data)


def call_extension_handler(
    key: str, data: Any, f: Callable[[Any], Any], extensions: Iterable[str]
) -> Any:
    """Return `f(data)` if the key ends in one of the extensions, part by part, else None."""
    parts = key.lower().split(".")
    for extension in extensions:
        target = extension.split(".")
        if parts[-len(target) :] == target:
            return f(data)
    return None


def handle_extension(extensions: str, f: Callable[[Any], Any]) -> FieldDecoder:
    """Return a decoder for extensions such as `"jpg jpeg"` or `"seg.jpg"`; case does not matter."""
    return partial(call_extension_handler, f=f, extensions=extensions.lower().split())


def gzfilter(key: str, data: bytes) -> Continue | None:
    """Decompress `.gz`, and continue with the content, which is empty if the data are.

    Raises:
        CodecError: The gzip data are damaged or truncated, or expand to more than 1 GiB.
    """
    if not key.endswith(".gz"):
        return None
    return Continue(key[:-3], get_codec("gzip(bytes)").decode(data) if len(data) else b"")


def _by_file(
    key: str, data: bytes, module: str, function: str, extensions: str, **options: Any
) -> Any:
    """Write the data of these extensions into a temporary file, and call a function of an optional package."""
    extension = re.sub(r".*[.]", "", key)
    if extension not in extensions.split():
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file.{extension}"
        path.write_bytes(data)
        return getattr(import_module(module), function)(str(path), **options)


_VIDEOS, _SOUNDS = "mp4 ogv mjpeg avi mov h264 mpg webm wmv", "flac mp3 sox wav m4a ogg wma"
torch_video = partial(
    _by_file, module="torchvision.io", function="read_video", extensions=_VIDEOS, pts_unit="sec"
)
torch_audio = partial(_by_file, module="torchaudio", function="load", extensions=_SOUNDS)


class Decoder:
    """A decoder of samples: each field is the result of the first handler that does not return None.

    Handlers are functions of extension (with its dot) and data; `pre` (by default `[gzfilter]`) are
    called before them, and `post` (`[basichandlers]`) after them. `only` are the fields to decode.
    With `partial`, fields that are not bytes are left as they are; otherwise they are refused.
    """

    def __init__(
        self,
        handlers: list[FieldDecoder],
        pre: list[FieldDecoder] | None = None,
        post: list[FieldDecoder] | None = None,
        only: str | Iterable[str] | None = None,
        partial: bool = False,
    ) -> None:
        if not isinstance(handlers, list):
            raise WrongTypeError(f"handlers = {handlers} must be a list")
        self.only = None if only is None else set(only.split() if isinstance(only, str) else only)
        self.handlers = [
            *([gzfilter] if pre is None else pre),
            *handlers,
            *([basichandlers] if post is None else post),
        ]
        for handler in self.handlers:
            if not callable(handler):
                raise WrongTypeError(f"{handler!r} is not a function of extension and data")
        self.partial = partial

    @property
    def concurrent(self) -> bool:
        """Whether several threads may and should decode samples: all handlers are built in, and one decodes images."""
        builtin_filters = (gzfilter, basichandlers)
        images = [handler for handler in self.handlers if type(handler) is ImageHandler]
        return bool(images) and len(images) + sum(
            handler in builtin_filters for handler in self.handlers
        ) == len(self.handlers)

    def decode1(self, key: str, data: Any) -> Any:
        """Decode one field. Return the data if no handler does."""
        key = "." + key
        for handler in self.handlers:
            result = handler(key, data)
            if isinstance(result, Continue):
                key, data = result.key, result.data
            elif result is not None:
                return result
        return data

    def decode(self, sample: Sample) -> Sample:
        """Decode a sample. Raise DecodingError if a field could not be decoded."""
        result: Sample = {}
        for field, value in sample.items():
            try:
                if field.startswith("__"):
                    result[field] = (
                        value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                    )
                elif self.only is not None and field not in self.only:
                    result[field] = value
                elif isinstance(value, bytes):
                    result[field] = self.decode1(field, value)
                elif self.partial and value is not None:
                    result[field] = value
                else:
                    kind = type(value).__name__
                    raise CodecError(  # noqa: TRY301
                        f"{field!r} is a {kind} and not bytes: decode once, or pass partial=True"
                    )
            except Exception as error:
                key, url = sample.get("__key__"), sample.get("__url__")
                raise DecodingError(url=url, key=key, k=field, sample=sample) from error
        return result

    def __call__(self, sample: Sample) -> Sample:
        """Decode a sample.

        Raises:
            DecodingError: A field could not be decoded.
            TypeError: The sample is not a dict.
        """
        if not isinstance(sample, dict):
            raise WrongTypeError(
                f"a Decoder takes dicts, not a {type(sample).__name__}: decode before to_tuple"
            )
        return self.decode(sample)


default_decoder = Decoder([])


def _decode(
    data: Iterable[Sample],
    *args: str | FieldDecoder,
    handler: Handler = reraise_exception,
    **kw: Any,
) -> Iterator[Sample]:
    """Decode samples. Arguments are image specifications and decoders of fields; the others are as for `Decoder`."""
    handlers: list[FieldDecoder] = [ImageHandler(x) if isinstance(x, str) else x for x in args]
    return map_ahead(data, Decoder(handlers, **kw), handler)


decode = pipelinefilter(_decode)
