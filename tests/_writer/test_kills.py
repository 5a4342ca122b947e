"""Writers killed at many random moments, also while they finish shards: the files come out as if nothing had been."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests._dataset.views.models import CONTAINERS, make_samples, write
from tests._writer.killed_writer import SUFFIX
from tests.paths import ROOT

import bushel
from bushel.storage.publish import _swap

WHOLE = {"tar": ".tar", "ffrecord": ".ffr", "gulp": ".gulp", "recordio": ".rec"}
"""The end of the file that gets its name last, in a shard of each container whose files are renamed one by one."""


def check(folder: Path, container: str, form: str, trials: int, seed: int) -> None:
    command = [
        sys.executable,
        "-m",
        "tests._writer.killed_writer",
        str(folder),
        container,
        form,
        str(trials),
        str(seed),
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) >= trials, "hardly anything was killed"


@pytest.mark.parametrize("container", CONTAINERS)
def test_kills_of_a_writer_of_many_shards(tmp_path: Path, container: str) -> None:
    check(tmp_path, container, "shards", trials=2, seed=0)


@pytest.mark.parametrize("container", list(SUFFIX))
def test_kills_of_a_writer_that_continues_one_file(tmp_path: Path, container: str) -> None:
    check(tmp_path, container, "single", trials=2, seed=0)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_kills_of_a_writer_of_small_records(tmp_path: Path, container: str) -> None:
    check(tmp_path, container, "records", trials=2, seed=0)


@pytest.mark.nightly
@pytest.mark.parametrize("form", ["shards", "single", "records"])
@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("seed", range(1, 4))
def test_many_more_kills(tmp_path: Path, container: str, form: str, seed: int) -> None:
    if (form == "single" and container not in SUFFIX) or (form == "records" and container == "gulp"):
        pytest.skip("this container has no such datasets")
    check(tmp_path, container, form, trials=60, seed=seed)


def test_a_new_recordio_never_lacks_its_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The `.rec` gets its name last: whoever finds the shard finds its `.idx`."""

    def killed_before_the_records(source: Path, target: Path, old: Path) -> None:
        if target.suffix == ".rec":
            raise OSError("as if killed")
        _swap(source, target, old)

    with monkeypatch.context() as patch:
        patch.setattr("bushel.storage.publish._swap", killed_before_the_records)
        with (
            pytest.raises(OSError, match="as if"),
            bushel.Writer(tmp_path, {"label": "int"}, container="recordio") as writer,
        ):
            writer.append({"label": 1}, key="one")
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["000000.idx"]
    with pytest.raises(bushel.errors.FormatError, match='--resume|mode="resume"|interrupted|incomplete'):
        bushel.open(tmp_path)
    with bushel.Writer(tmp_path, {"label": "int"}, container="recordio", mode="resume") as writer:
        assert len(writer) == 1
    assert list(bushel.open(tmp_path).keys) == ["one"]


@pytest.mark.parametrize("container", list(WHOLE))
def test_shards_that_are_partly_published_hide_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container: str
) -> None:
    """Whichever of its files have their final names: `verify` and `open` find the shards before it."""
    samples = make_samples(container, 12)
    steps = 0
    while True:
        folder, steps, placed = tmp_path / str(steps), steps + 1, 0

        def stopped(source: Path, target: Path, old: Path, steps: int = steps) -> None:
            nonlocal placed
            _swap(source, target, old)
            placed += 1
            if placed == steps:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr("bushel.storage.publish._swap", stopped)
            try:
                write(folder, container, samples, shard_samples=4, sync=False)
            except KeyboardInterrupt:
                pass
            else:
                break
        shards = placed_shards(folder, container)
        if shards == 0:
            with pytest.raises(bushel.errors.FormatError, match="a write of it was interrupted"):
                bushel.verify(folder)
            continue
        kinds = [problem.kind for problem in bushel.verify(folder).problems]
        assert kinds == ["incomplete", "unfinished"]
        assert len(bushel.open(folder, allow_incomplete=True)) == 4 * shards
    assert steps > 3


def placed_shards(folder: Path, container: str) -> int:
    return len(list(folder.glob(f"*{WHOLE[container]}")))
