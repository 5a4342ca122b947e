"""Saved views stay when their dataset is overwritten, and say themselves whether it has other data now."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import bushel


def write(path: Path, labels: dict[str, int], container: str, **options: Any) -> None:
    spec = {"label": "int", "text": "utf8"}
    with bushel.Writer(path, spec, container=container, sync=False, **options) as writer:
        for key, label in labels.items():
            writer.append({"label": label, "text": f"text {label}"}, key=key)


LABELS = {f"k{number}": number for number in range(6)}


CASES: list[tuple[str, str, dict[str, Any]]] = [
    *(("data", kind, size) for kind in ("tar", "bag", "ffrecord", "recordio") for size in ({}, {"shard_samples": 2})),
    ("data.tar", "tar", {}),
]


@pytest.mark.parametrize(("name", "container", "shards"), CASES)
def test_an_overwrite_keeps_the_views(tmp_path: Path, name: str, container: str, shards: dict[str, Any]) -> None:
    path = tmp_path / name
    write(path, LABELS, container, **shards)
    ds = bushel.open(path)
    ds.where("label < 3").save_view("few")
    ds[[4, 1]].save_view("two")
    write(path, LABELS, container, mode="overwrite", **shards)
    assert [(view.name, view.stale) for view in bushel.list_views(path)] == [("few", False), ("two", False)]
    assert list(bushel.open(path, view="two").keys) == ["k4", "k1"]
    write(path, {**LABELS, "k4": 40}, container, mode="overwrite", **shards)
    assert [(view.name, view.stale) for view in bushel.list_views(path)] == [("few", True), ("two", True)]
    with pytest.raises(bushel.StateError, match="stale"):
        bushel.open(path, view="two")
    with pytest.warns(UserWarning, match="it had 2 samples, and 1 are left"):
        assert list(bushel.open(path, view="two", allow_stale=True).keys) == ["k1"]
