"""Lists of archives by wids and Energon: used where they fit, and no wrong sample where they do not."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import bushel
from bushel.errors import FormatError


@pytest.fixture
def wids(golden: Path, tmp_path: Path) -> Path:
    return shutil.copytree(golden / "webdataset-0.2.111-wids" / "index" / "data", tmp_path / "wids")


@pytest.fixture
def energon(golden: Path, tmp_path: Path) -> Path:
    return shutil.copytree(golden / "energon-7.4.1" / "prepared" / "data", tmp_path / "energon")


def _opened(path: Path) -> list[str]:
    return list(bushel.open(path, index="memory").keys)


def _changed(path: Path, **changes: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


@pytest.mark.parametrize("name", ["index.json", "shardindex.json"])
def test_a_list_of_wids_opens_what_it_lists(wids: Path, name: str) -> None:
    keys = _opened(wids)
    (wids / "index.json").rename(wids / name)
    assert _opened(wids / name) == _opened(wids) == keys
    assert len(keys) == 22


def test_archives_come_in_the_order_of_the_list(wids: Path) -> None:
    keys = _opened(wids)
    index = json.loads((wids / "index.json").read_text())
    _changed(wids / "index.json", shardlist=index["shardlist"][::-1])
    assert _opened(wids) == _opened(wids / "index.json") == [*keys[18:], *keys[12:18], *keys[6:12], *keys[:6]]


def test_a_list_of_wids_that_does_not_fit_is_an_error(wids: Path) -> None:
    index = json.loads((wids / "index.json").read_text())
    (wids / "train-000002.tar").write_bytes((wids / "train-000000.tar").read_bytes())
    with pytest.raises(FormatError, match=r"index\.json: it says that train-000002\.tar has 71680 bytes"):
        _opened(wids)
    (wids / "train-000002.tar").unlink()
    with pytest.raises(FormatError, match=r"it lists the archive 'train-000002\.tar', which does not exist"):
        _opened(wids / "index.json")
    _changed(wids / "index.json", shardlist=[{**index["shardlist"][0], "url": "../other.tar"}])
    with pytest.raises(FormatError, match="not below its folder"):
        _opened(wids / "index.json")
    _changed(wids / "index.json", shardlist=[{"url": "train-000000.tar", "nsamples": -1}])
    with pytest.raises(FormatError, match="not a list of wids"):
        _opened(wids / "index.json")


def test_a_list_of_wids_for_archives_elsewhere_is_for_others(wids: Path) -> None:
    keys = _opened(wids)
    _changed(wids / "index.json", shardlist=[{"url": "https://example.org/a.tar", "nsamples": 1}])
    assert _opened(wids) == keys


def test_another_index_json_is_no_list(wids: Path) -> None:
    keys = _opened(wids)
    for text in ("{}", "[1]", "no json", '{"version": 1}'):
        (wids / "index.json").write_text(text)
        assert _opened(wids) == keys


def test_archives_in_folders_that_energon_lists(energon: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert len(keys := _opened(energon)) == 22
    assert not caplog.messages
    (energon / "extra.tar").write_bytes(b"\0" * 10240)
    assert _opened(energon) == keys
    assert "does not list 1 archives beside it, from extra.tar on" in caplog.text


def test_a_list_of_energon_that_does_not_fit_is_an_error(energon: Path) -> None:
    info = energon / ".nv-meta" / ".info.json"
    _changed(info, shard_counts={"parts/train-000009.tar": 1})
    with pytest.raises(FormatError, match=r"it lists the archive 'parts/train-000009\.tar', which does not exist"):
        _opened(energon)
    _changed(info, shard_counts={"/etc/passwd.tar": 1})
    with pytest.raises(FormatError, match="not below its folder"):
        _opened(energon)
    info.write_text("{")
    with pytest.raises(FormatError, match="not a list of Energon"):
        _opened(energon)
