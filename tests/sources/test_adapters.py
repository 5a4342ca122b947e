from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.sources.folders import picture

import bushel
from bushel.errors import FormatError
from bushel.sources import Adapter, open_source
from bushel.testing import check_source


class Videos:
    """As GulpIO's documentation has it; cuts its own list, as one of GulpIO's own adapters does."""

    def __init__(self, count: int) -> None:
        self.numbers = list(range(count))

    def __len__(self) -> int:
        return len(self.numbers)

    def iter_data(self, slice_element: slice | None = None) -> Iterator[dict[str, Any]]:
        self.numbers = self.numbers[slice_element or slice(None)]
        for number in self.numbers:
            if number != 3:
                yield {"id": number, "frames": [picture(number), picture(number + 1)], "meta": {"label": number}}


def test_an_adapter_is_packed_as_it_is(tmp_path: Path) -> None:
    check_source(Adapter(Videos(3)))
    assert type(open_source(Videos(3))) is Adapter
    done = bushel.pack(Videos(6), tmp_path / "out", container="gulp", shard_samples=2, threads=4, max_errors=1)
    assert (done.samples, done.errors) == (5, 1)
    dataset = bushel.open(tmp_path / "out")
    assert list(dataset.keys) == ["0", "1", "2", "4", "5"]
    assert [sample["meta"] for sample in dataset] == [{"label": number} for number in (0, 1, 2, 4, 5)]
    assert [len(sample["frames"]) for sample in dataset] == [2] * 5
    assert np.abs(dataset[0]["frames"][1].astype(int) - picture(1)).mean() < 8
    meta = json.loads(min((tmp_path / "out").glob("*.gmeta")).read_text())
    assert meta["0"]["meta_data"] == [{"label": 0}]
    with pytest.raises(FormatError, match="returned no frames for item 3"):
        Adapter(Videos(6))[3]
