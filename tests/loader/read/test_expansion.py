from __future__ import annotations

import io
import tarfile
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import cramjam
import numpy as np
import pytest

import bushel
from bushel._index import expansion
from bushel.errors import StateError
from bushel.loader import Blocks
from bushel.storage import expansion_cache as expansion_cache_module
from bushel.storage.expansion_cache import ExpansionCache

SAMPLES, PER_FRAME, SIZE = 1200, 100, 1536


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An indexed tar of 1200 samples, in frames of zstd that hold 100 of them each."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for number in range(SAMPLES):
            member = tarfile.TarInfo(f"{number:04}.bin")
            member.size = SIZE
            tar.addfile(member, io.BytesIO(np.random.default_rng(number).bytes(SIZE)))
    content = archive.getvalue()
    per_frame = PER_FRAME * (512 + SIZE)
    frames = [content[at : at + per_frame] for at in range(0, len(content), per_frame)]
    folder = tmp_path_factory.mktemp("frames")
    (folder / "x.tar.zst").write_bytes(b"".join(bytes(cramjam.zstd.compress(frame)) for frame in frames))
    bushel.index(folder)
    return folder


@pytest.fixture
def small_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if blocks of 1.3 MB, six frames, were kept."""
    monkeypatch.setattr(expansion, "KEPT", 1_300_000)


def order_of(loader: bushel.Loader[Any]) -> str:
    return str(loader.state_dict()["version"])


@pytest.mark.usefixtures("small_memory")
def test_blocks_are_those_of_the_files(folder: Path) -> None:
    ds = bushel.open(folder)
    assert order_of(bushel.Loader(ds, 4, shuffle="blocks")) == "blocks(300,1)/1"
    assert order_of(bushel.Loader(ds[::2], 4, shuffle="blocks")) == "blocks(150,1)/1"  # of three frames, too
    assert order_of(bushel.Loader(ds[:200], 4, shuffle="blocks")) == "blocks(256,16)/1"  # all are kept
    assert order_of(bushel.Loader(ds.select_keys(reversed(ds.keys)), 4, shuffle="blocks")) == "blocks(300,1)/1"


def test_blocks_are_the_usual_ones_where_the_files_need_no_others(folder: Path) -> None:
    assert order_of(bushel.Loader(bushel.open(folder), 4, shuffle="blocks")) == "blocks(256,16)/1"


@pytest.mark.usefixtures("small_memory")
def test_a_state_resumes_with_its_own_size_and_window(folder: Path) -> None:
    ds = bushel.open(folder)
    with pytest.warns(UserWarning, match="expands"):
        usual = bushel.Loader(ds, 8, shuffle=Blocks(SAMPLES, seed=5))  # as `shuffle="blocks"` had it once
    usual.skip(3)
    order = Blocks(SAMPLES, seed=5).take(0, np.arange(24, SAMPLES))
    rest = [ds.keys[position] for position in order.tolist()]
    resumed = bushel.Loader(ds, 8, shuffle="blocks")
    resumed.load_state_dict(usual.state_dict())
    assert [key for batch in resumed for key in batch["__key__"]] == rest
    assert order_of(resumed) == "blocks(256,16)/1"
    fitting = bushel.Loader(ds, 8, shuffle="blocks")
    with pytest.raises(StateError, match="belongs to the order 'exact/1'"):
        fitting.load_state_dict(usual.state_dict() | {"version": "exact/1"})
    with pytest.raises(StateError, match=r"impossible: size=0"):
        fitting.load_state_dict(fitting.state_dict() | {"version": "blocks(0,3)/1"})
    with pytest.raises(StateError, match="belongs to the order"):  # asked for by name
        bushel.Loader(ds, 8, shuffle=Blocks(SAMPLES, size=100, window=1)).load_state_dict(usual.state_dict())


@pytest.mark.usefixtures("small_memory")
def test_an_order_of_whole_blocks_expands_each_about_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expanded: list[int] = []

    class Counting(ExpansionCache):
        def give(self, name: Hashable, block: Any) -> None:
            expanded.append(block.nbytes)
            super().give(name, block)

    monkeypatch.setattr(expansion_cache_module, "_CACHE", Counting(1_300_000))
    keys = [
        key for batch in bushel.Loader(bushel.open(folder), 4, shuffle="blocks", threads=0) for key in batch["__key__"]
    ]
    assert len(set(keys)) == SAMPLES
    assert keys != sorted(keys)
    assert 12 <= len(expanded) <= 16, len(expanded)  # of 12 frames


@pytest.mark.parametrize("options", [{"shuffle": True}, {"weights": np.ones(SAMPLES)}, {"bucket_by": [1] * SAMPLES}])
@pytest.mark.usefixtures("small_memory")
def test_an_order_that_expands_much_is_warned_of(folder: Path, options: Any) -> None:
    ds = bushel.open(folder)
    with pytest.warns(UserWarning, match=r'order .* expands up to \d\d times .*; shuffle="blocks" expands') as found:
        bushel.Loader(ds, 4, **options)
    assert [warning.filename for warning in found] == [__file__]
    assert "bushel convert" in str(found[0].message)
    bushel.Loader(ds, 4)
    bushel.Loader(ds, 4, shuffle="blocks")


@pytest.mark.usefixtures("small_memory")
def test_of_a_mixture_too(folder: Path) -> None:
    ds = bushel.open(folder)
    with pytest.warns(UserWarning, match="'scheduled' expands"):
        bushel.Loader(bushel.mix({"a": ds[:600], "b": ds[600:]}, weights={"a": 1, "b": 1}), 4)


def test_only_fields_that_are_read_count(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expansion, "KEPT", 0)
    ds = bushel.open(folder)
    bushel.Loader(ds, 4, shuffle=True, fields={"bin": False})
    with pytest.warns(UserWarning, match="expands"):
        bushel.Loader(ds, 4, shuffle=True, fields=["bin"])
