"""How the samples of a dataset are written: its fields, layout, keys and names of classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from bushel._dataset.read.shards import OpenShard
from bushel._index.contents import Contents
from bushel._index.key_lookup import KeyLookup
from bushel._index.names import Labels, numbered, with_numbers
from bushel._index.shard import Shard, may_lack_samples
from bushel._runtime.arrays import joined
from bushel.containers.base import Layout, Stored, WriteOptions
from bushel.containers.stored_column import StoredColumn
from bushel.errors import CodecError, SpecError
from bushel.kernels import KeySet
from bushel.spec import KEY, Spec, format_spec
from bushel.storage import AnyPath

from .sample_values import (
    SampleEncoder,
    StoredBatch,
    UsualFields,
    encode_columns,
)
from .shard_writer import ShardPlan
from .target import ShardLimits, Target, WriterOptions, check_same_fields, names_to_write

_DIGITS = 9


class RepeatedKeyError(ValueError):
    """A new sample has the key of another one."""


class KeyCheck:
    """The keys of a dataset. Either all new samples have a key, or none.

    If the container needs keys, samples without one get their number.
    With `reuse`, a new sample may have the key of a removed one, which is in another file.

    Attributes:
        known: The keys of new samples; None if these have their numbers.
        in_memory: Whether no other sample has a key.
    """

    def __init__(self, shards: list[OpenShard], *, needs_keys: bool, reuse: bool = False) -> None:
        # the list loses one that is continued
        self._table = KeyLookup.of(tuple(shards)) if shards else None
        self._removed = frozenset[int]()
        if reuse and may_lack_samples([opened.shard for opened in shards]):
            from bushel._dataset.read.remaining import removed_in

            self._removed = frozenset(removed_in(shards).tolist())
        self.known: KeySet | None = KeySet()
        self.in_memory = self._table is None
        self._needs_keys = needs_keys

    def check(self, key: str | None, number: int) -> str:
        """Return the key of a new sample with this number.

        Raises:
            TypeError: The key is not a str.
            ValueError: The key is missing or not allowed, or another sample has it.
            SpecError: The key has half of a surrogate pair, which UTF-8 cannot store.
        """
        keys = None if key is None else [key]
        self._check_kind(keys)
        if key is None:
            key = f"{number:0{_DIGITS}d}"
        self._check_new(keys or [key])
        return key

    def check_all(self, keys: Sequence[str] | None, numbers: range) -> StoredColumn:
        """Return the keys of new samples with these numbers.

        Raises:
            TypeError: A key is not a str.
            ValueError: Keys are missing or not allowed, two samples have the same key, or another
                sample has one of them.
            SpecError: A key has half of a surrogate pair, which UTF-8 cannot store.
        """
        self._check_kind(keys)
        if keys is None:
            column = _numbered_keys(numbers)
            if self._table is not None:
                self._check_new(column.texts)
            return column
        if (twice := KeySet().add_all(keys)) is not None:
            raise ValueError(f"key {twice!r} is given twice")
        self._check_new(keys)
        return _key_column(keys)

    def add(self, keys: Sequence[str] | None) -> None:
        """Note the keys of samples that were written; None if they have their numbers."""
        if keys is None:
            self.known = None
        elif self.known is not None:
            self.known.add_all(keys)

    def _check_kind(self, keys: Sequence[str] | None) -> None:
        """Refuse new samples with keys after some without them, or the reverse, and keys that are not text."""
        if keys is None:
            if self.known or not self._needs_keys:
                message = "the samples of this dataset have keys, and this one lacks its own"
                raise ValueError(f"{message}: pass key= or keys=")
            return
        if keys and self.known is None:
            raise _not_allowed(keys)
        for key in keys:
            if type(key) is not str or not key.isascii():
                _check_text(key)

    def _check_new(self, keys: Sequence[str]) -> None:
        if self._table is None and self.known is not None:
            repeated = self.known.first_of(keys)
        else:
            repeated = next(filter(self._has, keys), None)
        if repeated is not None:
            raise RepeatedKeyError(f"key {repeated!r} is in the dataset already")

    def _has(self, key: str) -> bool:
        if self._table is not None and not self._removed.issuperset(self._table.find(key)):
            return True
        return self.known is not None and key in self.known


def _not_allowed(keys: Sequence[str]) -> ValueError:
    """Return the error of keys after samples without them."""
    return ValueError(f"key {keys[0]!r} is not allowed: the samples before have no keys")


def _numbered_keys(numbers: range) -> StoredColumn:
    """Return the keys of samples that have none of their own: their numbers in nine digits or more."""
    if numbers and numbers[-1] >= 10**_DIGITS:
        return _key_column([f"{number:0{_DIGITS}d}" for number in numbers])
    rest = np.arange(numbers.start, numbers.stop)
    digits = np.empty((len(rest), _DIGITS), np.uint8)
    for place in reversed(range(_DIGITS)):
        rest, digits[:, place] = np.divmod(rest, 10)
    digits += ord("0")
    return StoredColumn(digits.reshape(-1), np.arange(len(digits) + 1) * _DIGITS)


def _key_column(keys: Sequence[str]) -> StoredColumn:
    return StoredColumn(*joined([key.encode("utf-8", "surrogateescape") for key in keys]))


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
        usual: The fields that appended samples must not lack; None if they may lack any that the
            container lets them lack.

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
        self._contents = Contents.given({"seek": options.seek}, options.columns)
        if self.fields:
            self._contents.check_columns(self.fields)
        self.limits = options.limits(single=target.single)
        self.layout: Layout | None = None
        self.labels: Labels = {}
        self.numbers: dict[str, dict[str, int]] = {}  # of classes that are stored as numbers
        self.keys: KeyCheck | None = None
        self.usual: UsualFields | None = None
        self._encode: SampleEncoder

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
                requested = replace(requested, usual=False)
            self._contents = Contents.to_keep(shards[-1].index) | requested
            check_same_fields(path, shards, self.spec, layout)
            if layout.sparse:
                self.usual = usual
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
        if not self.numbers:
            return values
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
        """Return whether the first shard of a folder has the name of an only one, after which few can follow."""
        alone, divided = (self._first_shard(layout, single=single) for single in (True, False))
        return not self._single and first.name == alone.name != divided.name

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
            raise _not_allowed([key])
        if self.usual is not None:
            self.usual.check(sample, self.fields)
        try:
            return key, self._encode(sample, self.numbers)
        except (CodecError, SpecError) as error:
            error.add_note(f"in the sample {position if key is None else key!r}")
            raise

    def encoded_columns(
        self,
        columns: Mapping[str, Any],
        samples: int,
        texts: list[str] | None,
        position: int,
        shards: list[OpenShard],
    ) -> tuple[StoredColumn | None, StoredBatch]:
        """Return the stored keys and values of samples. The first one is at `position`.

        `plain_columns` has returned the columns, the number of samples, and the texts of the keys.

        Raises:
            SpecError, CodecError, ValueError: As of `encoded`.
        """
        self.decided(shards, keyed=texts is not None)
        stored_keys = None
        if self.keys is not None:
            number = self._options.first_number + position
            stored_keys = self.keys.check_all(texts, range(number, number + samples))
        elif texts and texts != list(map(str, range(position, position + samples))):
            raise _not_allowed(texts)
        if self.usual is not None:
            self.usual.check(columns, self.fields)
        values = self.with_numbers(columns)
        return stored_keys, encode_columns(values, samples, self._encode)

    def next_layout(self, shards: list[OpenShard], samples: int, total: int | None) -> Layout:
        """Return the layout of the shard that follows these ones, which have `samples` of `total` samples together."""
        layout = self.decided(shards, keyed=False)
        before = shards[-1].samples if shards else None
        expected = self.limits.expected(total, samples, before)
        options = replace(
            layout.options, expected=expected, folders=self.folders, labels=self.labels
        )
        return replace(layout, options=options)

    def of_shard(self, shard: Shard, layout: Layout) -> ShardPlan:
        """Return the plan of one shard."""
        return ShardPlan(shard, self.container, layout, self._contents, self.limits)
