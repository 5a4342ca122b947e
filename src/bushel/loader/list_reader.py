"""Reading fields of texts, bytes and other light values of batches as lists, without a dict for each sample.

Other values are left to `Dataset.read`, which describes errors.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from bushel._dataset.dataset import Dataset
from bushel._dataset.inside import reader_and_selection
from bushel._reader.field_lists import field_lists, stored_size
from bushel._runtime.arrays import I64
from bushel.codecs import is_light
from bushel.errors import BushelError
from bushel.kernels import cold_reads

if TYPE_CHECKING:
    from bushel._reader.field_lists import FieldList

__all__ = ["ListReader"]


class ListReader:
    """Reads fields of a dataset in local files as lists. Threads share it.

    Args:
        dataset: The dataset.
        fields: Plain fields of it, which are read whole.
        decode: Whether their values are decoded.

    Attributes:
        dataset: The dataset.
        names: The fields that can be read as lists: all if they stay stored bytes, otherwise the fields whose values
            take less time to decode than to pass from thread to thread.
        waited: Whether values of the last batch were not in memory.
    """

    def __init__(self, dataset: Dataset, fields: Sequence[str], *, decode: bool) -> None:
        self.dataset = dataset
        self._reader, self._selection = reader_and_selection(dataset)
        self._decode = decode
        own = self._selection.fields
        self.names = frozenset(name for name in fields if not decode or is_light(own[name].codec))
        self.waited = True

    def read(self, samples: I64, names: Sequence[str]) -> dict[str, FieldList] | None:
        """Read fields of samples.

        Args:
            samples: int64[n], positions in the dataset.
            names: The fields.

        Returns:
            The values by field; None if they have to be read in the ordinary way, which also reports errors.
        """
        before = cold_reads()
        with suppress(BushelError, OSError, KeyError):
            found = field_lists(self._reader, self._selection.absolute(samples), names, decode=self._decode)
            self.waited = cold_reads() > before
            return found
        return None

    def size(self, samples: I64, names: Sequence[str]) -> int:
        """Return the number of stored bytes of fields of samples; 0 if the index has no place of them."""
        with suppress(BushelError, OSError, KeyError):
            return stored_size(self._reader, self._selection.absolute(samples), names)
        return 0

    def keys(self, samples: I64) -> list[str]:
        """Return the keys of samples."""
        return self._reader.keys(self._selection.absolute(samples))

    def prefetch(self, samples: I64, names: Sequence[str]) -> None:
        """Ask the system to load what a later `read` needs."""
        with suppress(BushelError, OSError, KeyError):  # raised again when it is read
            wanted = dict.fromkeys(names)
            self._reader.prefetch(self._selection.absolute(samples), wanted, decode=self._decode)
