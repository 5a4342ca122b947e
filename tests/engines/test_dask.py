"""Dask on this machine: runs wherever distributed is installed; `make cluster` installs it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests._pack.pack_sources import Numbered, files_of
from tests.engines.conformance import check_engine
from tests.engines.jobs import KillsOnce
from tests.paths import ROOT

import bushel
from bushel.engines import connect

distributed = pytest.importorskip("distributed")

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def client() -> Iterator[Any]:
    """Start workers for one test: the test of conformance leaves one of them hanging."""
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


SCRIPT = """
import bushel
from tests._pack.pack_sources import Numbered
{guard}print(bushel.pack(Numbered(4), "out", container="tar", engine="dask", parts=2).samples)
"""


@pytest.mark.parametrize("guard", ['if __name__ == "__main__": ', ""])
def test_a_script(tmp_path: Path, guard: str) -> None:
    """A script without a guard prints what it needs; one with a guard prints nothing of Dask's, such as its ports."""
    (tmp_path / "script.py").write_text(SCRIPT.format(guard=guard))
    with socket.socket() as taken:
        with suppress(OSError):  # somebody has it
            taken.bind(("127.0.0.1", 8787))  # Dask's usual port, of which it would warn
            taken.listen()
        done = subprocess.run(
            [sys.executable, "script.py"],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
            capture_output=True,
            text=True,
            check=False,
        )
    if guard:
        assert done.stdout == "4\n"
        assert "Port" not in done.stderr
    else:
        assert 'call Bushel below `if __name__ == "__main__":`' in done.stderr
        assert not list(tmp_path.glob("out/part-*"))
