"""Kernels for framing: records and headers to write. `_kernels` documents their rules."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from typing_extensions import Buffer

_Bytes = Buffer | NDArray[np.uint8]  # NumPy declares __buffer__ only for Python 3.12 and newer

def bytes_offsets(values: list[Any]) -> NDArray[np.int64] | None:
    """Return where each value of a list would begin if they were joined, and the end: int64[n + 1].

    None if a value is not a bytes object, or of a subclass of bytes.
    """

def join_bytes(values: list[bytes], first: int, last: int, size: int) -> bytes:
    """Join values `first` to `last` of a list.

    Args:
        values: Bytes objects, not of a subclass.
        first: Number of the first one.
        last: Number after the last one.
        size: Their size together.

    Raises:
        ValueError: The list has fewer values, or others, or their size differs: it was changed in the meantime.
    """

def recordio_crc32(pieces: Sequence[_Bytes]) -> list[int] | None:
    """Return the CRC-32 of each piece of a payload whose pieces all go into one part as they are; None if they do not.

    They do if no piece has the magic word, aligned, and all but the last have a multiple of 4 bytes. If only that is
    missing, `split_recordio` may still make one part.
    """

def split_recordio(payload: _Bytes) -> bytes:
    """Return the framed bytes of one record: its parts with their headers, padded to a multiple of 4.

    Raises:
        ValueError: The payload is longer than 2**29 - 1 bytes, the limit of the format.
    """

def frame_recordio(
    data: NDArray[np.uint8], offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.uint8]]:
    """Make a RecordIO record of each value, with its padding.

    Returns:
        The records (uint8[total]), the end of each one (int64[n]), and whether each value contains the magic word, so
        that its record consists of several parts (uint8[n], 0 or 1).

    Raises:
        ValueError: A value has 512 MiB or more.
    """

def contain_magic(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return whether each value has RecordIO's magic word in a place that is a multiple of 4: bool[n]."""

def frame_idx(
    keys: tuple[NDArray[np.uint8], NDArray[np.int64]] | None, first: int, offsets: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Make the lines of an ``.idx``, ``key TAB offset LF``, of records at ``offsets`` (int64[n]).

    Args:
        keys: Text and offsets of the keys; None for the numbers from ``first`` on.
        first: The first of these numbers.
        offsets: int64[n].

    Returns:
        The lines (uint8[total]), and the end of each one (int64[n]).
    """

def frame_tar(
    header: Buffer,
    keys: NDArray[np.uint8],
    key_offsets: NDArray[np.int64],
    suffixes: Sequence[bytes],
    columns: Sequence[tuple[NDArray[np.uint8], NDArray[np.int64]]],
    longest: int,
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Make the members of samples: for each, in the order of ``columns``, a header, the value, and padding.

    Longer values than ``longest`` are left out of the members, for the caller to write without a copy.

    Args:
        header: 512 bytes, the header of a member. Name, size and checksum in it are replaced.
        keys: Text of the keys.
        key_offsets: int64[n + 1].
        suffixes: The text after the key in the names of each column.
        columns: Data and offsets of each column.
        longest: Bytes of the longest value that is copied.

    Returns:
        The members (uint8[total]), the end of each sample (int64[n]), where each value starts (int64[n × columns]), and
        where a value that is left out belongs in the members (int64[n × columns], -1 for the other values). Ends and
        starts count the values that are left out.

    Raises:
        ValueError: A name has more than 100 bytes, or a value 8 GiB or more.
    """

class KeySet:
    """A set of keys that takes 16 to 37 bytes for each, long or short.

    It keeps 127 bits of a hash of each key (SipHash with a seed that differs between processes), so that nobody can
    choose keys that are taken for others, and chance does less often than memory fails. All methods raise `TypeError`
    for a key that is not a str.
    """

    def __init__(self) -> None: ...
    def __len__(self) -> int: ...
    def __contains__(self, key: str) -> bool: ...
    def add(self, key: str) -> bool:
        """Add a key. Return False if it is there already."""

    def discard(self, key: str) -> None:
        """Remove a key, if it is there."""

    def add_all(self, keys: Iterable[str]) -> str | None:
        """Add keys, and return the first one that is there already, or for a second time among them; None without one.

        If one is not a str, those before it are added.
        """

    def first_of(self, keys: Iterable[str]) -> str | None:
        """Return the first of some keys that is there; None if none is."""

class SampleBuffer:
    """Collects small samples, so that they can be written together.

    Args:
        fields: Name of each field, and the function that encodes its values to bytes. Bytes-like values are stored as
            they are.
        key_name: The entry of a sample with its key, which is used if `add` is given none.
        keyed: Whether samples have keys.
        numbered: Whether samples without a key get their position as one, in nine digits.
        longest_key: Bytes of the longest key.
        refused_start: Values that start with these bytes are refused; empty for none.
    """

    def __init__(
        self,
        fields: Sequence[tuple[str, Callable[[Any], Buffer]]],
        key_name: str,
        keyed: bool,
        numbered: bool,
        longest_key: int,
        refused_start: bytes,
    ) -> None: ...
    @property
    def count(self) -> int:
        """Number of samples collected."""

    @property
    def next(self) -> int:
        """Position of the sample that is added next."""

    def pause(self) -> int:
        """Take no more samples until `restart`, and return the position of the sample that is added next."""

    def clear(self) -> None:
        """Drop all samples, as if they were written, and take no more until `restart`."""

    def restart(
        self,
        samples: int,
        bytes: int,
        seconds: float,
        position: int = 0,
        number: int = 0,
        known: KeySet | None = None,
    ) -> None:
        """Drop all samples, and take new ones.

        Args:
            samples: Number of samples to take at most.
            bytes: Number of bytes that the samples may have in any container before the buffer is full. The last one
                may exceed it.
            seconds: Time after which the next sample fills the buffer.
            position: Position of the next sample.
            number: A sample without a key gets its position and this number, added up, as its key.
            known: Keys of other samples, to which the keys of new ones are added. None if no sample has its own key:
                then only such samples are taken, and their numbers are not noted anywhere.
        """

    def add(self, sample: object, key: object = None) -> int:
        """Encode and add one sample. If that fails, nothing of it is added. Threads may call it at once.

        Args:
            sample: Field to value.
            key: Its key, or None.

        Returns:
            The position of the sample. -2 minus its position if it was added and fills the buffer, which is then
            paused. -1 if it was not added: the buffer is full or paused, or the sample is not a dict with exactly these
            fields, or a value is None, or its stored values have more than 32 KiB or start with `refused_start`, or its
            key is missing, known, too long, or has other signs than ASCII letters, digits, ``-``, ``_`` but first, and
            ``/`` but first or last.

        Raises:
            Exception: The error of the function that encodes a value.
        """

    def drop_last(self) -> str | None:
        """Remove the last sample, and return its key. It stays in `known`.

        Raises:
            ValueError: The buffer is empty.
        """

    def rows(
        self, first: int
    ) -> tuple[
        tuple[NDArray[np.uint8], NDArray[np.int64]] | None,
        dict[str, tuple[NDArray[np.uint8], NDArray[np.int64]]],
    ]:
        """Return the samples from number `first` on, as arrays that later calls do not change.

        Returns:
            Text and offsets of their keys, or None; and by field, bytes and offsets of their values.

        Raises:
            IndexError: There are fewer samples.
        """
