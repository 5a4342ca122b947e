"""A dataset that every page of the viewer has something to show of, and all that a browser asks about it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from tests.viewer.serving import client_of

import bushel

SAMPLES = 9
_SPEC = {
    "image": "png",
    "frames": "jpg[]",
    "states": "array",
    "boxes": "json",
    "mask": "png",
    "embedding": "array",
    "caption": "utf8",
    "label": "int",
    "prediction": "int",
}
POSTED = {
    "/api/{d:int}/measure": "/api/0/measure?field=image",
    "/api/{d:int}/tags": "/api/0/tags?name=seen&do=add&i=1&i=4",
}
ASKED: Mapping[str, tuple[str, ...]] = {
    "/": ("/",),
    "/static/{name}": ("/static/grid.js", "/static/view.css"),
    "/d/{d:int}": ("/d/0", "/d/0?view=table", "/d/1"),
    "/d/{d:int}/s/{position:int}": ("/d/0/s/4", "/d/1/s/0"),
    "/d/{d:int}/key/{key:path}": ("/d/0/key/set/003",),
    "/d/{d:int}/thumb": tuple(f"/d/0/thumb?i={number}&f=image&side=256" for number in range(SAMPLES))
    + ("/d/0/thumb?i=4&f=frames&e=1&side=128",),
    "/d/{d:int}/bytes": ("/d/0/bytes?i=2&f=image", "/d/0/bytes?i=2&f=caption&download=1"),
    "/d/{d:int}/play/{position:int}": ("/d/0/play/4",),
    "/api/{d:int}/tracks/{position:int}": ("/api/0/tracks/4",),
    "/api/{d:int}/rows": (
        "/api/0/rows?first=0&count=60&columns=1",
        "/api/0/rows?q=set/00&sort=-label",
        "/api/0/rows?where=label+==+1",
        "/api/0/rows?tag=seen",
        "/api/0/rows?sort=-like.embedding.3",
        "/api/0/rows?sort=quality.image.sharpness",
    ),
    "/api/{d:int}/histogram": ("/api/0/histogram?column=label", "/api/0/histogram?column=image.width&scale=log"),
    "/d/{d:int}/shards": ("/d/0/shards",),
    "/d/{d:int}/batches": ("/d/0/batches?step=1", "/d/0/batches?loader=training"),
    "/d/{d:int}/batch-picture": ("/d/0/batch-picture?step=1&f=image&row=0",),
    "/d/{d:int}/duplicates": ("/d/0/duplicates", "/d/0/duplicates?field=caption"),
    "/d/{d:int}/compare": ("/d/0/compare", "/d/0/compare?left=0:caption&right=1:caption&show=differences"),
    "/d/{d:int}/difference": ("/d/0/difference?left=0:image&right=1:image&i=0&j=0",),
    "/d/{d:int}/quality": ("/d/0/quality?with=1", "/d/0/quality?field=caption", "/d/0/quality?field=states"),
    "/api/{d:int}/overlays": ("/api/0/overlays?i=0&i=1",),
    "/d/{d:int}/mask": ("/d/0/mask?i=1&f=mask&side=256",),
    "/d/{d:int}/confusion": ("/d/0/confusion",),
    "/api/{d:int}/tags": ("/api/0/tags",),
    "/api/{d:int}/export": tuple(f"/api/0/export?tag=seen&as={kind}" for kind in ("keys", "table", "python")),
}
"""What is asked, by the path of the route that answers."""


def write_everything(path: Path, *, changed: int | None = None) -> Path:
    """Write pictures with annotations, sequences, vectors, predictions, and columns of them, in two tar shards.

    Args:
        path: The folder.
        changed: A sample with another caption and another picture.
    """
    rng = np.random.default_rng(3)
    with bushel.Writer(path, _SPEC, container="tar", shard_samples=5, sync=False) as writer:
        for number in range(SAMPLES):
            other = number == changed
            mask = np.zeros((40, 60), np.uint8)
            mask[:20] = 1 + number % 2
            writer.append(
                {
                    "image": np.roll(rng.integers(0, 255, (40, 60, 3), np.uint8), int(other), axis=0),
                    "frames": [np.full((16, 24, 3), 40 * frame, np.uint8) for frame in range(4)],
                    "states": rng.normal(size=(4, 3)).astype(np.float32),
                    "boxes": [{"bbox": [5, 5, 20, 10], "category_id": number % 2}],
                    "mask": mask,
                    "embedding": rng.normal(size=8).astype(np.float32),
                    "caption": "changed" if other else f"number {number % 8}",
                    "label": number % 3,
                    "prediction": number % 2,
                },
                key=f"set/{number:03d}",
            )
    bushel.index(path, columns="auto").close()
    return path


@contextmanager
def viewer_of(source: Any, other: Any) -> Iterator[Any]:
    """Yield a client of a viewer of a dataset, another one and a loader."""
    loader = bushel.Loader(bushel.open(source), 4, fields=["image", "label"])
    with client_of(source, other, loaders={"training": loader}) as client:
        yield client


def ask_everything(client: Any) -> None:
    """Ask for every page, picture and answer, and check that none fails and that no route is left out."""
    paths = {route.path for route in client.app.routes}
    assert paths == {*ASKED, *POSTED, "/api/{d:int}/view"}
    for path in POSTED.values():
        found = client.post(path)
        assert found.status_code == 200, f"{path}: {found.text[:300]}"
    # the measures of pictures come before the rows that are sorted by them
    for route in sorted(ASKED, key=lambda path: path == "/api/{d:int}/rows"):
        for path in ASKED[route]:
            found = client.get(path)
            assert found.status_code in (200, 206), f"{path}: {found.status_code} {found.text[:300]}"
            if "html" in found.headers["content-type"]:
                assert not re.search("cannot be (read|decoded)", found.text), path
    rows = client.get("/api/0/rows?sort=label").json()
    assert rows["total"] == SAMPLES
    assert [row["error"] for row in rows["rows"]] == [None] * SAMPLES
    assert "9 samples on both sides" in " ".join(re.sub("<[^>]*>", " ", client.get("/d/0/compare").text).split())
