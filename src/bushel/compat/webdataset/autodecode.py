"""Decode the fields of a sample by their extensions."""

from __future__ import annotations

import json
import os
import pickle
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from bushel.codecs import get_codec
from bushel.compat.webdataset.currying import pipelinefilter
from bushel.compat.webdataset.handlers import Handler, reraise_exception
from bushel.compat.webdataset.images import IMAGE_EXTENSIONS, ImageHandler, imagehandler, imagespecs
from bushel.compat.webdataset.inorder import map_ahead
from bushel.compat.webdataset.permission import NotAllowedError, check_pickle
from bushel.errors import CodecError

__all__ = [
    "IMAGE_EXTENSIONS",
    "Continue",
    "Decoder",
    "DecodingError",
    "ImageHandler",
    "basichandlers",
    "call_extension_handler",
    "decode",
    "decoders",
    "default_decoder",
    "gzfilter",
    "handle_extension",
    "imagehandler",
    "imagespecs",
    "pytorch_weights_only",
    "torch_audio",
    "torch_loads",
    "torch_video",
    "unpickle_loads",
]

FieldDecoder = Callable[[str, Any], Any]
"""From an extension with its dot and data to a value, None for "not mine", or a `Continue`."""

pytorch_weights_only = os.environ.get("WDS_PYTORCH_WEIGHTS_ONLY", "1") != "0"
"""Whether `.pth` is only read as tensors. The original's default is to run what is in the file."""


class Continue:
    """What a decoder returns to have the next ones go on with other data.

    Args:
        key: The extension from now on.
        data: The data from now on.
    """

    def __init__(self, key: str, data: Any) -> None:
        self.key, self.data = key, data


class DecodingError(Exception):
    """A field could not be decoded; `__cause__` says why.

    Attributes:
        url: Of the shard.
        key: Of the sample.
        k: The field.
        sample: The sample.
    """

    def __init__(
        self, url: str | None = None, key: str | None = None, k: str | None = None, sample: dict[str, Any] | None = None
    ) -> None:
        super().__init__(url, key, k, sample)
        self.url, self.key, self.k, self.sample = url, key, k, sample

    def __str__(self) -> str:
        because = "" if self.__cause__ is None else f": {self.__cause__}"
        return f"field {self.k!r} of sample {self.key!r} in {self.url} could not be decoded{because}"


def torch_loads(data: bytes, weights_only: bool | None = None) -> Any:
    """What `torch.save` wrote. Anything but tensors is a pickle, and refused unless that is allowed."""
    import io

    import torch

    only = pytorch_weights_only if weights_only is None else weights_only
    if not only:
        check_pickle(".pth")
    try:
        return torch.load(io.BytesIO(data), weights_only=only, map_location="cpu")
    except pickle.UnpicklingError as error:
        if not only:
            raise
        raise NotAllowedError(
            "'.pth' holds more than tensors, or something else: if you trust where the data come from, set the "
            "environment variables BUSHEL_ALLOW_PICKLE=1 and WDS_PYTORCH_WEIGHTS_ONLY=0, or pass a decoder of your own"
        ) from error


def unpickle_loads(data: bytes) -> Any:
    """A pickle, if that is allowed."""
    check_pickle(".pyd")
    return pickle.loads(data)


def _text(data: bytes) -> str:
    return str(data, "utf-8")


def _cbor(data: bytes) -> Any:
    return import_module("cbor").loads(data)


decoders: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("txt", "text", "transcript"), _text),
    **dict.fromkeys(("cls", "cls2", "index", "inx", "id"), int),
    **dict.fromkeys(("json", "jsn"), json.loads),
    **dict.fromkeys(("pkl", "pickle", "pyd"), unpickle_loads),
    "pth": torch_loads,
    **dict.fromkeys(("ten", "tb"), get_codec("tenbin").decode),
    **dict.fromkeys(("mp", "msg"), get_codec("msgpack").decode),
    "npy": get_codec("npy").decode,
    "npz": get_codec("npz").decode,
    "cbor": _cbor,
}
"""What `basichandlers` knows. Programs add their own."""


def basichandlers(key: str, data: bytes) -> Any:
    """Decode text, numbers, JSON, arrays and so on, by the last part of the extension; None if it is none of these."""
    decoder = decoders.get(re.sub(r".*[.]", "", key))
    return None if decoder is None else decoder(data)


def call_extension_handler(key: str, data: Any, f: Callable[[Any], Any], extensions: Iterable[str]) -> Any:
    """`f(data)` if the key ends in one of the extensions, part by part; else None."""
    parts = key.lower().split(".")
    for extension in extensions:
        target = extension.split(".")
        if parts[-len(target) :] == target:
            return f(data)
    return None


def handle_extension(extensions: str, f: Callable[[Any], Any]) -> FieldDecoder:
    """A decoder for extensions such as `"jpg jpeg"` or `"seg.jpg"`, in any case."""
    return partial(call_extension_handler, f=f, extensions=extensions.lower().split())


