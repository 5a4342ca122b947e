"""Ray on this machine: runs wherever Ray is installed; `make cluster` installs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests._pack.pack_sources import Numbered, files_of
from tests.engines.conformance import check_engine
from tests.engines.jobs import KillsOnce
from tests.engines.local_ray import local_ray

import bushel

ray = pytest.importorskip("ray")

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]


@pytest.fixture(scope="module", autouse=True)
def _cluster() -> Iterator[None]:
    with local_ray():
        yield


def test_conformance(tmp_path: Path) -> None:
    from bushel.engines.ray import RayEngine

    check_engine(RayEngine, tmp_path)


def test_a_worker_that_dies(tmp_path: Path) -> None:
    note = tmp_path / "note"
    note.touch()
    done = bushel.pack(KillsOnce(20, note, 11), tmp_path / "out", container="tar", parts=4, engine="ray")
    assert (done.samples, done.kept) == (20, 0)
    bushel.pack(Numbered(20), tmp_path / "one", container="tar", parts=4)
    assert files_of(tmp_path / "out") == files_of(tmp_path / "one")
