"""The names of `bushel.codecs` and their modules, which the package reads, too."""

from bushel.codecs.base import ArrayLayout as ArrayLayout
from bushel.codecs.base import Buffer as Buffer
from bushel.codecs.base import Codec as Codec
from bushel.codecs.base import NumberLayout as NumberLayout
from bushel.codecs.base import Ranged as Ranged
from bushel.codecs.extensions import codec_of_extension as codec_of_extension
from bushel.codecs.extensions import tar_storage as tar_storage
from bushel.codecs.registry import codec_names as codec_names
from bushel.codecs.registry import get_codec as get_codec
from bushel.codecs.registry import holds_clip as holds_clip
from bushel.codecs.registry import holds_elements as holds_elements
from bushel.codecs.registry import holds_image as holds_image
from bushel.codecs.registry import holds_sound as holds_sound
from bushel.codecs.registry import is_light as is_light
from bushel.codecs.registry import is_registered as is_registered
from bushel.codecs.registry import register_codec as register_codec
from bushel.codecs.registry import runs_code as runs_code

__all__: list[str]
