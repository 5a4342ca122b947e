"""`granular.formats` of 0.24: a function for each type, which programs call and wrap."""

from __future__ import annotations

from typing import Any

from bushel.codecs import get_codec
from bushel.compat.granular.formats import decode_image, decode_int, decoders, encode_int, encoders
from bushel.errors import SpecError

__all__ = [
    "decode_array",
    "decode_image",
    "decode_int",
    "decode_tree",
    "decode_video",
    "decoders",
    "encode_array",
    "encode_image",
    "encode_int",
    "encode_tree",
    "encode_video",
    "encoders",
]

encode_array, decode_array = encoders["array"], decoders["array"]
encode_tree, decode_tree = encoders["tree"], decoders["tree"]

_EBML = b"\x1a\x45\xdf\xa3"  # the first bytes of a WebM
_ENCODER_OF = {"mp4": "h264", "webm": "vp9"}


def encode_image(value: Any, quality: int = 100, format: str = "jpg") -> bytes:
    """Encode an image (uint8, HxW or HxWx3) as `jpg` or `png`; `quality` has no effect, as in the original."""
    data: bytes = encoders[format](value)
    return data


def encode_video(array: Any, fps: int = 20, format: str = "mp4", codec: str = "h264") -> bytes:
    """Encode a clip (uint8, TxHxWx3) as `mp4` with `h264` or as `webm` with `vp9`.

    Raises:
        SpecError: Another format, or another codec of it.
    """
    if _ENCODER_OF.get(format) != codec:
        usual = ", ".join(
            f"format={name!r} with codec={usual!r}" for name, usual in _ENCODER_OF.items()
        )
        raise SpecError(f"format={format!r} with codec={codec!r} cannot be written, only {usual}")
    return bytes(get_codec(f"{format}({fps})").encode(array))


def decode_video(buffer: bytes, *args: Any) -> Any:
    """Decode an MP4 or a WebM: uint8, TxHxWx3."""
    kind = "webm" if bytes(buffer[:4]) == _EBML else "mp4"
    return decoders[kind](buffer)
