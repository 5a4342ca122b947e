"""The names of `bushel.testing` and their modules, which the package reads, too."""

from bushel.testing.codecs import check_codec as check_codec
from bushel.testing.expect import ConformanceError as ConformanceError
from bushel.testing.expect import InapplicableError as InapplicableError
from bushel.testing.readable import READABLE_CHECKS as READABLE_CHECKS
from bushel.testing.readable import Golden as Golden
from bushel.testing.readable import Readable as Readable
from bushel.testing.readable import check_readable as check_readable
from bushel.testing.sources import check_source as check_source
from bushel.testing.storage import check_storage as check_storage

__all__: list[str]
