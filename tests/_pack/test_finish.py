"""The finish joins the manifests of parts, and compares the hashes of their keys."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests._pack.pack_sources import Numbered, files_of
from tests.storage.objects.memory import Buckets, objects_in

import bushel
from bushel._index.shard import repeated_hashes
from bushel._pack.run_folder import find_run
from bushel.engines.local import LocalEngine
from bushel.storage.objects.location import ObjectPath

SOURCE = Numbered(20, bad=(4, 15))
OPTIONS: dict[str, Any] = {"container": "tar", "parts": 7, "shard_samples": 2, "max_errors": 2}


def everything(path: Path) -> tuple[dict[str, bytes], bytes, Any]:
    manifest = json.loads((path / ".bushel/manifest.json").read_text())
    del manifest["crc32"]  # which the times are a part of
    for shard in manifest["shards"]:
        shard["files"] = [file[:2] for file in shard["files"]]  # without times
    return files_of(path), path.with_name(f"{path.name}.errors.jsonl").read_bytes(), manifest


def test_here_and_on_an_engine(tmp_path: Path) -> None:
    bushel.pack(SOURCE, tmp_path / "here", **OPTIONS)
    bushel.pack(SOURCE, tmp_path / "processes", engine=LocalEngine(2), **OPTIONS)
    assert everything(tmp_path / "processes") == everything(tmp_path / "here")
    names = {path.name for path in (tmp_path / "here/.bushel/run").iterdir()}
    assert names == {"plan.json", "result.json"}


def test_in_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Buckets(monkeypatch, tmp_path / "scratch")
    bushel.pack(SOURCE, tmp_path / "out", **OPTIONS)
    out = ObjectPath.parse("s3://bucket/out")
    bushel.pack(SOURCE, str(out), **OPTIONS)
    assert objects_in(out) == files_of(tmp_path / "out")
    assert list(bushel.open(str(out)).keys) == list(bushel.open(tmp_path / "out").keys)
    run, plan = find_run(str(out))
    assert (run.missing(plan), run.load_result() is not None) == ([], True)


@given(
    st.lists(st.lists(st.integers(0, 2**64 - 1), unique=True, max_size=20), min_size=1, max_size=6),
    st.data(),
)
def test_hashes_that_several_parts_have(parts: list[list[int]], data: Any) -> None:
    if parts[0]:
        parts[-1] = list({*parts[-1], data.draw(st.sampled_from(parts[0]))})
    counts = Counter(value for part in parts for value in part)
    repeated = repeated_hashes([np.array(part, np.uint64) for part in parts])
    assert repeated.tolist() == sorted(value for value, count in counts.items() if count > 1)
