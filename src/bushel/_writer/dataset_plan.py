"""How the samples of a dataset are written: its fields, layout, keys and names of classes."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace

from bushel._dataset.read.shards import OpenShard
from bushel._index.class_names import Labels, numbered, with_numbers
from bushel._index.contents import ColumnRequest, Contents
from bushel._index.key_lookup import KeyTable
from bushel._index.shard import Shard, may_lack_samples
from bushel._runtime.arrays import joined
from bushel.containers.base import Layout, Stored, WriteOptions
from bushel.containers.stored_column import StoredColumn
from bushel.errors import CodecError, SpecError
from bushel.kernels import KeySet
from bushel.spec import KEY, Spec, format_spec
from bushel.storage import AnyPath

from .options import ShardLimits, WriterOptions
from .sample_values import SampleEncoder, UsualFields
from .shard_writer import ShardPlan
from .target import Target, check_same_fields, names_to_write

_DIGITS = 9
# numbers that become texts in a set when a sample with a key of its own follows them
_MOST_SPELLED = 1 << 20


@dataclass(frozen=True, slots=True)
class NumberedKeys(Sequence[str]):
    """Keys of samples that have none of their own, in a container that needs them: their positions in nine digits."""

    numbers: range

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return NumberedKeys(self.numbers[at])
        return f"{self.numbers[at]:0{_DIGITS}d}"

    def __contains__(self, key: object) -> bool:
        if not (isinstance(key, str) and key.isascii() and key.isdigit() and len(key) < 20):
            return False
        number = int(key)
        return number in self.numbers and key == f"{number:0{_DIGITS}d}"

    def column(self) -> StoredColumn:
        """Return the keys as text and offsets."""
        if self.numbers and self.numbers[-1] >= 10**_DIGITS:
            return key_column(list(self))
        numbers = np.arange(self.numbers.start, self.numbers.stop)
        digits = np.empty((len(numbers), _DIGITS), np.uint8)
        for place in reversed(range(_DIGITS)):
            numbers, digits[:, place] = np.divmod(numbers, 10)
        digits += ord("0")
        return StoredColumn(digits.reshape(-1), np.arange(len(digits) + 1) * _DIGITS)


def key_column(keys: Sequence[str]) -> StoredColumn:
    """Return keys as text and offsets."""
    if isinstance(keys, NumberedKeys):
        return keys.column()
    return StoredColumn(*joined([key.encode("utf-8", "surrogateescape") for key in keys]))


class RepeatedKeyError(ValueError):
    """A new sample has the key of another one."""


class KeyCheck:
    """The keys of a dataset. Either all samples have a key, or none.

    If the container needs keys, samples without one get their position.
    With `reuse`, a new sample may have the key of a removed one, which is in another file.
    """

    def __init__(self, shards: list[OpenShard], *, needs_keys: bool, reuse: bool = False) -> None:
        # the list loses one that is continued
        self._table = KeyTable.of(tuple(shards)) if shards else None
        self._removed = frozenset[int]()
        if reuse and may_lack_samples([opened.shard for opened in shards]):
            from bushel._dataset.read.remaining import removed_in

            self._removed = frozenset(removed_in(shards).tolist())
        self._keys = KeySet()
        self._numbered = NumberedKeys(range(0))  # of the samples without a key of their own
        self._needs_keys = needs_keys

    def check(self, key: str | None, position: int) -> str:
        """Return the key of a new sample.

        Raises:
            TypeError: The key is not a str.
            ValueError: The key is missing, or another sample has it.
            SpecError: The key has half of a surrogate pair, which UTF-8 cannot store.
        """
        if key is None:
            if not self._needs_keys:
                raise ValueError(
                    "this sample has no key, but the samples before it have one: pass key="
                )
            key = f"{position:09d}"
        if not (isinstance(key, str) and key.isascii()):
            _check_text(key)
        if self._has(key):
            raise RepeatedKeyError(f"key {key!r} is in the dataset already")
        return key

    def _has(self, key: str) -> bool:
        in_table = self._table is not None and not self._removed.issuperset(self._table.find(key))
        if in_table or key in self._keys:
            return True
        return bool(self._numbered.numbers) and key in self._numbered

    @property
    def known(self) -> KeySet | None:
        """A set of all keys, to which new ones can be added; None if the keys are not all in a set."""
        if self._table is None and not self._numbered:
            return self._keys
        return None

    def counts_on(self, number: int) -> bool:
        """Return whether all samples have their numbers as keys, and this is the next one: see `count_to`."""
        alone = self._needs_keys and self._table is None and not self._keys
        return alone and self._follows(number)

    def _follows(self, number: int) -> bool:
        return not self._numbered or self._numbered.numbers.stop == number

    def _count_from(self, first: int, stop: int) -> None:
        """Note that samples up to a number have their numbers as keys, the first of the new ones being `first`."""
        numbers = self._numbered.numbers or range(first, stop)
        self._numbered = NumberedKeys(range(numbers.start, stop))

    def count_to(self, number: int) -> None:
        """Note that samples have their numbers up to this one as keys, if all samples before them do."""
        if self._numbered and self._table is None and not self._keys:
            self._count_from(number, number)

    def add(self, key: str, number: int | None) -> None:
        """Add the key of a sample that was written, and its number if that is its key."""
        if number is not None and self.counts_on(number):
            self._count_from(number, number + 1)
            return
        # so that `known` has all
        if 0 < len(self._numbered.numbers) <= _MOST_SPELLED and self._table is None:
            self._keys.add_all(self._numbered)
            self._numbered = NumberedKeys(range(0))
        self._keys.add(key)

    def check_all(self, keys: Sequence[str]) -> None:
        """Check the keys of many new samples.

        Raises:
            TypeError: A key is not a str.
            ValueError: Two samples have the same key, or another sample has one of them.
            SpecError: A key has half of a surrogate pair, which UTF-8 cannot store.
        """
        if isinstance(keys, NumberedKeys) and self._table is None and not self._keys:
            return  # positions, so they are new
        if not (set(map(type, keys)) <= {str} and all(map(str.isascii, keys))):
            for key in keys:
                _check_text(key)
        if (twice := KeySet().add_all(keys)) is not None:
            raise ValueError(f"key {twice!r} is given twice")
        if self._table is None and not self._numbered:
            repeated = self._keys.first_of(keys)
        else:
            repeated = next(filter(self._has, keys), None)
        if repeated is not None:
            raise RepeatedKeyError(f"key {repeated!r} is in the dataset already")

    def add_all(self, keys: Sequence[str]) -> None:
        """Add the keys of samples that were written."""
        if isinstance(keys, NumberedKeys) and self._follows(keys.numbers.start):
            self._count_from(keys.numbers.start, keys.numbers.stop)
        else:
            self._keys.add_all(keys)


def _check_text(key: object) -> None:
    if not isinstance(key, str):
        raise TypeError(f"a key must be a str, not {type(key).__name__}: use str({key!r})")
    try:
        key.encode("utf-8", "surrogateescape")  # which stands for bytes of names that are not UTF-8
    except UnicodeEncodeError as error:
        raise SpecError(
            f"the key {key!r} cannot be stored as UTF-8: "
            f"character {error.start} is half of a surrogate pair"
        ) from None


class DatasetPlan:
    """Decides how samples are written: by options, like the existing samples, or like the first new one.

    Args:
        target: The target of the writer.
        fields: The fields of the spec; None if the existing samples determine them.
        options: How the dataset is written.

    Attributes:
        fields: The fields.
        container: The container.
        layout: How samples are stored; None until it is known.
        keys: Checks the keys of new samples; None if they have none, or if that is not known yet.
        labels: Names of classes, which the indexes get.
        limits: The size at which a shard is full.
        folders: Paths of empty folders that the next shard gets; None if samples are not files of a
            folder.

    Raises:
        ValueError: The target is one file, but there is a limit for shards.
        SpecError: The container cannot store empty folders, or a field cannot have a column.
        KeyError: A column is of no field.
    """

    def __init__(self, target: Target, fields: Spec | None, options: WriterOptions) -> None:
        self.container, self._single, self._root = target.container, target.single, target.root
        if target.single and options.divides:
            raise ValueError(
                f"{target.path} is the name of one file: give a folder to write several shards"
            )
        self.folders = options.folders
        if self.folders is not None and not self.container.keeps_folders:
            raise SpecError(f"{self.container.name} cannot store empty folders: use ffrecord")
        self._options, self._generation = options, options.generation
        self._adopts_spec, self.fields = fields is None, fields or {}
        columns = ColumnRequest.given(options.columns, self.fields)
        self._contents = Contents(frozenset(["seek"] * options.seek), columns)
        self.limits = options.limits(single=target.single)
        self.layout: Layout | None = None
        self.labels: Labels = {}
        self.numbers: dict[str, dict[str, int]] = {}  # of classes that are stored as numbers
        self.keys: KeyCheck | None = None
        self._usual: UsualFields | None = None
        self._encode: SampleEncoder

    @property
    def known(self) -> KeySet | None:
        """A set of all keys, to which new ones can be added; None if the keys are not all in a set."""
        return None if self.keys is None else self.keys.known

    @property
    def spec(self) -> dict[str, str]:
        """Field to type."""
        return format_spec(self.fields)

    def adopt(self, path: AnyPath, shards: list[OpenShard], usual: UsualFields | None) -> None:
        """Take the spec, layout and keys of the samples that exist, and check that new ones fit.

        The names of classes are those that exist, followed by new ones. `usual` has the fields that
        appended samples need.

        Raises:
            ValueError: The source is empty, and no spec was given.
            StateError: The fields differ.
            SpecError, StateError: The names do not fit the fields, or those that exist.
        """
        if self._options.mode == "resume" and shards:
            self.folders = self.folders and ()  # the first shard has them
        if shards:
            if self._generation is None:
                self._generation = self.container.generation(shards[-1].shard)
            if self._adopts_spec:
                self.fields = {field.name: field for shard in shards for field in shard.fields}
            layout = self.decided(shards, keyed=shards[-1].keyed)
            requested = self._contents
            if self._options.columns is None:
                requested = requested.without_usual_columns()
            self._contents = Contents.to_keep(shards[-1].index) | requested
            check_same_fields(path, shards, self.spec, layout)
            self._usual = usual
        if self._adopts_spec and not self.fields:
            raise ValueError(
                f"{path} has no samples yet: a new dataset needs a spec, such as {{'image': 'jpg'}}"
            )
        self.labels = names_to_write(self._options.labels, self.fields, path, shards)
        self.numbers = {
            name: numbered(classes)
            for name, classes in self.labels.items()
            if name in self.fields and self.fields[name].codec != "utf8"
        }

    def with_numbers(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a sample or columns with the numbers of classes in place of their names; other texts stay."""
        numbered = dict(values)
        for name in self.numbers.keys() & values.keys():
            numbered[name] = with_numbers(values[name], self.numbers[name])
        return numbered

    def decided(self, shards: list[OpenShard], *, keyed: bool) -> Layout:
        """Return the layout, which is decided now if it is not known yet.

        Raises:
            SpecError: The container cannot hold the samples.
        """
        if self.layout is not None:
            return self.layout
        options = self._options
        keyed = keyed or self.container.needs_keys or self.folders is not None
        plain = self._single or not (options.divides or any(shard.shard.name for shard in shards))
        write_options = WriteOptions(keyed, self._generation, plain, options.expected, self.folders)
        layout = self.container.layout(self.fields, write_options)
        if shards and not options.divides and self._begins_alone(layout, shards[0].shard):
            self.limits = ShardLimits(None, None)
        self.layout = layout
        self._encode = SampleEncoder(self.container.name, layout)
        if layout.options.keyed:
            apart = not self._single and all(opened.shard.name for opened in shards)
            self.keys = KeyCheck(shards, needs_keys=self.container.needs_keys, reuse=apart)
        return layout

    def _begins_alone(self, layout: Layout, first: Shard) -> bool:
        """Return whether the first shard of a folder has the names of an only one, after which few can follow."""
        alone, divided = (self._first_shard(layout, single=single) for single in (True, False))
        return not self._single and alone.files != divided.files and first.name == alone.name

    def _first_shard(self, layout: Layout, *, single: bool) -> Shard:
        layout = replace(layout, options=replace(layout.options, single=single))
        return self.container.shard(self._root, layout, [], None)

    def divided(self, shard: Shard) -> ShardPlan | None:
        """Return the plan of the first shard of a folder, once it is full and others follow.

        Returns:
            None if its files have the same names in a folder of one shard.
        """
        layout = self.layout
        if layout is None or self._single or not layout.options.single:
            return None
        self.layout = replace(layout, options=replace(layout.options, single=False))
        first = self._first_shard(layout, single=False)
        if first.files == shard.files:
            return None
        return self.of_shard(first, self.layout)

    def encoded(
        self, sample: Mapping[str, Any], key: str | None, position: int, shards: list[OpenShard]
    ) -> tuple[str | None, Mapping[str, Stored]]:
        """Return the key and the stored values of one sample. `key` is None if it may be in the sample.

        Raises:
            SpecError: The sample does not have the fields of the spec, or the container cannot hold
                it.
            CodecError: A value cannot be encoded.
            ValueError: The key is missing, not allowed, or in the dataset already.
        """
        if type(sample) is not dict and not isinstance(sample, Mapping):  # the second takes longer
            raise SpecError(f"a sample must be a dict of fields, not {type(sample).__name__}")
        if key is None:
            key = sample.get(KEY)
        if self.layout is None:
            self.decided(shards, keyed=key is not None)
        if self.keys is not None:
            key = self.keys.check(key, position + self._options.first_number)
        elif key is not None and key != str(position):  # by which one without a key is found
            raise ValueError(
                f"key {key!r} is not allowed, because the samples before it have no keys"
            )
        if self._usual is not None:
            self.check_usual(sample)
        try:
            return key, self._encode(sample, self.numbers)
        except (CodecError, SpecError) as error:
            error.add_note(f"in the sample {position if key is None else key!r}")
            raise

    def check_usual(self, given: Collection[str]) -> None:
        """Check that samples that are appended to a dataset lack no field that all of its samples have.

        Raises:
            SpecError: They do.
        """
        if self._usual is not None and self.layout is not None and self.layout.sparse:
            self._usual.check(given, self.fields)

    def next_layout(self, shards: list[OpenShard], samples: int) -> Layout:
        """Return the layout of the shard that follows these shards, with `samples` samples together."""
        layout = self.decided(shards, keyed=False)
        before = shards[-1].samples if shards else None
        expected = self.limits.expected(self._options.expected, samples, before)
        return replace(
            layout, options=replace(layout.options, expected=expected, folders=self.folders)
        )

    def of_shard(self, shard: Shard, layout: Layout) -> ShardPlan:
        """Return the plan of one shard."""
        return ShardPlan(shard, self.container, layout, self.labels, self._contents)
