"""The names of `bushel.sources` and their modules, which the package reads, too."""

from bushel.sources.arrays import Arrays as Arrays
from bushel.sources.base import Sample as Sample
from bushel.sources.base import Source as Source
from bushel.sources.base import extend_labels as extend_labels
from bushel.sources.files import Files as Files
from bushel.sources.files import LabelledFolder as LabelledFolder
from bushel.sources.files import walk as walk
from bushel.sources.foreign import Adapter as Adapter
from bushel.sources.lists import ListFile as ListFile
from bushel.sources.lists import ListLine as ListLine
from bushel.sources.lists import format_line as format_line
from bushel.sources.lists import parse_line as parse_line
from bushel.sources.media import VIDEOS as VIDEOS
from bushel.sources.media import Audio as Audio
from bushel.sources.media import Clip as Clip
from bushel.sources.media import Frames as Frames
from bushel.sources.media import Image as Image
from bushel.sources.media import Media as Media
from bushel.sources.media import Pick as Pick
from bushel.sources.media import decode_video as decode_video
from bushel.sources.opening import AnyData as AnyData
from bushel.sources.opening import open_source as open_source
from bushel.sources.samples import Samples as Samples
from bushel.sources.samples import Stream as Stream
from bushel.sources.tables import Row as Row
from bushel.sources.tables import Table as Table
from bushel.sources.tables import parse_json as parse_json
from bushel.sources.tables import read_list as read_list
from bushel.sources.tables import read_rows as read_rows

__all__: list[str]
