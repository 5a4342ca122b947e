"""Samples that are like one, by their vectors."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.viewer.placed import SAMPLES, write_vectors
from tests.viewer.serving import client_of, write

import bushel
from bushel.viewer.quality import similarities, vectors_of_field


def test_similarities_are_cosines() -> None:
    values = np.array([[1, 0], [2, 0], [0, 3], [-1, 0], [0, 0], [np.nan, 1]], np.float32)
    found = similarities(values, 0)
    assert found[:4].tolist() == [1, 1, 0, -1]
    assert np.isnan(found[4:]).all()


def test_samples_are_sorted_by_likeness(tmp_path: Path) -> None:
    with client_of(write_vectors(tmp_path / "data")) as client:
        assert "sort=-like.embedding.5" in client.get("/d/0/s/5").text
        rows = client.get("/api/0/rows?sort=-like.embedding.5").json()["rows"]
        assert rows[0]["position"] == 5
        assert {row["position"] % 2 for row in rows[:19]} == {1}
        assert rows[-1]["position"] == 3  # it has no such vector
        assert 'value="-like.embedding.5" selected' in client.get("/d/0?sort=-like.embedding.5").text
        assert client.get("/api/0/rows?sort=-like.embedding.99").status_code == 404
        assert client.get("/api/0/rows?sort=-like.odd.4").status_code == 404


def test_fields_without_vectors_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with client_of(write(tmp_path / "plain", 12)) as client:
        answer = client.get("/api/0/rows?sort=-like.label.2")
        assert answer.status_code == 400
        assert "'label' has no arrays" in answer.json()["error"]
    monkeypatch.setattr("bushel.viewer.quality._MOST", 8 * 4 * SAMPLES - 1)
    with pytest.raises(ValueError, match="open a view of fewer samples"):
        vectors_of_field(bushel.open(write_vectors(tmp_path / "data")), "embedding")


def test_vectors_of_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    np.save(tmp_path / "clip.npy", rng.normal(size=(12, 16)).astype(np.float16))
    with client_of(write(tmp_path / "data", 12), embeddings=[tmp_path / "clip.npy"]) as client:
        assert "sort=-like.clip.npy.5" in client.get("/d/0/s/5").text
        assert client.get("/api/0/rows?sort=-like.clip.npy.2").json()["rows"][0]["position"] == 2


@pytest.mark.parametrize("shape", [(12,), (12, 1), (11, 4)])
def test_a_file_of_something_else(tmp_path: Path, shape: tuple[int, ...]) -> None:
    np.save(tmp_path / "file.npy", np.zeros(shape))
    with (
        pytest.raises(ValueError, match="file.npy"),
        client_of(write(tmp_path / "data", 12), embeddings=[tmp_path / "file.npy"]),
    ):
        pass


def test_a_file_of_objects_is_not_opened(tmp_path: Path) -> None:
    np.save(tmp_path / "file.npy", np.array([{}, []], object), allow_pickle=True)
    with (
        pytest.raises(ValueError, match="Python objects"),
        client_of(write(tmp_path / "data", 2), embeddings=[tmp_path / "file.npy"]),
    ):
        pass
