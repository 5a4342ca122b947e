"""A dataset that is replaced while it is opened: all of it is of one generation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import bushel
from bushel._dataset.open import as_listed
from bushel._dataset.open import open as opening


def write(path: Path, generation: int, samples: int = 6) -> None:
    with bushel.Writer(path, {"x": "i64"}, container="tar", mode="overwrite", shard_samples=2, sync=False) as writer:
        for number in range(samples):
            writer.append({"x": 100 * generation + number}, key=f"k{number}")


@pytest.mark.parametrize("by", ["folder", "link", "glob"])
@pytest.mark.parametrize("samples", [6, 4], ids=["as many", "fewer"])
@pytest.mark.parametrize("steps", [("as_written", "discover"), ("_checked_shards",)], ids=["found", "loaded"])
def test_a_folder_that_is_replaced_while_it_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: tuple[str, ...], samples: int, by: str
) -> None:
    path = tmp_path / "data"
    write(path, 1)
    (tmp_path / "link").symlink_to("data")
    source: Any = {"folder": path, "link": tmp_path / "link", "glob": f"{path}/*.tar"}[by]
    calls = list[int]()

    def replaced_after(step: Any) -> Any:
        def replaced_meanwhile(*arguments: Any, **options: Any) -> Any:
            result = step(*arguments, **options)
            calls.append(1)
            if len(calls) == 1:
                write(path, 2, samples)
            return result

        return replaced_meanwhile

    for step in steps:
        module = as_listed if step == "discover" else opening
        monkeypatch.setattr(module, step, replaced_after(getattr(module, step)))
    try:
        dataset = bushel.open(source)
    except FileNotFoundError:  # the names of the old one
        assert (by, samples) == ("glob", 4)
        return
    assert [sample["x"] for sample in dataset] == [200 + number for number in range(samples)]
