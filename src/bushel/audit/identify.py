"""Which samples a batch has: eight bytes for each, of its key or of its contents."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from bushel.spec import KEY

Key = str | Callable[[Any], Any] | None


def digest(sample: str | bytes) -> bytes:
    """Return the eight bytes by which a sample is known, from its key or its contents."""
    if isinstance(sample, str):
        sample = sample.encode("utf-8", "surrogatepass")
    return blake2b(sample, digest_size=8).digest()


def digests(batch: Any, key: Key = None) -> bytes:
    """Return the digests of the samples of a batch, one after another.

    Args:
        batch: What a loader gives: a mapping of fields, a tuple of arrays, an array, a list of
            samples, or one sample.
        key: The name of the field that identifies samples, or a function that returns their keys
            for a batch. Without it, the field `__key__`; without that, the contents.

    Raises:
        TypeError: The samples of the batch cannot be distinguished.
        KeyError: The batch has no field of this name.
    """
    keys = _keys(batch, key)
    if keys is not None:
        return b"".join(map(digest, texts_of(keys)))
    if isinstance(batch, list) and batch and isinstance(batch[0], Mapping):
        return b"".join(digest(_contents(sample)) for sample in batch)
    columns = list(_columns(batch))
    lengths = {len(column) for column in columns}
    if len(lengths) != 1:
        raise TypeError(
            f"samples of this {type(batch).__name__} cannot be distinguished: "
            f"its fields have {sorted(lengths)} elements. Give key=, the name "
            "of a field or a function that returns the keys of a batch"
        )
    return b"".join(digest(b"".join(map(_bytes, row))) for row in zip(*columns, strict=True))


def _keys(batch: Any, key: Key) -> Any:
    """Return the keys of a batch, None if it has none."""
    if callable(key):
        return key(batch)
    if isinstance(batch, list) and batch and isinstance(batch[0], Mapping):
        keys = [sample.get(key or KEY) for sample in batch]
        if None in keys:
            return None
        return keys
    if key is not None:
        return batch[key]
    if isinstance(batch, Mapping):
        return batch.get(KEY)
    return getattr(batch, KEY, None)


def texts_of(keys: Any) -> Iterable[str | bytes]:
    """Yield keys as texts, numbers too, also of the lists of lists that packed rows have."""
    if isinstance(keys, str | bytes):
        yield keys
    elif isinstance(keys, list | tuple):
        for part in keys:
            yield from texts_of(part)
    else:
        yield from map(str, np.asarray(_on_host(keys)).reshape(-1).tolist())


def _columns(batch: Any) -> Iterable[Any]:
    """Yield the fields of a batch, as sequences with an element for each sample."""
    if isinstance(batch, Mapping):
        for field in batch.values():
            yield from _columns(field)
    elif isinstance(batch, tuple) or (isinstance(batch, list) and not _is_column(batch)):
        for field in batch:
            yield from _columns(field)
    elif isinstance(batch, list):
        yield batch
    else:
        column = np.asarray(_on_host(batch))
        if column.ndim:  # a number for the whole batch identifies nothing
            yield column


def _is_column(elements: list[Any]) -> bool:
    return bool(elements) and isinstance(elements[0], str | bytes | int | float)


def _contents(sample: Any) -> bytes:
    """Return all bytes of one sample."""
    if isinstance(sample, Mapping):
        return b"".join(_bytes(name) + _contents(part) for name, part in sample.items())
    if isinstance(sample, list | tuple):
        return b"".join(map(_contents, sample))
    return _bytes(sample)


def _bytes(element: Any) -> bytes:
    if isinstance(element, bytes):
        return element
    if isinstance(element, str | int | float | None):
        return str(element).encode("utf-8", "surrogatepass")
    array = np.asarray(_on_host(element))
    if array.dtype.hasobject:
        raise TypeError(
            f"a sample has a {type(element).__name__}, whose bytes are not known: give "
            "key=, the name of a field or a function that returns the keys of a batch"
        )
    return array.tobytes()


def _on_host(tensor: Any) -> Any:
    """Return a tensor of torch in the memory of the CPU, in a type that NumPy has; anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(tensor, torch.Tensor):
        return tensor
    tensor = tensor.detach().cpu()
    if tensor.dtype == torch.bfloat16:
        return tensor.float()
    return tensor
