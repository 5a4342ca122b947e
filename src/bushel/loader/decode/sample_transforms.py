"""Plan which transforms of a loader are fused into decoding, and which are applied afterwards. Pure: no I/O.

The random numbers of samples, and of transforms of batches, are a function of seed, epoch and
sample only: they do not depend on the thread, process, batch or rank that transforms a sample.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.random.bit_generator import ISpawnableSeedSequence

from bushel._runtime.arrays import I32, I64, Array, refuse_bools
from bushel._runtime.order import LIMIT
from bushel.codecs import holds_image
from bushel.codecs.image import ImageReading, image_reading
from bushel.kernels import draw_crops
from bushel.transforms import EachFrame
from bushel.transforms.by_field import (
    Together,
    Transforms,
    check_known,
    split_together,
    transforms_by_field,
)
from bushel.transforms.fused import DecodePlan, Program, plan_decode, plan_frames
from bushel.transforms.moves import Follower, Moves, grouped, names_of
from bushel.transforms.spatial import Spatial
from bushel.transforms.values import Call, Normalize, ToCHW, Transform, named
from bushel.transforms.warp import Warping

if TYPE_CHECKING:
    from bushel.loader.plan.plan import BatchPlan


class _SampleSeed(ISpawnableSeedSequence):
    """The words (seed, epoch, sample). Philox takes the first two as its key.

    `Philox(key=...)` would cost three times as much, since NumPy then also asks the system for
    entropy, and spawned generators would differ from run to run. A `SeedSequence` mixes the words,
    and is made only for those.
    """

    def __init__(self, *words: int) -> None:
        self._words = words

    def generate_state(self, n_words: int, dtype: Any = np.uint32) -> Array:
        return np.array(self._words[:n_words], dtype)

    def spawn(self, n_children: int) -> list[Any]:
        return self._sequence.spawn(n_children)

    @cached_property
    def _sequence(self) -> np.random.SeedSequence:
        return np.random.SeedSequence(self._words)


def generator(seed: int, epoch: int, sample: int) -> np.random.Generator:
    """Return the source of random numbers for one sample in one epoch.

    It is Philox (Salmon et al., 2011) with the key (seed, epoch) and the sample's position in the
    upper half of its counter.
    """
    counter = np.array([0, 0, sample, 0], np.uint64)
    # NumPy takes any ISeedSequence, but its annotations name only this one
    words = cast("np.random.SeedSequence", _SampleSeed(seed, epoch, sample))
    return np.random.Generator(np.random.Philox(words, counter=counter))


class SampleDraws:
    """The random numbers of some samples. A kernel draws crops for all of them, and everything else a generator each.

    A generator is made when it is asked for, and goes on after the numbers that the kernel drew.

    Args:
        seed: The seed.
        epoch: Number of the epoch.
        samples: int64[n], the number of each sample.
        random: Whether random numbers are drawn at all. If not, samples have no generators.
    """

    def __init__(self, seed: int, epoch: int, samples: I64, *, random: bool) -> None:
        self._seed, self._epoch, self._random = seed, epoch, random
        self._samples = samples
        self._drawn: I64 | None = None  # numbers that the kernel drew; -1 with a generator
        self._made: dict[int, np.random.Generator] = {}

    def __getitem__(self, at: int) -> np.random.Generator | None:
        """Return the generator of a sample; None if nothing is random."""
        if not self._random:
            return None
        if at not in self._made:
            rng = generator(self._seed, self._epoch, int(self._samples[at]))
            if self._drawn is not None:
                rng.random(int(self._drawn[at]))
                self._drawn[at] = -1
            self._made[at] = rng
        return self._made[at]

    def crops(
        self, places: Sequence[int], datas: Sequence[Any], program: Program, *, exif_rotate: bool
    ) -> tuple[I32, list[int]]:
        """Draw the crops of some samples in a kernel.

        Args:
            places: The places of the samples, ascending.
            datas: The stored images.
            program: The steps of the transforms.
            exif_rotate: Whether images are turned by their Exif orientation before.

        Returns:
            The geometries, and the numbers of the images that are left to the caller, as
            `draw_crops` returns them.
        """
        if self._drawn is None:
            self._drawn = np.zeros(len(self._samples), np.int64)
            self._drawn[list(self._made)] = -1
        samples, drawn = self._samples[places], self._drawn[places]
        rows_and_left = draw_crops(
            datas, program, self._seed, self._epoch, samples, drawn, orient=exif_rotate
        )
        self._drawn[places] = drawn
        return rows_and_left


def transformed(call: Call, batch: Any, seed: int, plan: BatchPlan) -> Any:
    """Return a batch after its `batch_transform`, whose random numbers depend on the first position of the batch.

    Raises:
        TypeError: The transform returned None.
    """
    rng = generator(seed, plan.epoch, LIMIT + plan.first) if call.random else None
    batch = call(batch, rng)
    if batch is None:
        raise TypeError(
            f"the batch_transform {named(call.function)} returned None: return the batch"
        )
    return batch


_AS_STORED = ImageReading()
_MASKS = ("mask", "segm", "label", "annot")


class FieldTransforms(Struct, frozen=True):
    """The transforms of one field.

    Attributes:
        field: The field.
        calls: All transforms, for a value that is decoded.
        plan: The transforms that are fused into decoding, or None if no transform is fused. With a
            plan, the dataset leaves the images as stored bytes.
        rest: The transforms that are applied after the plan.
        frames: The transform of each frame that the plan is made from; None if the field is not a
            sequence.
        reading: How images that the dataset leaves as stored bytes are decoded, or None if the
            dataset decodes all images.
        images: The image fields that move together, `field` first; empty if none do. `calls` and
            `rest` then lack the transforms that `plan` draws the geometry from.
        followers: The fields that follow the geometry of these images.
    """

    field: str
    calls: tuple[Call, ...]
    plan: DecodePlan | None = None
    rest: tuple[Call, ...] = ()
    frames: EachFrame | None = None
    reading: ImageReading | None = None
    images: tuple[str, ...] = ()
    followers: tuple[Follower, ...] = ()

    @property
    def fields(self) -> tuple[str, ...]:
        """All fields that change."""
        if not self.images:
            return (self.field,)
        return (*self.images, *names_of(self.followers))

    @property
    def random(self) -> bool:
        """Whether random numbers are drawn."""
        if any(call.random for call in self.calls):
            return True
        return self.plan is not None and self.plan.random

    @classmethod
    def together(
        cls, key: Together, functions: Sequence[Transform], reading: ImageReading | None
    ) -> FieldTransforms:
        """Plan the transforms of fields that move together.

        Raises:
            ValueError: A crop, resizing, flip or rotation comes after `Normalize` or `ToCHW`.
        """
        plan = plan_decode(functions)
        rest = [
            Moves((step,)) if isinstance(step, Spatial | Warping) else step
            for step in grouped(plan.rest)
        ]
        changed = plan.normalise is not None or plan.layout == "CHW"
        for step in rest:
            if isinstance(step, Moves) and changed:
                raise ValueError(
                    f"put {step.transforms[0]} before Normalize "
                    "and ToCHW, which change what an image is"
                )
            changed = changed or isinstance(step, Normalize | ToCHW)
        images = tuple(name for name in key if isinstance(name, str))
        followers = tuple(follower for follower in key if not isinstance(follower, str))
        pixels: list[Transform] = [] if plan.normalise is None else [plan.normalise]
        if plan.layout == "CHW":
            pixels += [ToCHW()]
        calls = tuple(map(Call.of, [*pixels, *rest]))
        return cls(
            images[0], calls, plan, tuple(map(Call.of, rest)), None, reading, images, followers
        )

    @classmethod
    def of(
        cls, field: str, functions: Sequence[Transform], reading: ImageReading | None
    ) -> FieldTransforms:
        """Plan the transforms of a field. With `reading`, those that come first are fused into decoding if possible."""
        calls = tuple(map(Call.of, grouped(functions)))
        if reading is None or not functions:
            return cls(field, calls)
        first = functions[0]
        if isinstance(first, EachFrame):
            plan = plan_frames(first)
            if plan is not None and plan.size is not None:
                return cls(field, calls, plan, calls[1:], first, reading)
            return cls(field, calls)
        plan = plan_decode(functions)
        # results differ in size, so each needs its own array: nothing is gained
        if plan.size is None:
            return cls(field, calls)
        return cls(field, calls, plan, tuple(map(Call.of, grouped(plan.rest))), reading=reading)


class SampleTransforms(Struct, frozen=True):
    """The transforms of a loader, in the order in which they are applied.

    Attributes:
        fields: The transforms of each field.
        random: Whether any of them is random.
        fused: The fields with transforms that are fused into decoding.
        sample: The transform of whole samples, which comes last; None for none.
        encoded: The fields whose images the dataset leaves as stored bytes: the fields of `fused`,
            and all image fields if images are read in another way than by their codecs.
        reducing_gap: See `bushel.transforms.fused.decode_into`.
    """

    fields: tuple[FieldTransforms, ...] = ()
    random: bool = False
    fused: frozenset[str] = frozenset()
    encoded: frozenset[str] = frozenset()
    reducing_gap: float | None = None
    sample: Call | None = None

    @property
    def names(self) -> frozenset[str]:
        """The fields that have transforms."""
        changed = [step for step in self.fields if step.calls or step.plan is not None]
        return frozenset(name for step in changed for name in step.fields)

    @classmethod
    def of(
        cls,
        transforms: Transforms | None,
        spec: Mapping[str, str],
        *,
        complete: bool = True,
        decode: bool = True,
        reducing_gap: float | None = None,
        reading: ImageReading = _AS_STORED,
        sample: Transform | None = None,
    ) -> SampleTransforms:
        """Check and plan the transforms that a loader is given.

        Args:
            transforms: The argument of the loader.
            spec: The spec of the dataset.
            complete: Whether the spec lists all fields. The spec of a stream does not.
            decode: Whether values are decoded. If not, the transforms take stored bytes.
            reducing_gap: The argument of the loader.
            reading: How images are read, in addition to the parameters of their codecs.
            sample: The transform of whole samples.

        Raises:
            SpecError: The dataset has no such field, or no single image field where no field is
                named.
            TypeError: A transform cannot be called.
            ValueError: Transforms of fields that move together cannot be combined, or values are
                not decoded.
        """
        if sample is not None and not callable(sample):
            raise TypeError(f"sample_transform={sample!r} is not callable")
        refuse_bools(reducing_gap=reducing_gap)
        together, single = split_together(transforms)
        by_field = transforms_by_field(single, spec, complete=complete)
        fields = []
        kinds = {name: kind.removesuffix("[]") for name, kind in spec.items()}
        images = {
            name: image_reading(codec) | reading
            for name, codec in kinds.items()
            if holds_image(codec)
        }
        for field, functions in by_field.items():
            how = images.get(field, reading) if decode else None
            fields.append(FieldTransforms.of(field, functions, how))
        for key, functions in together.items():
            if not decode:
                raise ValueError(
                    "fields can only move together if they are decoded: leave out decode=False"
                )
            if complete:
                check_known("transforms", names_of(key), spec)
            _warn_of_masks(key)
            fields.append(
                FieldTransforms.together(key, functions, images.get(str(key[0]), reading))
            )
        last = None if sample is None else Call.of(sample)
        random = any(step.random for step in fields) or (last is not None and last.random)
        plain = {name for name, kind in spec.items() if not kind.endswith("[]") and name in images}
        # the fields whose images the decoder transforms
        fused = frozenset(
            name
            for step in fields
            if step.plan is not None
            for name in step.images or (step.field,)
            if not step.images or (step.plan.size is not None and name in plain)
        )
        if not decode or reading == _AS_STORED:
            return cls(tuple(fields), random, fused, fused, reducing_gap, last)
        planned = {step.field: step for step in fields} | {
            name: FieldTransforms(name, ()) for name in images if name not in by_field
        }
        # decoded when they are moved
        moving = {name for step in fields if step.images for name in step.fields[1:]}
        read = [
            replace(step, reading=images.get(name))
            for name, step in planned.items()
            if name not in moving
        ]
        return cls(tuple(read), random, fused, fused | images.keys(), reducing_gap, last)


def _warn_of_masks(key: Together) -> None:
    """Say that a further image field, whose name is that of a mask, is interpolated as images are."""
    for name in [name for name in key[1:] if isinstance(name, str)]:
        if any(word in name.lower() for word in _MASKS):
            warnings.warn(
                f"transforms= names {name!r} as an image, so its values are interpolated "
                f"and it has three channels: write Mask({name!r}) if they are classes",
                stacklevel=6,
            )
