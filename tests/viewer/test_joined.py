"""Datasets that are joined, in the viewer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from tests.viewer.serving import client_of, write

import bushel


def test_the_pages_of_a_join(tmp_path: Path) -> None:
    first = bushel.open(write(tmp_path / "a"))
    with bushel.Writer(tmp_path / "b", {"note": "utf8"}, container="bag", shard_samples=3) as writer:
        for key in first.keys[:5][::-1]:
            writer.append({"note": f"note on {key}"}, key=key)
    both = bushel.join(first, bushel.open(tmp_path / "b"), how="left")
    np.save(tmp_path / "score.npy", np.arange(float(len(both))))
    scores = bushel.open(tmp_path / "score.npy")
    both = bushel.join(both, scores, on="position", names={"data": "score"})
    with client_of(both) as client:
        for page in ("/", "/d/0/shards", "/d/0/s/1", "/d/0/s/5", "/d/0/duplicates", "/d/0?sort=score"):
            assert client.get(page).status_code == 200, page
        sample = client.get("/d/0/s/1").text
        assert f"note on {both.keys[1]}" in sample
        assert "note on" not in client.get("/d/0/s/5").text
        assert str(tmp_path / "b") in client.get("/d/0/shards").text
