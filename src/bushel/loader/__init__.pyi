"""The names of `bushel.loader` and their modules, which the package reads, too."""

from bushel._runtime.order import ORDER_VERSION as ORDER_VERSION
from bushel._runtime.order import Blocks as Blocks
from bushel._runtime.order import Exact as Exact
from bushel._runtime.order import Sequential as Sequential
from bushel._runtime.parallel import map_all as map_all
from bushel._runtime.parallel import parallel_map as parallel_map
from bushel._runtime.threads import Threads as Threads
from bushel._runtime.threads import cpu_count as cpu_count
from bushel.loader.device.device import DeviceDecoder as DeviceDecoder
from bushel.loader.device.device import EncodedImages as EncodedImages
from bushel.loader.device.nvidia import NvidiaDecoder as NvidiaDecoder
from bushel.loader.loader import Loader as Loader
from bushel.loader.map_view import MapView as MapView
from bushel.loader.order.chunks import Megatron as Megatron
from bushel.loader.order.mixture import Mixture as Mixture
from bushel.loader.order.mixture import mix as mix
from bushel.loader.read.loadable import Loadable as Loadable
from bushel.loader.read.random_window import Fields as Fields
from bushel.loader.read.random_window import RandomWindow as RandomWindow
from bushel.loader.run.stats import LoaderStats as LoaderStats
from bushel.loader.state import LoaderState as LoaderState
from bushel.loader.stream_loader import StreamLoader as StreamLoader
from bushel.loader.stream_loader import shuffle_buffer as shuffle_buffer
from bushel.loader.values.bad_samples import BadSample as BadSample
from bushel.loader.values.collate import Padded as Padded
from bushel.loader.values.collate import Ragged as Ragged
from bushel.loader.values.collate import collate as collate
from bushel.loader.values.outputs import AnyDevice as AnyDevice

__all__: list[str]
