"""Errors, arrays and batches that all modules share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from bushel.errors import BushelError, CodecError, FormatError, SpecError, UnsupportedError

Array: TypeAlias = np.ndarray


class MXNetError(BushelError, RuntimeError):
    """The original's error for everything that its library reports."""


class DamagedError(FormatError, MXNetError, ValueError):
    """A file or a record violates its format."""


class UnsupportedOptionError(UnsupportedError, MXNetError):
    """An option changes the result in a way that Bushel does not offer."""


class RecordTooLargeError(SpecError, MXNetError):
    """A record has more bytes than the format can store."""


class ImageError(CodecError, MXNetError):
    """An image cannot be decoded, or an array cannot be encoded as one."""


class FolderError(OSError, MXNetError):
    """A record file cannot be opened or written."""

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.message, self.details = str(self), {}


class NoFileError(FolderError, FileNotFoundError):
    """A record file does not exist."""


@contextmanager
def naming_file(path: Any) -> Iterator[None]:
    """Raise an `OSError` of the body as one of MXNet's, which names this file."""
    try:
        yield
    except OSError as error:
        kind = NoFileError if isinstance(error, FileNotFoundError) else FolderError
        raise kind(*error.args[:2], str(path)) from error


class IndexFileError(DamagedError, IndexError):
    """A line of an index has no offset."""


class SizeError(MXNetError, ValueError):
    """An image cannot be resized to this size, or with this interpolation."""


class WrongModeError(AssertionError, ValueError):
    """A file opened for writing is read, or the other way round. The original asserts it."""


class ClosedError(WrongModeError, RuntimeError):
    """A closed file is read or written. The original says that it is another process's."""


class NDArray(np.ndarray[Any, np.dtype[Any]]):
    """A NumPy array with the conversions that MXNet programs call."""

    def __getitem__(self, key: Any) -> Any:
        """Index as NumPy does; one number is an array of one, to which programs assign."""
        if self.ndim == 1 and isinstance(key, int | np.integer):
            self.take(key)  # an IndexError as of any array
            return super().__getitem__(slice(key, key + 1 or None))
        return super().__getitem__(key)

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def asnumpy(self) -> Array:
        """Return the same memory as a plain NumPy array."""
        return self.view(np.ndarray)

    def asscalar(self) -> Any:
        return self.item()

    def as_in_context(self, context: Any) -> NDArray:
        """Return the array itself: the CPU is the only device."""
        return self

    def wait_to_read(self) -> None:
        """Return at once: no operation is still running."""


def array(source_array: Any, ctx: Any = None, dtype: Any = None) -> NDArray:
    """Return a copy as an `NDArray`: float32 of all but an `NDArray`, as in MXNet 1.9.1."""
    if dtype is None:
        dtype = source_array.dtype if isinstance(source_array, NDArray) else np.float32
    return np.array(source_array, dtype).view(NDArray)


class DataDesc(NamedTuple):
    """Name and shape of an array of a batch."""

    name: str
    shape: tuple[int, ...]


def check_last_batch(handle: str) -> None:
    """Raise ValueError if a short last batch cannot be treated like this."""
    if handle not in ("pad", "discard", "roll_over"):
        raise ValueError(f"last_batch_handle must be pad, discard or roll_over, not {handle!r}")


class DataBatch:
    """A batch: one array of images (NCHW), one of labels, the number of samples that only fill it, and their ids."""

    def __init__(
        self, data: list[NDArray], label: Sequence[NDArray] = (), pad: int = 0, index: Any = None
    ) -> None:
        self.data, self.label, self.pad, self.index = data, label, pad, index

    def __str__(self) -> str:
        shapes, labels = (
            [values.shape for values in self.data],
            [values.shape for values in self.label],
        )
        return f"DataBatch: data shapes: {shapes} label shapes: {labels}"


class DataIter:
    """Base class of iterators: `next` returns a batch or raises StopIteration; `reset` starts again."""

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size

    def __iter__(self) -> Iterator[DataBatch]:
        return self

    def __next__(self) -> DataBatch:
        return self.next()

    def next(self) -> DataBatch:
        raise NotImplementedError

    def reset(self) -> None:
        """Start again."""

    def _provide(
        self, shape: tuple[int, ...], label_width: int, data_name: str, label_name: str
    ) -> None:
        labels = (self.batch_size, label_width) if label_width > 1 else (self.batch_size,)
        self.provide_data = [DataDesc(data_name, (self.batch_size, *shape))]
        self.provide_label = [DataDesc(label_name, labels)]
