"""Codecs: bytes to values and back.

`get_codec(name)` finds one, `register_codec` adds one. `docs/codecs.md` has the table of what there is.
"""

from bushel.codecs.base import Buffer, Codec, Ranged
from bushel.codecs.extensions import codec_of_extension, tar_storage
from bushel.codecs.registry import codec_names, get_codec, holds_elements, holds_image, register_codec

__all__ = [
    "Buffer",
    "Codec",
    "Ranged",
    "codec_names",
    "codec_of_extension",
    "get_codec",
    "holds_elements",
    "holds_image",
    "register_codec",
    "tar_storage",
]
