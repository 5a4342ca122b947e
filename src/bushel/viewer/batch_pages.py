"""The page of batches: of loaders of the training program, for any rank and step."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import numpy as np
from msgspec import Struct
from msgspec.structs import asdict

from bushel._pictures.pixels import array_pixels, is_picture
from bushel._pictures.texts import plain_text, shortened
from bushel._pictures.thumbnail import encoded, shrunk
from bushel.errors import CodecError
from bushel.loader import Loader
from bushel.loader.order.mixture import SOURCE
from bushel.spec import KEY

from .named import Tokenizer
from .rows import LINE
from .shelf import Shown
from .site import Pages, Site, at, bytes_answer, number_in

# the entries of batches apart from fields
_OWN = ("positions", "documents", "cu_seqlens", KEY, SOURCE)
_TOKENS = 48  # tokens of a document that are shown


class Document(Struct, frozen=True):
    """A document, or a part of one, in a row."""

    key: str  # key of its sample
    # the dataset of a mixture that it comes from; empty if the dataset is not a mixture
    source: str
    start: int  # place of its first token in the row
    size: int  # number of its tokens
    tokens: str  # the first tokens, as text of the tokenizer or as numbers
    more: int  # number of tokens that are not shown


class Row(Struct, frozen=True):
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
    sources = batch.get(SOURCE, [""] * len(keys))
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
        shown_fields = tuple(pictures), tuple(values)
        if tokens is None:
            rows.append(Row(number, plain_text(str(keys[number])), sources[number], *shown_fields))
            continue
        documents = _documents(batch, tokens, number, tokenizer)
        length = len(value_at(batch[tokens], number))
        rows.append(Row(number, "", "", *shown_fields, documents, length))
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


def _drawable(array: np.ndarray) -> bool:
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
    return shortened(str(value), LINE)


_ROWS = 256  # largest number of rows of a batch that are shown
_STEPS = 40  # steps whose shares are drawn
_SIDE = 256


class _Place(Struct, frozen=True):
    """The batch that is shown: the name of the loader, and the place of the batch in its training run."""

    loader: str
    epoch: int
    step: int
    rank: int

    def url(self, **changed: Any) -> str:
        """Return the place as parameters of a URL, with some changed."""
        return urlencode({**asdict(self), **changed})


class BatchPages(Pages):
    """The handlers of the page of batches. The last batch is kept, for its pictures."""

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._lock = threading.Lock()
        self._last: tuple[tuple[int, _Place], Mapping[str, Any]] | None = None

    @at("/d/{d:int}/batches")
    def page(self, shown: Shown, request: Any) -> Any:
        """A batch of a loader."""
        place, loader = self._asked(shown, request.query_params)
        problem, rows, shares = None, [], []
        try:
            batch = self._batch(shown, place, loader)
        except IndexError as error:  # no such step or rank: the form stays, to choose another
            problem, batch = str(error), {}
        tokens = _tokens_of(loader)
        if batch:
            rows = rows_of_batch(batch, tokens, self._shelf.tokenizer, _ROWS)
            shares = _shares(loader, place)
        return self._site.page(
            request,
            "batches.html",
            shown,
            place=place,
            loaders=self._names(shown),
            described=repr(loader),
            ranks=loader.world_size,
            problem=problem,
            rows=rows,
            hidden=max(0, len(batch.get("__key__", ())) - _ROWS),
            fields=[(name, _form_of(value)) for name, value in batch.items()],
            tokens=tokens,
            padding=_padding(rows),
            shares=shares,
            positions=_positions(shown, loader, batch) if batch else [],
        )

    @at("/d/{d:int}/batch-picture")
    def picture(self, shown: Shown, request: Any) -> Any:
        """A picture of a value of a batch."""
        parameters = request.query_params
        batch = self._batch(shown, *self._asked(shown, parameters))
        name, row = parameters.get("f", ""), number_in(parameters, "row")
        if name not in batch or row >= len(batch[name]):
            raise KeyError(f"the batch has no field {name!r} of a row {row}")
        drawn = array_pixels(np.asarray(value_at(batch[name], row)), _SIDE)
        if drawn is None:
            raise CodecError(f"the values of {name!r} cannot be drawn")
        picture = encoded(shrunk(drawn[0], _SIDE))
        return bytes_answer(picture.data, picture.media_type)

    def _names(self, shown: Shown) -> list[str]:
        """Return the names of the loaders, beginning with the loaders of this dataset."""
        loaders, identity = self._shelf.loaders, shown.dataset.fingerprint
        return sorted(loaders, key=lambda name: loaders[name].dataset.fingerprint != identity)

    def _asked(self, shown: Shown, parameters: Mapping[str, str]) -> tuple[_Place, Loader]:
        names = self._names(shown)
        name = parameters.get("loader") or next(iter(names), "")
        if name not in names:
            choices = ", ".join(names) or "none; `bushel view PATH --loader MODULE:NAME` names one"
            raise KeyError(f"unknown loader {name!r}; known loaders: {choices}")
        numbers = [number_in(parameters, key, 0, 1 << 48) for key in ("epoch", "step", "rank")]
        return _Place(name, *numbers), self._shelf.loaders[name]

    def _batch(self, shown: Shown, place: _Place, loader: Loader) -> Mapping[str, Any]:
        key = shown.number, place
        with self._lock:  # the pictures of a page ask for one batch at once
            if self._last is None or self._last[0] != key:
                batch: Any = loader.peek(place.step, place.rank, place.epoch)
                if not isinstance(batch, Mapping) or "__key__" not in batch:
                    raise ValueError(
                        f"the loader {place.loader!r} gives {type(batch).__name__}: batches "
                        "are shown if they are dicts with keys, so leave out keys=False, "
                        "and a collate or batch_transform that makes something else"
                    )
                if loader.batch_size is None and not loader.bucket_by:  # a single sample
                    batch = {name: [value] for name, value in batch.items()}
                self._last = key, batch
            return self._last[1]


def _tokens_of(loader: Loader) -> str | None:
    """Return the field whose documents share rows; None if each sample has its own row."""
    by = loader.pack_by or loader.chunk_by
    if by is None:
        return None
    return (by if isinstance(by, str) else next(iter(by))).removesuffix(".length")


def _form_of(value: Any) -> str:
    """Return dtype and shape of a field of a batch, or the number of values of a list."""
    shape = getattr(value, "shape", None)
    if shape is None:
        return f"a list of {len(value)}"
    return f"{value.dtype}{list(shape)}"


def _padding(rows: Sequence[Row]) -> float:
    """Return the share of padding in shared rows."""
    length = sum(row.length for row in rows)
    filled = sum(document.size for row in rows for document in row.documents)
    if length:
        return 1 - filled / length
    return 0.0


def _shares(loader: Loader, place: _Place) -> list[tuple[int, list[tuple[str, int, float]]]]:
    """Return the number of samples from each dataset of a mixture at some steps: step, and name, count, share."""
    shares = []
    for step in range(place.step, place.step + _STEPS):
        try:
            counts = loader.shares(step, place.rank, place.epoch)
        except IndexError:  # the epoch ends
            break
        if not counts:
            break
        whole = sum(counts.values()) or 1
        shares.append((step, [(name, count, count / whole) for name, count in counts.items()]))
    return shares


def _positions(shown: Shown, loader: Loader, batch: Mapping[str, Any]) -> list[list[int]]:
    """Return the positions of each row's samples in the dataset of the page; empty if they belong to another one."""
    if loader.dataset.fingerprint != shown.dataset.fingerprint:
        return []
    rows = batch["__key__"][:_ROWS]
    keys = [[row] if isinstance(row, str) else row for row in rows]
    return [[shown.dataset.position(key) for key in row] for row in keys]
