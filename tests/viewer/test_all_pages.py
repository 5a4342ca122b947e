"""Every page of the viewer, of local datasets and of datasets on the Hub."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.objects.hub_server import Hub, hub_for
from tests.viewer.all_pages import ask_everything, viewer_of, write_everything


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    yield from hub_for(tmp_path, monkeypatch)


def test_local_datasets(tmp_path: Path) -> None:
    with viewer_of(write_everything(tmp_path / "one"), write_everything(tmp_path / "two", changed=4)) as client:
        ask_everything(client)
        assert client.post("/api/0/view?tag=seen&name=some").json()["samples"] == 2


def test_datasets_on_the_hub(hub: Hub) -> None:
    write_everything(hub.folder / "one")
    write_everything(hub.folder / "two", changed=4)
    url = "hf://datasets/org/photos"
    with viewer_of(f"{url}/one/", f"{url}/two/") as client:
        ask_everything(client)
        refused = client.post("/api/0/view?tag=seen&name=some")
        assert refused.status_code in (400, 422)
        assert "hf://" in refused.json()["error"]
