"""A field that is `int` in some files and `float` in others: each batch has the type of `Dataset.spec`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel

EXACT = 1 << 53


def two_files(folder: Path, first: list[Any], second: list[Any]) -> bushel.Dataset:
    folder.mkdir(exist_ok=True)
    for name, values in (("a", first), ("b", second)):
        (folder / f"{name}.jsonl").write_text(
            "".join(f'{{"x": {value}, "n": {n}}}\n' for n, value in enumerate(values))
        )
    return bushel.open(folder, index="memory")


@pytest.mark.parametrize(
    "options", [{}, {"shuffle": True}, {"processes": 1}, {"collate": {"x": "stack"}}, {"fields": ["x"]}]
)
@pytest.mark.parametrize("floats_first", [False, True])
def test_each_batch_has_the_type_of_the_field(options: dict[str, Any], floats_first: bool, tmp_path: Path) -> None:
    parts: list[list[Any]] = [[0, 1, -EXACT, 3], [0.5, 1.5, 2.5, 3.5]]
    dataset = two_files(tmp_path / "lines", *(parts[::-1] if floats_first else parts))
    assert dataset.spec["x"] == "float"
    batches = list(bushel.Loader(dataset, 2, **options))
    assert {(batch["x"].dtype, batch["x"].shape) for batch in batches} == {(np.dtype(np.float64), (2,))}
    assert sorted(np.concatenate([batch["x"] for batch in batches]).tolist()) == sorted(parts[0] + parts[1])
    assert all(batch["n"].dtype == np.int64 for batch in batches if "n" in batch)


def test_an_integer_that_no_float_equals_is_an_error_of_open(tmp_path: Path) -> None:
    message = rf"field 'x' of a.jsonl .* row 1 is {EXACT + 1}\. .*b.jsonl has .*: spec={{'x': 'json'}} keeps"
    with pytest.raises(bushel.SpecError, match=message):
        two_files(tmp_path / "lines", [1, EXACT + 1], [0.5])
    dataset = bushel.open(tmp_path / "lines", spec={"x": "json"})
    assert [sample["x"] for sample in dataset] == [1, EXACT + 1, 0.5]


def test_an_integer_beyond_every_float_is_an_error_of_open(tmp_path: Path) -> None:
    with pytest.raises(bushel.SpecError, match=r"field 'x' of a.jsonl .* row 1 is 10+….* .*b.jsonl has"):
        two_files(tmp_path / "lines", [1, 10**400], [0.5])


def test_a_function_and_a_transform_get_values_of_the_type_of_the_field(tmp_path: Path) -> None:
    dataset = two_files(tmp_path / "lines", [1, 2], [0.5])
    assert [batch["x"] for batch in bushel.Loader(dataset, 2, collate={"x": sum})] == [3, 0.5]
    texts = bushel.Loader(dataset, 2, transforms={"x": [str]})
    assert [batch["x"] for batch in texts] == [["1.0", "2.0"], ["0.5"]]
    text = bushel.Loader(dataset, 2, transforms={"x": [str]}, collate={"x": "stack"})
    with pytest.raises(bushel.errors.SpecError, match="do not stack"):
        list(text)
