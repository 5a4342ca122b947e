"""Two writers of one target, and files that change under a reader."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.kernels.jpegs import picture, save
from tests.paths import ROOT

import bushel

SPEC = {"data": "bytes", "label": "int"}


@pytest.mark.parametrize(("container", "name"), [("bag", "ds"), ("tar", "x.tar"), ("recordio", "x.rec")])
def test_one_of_two_writers_is_refused(tmp_path: Path, container: str, name: str) -> None:
    command = [sys.executable, "-m", "tests.faults.race", str(tmp_path), container, name, "4", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "4\n"


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "gulp", "recordio"])
def test_a_writer_does_not_add_shards_to_those_of_another(tmp_path: Path, container: str) -> None:
    spec = {"image": "jpg"} if container == "gulp" else SPEC
    samples = [
        {"image": save(picture(8, 8, n))} if container == "gulp" else {"data": b"x", "label": n} for n in range(4)
    ]

    def writer() -> bushel.Writer:
        return bushel.Writer(tmp_path / "a", spec, container=container, shard_samples=2, sync=False)

    with writer() as first:
        second = writer()
        for number, sample in enumerate(samples[:2]):  # the first shard is published
            first.append(sample, key=f"k{number}")
        with pytest.raises(FileExistsError, match="another process"):
            second.append(samples[0], key="other")
        second.suspend()
        for number, sample in enumerate(samples[2:], 2):
            first.append(sample, key=f"k{number}")
    assert list(bushel.open(tmp_path / "a").keys) == ["k0", "k1", "k2", "k3"]
    assert bushel.verify(tmp_path / "a").ok


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
@pytest.mark.parametrize("touched", [False, True], ids=["not yet open", "open"])
@pytest.mark.parametrize("size", [5000, 4000, 6000])
def test_a_file_that_is_replaced(tmp_path: Path, container: str, touched: bool, size: int) -> None:
    for name, value in (("old", b"o" * 5000), ("new", b"n" * size)):
        with bushel.Writer(tmp_path / name, SPEC, container=container, shard_samples=10, sync=False) as writer:
            for number in range(20):
                writer.append({"data": value, "label": number}, key=f"k{number}")
    dataset = bushel.open(tmp_path / "old")
    if touched:
        dataset.read([0, 15])
    for path in sorted((tmp_path / "new").rglob("*")):
        if path.is_file() and ".bushel" not in path.parts:
            os.replace(path, tmp_path / "old" / path.relative_to(tmp_path / "new"))
    if touched:  # the files that it has open are still there
        assert {bytes(sample["data"]) for sample in dataset} == {b"o" * 5000}
        return
    for number in range(20):
        with pytest.raises(bushel.FormatError, match="changed"):
            dataset.read([number])
