"""The datasets that a viewer shows, and cached facts about them."""

from __future__ import annotations

import os
import re
import shlex
import threading
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt

from bushel._dataset.open.damage import HOW_TO_REPAIR
from bushel._dataset.read.columns import part_of
from bushel._dataset.views.dataset import Dataset
from bushel._index.columns import Part
from bushel._pictures.texts import plain_text
from bushel._runtime.arrays import F32, I64
from bushel.errors import BushelError

from .kinds import ShownField, compared_fields, shown_fields
from .quality import MEASURES, Measures, similarities, vectors_of_field
from .tags import TagFile, Tags

if TYPE_CHECKING:
    from bushel.loader import Loader

T = TypeVar("T")

_SELECTION_BYTES = 32 << 20  # for each dataset
QUALITY = "quality."
"""Beginning of the names of columns that are measures of a field: `quality.FIELD.MEASURE`."""
LIKE = "like."
"""Prefix of the names of columns with the similarity of the vectors of samples to one vector."""
_ORDER = ("image", "frame", "clip", "audio", "array", "text", "tree", "bytes", "number", "other")
"""Kinds of fields; a field of the first one is shown large by default."""

_EPISODES = ("episode_index", "episode_id", "episode")
"""The usual names of columns with episodes; the first one is LeRobot's."""
_CHATS = ("messages", "conversations")  # names of fields that are shown before texts
_NAMED = 3  # number of damaged shards that each page names


