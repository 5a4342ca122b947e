"""Codecs, which convert stored bytes to values and back.

`get_codec(name)` returns one, `register_codec` adds one. docs/codecs.md lists them all.
"""

from bushel.codecs.base import ArrayLayout, Buffer, Codec, NumberLayout, Ranged
from bushel.codecs.extensions import codec_of_extension, tar_storage
from bushel.codecs.registry import (
    codec_names,
    get_codec,
    holds_clip,
    holds_elements,
    holds_image,
    holds_sound,
    is_light,
    is_registered,
    register_codec,
    runs_code,
)

__all__ = [
    "ArrayLayout",
    "Buffer",
    "Codec",
    "NumberLayout",
    "Ranged",
    "codec_names",
    "codec_of_extension",
    "get_codec",
    "holds_clip",
    "holds_elements",
    "holds_image",
    "holds_sound",
    "is_light",
    "is_registered",
    "register_codec",
    "runs_code",
    "tar_storage",
]
