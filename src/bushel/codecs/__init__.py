"""Codecs, which convert stored bytes to values and back.

`get_codec(name)` returns one, `register_codec` adds one. docs/codecs.md lists them all.
"""

from typing import TYPE_CHECKING

from bushel._runtime.public import lazy_names
from bushel.codecs.base import ArrayLayout, Buffer, Codec, NumberLayout, Ranged
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

if TYPE_CHECKING:
    from bushel.codecs.extensions import codec_of_extension, tar_storage

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

__getattr__ = lazy_names(__name__, {"codec_of_extension": "codecs.extensions", "tar_storage": "codecs.extensions"})