class ByteCache(Generic[T]):
    """A cache of the last used values, up to a number of bytes. Threads may share it.

    Args:
        limit: Largest size of all values together in bytes. A single value may be larger: without a
            limit, only the last one is kept.
        size: Returns the size of a value in bytes.
    """

    def __init__(self, limit: int = 0, size: Callable[[T], int] = lambda _: 1) -> None:
        self._limit, self._size = limit, size
        self.used = 0
        """Size of all values in bytes."""
        self._values = dict[Hashable, T]()  # the one that was used last is at the end
        self._lock = threading.Lock()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the value of a key, which `make` makes if it is not cached. Errors of `make` are not kept."""
        with self._lock:
            if key in self._values:
                self._values[key] = self._values.pop(key)
                return self._values[key]
        # two threads may make the same value: that costs less than waiting for each other
        value = make()
        with self._lock:
            if key not in self._values:
                self._values[key] = value
                self.used += self._size(value)
                while self.used > self._limit and len(self._values) > 1:
                    oldest = next(iter(self._values))
                    self.used -= self._size(self._values.pop(oldest))
        return value


@dataclass(frozen=True)
class Episodes:
    """The episodes of a dataset whose samples are steps of episodes."""

    starts: I64  # int64[episodes + 1], where each episode begins
    names: np.ndarray  # the value of the column of episodes, for each episode

    def of(self, position: int) -> tuple[str, range]:
        """Return the title of the episode of a sample, and the positions of its samples."""
        number = int(np.searchsorted(self.starts, position, "right")) - 1
        return f"episode {self.names[number]}", range(*self.starts[number : number + 2].tolist())


@dataclass(frozen=True)
class Shown:
    """A dataset in the viewer."""

    number: int  # its number in URLs
    name: str  # its name on pages
    source: Any  # the argument of `bushel.verify` that checks it
    dataset: Dataset
    expression: str = "ds"  # a Python expression for it
    # number of each class of annotations that has a name only, by which it gets its colour
    class_numbers: dict[str, int] = field(default_factory=dict)
    # the measures of its fields so far
    measures: dict[str, Measures] = field(default_factory=dict)
    # float32[samples, numbers], by name: vectors of files, and of fields that were asked for
    vectors: dict[str, F32] = field(default_factory=dict)
    # the annotations of its pictures, by whether their forms are settled
    overlays: dict[bool, Any] = field(default_factory=dict)

    @cached_property
    def fields(self) -> tuple[ShownField, ...]:
        """Its fields."""
        return shown_fields(self.dataset.spec)

    @cached_property
    def labels(self) -> Mapping[str, Sequence[str]]:
        """Names of classes, by field. Predictions without names have the names of the labels."""
        labels = self.dataset.labels
        if self.compared is None:
            return labels
        label, predicted = self.compared
        if label in labels:
            return {predicted: labels[label], **labels}
        return labels

    @cached_property
    def compared(self) -> tuple[str, str] | None:
        """The fields of labels and of predictions, which the grid compares; None without predictions."""
        return compared_fields(self.fields)

    @property
    def path(self) -> str:
        """Its path as a shell takes it; `DATASET` if it has no single one."""
        if isinstance(self.source, str | os.PathLike):
            return shlex.quote(plain_text(str(self.source)))
        return "DATASET"

    @cached_property
    def notices(self) -> Sequence[str]:
        """Problems of the whole dataset: missing samples or parts, and shards whose structure is damaged."""
        notices = []
        incomplete = self.dataset.reader.incomplete
        if incomplete is not None:
            samples = self.dataset.info.samples
            notices.append(
                f"incomplete: {incomplete.describe(samples)}. To complete it, {incomplete.advice}."
            )
        damages = [shard.damage for shard in self.dataset.shards if shard.damage is not None]
        notices += [
            f"damaged: {damage.error} ({damage.describe()})." for damage in damages[:_NAMED]
        ]
        if len(damages) > _NAMED:
            notices.append(f"{len(damages) - _NAMED} more shards are damaged.")
        if damages:
            notices.append(f"{HOW_TO_REPAIR}.")
        return [plain_text(text) for text in notices]

    def field(self, name: str) -> ShownField:
        """Return a field. Raise KeyError if the field does not exist."""
        for candidate in self.fields:
            if candidate.name == name:
                return candidate
        raise KeyError(
            f"unknown field {name!r}: the fields are {', '.join(self.dataset.spec) or 'none'}"
        )

    @cached_property
    def episodes(self) -> Episodes | None:
        """Its episodes, if its samples are steps of episodes."""
        column = next((name for name in _EPISODES if name in self.columns), None)
        if column is None:
            return None
        values, _ = self.column(column)
        starts = np.flatnonzero(np.concatenate([[True], values[1:] != values[:-1]]))
        if 2 * len(starts) > len(values):  # an episode is a sample, or its steps are apart
            return None
        return Episodes(np.append(starts, len(values)), values[starts])

    @property
    def start(self) -> str:
        """The parameters of the page that a visitor sees first."""
        return "" if self.episodes is None else "?by=episodes"

    @cached_property
    def main(self) -> ShownField | None:
        """The field that is shown large by default: the first one with pictures, else the first text, else any."""

        def place(shown_field: ShownField) -> float:
            if shown_field.kind == "tree" and shown_field.name in _CHATS:
                return _ORDER.index("text") - 0.5
            return _ORDER.index("clip" if shown_field.frames else shown_field.kind)

        return min(self.fields, key=place, default=None)

    @cached_property
    def vector_fields(self) -> tuple[str, ...]:
        """The fields whose arrays may be vectors, such as embeddings; those whose names say so come first."""
        fields = [
            shown_field.name
            for shown_field in self.fields
            if shown_field.kind == "array" and not shown_field.sequence
        ]
        return tuple(
            sorted(
                fields,
                key=lambda name: re.search("embed|vector|feature|latent", name.lower()) is None,
            )
        )

    @cached_property
    def measured(self) -> tuple[ShownField, ...]:
        """The fields whose values can be measured: pictures first, and the first picture of a sequence."""
        fields = [
            shown_field
            for shown_field in self.fields
            if shown_field.kind in MEASURES
            and (shown_field.kind == "image" or not shown_field.sequence)
        ]
        return tuple(sorted(fields, key=lambda each: list(MEASURES).index(each.kind)))

    @property
    def columns(self) -> list[str]:
        """The columns for filters and sorting: the columns of the index, and the sizes of fields."""
        try:
            columns = self.dataset.columns
        except (BushelError, OSError):
            # an index that cannot be read: reading its samples raises the error
            columns = ()
        names = {field.name for field in self.fields}
        lengths = [f"{field.name}.length" for field in self.fields if field.sequence]
        windows = self.dataset.reader.windows
        # of windows, without bytes of their own
        padding = set() if windows is None else set(windows.shape.pads)
        has_size = ("bytes", "text")
        sizes = [
            f"{field.name}.bytes"
            for field in self.fields
            if field.name not in padding and (field.visual or field.kind in has_size)
        ]
        chosen = [name for name in columns if name in names or name.partition(".")[0] in names]
        chosen.sort(key=lambda name: name not in names)  # labels before sizes
        return list(dict.fromkeys([*chosen, *lengths, *sizes]))

    def key(self, position: int) -> str:
        """Return the key of a sample."""
        return self.dataset.keys[position]

    @cached_property
    def tags(self) -> Tags:
        """The tags of its samples."""
        return Tags(self.dataset)

    @cached_property
    def selections(self) -> ByteCache[npt.NDArray[np.signedinteger[Any]]]:
        """Positions that filters found, as integer arrays."""
        return ByteCache(_SELECTION_BYTES, lambda positions: positions.nbytes + 200)

    def measures_of(self, name: str) -> Measures:
        """Return the measures of a field, as far as they are known.

        Raises:
            KeyError: The field does not exist, or its values cannot be measured.
        """
        shown_field = self.field(name)
        if shown_field not in self.measured:
            raise KeyError(
                f"the values of {name!r} cannot be measured: "
                "they are not pictures, sounds, texts or arrays"
            )
        empty = Measures.empty(name, shown_field.kind, len(self.dataset))
        return self.measures.setdefault(name, empty)

    @property
    def measured_columns(self) -> list[str]:
        """The names of the columns of measures."""
        return [
            f"{QUALITY}{name}.{column}"
            for name, measures in self.measures.items()
            for column in measures.columns
        ]

    @property
    def vector_names(self) -> list[str]:
        """The fields and files that may have vectors of its samples: files first."""
        files = [name for name in self.vectors if name not in self.dataset.spec]
        return [*files, *self.vector_fields]

    def _likeness(self, name: str) -> Part:
        """Return how similar the vectors of samples are to the vector of one: the column `like.FIELD.POSITION`."""
        of, _, position = name.removeprefix(LIKE).rpartition(".")
        if of not in self.vectors:
            self.vectors[of] = vectors_of_field(self.dataset, self.field(of).name)
        if int(position) >= len(self.dataset):
            raise KeyError(f"{name}: the dataset has {len(self.dataset)} samples")
        values = similarities(self.vectors[of], int(position))
        return values, np.isnan(values)

    def column(self, name: str) -> Part:
        """Return values and missing ones of a column of the index, of a measure, or of a likeness.

        Raises:
            KeyError: The column does not exist, or the field was not measured.
            ValueError: The column is a likeness of vectors that there are not.
            FormatError: An index is damaged.
        """
        stored = name in self.dataset.columns
        if not stored and name.startswith(LIKE) and name.rpartition(".")[2].isdecimal():
            return self._likeness(name)
        of, _, measure = name.removeprefix(QUALITY).rpartition(".")
        if stored or not name.startswith(QUALITY) or of not in self.dataset.spec:
            return part_of(self.dataset.reader, self.dataset.selection.positions, name)
        if of not in self.measures:
            raise KeyError(f"{of!r} was not measured: the page Quality makes the column {name}")
        return self.measures[of].column(measure)


@dataclass(frozen=True)
class Shelf:
    """All datasets of a viewer."""

    datasets: tuple[Shown, ...]  # the datasets, by number
    # the file that keeps the tags; None if they are lost when the viewer closes
    tag_file: TagFile | None = None
    # how fields annotate pictures, by field, as they were declared
    overlays: Mapping[str, str] = field(default_factory=dict)
    # loaders whose batches are shown, by name
    loaders: Mapping[str, Loader] = field(default_factory=dict)
    # returns the text of tokens; None to show their numbers
    tokenizer: Callable[[list[int]], str] | None = None

    def shown(self, number: int) -> Shown:
        """Return a dataset. Raise KeyError if no dataset has this number."""
        if not 0 <= number < len(self.datasets):
            raise KeyError(f"unknown dataset {number}: this viewer shows {len(self.datasets)}")
        return self.datasets[number]