def gzfilter(key: str, data: bytes) -> Continue | None:
    """Unpack what is called `.gz`, and go on with what is in it.

    Raises:
        CodecError: It is no whole gzip file, or expands to more than a GiB.
    """
    if not key.endswith(".gz"):
        return None
    return Continue(key[:-3], get_codec("gzip(bytes)").decode(data))


def _in_a_file(key: str, data: bytes, extensions: str, load: Callable[[str], Any]) -> Any:
    extension = re.sub(r".*[.]", "", key)
    if extension not in extensions.split():
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"file.{extension}"
        path.write_bytes(data)
        return load(str(path))


def torch_video(key: str, data: bytes) -> Any:
    """Videos, by torchvision."""
    return _in_a_file(key, data, "mp4 ogv mjpeg avi mov h264 mpg webm wmv", _read_video)


def _read_video(path: str) -> Any:
    return import_module("torchvision.io").read_video(path, pts_unit="sec")


def torch_audio(key: str, data: bytes) -> Any:
    """Sound, by torchaudio."""
    return _in_a_file(key, data, "flac mp3 sox wav m4a ogg wma", _read_audio)


def _read_audio(path: str) -> Any:
    return import_module("torchaudio").load(path)


class Decoder:
    """Decodes samples: for each field the first handler counts that returns something else than None.

    Args:
        handlers: Functions of extension (with its dot) and data.
        pre: Handlers before these; `[gzfilter]` if not given.
        post: Handlers behind these; `[basichandlers]` if not given.
        only: Fields to decode: a list, or text with spaces; None for all.
        partial: Whether fields that are no bytes are left as they are, and not refused.

    Raises:
        TypeError: Handlers are no list of functions.
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
            raise TypeError(f"handlers = {handlers} must be a list")
        self.only = None if only is None else set(only.split() if isinstance(only, str) else only)
        self.handlers = [*([gzfilter] if pre is None else pre), *handlers, *([basichandlers] if post is None else post)]
        for handler in self.handlers:
            if not callable(handler):
                raise TypeError(f"{handler!r} is no function of extension and data")
        self.partial = partial

    @property
    def concurrent(self) -> bool:
        """Whether samples gain from being decoded by several threads at once, and may be: all handlers are ours."""
        own = (gzfilter, basichandlers)
        images = [handler for handler in self.handlers if type(handler) is ImageHandler]
        return bool(images) and len(images) + sum(handler in own for handler in self.handlers) == len(self.handlers)

    def decode1(self, key: str, data: Any) -> Any:
        """One field: what the handlers make of it, or the data."""
        key = "." + key
        for handler in self.handlers:
            result = handler(key, data)
            if isinstance(result, Continue):
                key, data = result.key, result.data
            elif result is not None:
                return result
        return data

    def decode(self, sample: dict[str, Any]) -> dict[str, Any]:
        """A sample.

        Raises:
            DecodingError: A field could not be decoded.
        """
        result: dict[str, Any] = {}
        for field, value in sample.items():
            try:
                if field.startswith("__"):
                    result[field] = value.decode("utf-8", "replace") if isinstance(value, bytes) else value
                elif self.only is not None and field not in self.only:
                    result[field] = value
                elif isinstance(value, bytes):
                    result[field] = self.decode1(field, value)
                elif self.partial and value is not None:
                    result[field] = value
                else:
                    _raise_not_bytes(field, value)
            except Exception as error:
                key, url = sample.get("__key__"), sample.get("__url__")
                raise DecodingError(url=url, key=key, k=field, sample=sample) from error
        return result

    def __call__(self, sample: dict[str, Any]) -> dict[str, Any]:
        """A sample.

        Raises:
            DecodingError: A field could not be decoded.
            TypeError: That is no sample.
        """
        if not isinstance(sample, dict):
            raise TypeError(f"a Decoder takes dicts, not a {type(sample).__name__}: decode before to_tuple")
        return self.decode(sample)


def _raise_not_bytes(field: str, value: object) -> NoReturn:
    raise CodecError(f"{field!r} is a {type(value).__name__} and not bytes: decode once, or pass partial=True")


default_decoder = Decoder([])


def _decode(
    data: Iterable[dict[str, Any]], *args: str | FieldDecoder, handler: Handler = reraise_exception, **kw: Any
) -> Iterator[dict[str, Any]]:
    """Decode samples.

    Args:
        data: The source.
        *args: Kinds of images, or decoders of fields.
        handler: What to do about a sample that cannot be decoded.
        **kw: As for `Decoder`.
    """
    handlers: list[FieldDecoder] = [ImageHandler(x) if isinstance(x, str) else x for x in args]
    return map_ahead(data, Decoder(handlers, **kw), handler)


decode = pipelinefilter(_decode)
