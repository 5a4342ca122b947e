"""The decoders of wids: samples whose fields are streams, by extensions with a dot."""

from __future__ import annotations

import gzip
import io
import json
import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bushel.codecs import get_codec
from bushel.compat.webdataset.autodecode import torch_loads
from bushel.compat.webdataset.permission import check_pickle

__all__ = ["default_decoder"]

_IMAGES = frozenset(("jpg", "png", "ppm", "pgm", "pbm", "pnm"))


def _pickle(data: bytes) -> Any:
    check_pickle(".pkl")
    return pickle.loads(data)


def _safetensors(data: bytes) -> Any:
    from safetensors.torch import load

    return load(data)


_BASIC: dict[str, Callable[[bytes], Any]] = {
    **dict.fromkeys(("txt", "text"), partial(str, encoding="utf-8")),
    **dict.fromkeys(("cls", "cls2"), int),
    "safetensors": _safetensors,
    "json": json.loads,
    "npy": get_codec("npy").decode,
    "mp": get_codec("msgpack").decode,
    **dict.fromkeys(("pt", "pth"), torch_loads),
    **dict.fromkeys(("pickle", "pkl"), _pickle),
}


def default_decoder(sample: dict[str, Any], format: str = "PIL", gz_update_key: bool = False) -> dict[str, Any]:
    """Decode a sample.

    Args:
        sample: Streams or bytes by extension (with its dot). Fields that begin with `__` are taken as they are.
        format: What images become: `"PIL"` or `"numpy"`.
        gz_update_key: Whether a field that was packed loses its `.gz`.

    Raises:
        ValueError: There is no such format, or an extension has no dot.
    """
    if format.lower() not in ("pil", "numpy"):
        raise ValueError(f"Unknown format: {format}")
    result: dict[str, Any] = {}
    for key, value in sample.items():
        if key.startswith("__"):
            result[key] = value
            continue
        if not key.startswith("."):
            raise ValueError(f"Key {key} must start with a dot")
        name, data = key, value if isinstance(value, bytes) else value.read()
        if key.lower().endswith(".gz") and key.count(".") > 1:
            name, data = key[:-3], gzip.decompress(data)
        result[name if gz_update_key else key] = _decoded(name.rpartition(".")[2].lower(), data, format.lower())
    return result


def _decoded(extension: str, data: bytes, images: str) -> Any:
    if extension in _BASIC:
        return _BASIC[extension](data)
    if extension not in _IMAGES:
        return io.BytesIO(data)
    from PIL import Image

    image = Image.open(io.BytesIO(data))
    return image if images == "pil" else np.asarray(image)
