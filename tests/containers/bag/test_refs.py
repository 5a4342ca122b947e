"""`refs.bag` as it is written at once, against msgpack, which is what Granular writes it with."""

from __future__ import annotations

import msgpack
import numpy as np
import pytest

from bushel.containers.bag.writer import encode_refs


@pytest.mark.parametrize(("fields", "samples"), [(1, 70_000), (2, 66_000), (16, 300), (1, 0), (3, 128)])
def test_plain_fields(fields: int, samples: int) -> None:
    parts = list(encode_refs([None] * fields, samples))
    expected = [msgpack.packb([number] * fields) for number in range(samples)]
    assert b"".join(data for data, _ in parts) == b"".join(expected)
    lengths = np.concatenate([np.zeros(0, np.int64), *(own for _, own in parts)])
    assert lengths.tolist() == [len(record) for record in expected]


def test_sequences() -> None:
    [(data, lengths)] = encode_refs([None, [0, 2, 2, 300]], 3)
    expected = [msgpack.packb([number, refs]) for number, refs in enumerate([[0, 2], [], [2, 298]])]
    assert data == b"".join(expected)
    assert lengths.tolist() == [len(record) for record in expected]
