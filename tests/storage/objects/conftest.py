"""Folders behind an HTTP server, and a bucket in memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.storage.objects.range_server import Server, served


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("BUSHEL_NETWORK_TIMEOUT", "30")
    yield from served(tmp_path, monkeypatch, 60)
