"""The transforms of one field while packing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from msgspec import Struct

from bushel import kernels
from bushel.codecs import Buffer, get_codec
from bushel.transforms.fused import DecodePlan, decode_into, image_size, plan_decode
from bushel.transforms.geometry import Geometry, Image
from bushel.transforms.values import Call, Transform, apply_calls

from .field_plan import image_kind

Generators = Callable[[], "np.random.Generator"]
"""Return a new random generator in its initial state."""


class FieldSteps(Struct, frozen=True):
    """The transforms of one field. A crop or resize at the beginning is fused into the decoding of JPEGs."""

    field: str
    calls: tuple[Call, ...]  # all transforms, for a decoded value
    plan: DecodePlan | None  # the transforms that are fused into decoding, or None
    rest: tuple[Call, ...]  # the transforms that follow the plan

    @classmethod
    def of(cls, field: str, functions: Sequence[Transform]) -> FieldSteps:
        """Plan the transforms of a field."""
        calls = tuple(map(Call.of, functions))
        plan = plan_decode(functions)
        if not plan.spatial or plan.normalise is not None or plan.layout != "HWC":
            return cls(field, calls, None, ())
        return cls(field, calls, plan, tuple(map(Call.of, plan.rest)))

    def on_stored(self, codec: str, data: Buffer, generators: Generators) -> Any:
        """Transform an encoded value.

        Returns:
            The result; `data` itself if no transform changed the value.

        Raises:
            CodecError: The bytes are damaged.
            Exception: A transform raised.
        """
        if self.plan is None or image_kind(data) != "jpg":
            decoded = get_codec(codec).decode(data)
            changed = self.on_value(decoded, generators)
            return data if changed is decoded else changed
        rng, size = generators(), image_size(data)
        geometry = self.plan.geometry(*size, rng)
        if geometry != Geometry.whole(*size):
            return apply_calls(
                self.rest, _decode_region(self.plan, data, geometry), rng, self.field
            )
        decoded = get_codec(codec).decode(data)
        changed = apply_calls(self.rest, decoded, rng, self.field)
        return data if changed is decoded else changed

    def on_value(self, value: Any, generators: Generators) -> Any:
        """Transform a decoded value."""
        return apply_calls(self.calls, value, generators(), self.field)


def _decode_region(plan: DecodePlan, data: Buffer, geometry: Geometry) -> Image:
    width, height = geometry.size
    channels = 1 if kernels.jpeg_header(data).components == 1 else 3
    out = np.empty((1, height, width, channels), np.uint8)
    errors = decode_into(plan, [data], [geometry], out)
    if errors:
        raise errors[0]
    return out[0, :, :, 0] if channels == 1 else out[0]
