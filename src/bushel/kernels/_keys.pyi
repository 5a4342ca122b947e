"""Kernels for keys: hashes and texts. `_kernels` documents their rules."""

import numpy as np
from numpy.typing import NDArray

def hash_keys(data: NDArray[np.uint8], offsets: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a 64-bit hash of each key (uint64[keys]). The hash is part of the index format and never changes.

    It is FNV-1a, 64 bit, followed by the finaliser of splitmix64; all arithmetic is modulo 2**64::

        h = 0xCBF29CE484222325
        for byte in key: h = (h ^ byte) * 0x100000001B3
        h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9
        h = (h ^ h >> 27) * 0x94D049BB133111EB
        h = h ^ h >> 31

    Args:
        data: uint8, the bytes of all keys.
        offsets: int64[keys + 1]: key i is ``data[offsets[i]:offsets[i + 1]]``.

    Raises:
        ValueError: Offsets descend or are outside ``data``.
    """

def sort_keys(
    data: NDArray[np.uint8],
    offsets: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    order: NDArray[np.int64],
) -> None:
    """Write the hashes of keys, ascending, and the key of each.

    It takes no memory for each key, so the arrays may be maps of a file.

    Args:
        data: As in `hash_keys`.
        offsets: As in `hash_keys`.
        hashes: uint64[keys], which gets the hashes.
        order: int64[keys], which gets the index of the key of each hash; ascending where hashes are equal.

    Raises:
        ValueError: Offsets descend or are outside ``data``, or an array does not have an element for each key.
    """

def decode_keys(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], rows: NDArray[np.int64]
) -> list[str]:
    """Return the keys at ``rows`` as text. Bytes that are not UTF-8 become surrogates (``surrogateescape``).

    Args:
        data: As in `hash_keys`.
        offsets: As in `hash_keys`.
        rows: int64, indices of keys, in any order.

    Raises:
        IndexError: A row is negative, or not less than the number of keys.
        ValueError: Offsets descend or are outside ``data``.
    """

def decimal_texts(numbers: NDArray[np.int64]) -> list[str]:
    """Return ``str(number)`` of each number."""

def number_texts(
    data: NDArray[np.uint8], offsets: NDArray[np.int64], most: int
) -> tuple[NDArray[np.uint32], NDArray[np.int64]] | None:
    """Number the distinct texts, in the order in which they first appear.

    Args:
        data: uint8, the bytes of all texts.
        offsets: int64[texts + 1]: text i is ``data[offsets[i]:offsets[i + 1]]``.
        most: The most distinct texts to number.

    Returns:
        ``numbers`` (uint32[texts]) and ``rows`` (int64[distinct], the first text of each number); None if there are
        more than ``most``.

    Raises:
        ValueError: Offsets descend or are outside ``data``.
    """
