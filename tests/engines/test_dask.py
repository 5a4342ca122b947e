"""Dask on this machine: runs wherever distributed is installed; `make cluster` installs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.engines.jobs import KillsOnce
from tests.ingest.pack_sources import Numbered, files_of
from tests.paths import ROOT

import bushel
from bushel.engines import connect
from bushel.testing import check_engine

distributed = pytest.importorskip("distributed")

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        with cluster, distributed.Client(cluster) as made:
            yield made


def test_conformance(tmp_path: Path, client: Any) -> None:
    from bushel.engines.dask import DaskEngine

    check_engine(lambda: DaskEngine(client), tmp_path)


def test_a_worker_that_dies(tmp_path: Path, client: Any) -> None:
    note = tmp_path / "note"
    note.touch()
    done = bushel.pack(KillsOnce(20, note, 11), tmp_path / "out", container="tar", parts=4, engine=client)
    assert (done.samples, done.kept) == (20, 0)
    bushel.pack(Numbered(20), tmp_path / "one", container="tar", parts=4)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "one")
    assert type(connect(client)).__name__ == "DaskEngine"
