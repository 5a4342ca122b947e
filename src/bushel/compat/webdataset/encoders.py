"""Encode values by the extensions of their fields."""

from __future__ import annotations

import gzip
import io
import json
import pickle
import re
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from bushel.codecs import get_codec
from bushel.compat.errors import WrongUseError

Encode = Callable[[Any], Any]
Array = np.ndarray[Any, Any]
_LOWEST, _HIGHEST = -0.001, 1.001


def imageencoder(image: Any, format: str = "PNG") -> bytes:
    """Encode a Pillow image, or an array (HxW, HxWx1 or HxWx3; uint8, or floats from 0 to 1), with Pillow."""
    from PIL import Image

    if isinstance(image, np.ndarray):
        image = Image.fromarray(_as_uint8(image))
    elif not isinstance(image, Image.Image):
        raise WrongUseError(f"an image is an array or a Pillow image, not a {type(image).__name__}")
    name = {"JPG": "JPEG", "IMG": "PPM", "IMAGE": "PPM"}.get(format.upper(), format)
    result = io.BytesIO()
    image.save(result, format=name, **({"quality": 100} if name in ("JPEG", "tiff") else {}))
    return result.getvalue()


def _as_uint8(image: Array) -> Array:
    if image.dtype in (np.dtype("f"), np.dtype("d")):
        if image.size and (np.amin(image) <= _LOWEST or np.amax(image) >= _HIGHEST):
            raise ValueError(f"image values out of range {np.amin(image)} {np.amax(image)}")
        image = np.array(np.clip(image, 0.0, 1.0) * 255.0, "uint8")
    if image.ndim == 3 and image.shape[2] == 1:
        image = image[:, :, 0]
    if image.ndim != 2 and (image.ndim != 3 or image.shape[2] != 3):
        raise WrongUseError(f"an image has shape HxW, HxWx1 or HxWx3, not {image.shape}")
    return image


def bytestr(data: Any) -> bytes:
    """Return bytes as they are, and other values as their text, which must be ASCII."""
    return data if isinstance(data, bytes) else str(data).encode("ascii")


def torch_dumps(data: Any) -> bytes:
    """Encode with `torch.save`."""
    import torch

    stream = io.BytesIO()
    torch.save(data, stream)
    return stream.getvalue()


def numpy_dumps(data: Array) -> bytes:
    """Encode an array as `.npy`."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, np.asanyarray(data))
    return stream.getvalue()


def numpy_npz_dumps(data: dict[str, Array]) -> bytes:
    """Encode a dict of arrays as a compressed `.npz`."""
    if not isinstance(data, dict) or not all(
        isinstance(value, np.ndarray) for value in data.values()
    ):
        raise WrongUseError("an npz field takes a dict of arrays")
    stream = io.BytesIO()
    np.savez_compressed(stream, allow_pickle=False, **data)
    return stream.getvalue()


def _ascii(value: Any) -> bytes:
    return str(value).encode("ascii")


def _utf8(value: str) -> bytes:
    return value.encode("utf-8")


def _json(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8")


def _by_package(value: Any, module: str, function: str) -> Any:
    return getattr(import_module(module), function)(value)


default_handlers: dict[str, Encode] = {
    extension: encode
    for extensions, encode in (
        ("cls cls2 class count index inx id", _ascii),
        ("txt text transcript html htm", _utf8),
        ("pyd pickle", pickle.dumps),
        ("pth", torch_dumps),
        ("npy", numpy_dumps),
        ("npz", numpy_npz_dumps),
        ("ten tenbin tb", get_codec("tenbin").encode),
        ("json jsn", _json),
        ("mp msgpack msg", partial(_by_package, module="msgpack", function="packb")),
        ("cbor", partial(_by_package, module="cbor", function="dumps")),
        ("jpg jpeg img image", partial(imageencoder, format="jpg")),
        ("png", imageencoder),
        ("pbm", get_codec("pbm").encode),
        ("pgm ppm", partial(imageencoder, format="ppm")),
        ("tiff tif", partial(imageencoder, format="tiff")),
    )
    for extension in extensions.split()
}
"""Encoders by the last part of the extension. Programs add their own."""


def encode_based_on_extension1(data: Any, tname: str, handlers: Mapping[str, Encode]) -> Any:
    """Encode one field. Bytes and text are written as they are; `.gz` compresses."""
    if tname.startswith("_"):
        if not isinstance(data, str):
            raise ValueError("the values of metadata must be of string type")
        return data
    name = tname.removesuffix(".gz")
    if isinstance(data, str):
        data = data.encode("utf-8")
    elif not isinstance(data, bytes):
        extension = re.sub(r".*\.", "", name).lower()
        if extension not in handlers:
            raise ValueError(f"no handler found for {extension}")
        data = handlers[extension](data)
    return data if name == tname else gzip.compress(data, mtime=0)


def encode_based_on_extension(
    sample: Mapping[str, Any], handlers: Mapping[str, Encode]
) -> dict[str, Any]:
    """Encode all fields."""
    return {
        field: encode_based_on_extension1(value, field, handlers) for field, value in sample.items()
    }


def make_encoder(spec: Any) -> Callable[[Any], Any]:
    """Return an encoder of samples: True: by extension; False or None: no encoding; a dict: encoders by extension."""
    if spec is False or spec is None:
        return lambda sample: sample
    if spec is True or isinstance(spec, dict):
        handlers = default_handlers if spec is True else spec
        return lambda sample: encode_based_on_extension(sample, handlers)
    if not callable(spec):
        raise ValueError(f"{spec}: unknown decoder spec")  # noqa: TRY004
    encoder: Callable[[Any], Any] = spec
    return encoder
