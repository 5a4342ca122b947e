"""Random values of fields, and the comparison of batches with them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from tests.loader.memory_dataset import MemoryDataset

NUMBERS = st.one_of(
    st.integers(-(2**63) - 2, 2**64 + 2),
    st.sampled_from([0, 1, -1, 2**53 + 1, 2**63 - 1, 2**63, 2**63 + 1, 2**64 - 1, 2**64, -(2**63)]),
    st.booleans(),
    st.floats(allow_nan=False),
    st.builds(np.uint64, st.integers(0, 2**64 - 1)),
    st.builds(np.int64, st.integers(-(2**63), 2**63 - 1)),
    st.builds(np.float32, st.floats(width=32, allow_nan=False)),
    st.builds(np.uint8, st.integers(0, 255)),
)
DTYPES = ["?", "i1", "u1", ">i2", "<u2", ">i4", "i8", "u8", ">u8", ">f4", "f2", "<f8", ">f8", ">c8"]


@st.composite
def arrays(draw: st.DrawFn, shapes: st.SearchStrategy[tuple[int, ...]], dtypes: st.SearchStrategy[str]) -> Any:
    """An array of random numbers of any type, perhaps a view with strides."""
    shape, dtype = draw(shapes), np.dtype(draw(dtypes))
    noise = np.random.default_rng(draw(st.integers(0, 2**32)))
    count = int(np.prod(shape))
    values: Any
    if dtype.kind in "fc":
        values = noise.standard_normal(count)
    elif dtype.kind == "b":
        values = noise.integers(0, 2, count)
    else:
        limits = np.iinfo(dtype)
        values = noise.integers(limits.min, limits.max, count, dtype=dtype.newbyteorder("="), endpoint=True)
    made = values.astype(dtype).reshape(shape)
    return made[::-1] if noise.integers(2) else made


@st.composite
def fields(draw: st.DrawFn) -> list[Any]:
    """The values of one field in six samples: numbers, arrays of one shape or of several, of one type or of several."""
    if draw(st.booleans()):
        return draw(st.lists(NUMBERS, min_size=6, max_size=6))
    lengths = st.sampled_from([0, 1, 3, 700] if draw(st.booleans()) else [5000])
    length = draw(lengths)
    one_shape, one_type = draw(st.booleans()), draw(st.booleans())
    dtype = draw(st.sampled_from(DTYPES))
    shapes = st.tuples(st.just(length) if one_shape else lengths)
    dtypes = st.just(dtype) if one_type else st.sampled_from(DTYPES)
    return draw(st.lists(arrays(shapes, dtypes), min_size=6, max_size=6))


class Values(MemoryDataset):
    """A dataset whose field `x` has given values."""

    def __init__(self, values: list[Any]) -> None:
        super().__init__(len(values))
        self.values, self.spec = values, {"x": "array"}

    def decode_sample(self, stored: dict[str, Any]) -> dict[str, Any]:
        number = self.keys.index(stored["__key__"])
        return {"__key__": stored["__key__"], "x": self.values[number]}


def same_number(found: Any, value: Any) -> bool:
    """Return whether two numbers are equal as numbers, whatever their types."""
    found, value = (one.item() if isinstance(one, np.generic) else one for one in (found, value))
    return bool(found == value)


def assert_holds(batch: Any, values: list[Any], rule: object) -> None:
    """Check that a field of a batch equals the values of its samples."""
    if type(batch).__module__ == "torch":
        batch = batch.numpy()
    if isinstance(batch, dict):  # of Ragged
        offsets = np.asarray(batch["offsets"])
        joined = np.asarray(batch["values"])
        batch = [joined[start:end] for start, end in zip(offsets, offsets[1:], strict=False)]
    assert len(batch) == len(values)
    if isinstance(batch, np.ndarray):
        assert batch.dtype.isnative
    for own, value in zip(batch, values, strict=True):
        if isinstance(value, np.ndarray):
            row = own.numpy() if type(own).__module__ == "torch" else np.asarray(own)
            if type(rule).__name__ == "Padded":
                assert not row[len(value) :].any()
                row = row[: len(value)]
            assert row.shape == value.shape
            assert all(map(same_number, row.tolist(), value.tolist()))
            assert row.tolist() == value.tolist()
        else:
            assert same_number(own.item() if hasattr(own, "item") else own, value)
