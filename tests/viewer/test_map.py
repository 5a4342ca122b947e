"""The map of vectors: its places, its lasso, and samples that are like one."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.viewer.placed import SAMPLES, write_vectors
from tests.viewer.serving import client_of, write

import bushel
from bushel.viewer.vectors import inside, main_directions, similarities


def settled(client: Any, field: str = "embedding") -> dict[str, Any]:
    """Return the status of the map when all vectors were read."""
    while True:
        found: dict[str, Any] = client.get(f"/api/0/map?field={field}").json()
        if found["done"] == found["total"]:
            return found


def places(client: Any, field: str = "embedding") -> Any:
    """Return the places on the map."""
    return np.frombuffer(client.get(f"/api/0/points?field={field}").content, "<f4").reshape(-1, 2)


@pytest.mark.parametrize("size", [6, 700])
def test_the_main_directions_are_those_of_the_covariance(size: int) -> None:
    rng = np.random.default_rng(1)
    values = (rng.normal(size=(300, size)) * np.array([30, 15, *[0.5] * (size - 2)]) + 5).astype(np.float32)
    found, share = main_directions(values)
    centred = values - values.mean(axis=0, dtype=np.float64)
    powers = np.linalg.svd(centred, compute_uv=False) ** 2
    assert share == pytest.approx(powers[:2].sum() / powers.sum(), rel=0.02)
    assert np.allclose(np.square(found.astype(np.float64)).sum(axis=0), powers[:2], rtol=0.05)
    one, other = found.astype(np.float64).T
    assert abs(one @ other) < 0.05 * (one @ one)


def test_equal_vectors_have_a_place() -> None:
    found, share = main_directions(np.ones((5, 4), np.float32))
    assert np.allclose(found, 0)
    assert share == 0


def test_a_polygon_holds_the_points_inside() -> None:
    points = np.array([[0, 0], [0.9, 0.9], [2, 0], [0.5, -0.9], [np.nan, 0]], np.float32)
    square = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], np.float64)
    assert inside(points, square).tolist() == [True, True, False, True, False]
    notched = np.array([[-1, -1], [1, -1], [1, 1], [0, -0.5], [-1, 1]], np.float64)
    assert inside(points, notched).tolist() == [False, False, False, True, False]


def test_similarities_are_cosines() -> None:
    values = np.array([[1, 0], [2, 0], [0, 3], [-1, 0], [0, 0], [np.nan, 1]], np.float32)
    found = similarities(values, 0)
    assert found[:4].tolist() == [1, 1, 0, -1]
    assert np.isnan(found[4:]).all()


def test_the_map_has_a_place_for_each_vector(tmp_path: Path) -> None:
    with client_of(write_vectors(tmp_path / "data")) as client:
        assert "Map of embedding" in client.get("/d/0/map").text
        found = settled(client)
        assert (found["total"], found["numbers"], found["missing"], found["step"]) == (SAMPLES, 8, 1, 1)
        points = places(client)
        assert np.isnan(points[3]).all()
        rest = np.delete(points, 3, axis=0)
        assert np.abs(rest).max() == pytest.approx(0.95, abs=0.01)
        labels = np.delete(np.arange(SAMPLES) % 2, 3)
        assert abs(rest[labels == 0, 0].mean() - rest[labels == 1, 0].mean()) > 1


def test_a_lasso_gives_a_tag(tmp_path: Path) -> None:
    with client_of(write_vectors(tmp_path / "data")) as client:
        settled(client)
        points = places(client)
        side = 1 if points[0, 0] > 0 else -1
        polygon = ",".join(map(str, [0, -2, 2 * side, -2, 2 * side, 2, 0, 2]))
        found = client.post(f"/api/0/lasso?field=embedding&polygon={polygon}").json()
        assert (found["count"], found["tags"]) == (SAMPLES // 2, {})
        assert found["some"][0] == [0, "k00"]
        found = client.post(f"/api/0/lasso?field=embedding&polygon={polygon}&name=even&do=add").json()
        assert found["tags"] == {"even": SAMPLES // 2}
        rows = client.get("/api/0/rows?tag=even").json()["rows"]
        assert [row["position"] for row in rows] == list(range(0, SAMPLES, 2))
        few = client.post(f"/api/0/lasso?field=embedding&polygon={polygon}&q=k0&name=even&do=remove").json()
        assert (few["count"], few["tags"]) == (5, {"even": SAMPLES // 2 - 5})


@pytest.mark.parametrize("polygon", ["", "0,0,1,1", "0,0,1,0,1", "0,0,1,0,nan,1", "a,b,c,d,e,f"])
def test_a_malformed_polygon(tmp_path: Path, polygon: str) -> None:
    with client_of(write_vectors(tmp_path / "data")) as client:
        settled(client)
        answer = client.post(f"/api/0/lasso?field=embedding&polygon={polygon}")
        assert answer.status_code == 400
        assert "polygon" in answer.json()["error"]


def test_points_have_the_colours_of_a_column(tmp_path: Path) -> None:
    path = write_vectors(tmp_path / "data")
    bushel.index(path, columns="auto").close()
    with client_of(path) as client:
        settled(client)
        found = client.get("/api/0/colours?field=embedding&colour=label").json()
        numbers = np.frombuffer(base64.b64decode(found["numbers"]), np.uint8)
        assert [each[1] for each in found["legend"]] == ["0", "1"]
        assert len(set(numbers[::2])) == len(set(numbers[1::2])) == 1
        found = client.get("/api/0/colours?field=embedding&colour=label&where=label+==+1").json()
        assert [(each[1], each[3]) for each in found["legend"]] == [("1", 20), ("not listed", 20)]
        assert client.get("/api/0/colours?field=embedding&colour=odd").status_code == 404


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


def test_vectors_of_a_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    np.save(tmp_path / "clip.npy", rng.normal(size=(12, 16)).astype(np.float16))
    np.save(tmp_path / "places.npy", rng.normal(size=(12, 2)))
    files = [tmp_path / "clip.npy", tmp_path / "places.npy"]
    with client_of(write(tmp_path / "data", 12), embeddings=files) as client:
        assert settled(client, "clip.npy")["numbers"] == 16
        assert settled(client, "places.npy")["explained"] is None
        own = np.load(tmp_path / "places.npy")
        assert np.argsort(places(client, "places.npy")[:, 0]).tolist() == np.argsort(own[:, 0]).tolist()
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
