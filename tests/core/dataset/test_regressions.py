"""What went wrong once, and must not again."""

from __future__ import annotations

import pickle
import shutil
from pathlib import Path

import pytest
from tests.core.models import CONTAINERS, SPECS, expected, make_samples, opened, plain, write

import bushel
from bushel.core.dataset import load_index
from bushel.errors import FormatError


@pytest.mark.parametrize("container", ["tar", "ffrecord", "recordio", "bag"])
def test_strided_memory(tmp_path: Path, container: str) -> None:
    value = memoryview(b"0123456789")[::2]
    with bushel.Writer(tmp_path / "ds", {"raw": "bytes", "parts": "bytes[]"}, container=container) as writer:
        writer.append({"raw": value, "parts": [value, b"x"]}, key="a")
    [found] = opened(tmp_path / "ds")
    assert (found["raw"], found["parts"]) == (b"02468", [b"02468", b"x"])


@pytest.mark.parametrize("container", CONTAINERS)
def test_going_on_after_a_shard_could_not_be_finished(
    tmp_path: Path, container: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = make_samples(container, 20)
    writer = bushel.Writer(tmp_path / "ds", SPECS[container], container=container, shard_samples=10, sync=False)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    for sample in samples[:9]:
        writer.append(sample)
    with monkeypatch.context() as patched:
        patched.setattr("bushel.core.writer.shard_writer.save_index", full)
        with pytest.raises(OSError, match="No space"):
            writer.append(samples[9])
    with pytest.raises(ValueError, match="closed"):
        writer.append(samples[10])
    with bushel.Writer(
        tmp_path / "ds", SPECS[container], container=container, shard_samples=10, sync=False, mode="resume"
    ) as again:
        kept = len(again)
        for sample in samples[kept:]:
            again.append(sample)
    assert plain(list(opened(tmp_path / "ds"))) == expected(container, samples)


def test_the_index_of_another_shard_behind_a_manifest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = make_samples("tar", 10)
    write(tmp_path / "ds", "tar", samples, shard_samples=5)
    one, two = sorted((tmp_path / "ds" / ".bushel").glob("*.safetensors"))
    one.write_bytes(two.read_bytes())
    monkeypatch.setattr(load_index, "_STAT_ALL", 0)
    dataset = bushel.open(tmp_path / "ds")
    with pytest.raises(FormatError, match="not the index of"):
        dataset.read(range(5), decode=False)


def test_a_pickled_dataset_whose_sidecar_is_gone(tmp_path: Path) -> None:
    write(tmp_path / "ds", "tar", make_samples("tar", 10))
    copied = pickle.dumps(opened(tmp_path / "ds"))
    shutil.rmtree(tmp_path / "ds" / ".bushel")
    with pytest.raises(FormatError, match="index of the shard is gone"):
        pickle.loads(copied)[0]


def test_fields_of_views_that_are_joined(tmp_path: Path) -> None:
    write(tmp_path / "a", "bag", make_samples("bag", 2))
    write(tmp_path / "b", "bag", make_samples("bag", 2, seed=1))
    a, b = opened(tmp_path / "a"), opened(tmp_path / "b")
    both = bushel.concat([a.fields(["label"]), b])
    assert set(both[0]) == {"__key__", "label"}
    assert set(both[2]) == {"__key__", "label", "text", "parts"}
