"""Batches of a loader for people: pictures, values and documents of each row. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from bushel._pictures.pixels import is_picture
from bushel.loader.decode.sample_transforms import SOURCE
from bushel.spec import KEY
from bushel.viewer.rows import shortened
from bushel.viewer.shelf import plain_text

Tokenizer = Callable[[list[int]], str]
"""Returns the text of tokens."""

# the entries of batches apart from fields
_OWN = ("positions", "documents", "cu_seqlens", KEY, SOURCE)
_TOKENS = 48  # tokens of a document that are shown


@dataclass(frozen=True, slots=True)
class Document:
    """A document, or a part of one, in a row."""

    key: str  # key of its sample
    # the dataset of a mixture that it comes from; empty if the dataset is not a mixture
    source: str
    start: int  # place of its first token in the row
    size: int  # number of its tokens
    tokens: str  # the first tokens, as text of the tokenizer or as numbers
    more: int  # number of tokens that are not shown


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a batch.

    Attributes:
        number: Its number in the batch.
        key: Key of its sample; empty if documents share the row.
        source: The dataset of a mixture that its sample comes from; empty if documents share the
            row.
        pictures: The fields that are drawn.
        values: Names and values of the others as lines of text.
        documents: The documents of a shared row.
        length: Number of tokens of a shared row, with padding.
    """

    number: int
    key: str
    source: str
    pictures: tuple[str, ...]
    values: tuple[tuple[str, str], ...]
    documents: tuple[Document, ...] = ()
    length: int = 0


def rows_of_batch(
    batch: Mapping[str, Any],
    tokens: str | None = None,
    tokenizer: Tokenizer | None = None,
    most: int = 256,
) -> list[Row]:
    """Return the rows of a batch.

    Args:
        batch: A batch of a loader, with keys.
        tokens: The field whose documents share rows; None if each sample has its own.
        tokenizer: Returns the text of tokens; None to show the numbers.
        most: Number of rows.

    Raises:
        ValueError: The tokenizer fails.
    """
    keys = batch[KEY]
    rows = []
    for number in range(min(most, len(keys))):
        pictures, values = [], []
        for name, value in batch.items():
            # tokens, and arrays packed alike
            if name in _OWN or (tokens is not None and hasattr(value, "shape")):
                continue
            shown = value_at(value, number)
            if isinstance(shown, np.ndarray) and shown.ndim >= 2 and _drawable(shown):
                pictures.append(name)
            else:
                values.append((name, _line(shown)))
        documents = () if tokens is None else _documents(batch, tokens, number, tokenizer)
        rows.append(
            Row(
                number,
                plain_text(str(keys[number])) if tokens is None else "",
                batch[SOURCE][number] if tokens is None and SOURCE in batch else "",
                tuple(pictures),
                tuple(values),
                documents,
                0 if tokens is None else len(value_at(batch[tokens], number)),
            )
        )
    return rows


def value_at(value: Any, number: int) -> Any:
    """Return the value of a row of a batch, arrays as NumPy arrays: a field is an array, a tensor or a list."""
    field = value[number]
    if isinstance(field, np.ndarray | list | tuple | str | bytes | Mapping) or field is None:
        return field
    moved = field.cpu() if hasattr(field, "cpu") else field  # a tensor
    array = np.asarray(moved)
    if array.ndim == 0 and array.dtype.kind in "biuf":
        return array.item()
    return array


def _drawable(array: npt.NDArray[Any]) -> bool:
    first_channels = array.ndim == 3 and array.shape[0] in (1, 3) and min(array.shape[1:]) >= 8
    return array.dtype.kind in "biuf" and (
        is_picture(array) or first_channels or min(array.shape[-2:]) >= 8
    )


def _documents(
    batch: Mapping[str, Any], tokens: str, number: int, tokenizer: Tokenizer | None
) -> tuple[Document, ...]:
    row = np.asarray(value_at(batch[tokens], number))
    bounds = np.asarray(value_at(batch["cu_seqlens"], number)).tolist()
    documents = []
    keys = batch[KEY][number]
    sources = batch[SOURCE][number] if SOURCE in batch else [""] * len(keys)
    for key, source, start, stop in zip(keys, sources, bounds[:-1], bounds[1:], strict=True):
        shown = row[start : min(stop, start + _TOKENS)].tolist()
        text = _text(shown, tokenizer)
        documents.append(
            Document(
                plain_text(str(key)), source, start, stop - start, text, stop - start - len(shown)
            )
        )
    return tuple(documents)


def _text(tokens: Sequence[int], tokenizer: Tokenizer | None) -> str:
    if tokenizer is None:
        return " ".join(map(str, tokens))
    try:
        return plain_text(str(tokenizer(list(tokens))))
    except Exception as error:
        raise ValueError(
            f"the tokenizer fails for {list(tokens)[:8]} …: {type(error).__name__}: {error}"
        ) from error


def _line(value: Any) -> str:
    if isinstance(value, np.ndarray):
        start = np.array2string(value.reshape(-1)[:6], precision=4, separator=", ", threshold=7)[
            1:-1
        ]
        return f"{value.dtype}{list(value.shape)} {start}{', …' if value.size > 6 else ''}"
    if isinstance(value, list | tuple) and value and isinstance(value[0], np.ndarray):
        return f"{len(value)} arrays, the first {_line(value[0])}"
    return shortened(str(value))
