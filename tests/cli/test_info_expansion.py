from __future__ import annotations

import io
import tarfile
from pathlib import Path

import cramjam
import numpy as np
import pytest
from tests.cli.running import run

import bushel
from bushel._index import expansion


def test_a_dataset_that_expands_far_more_than_it_returns_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for number in range(20):
            member = tarfile.TarInfo(f"{number:03}.bin")
            member.size = 3000
            tar.addfile(member, io.BytesIO(np.random.default_rng(number).bytes(3000)))
    (tmp_path / "x.tar.zst").write_bytes(bytes(cramjam.zstd.compress(archive.getvalue())))
    run("index", tmp_path)
    info = bushel.open(tmp_path).info
    assert (info.expansion > 0, info.costly) == (True, None)  # the block fits into the memory
    assert "expands" not in repr(info)
    monkeypatch.setattr(expansion, "KEPT", 0)
    info = bushel.open(tmp_path).info
    what = f"reading at random expands {info.expansion:,.0f} times the bytes that it returns"
    assert info.expansion > 20
    assert info.costly == what
    assert what in repr(info)
    assert what in " ".join(run("info", tmp_path).split())
