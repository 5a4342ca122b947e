"""Convert samples of a dataset to the stored form of another dataset. Bytes that both store alike are copied.

A `Transcoder` is a plain value that works in threads and, pickled, in worker processes. It does not
raise: a sample that cannot be written becomes a `BadItem`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from bushel._dataset.views.dataset import Dataset
from bushel._pack.class_numbers import ClassNumbers, renumber
from bushel._pack.field_plan import FieldPlan, encode_value
from bushel._pack.sample_encoder import BadItem, EncodedSample, Item, SampleEncoder
from bushel._runtime.structs import Struct
from bushel.codecs import get_codec, is_light
from bushel.codecs.base import Buffer, NumberLayout
from bushel.errors import CodecError, SpecError
from bushel.sources.base import Sample
from bushel.spec import KEY


class Transcoder(Struct, frozen=True):
    """Turns samples of a dataset, or of a stream of archives, into stored values."""

    # the dataset; None for a stream, whose items contain the stored samples
    dataset: Dataset | None
    # name of each field of the source that is written, to how it is converted
    plans: Mapping[str, FieldPlan]
    known: frozenset[str]  # names of all fields of the source
    numbers: ClassNumbers  # the new numbers of classes
    encoder: SampleEncoder  # applies transforms, and rotates, checks and tiles images
    changed: frozenset[str]  # names of the fields of the target whose values go through the encoder
    keyed: bool  # whether samples have keys

    def __call__(self, batch: Sequence[Item]) -> list[EncodedSample | BadItem]:
        """Read and convert a batch."""
        if self.dataset is None:
            return [self._result(*item) for item in batch if not isinstance(item, int)]
        positions = [item if isinstance(item, int) else item[0] for item in batch]
        names = list(self.plans)
        try:
            self.dataset.prefetch(positions, names)
            stored = self.dataset.read(positions, names, decode=False)
        except Exception:  # it may concern one of these samples only: each is read alone
            return [self._alone(position, names) for position in positions]
        numbers = self._numbers(positions, stored)
        return list(map(self._result, positions, stored, numbers))

    def origin(self, position: int) -> str | None:
        """Return the file with a sample, and the offset of its first field; None for a stream."""
        if self.dataset is None or not self.plans:
            return None
        path, offset = self.dataset.location(position, next(iter(self.plans)))
        return f"{path}@{offset}"

    def _numbers(self, positions: Sequence[int], stored: Sequence[Sample]) -> Sequence[Sample]:
        """Decode the numbers that get another form, all samples at once. If one is damaged, each is decoded alone."""
        fields = (plan for plan in self.plans.values() if not plan.copied and plan.known_as is None)
        names = [
            plan.source.name
            for plan in fields
            if not plan.source.sequence
            and isinstance(get_codec(plan.source.codec).layout, NumberLayout)
        ]
        nothing: list[Sample] = [{}] * len(positions)
        if not names or self.dataset is None:
            return nothing
        parts = [
            {KEY: sample[KEY]} | {name: sample[name] for name in names if name in sample}
            for sample in stored
        ]
        try:
            return self.dataset.decode_samples(parts, positions)
        except Exception:  # raised again for the sample that has it
            return nothing

    def _alone(self, position: int, names: Sequence[str]) -> EncodedSample | BadItem:
        try:
            assert self.dataset is not None
            [stored] = self.dataset.read([position], list(names), decode=False)
        except Exception as error:
            return BadItem(position, None, self.origin(position), error)
        return self._result(position, stored)

    def _result(
        self, position: int, stored: Sample, numbers: Sample | None = None
    ) -> EncodedSample | BadItem:
        key = stored[KEY]
        try:
            values = self._values(position, key, stored, numbers or {})
        except Exception as error:
            return BadItem(position, key, self.origin(position), error)
        size = 0
        for value in values.values():
            size += sum(map(len, value)) if isinstance(value, list) else len(value)
        return EncodedSample(position, key if self.keyed else None, values, size)

    def _values(
        self, position: int, key: str, stored: Sample, decoded_numbers: Sample
    ) -> dict[str, Any]:
        """Return the values that the target stores for a sample. Those in `decoded_numbers` are decoded already."""
        if self.dataset is None and (unknown := stored.keys() - self.known - {KEY}):
            raise SpecError(
                f"sample {key!r} has the field {min(unknown)!r}, which the first samples lack:"
                " name all fields when "
                "the stream is opened, with bushel.open_stream(source, spec={...})"
            )
        values = {}
        changes = self._changes_of(position)
        for name, plan in self.plans.items():
            if name not in stored:
                continue
            value, numbers = stored[name], changes.get(name)
            if plan.copied and is_light(plan.codec):
                _decoded(
                    get_codec(plan.codec).decode, key, name, value
                )  # a value that the target cannot read is not copied
            if plan.copied and numbers is None and not plan.source.sequence and not self.changed:
                values[plan.target.name] = [value] if plan.target.sequence else value
                continue
            of_value = plan if numbers is None else replace(plan, copied=False)
            decoded = decoded_numbers.get(name)
            if decoded is None and not of_value.copied:
                decoded = self._decode(of_value, position, key, value)
            if numbers is not None:
                decoded = renumber(decoded, numbers, f"sample {key!r}, field {name!r}")
            if plan.target.name in self.changed:
                values[plan.target.name] = self._changed(of_value, position, key, value, decoded)
            else:
                values[plan.target.name] = encode_value(of_value, key, value, decoded)
        return self._rewritten(key, values) if self.encoder.rewriting else values

    def _changes_of(self, position: int) -> Mapping[str, Any]:
        if self.dataset is None or not any(self.numbers.changes):
            return {}
        return self.numbers.changes[self.dataset.shard_of(position)]

    def _changed(self, plan: FieldPlan, position: int, key: str, stored: Any, decoded: Any) -> Any:
        """Return a value after the transforms, rotation or check of its field."""
        elements = encode_value(
            replace(plan, copied=True), key, stored if plan.copied else decoded, None
        )
        if not plan.target.sequence:
            return self.encoder.element(position, plan.target, elements)
        return [self.encoder.element(position, plan.target, element) for element in elements]

    def _rewritten(self, key: str, values: dict[str, Any]) -> dict[str, Any]:
        try:
            return self.encoder.rewriting.rewritten(values)
        except CodecError as error:
            raise CodecError(
                f"sample {key!r}, {error}. max_errors=... skips such samples", **error.details
            ) from error

    def _decode(self, plan: FieldPlan, position: int, key: str, stored: Any) -> Any:
        name = plan.source.name
        if plan.known_as is None and self.dataset is not None:
            return self.dataset.decode_sample({KEY: key, name: stored}, position)[name]
        return _decoded(get_codec(plan.known_as or plan.source.codec).decode, key, name, stored)


def _decoded(decode: Callable[[Buffer], Any], key: str, name: str, stored: Any) -> Any:
    try:
        if isinstance(stored, list):
            return [decode(element) for element in stored]
        return decode(stored)
    except CodecError as error:
        raise CodecError(
            f"sample {key!r}, field {name!r}: {error}", **{**error.details, "field": name}
        ) from error
