"""Transforms at load time: what of them is done while decoding, and the randomness they draw from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from bushel.codecs import holds_image
from bushel.codecs.image import ImageReading, image_reading
from bushel.transforms import EachFrame
from bushel.transforms.by_field import Transforms, transforms_by_field
from bushel.transforms.fused import DecodePlan, plan_decode, plan_frames
from bushel.transforms.values import Call, Transform

__all__ = ["FieldTransforms", "SampleTransforms", "generator"]

_PLAIN = ImageReading()


class _SampleSeed(np.random.SeedSequence):
    """(seed, epoch, sample), of which Philox takes the first two as its key.

    Given as `Philox(key=…)`, they would cost three times as much, as NumPy then asks the system for entropy, too; and
    generators that are spawned would be others each time.
    """

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> npt.NDArray[Any]:
        if self.spawn_key:
            return super().generate_state(n_words, dtype)
        return np.array(cast("tuple[int, ...]", self.entropy)[:n_words], dtype)


def generator(seed: int, epoch: int, sample: int) -> np.random.Generator:
    """The random numbers of one sample in one epoch.

    Philox (Salmon et al., 2011) keyed by (seed, epoch), with the sample's position in the dataset in the upper half
    of its counter. So they are the same in whatever thread, process, batch or rank the sample is prepared.
    """
    counter = np.array([0, 0, sample, 0], np.uint64)
    return np.random.Generator(np.random.Philox(_SampleSeed((seed, epoch, sample)), counter=counter))


@dataclass(frozen=True, slots=True)
class FieldTransforms:
    """The transforms of one field.

    Attributes:
        field: The field.
        calls: All of them, for a value that is decoded.
        plan: What is done while an image is decoded, or None. The image is then stored bytes so far.
        rest: What follows the plan.
        frames: The transform for each frame of a sequence that the plan is a part of, or None for a plain field.
        reading: How images that are stored bytes so far are decoded, with a plan or without; None if there are none.
    """

    field: str
    calls: tuple[Call, ...]
    plan: DecodePlan | None = None
    rest: tuple[Call, ...] = ()
    frames: EachFrame | None = None
    reading: ImageReading | None = None

    @classmethod
    def of(cls, field: str, functions: Sequence[Transform], reading: ImageReading | None) -> FieldTransforms:
        """Plan the transforms of a field; with `reading`, a crop or resizing that comes first while it is decoded."""
        calls = tuple(map(Call.of, functions))
        if reading is None or not functions:
            return cls(field, calls)
        first = functions[0]
        if isinstance(first, EachFrame):
            plan = plan_frames(first)
            if plan is not None and plan.size is not None:
                return cls(field, calls, plan, calls[1:], first, reading)
            return cls(field, calls)
        plan = plan_decode(functions)
        if plan.size is None:  # each image would have an array of its own: nothing is gained over decoding it
            return cls(field, calls)
        return cls(field, calls, plan, tuple(map(Call.of, plan.rest)), reading=reading)


@dataclass(frozen=True, slots=True)
class SampleTransforms:
    """The transforms of a loader, in the order in which they are applied.

    Attributes:
        fields: Those of each field.
        random: Whether any of them draws random numbers.
        fused: The fields whose images are decoded and transformed in one.
        encoded: The fields whose images the dataset leaves as they are stored: those, and all of images if they are
            to be read in another way than the dataset does.
        reducing_gap: See `bushel.transforms.fused.decode_into`.
    """

    fields: tuple[FieldTransforms, ...] = ()
    random: bool = False
    fused: frozenset[str] = frozenset()
    encoded: frozenset[str] = frozenset()
    reducing_gap: float | None = None

    @classmethod
    def of(
        cls,
        transforms: Transforms | None,
        spec: Mapping[str, str],
        *,
        complete: bool = True,
        decode: bool = True,
        reducing_gap: float | None = None,
        reading: ImageReading = _PLAIN,
    ) -> SampleTransforms:
        """Check and plan the transforms that a loader is given.

        Args:
            transforms: As given to the loader.
            spec: The dataset's.
            complete: Whether the spec lists all fields, which it does not for a stream.
            decode: Whether values are decoded; if not, the functions take stored bytes.
            reducing_gap: As given to the loader.
            reading: How images are read, beside what their codecs say.

        Raises:
            SpecError: The dataset has no such field, or no single image field where no field is named.
            TypeError: A transform cannot be called.
        """
        by_field = transforms_by_field(transforms, spec, complete=complete)
        fields = []
        kinds = {name: kind.removesuffix("[]") for name, kind in spec.items()}
        images = {name: image_reading(codec) | reading for name, codec in kinds.items() if holds_image(codec)}
        for field, functions in by_field.items():
            how = images.get(field, reading) if decode else None
            fields.append(FieldTransforms.of(field, functions, how))
        random = any(call.random for one in fields for call in one.calls)
        fused = frozenset(one.field for one in fields if one.plan is not None)
        if not decode or reading == _PLAIN:
            return cls(tuple(fields), random, fused, fused, reducing_gap)
        planned = {one.field: one for one in fields} | {
            name: FieldTransforms(name, ()) for name in images if name not in by_field
        }
        read = [replace(one, reading=images.get(name)) for name, one in planned.items()]
        return cls(tuple(read), random, fused, fused | images.keys(), reducing_gap)
