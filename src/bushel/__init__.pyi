"""The public names of `bushel` and their modules. Type checkers read this file, and so does the package itself."""

from bushel import audit as audit
from bushel import codecs as codecs
from bushel import containers as containers
from bushel import datasets as datasets
from bushel import engines as engines
from bushel import errors as errors
from bushel import filters as filters
from bushel import integrations as integrations
from bushel import integrity as integrity
from bushel import jpeg as jpeg
from bushel import loader as loader
from bushel import runs as runs
from bushel import sources as sources
from bushel import spec as spec
from bushel import storage as storage
from bushel import testing as testing
from bushel import transforms as transforms
from bushel import viewer as viewer
from bushel._dataset.open.indexing import index as index
from bushel._dataset.open.open import open as open
from bushel._dataset.views.concat import concat as concat
from bushel._dataset.views.dataset import Dataset as Dataset
from bushel._dataset.views.join import join as join
from bushel._dataset.views.stream import open_stream as open_stream
from bushel._dataset.views.views import list_views as list_views
from bushel._pack import convert as convert
from bushel._pack import merge as merge
from bushel._pack import pack as pack
from bushel._pack import split as split
from bushel._pictures.terminal import show as show
from bushel._writer.writer import Writer as Writer
from bushel.cards.describing import card as card
from bushel.codecs import register_codec as register_codec
from bushel.containers import register_container as register_container
from bushel.errors import BushelError as BushelError
from bushel.errors import CorruptError as CorruptError
from bushel.errors import FormatError as FormatError
from bushel.errors import InUseError as InUseError
from bushel.errors import SpecError as SpecError
from bushel.errors import StateError as StateError
from bushel.errors import TooManyErrors as TooManyErrors
from bushel.integrations.huggingface import to_hf as to_hf
from bushel.integrity import diff as diff
from bushel.integrity import erase as erase
from bushel.integrity import removals as removals
from bushel.integrity import remove as remove
from bushel.integrity import repair as repair
from bushel.integrity import restore as restore
from bushel.integrity import verify as verify
from bushel.loader import Loader as Loader
from bushel.loader import StreamLoader as StreamLoader
from bushel.loader import mix as mix
from bushel.viewer import view as view

__version__: str
__all__: list[str]
_SETTINGS: frozenset[str]
