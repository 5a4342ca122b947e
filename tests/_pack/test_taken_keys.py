"""Keys that samples of several parts have: the parts are not joined, and the error names them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests._pack.pack_sources import Numbered, files_of
from tests.storage.objects.memory import Buckets

import bushel
from bushel._pack.finish import finish_run
from bushel._pack.run_folder import find_run
from bushel.engines.local import LocalEngine
from bushel.errors import StateError

TWICE = {3: 1, 8: 1, 9: 8, 13: 2, 14: 4, 15: 5}
NAMED = (
    "'k0001' in part-00000 and part-00001; 'k0002' in part-00000 and part-00002; "
    "'k0004' in part-00000 and part-00002; 'k0005' in part-00001 and part-00003. The parts are not joined. "
    "Give every sample a key of its own with keys="
)
OPTIONS: dict[str, Any] = {"container": "tar", "max_errors": None, "shard_samples": 2}


class Repeating(Numbered):
    """Some samples have the key of an earlier one; one of them is in the same part as that, with 4 parts of 5."""

    def __getitem__(self, position: int) -> dict[str, Any]:
        sample = super().__getitem__(position)
        return {**sample, "__key__": f"k{TWICE.get(position, position):04d}"}


SOURCE = Repeating(20, bad=(6,))


@pytest.mark.parametrize("target", ["out", "s3://bucket/out"])
@pytest.mark.parametrize("engine", [None, LocalEngine(2)], ids=["here", "engine"])
def test_parts_with_the_same_keys_are_not_joined(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, target: str, engine: Any
) -> None:
    if ":" in target:
        if engine is not None:
            pytest.skip("the store is in the memory of this process")
        Buckets(monkeypatch, tmp_path / "scratch")
    path: Any = target if ":" in target else tmp_path / target
    for _ in range(2):  # the second call finds all parts
        with pytest.raises(StateError) as caught:
            bushel.pack(SOURCE, path, parts=4, engine=engine, **OPTIONS)
        assert NAMED in str(caught.value)
    run, plan = find_run(path)
    with pytest.raises(StateError, match="'k0001' in part-00000 and part-00001"):
        finish_run(run, plan)
    assert run.load_result() is None
    with pytest.warns(bushel.errors.IncompleteWarning):
        assert len(bushel.open(path)) > 0
    again: dict[str, Any] = {"parts": 4, "engine": engine, "mode": "overwrite", **OPTIONS}
    if ":" in target:
        with pytest.raises(bushel.errors.UnsupportedError, match="write to another path"):
            bushel.pack(Numbered(20, bad=(6,)), path, **again)
        assert run.missing(plan) == []
        return
    done = bushel.pack(Numbered(20, bad=(6,)), path, **again)
    assert (done.samples, done.errors) == (19, 1)
    assert len(set(bushel.open(path).keys)) == 19


def test_one_run_leaves_them_out_and_one_part_too(tmp_path: Path) -> None:
    assert bushel.pack(SOURCE, tmp_path / "one", **OPTIONS).errors == 6
    twice = bushel.pack(Repeating(10), tmp_path / "part", parts=1, **OPTIONS)
    bushel.pack(Repeating(10), tmp_path / "whole", **OPTIONS)
    assert twice.errors == 2
    assert files_of(tmp_path / "part") == {
        f"part-00000/{name}": data for name, data in files_of(tmp_path / "whole").items()
    }
