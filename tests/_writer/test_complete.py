"""A dataset records whether it is complete, whatever stopped its writer."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests._dataset.views.models import CONTAINERS, SPECS, make_samples, write
from tests.full_disk import little_room
from tests.interrupts import interruptible
from tests.paths import ROOT

import bushel
from bushel._writer.dataset_plan import DatasetPlan
from bushel._writer.publishing import FinishedShard
from bushel._writer.written_shards import WrittenShards
from bushel.cli.app import app
from bushel.containers.base import Layout

KILLED = """
import sys, time, bushel
path, container = sys.argv[1:]
from tests._dataset.views.models import SPECS, make_samples
with bushel.Writer(path, SPECS[container], container=container, shard_samples=10, expected=60, sync=False) as writer:
    for number, sample in enumerate(make_samples(container, 60)):
        writer.append(sample)
        writer.flush()
        if number == 34:
            print("now", flush=True)
            time.sleep(60)
"""


def kinds(path: Path) -> list[str]:
    return [problem.kind for problem in bushel.verify(path).problems]


def finish(path: Path, container: str, count: int, **options: Any) -> None:
    with bushel.Writer(path, SPECS[container], container=container, mode="resume", sync=False, **options) as writer:
        for sample in make_samples(container, count)[len(writer) :]:
            writer.append(sample)


@pytest.mark.parametrize("stop", [signal.SIGKILL, signal.SIGINT])
@pytest.mark.parametrize("container", CONTAINERS)
def test_a_kill(tmp_path: Path, container: str, stop: signal.Signals) -> None:
    out = tmp_path / "out"
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(out), container],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=interruptible(),
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler) and None,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"now\n"
    process.send_signal(stop)
    assert process.wait() != 0
    process.stdout.close()
    with pytest.warns(bushel.errors.IncompleteWarning, match="30 of 60 samples are there"):
        dataset = bushel.open(out)
    assert (len(dataset), dataset.info.complete, dataset.info.expected) == (30, False, 60)
    assert "incomplete: 60 samples expected" in repr(dataset)
    assert "incomplete: 60 samples expected" in repr(bushel.concat([dataset[:3], dataset]))
    assert kinds(out) == (["incomplete", "unfinished"] if stop == signal.SIGKILL else ["incomplete"])
    for command in (["ls", out, "-n", 1], ["info", out], ["info", out, "--json"], ["cat", out, "-n", 1]):
        result = CliRunner().invoke(app, list(map(str, command)))
        assert result.exit_code == 0, result.stderr
        assert "warning" in result.stderr
        assert "--resume" in result.stderr
        assert "--overwrite" in result.stderr
        assert "--append" not in result.stderr
        assert "mode=" not in result.stderr
    assert "complete   no: 60 samples expected" in CliRunner().invoke(app, ["info", str(out)]).stdout
    told = json.loads(CliRunner().invoke(app, ["info", str(out), "--json"]).stdout)
    assert (told["complete"], told["expected"]) == (False, 60)
    finish(out, container, 60, shard_samples=10)
    write(tmp_path / "whole", container, make_samples(container, 60), shard_samples=10)
    assert bushel.open(out).info.complete
    assert kinds(out) == []
    files = {path.relative_to(out) for path in out.rglob("*")}
    assert files == {path.relative_to(tmp_path / "whole") for path in (tmp_path / "whole").rglob("*")}


@pytest.mark.parametrize("container", CONTAINERS)
def test_the_manifest_says_so_from_the_first_shard_on(tmp_path: Path, container: str) -> None:
    out = tmp_path / "out"
    writer = bushel.Writer(out, SPECS[container], container=container, shard_samples=4, expected=20, sync=False)
    for number, sample in enumerate(make_samples(container, 20)):
        writer.append(sample)
        if number >= 3:
            assert json.loads((out / ".bushel/manifest.json").read_bytes())["complete"] is False
            assert bushel.open(out, allow_incomplete=True).info.expected == 20
    writer.close()
    assert bushel.open(out).info.complete


@pytest.mark.parametrize("container", CONTAINERS)
def test_a_full_disk(tmp_path: Path, container: str) -> None:
    out = tmp_path / "out"
    samples = make_samples(container, 40)
    samples[30] = {**samples[30], "parts": [b"small", bytes(5 << 20)]} if "parts" in samples[30] else samples[30]

    def pack() -> None:
        with bushel.Writer(out, SPECS[container], container=container, shard_samples=10, sync=False) as writer:
            for number, sample in enumerate(samples):
                writer.append(sample)
                if number == 24:
                    raise OSError(28, "No space left on device")

    with little_room(1 << 20), pytest.raises(OSError, match="No space left|too large"):
        pack()
    with pytest.warns(bushel.errors.IncompleteWarning, match="20 samples are there"):
        assert len(bushel.open(out)) == 20


def test_nothing_was_published(tmp_path: Path) -> None:
    for staging in ("out/.bushel/staging/shard-000000.tar", ".bushel/staging/x.tar"):
        (tmp_path / staging).mkdir(parents=True)
        (tmp_path / staging / "half").write_bytes(b"of a killed writer")
    advice = "a write of it was interrupted: .* mode='resume'.*mode='overwrite'"
    with pytest.raises(bushel.errors.FormatError, match=advice):
        bushel.open(tmp_path / "out")
    with pytest.raises(FileNotFoundError, match=advice):
        bushel.open(tmp_path / "x.tar")


def test_an_interrupted_append(tmp_path: Path) -> None:
    write(tmp_path / "x.tar", "tar", make_samples("tar", 5))
    write(tmp_path / "y.tar", "tar", make_samples("tar", 5))
    with bushel.Writer(tmp_path / "x.tar", mode="append", sync=False) as writer:
        writer.append(make_samples("tar", 6)[5])
        writer.flush()
        with pytest.warns(bushel.errors.IncompleteWarning):
            bushel.open(tmp_path / "x.tar")
        bushel.open(tmp_path / "y.tar")
    bushel.open(tmp_path / "x.tar")


def test_an_error_before_the_first_sample_changes_nothing(tmp_path: Path) -> None:
    write(tmp_path / "out", "tar", make_samples("tar", 5), shard_samples=2)

    def fail() -> None:
        with bushel.Writer(tmp_path / "out", mode="append", sync=False):
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert bushel.open(tmp_path / "out").info.complete


def test_indexing_does_not_make_it_complete(tmp_path: Path) -> None:
    writer = bushel.Writer(tmp_path / "out", {"x": "int"}, container="tar", shard_samples=2, expected=9, sync=False)
    for number in range(4):
        writer.append({"x": number})
    writer.suspend()
    assert bushel.index(tmp_path / "out").info.expected == 9
    assert not bushel.open(tmp_path / "out", allow_incomplete=True).info.complete
    with pytest.warns(bushel.errors.IncompleteWarning, match="4 of 9"):
        bushel.open(str(tmp_path / "out/*.tar"))


def test_packing_that_appends_says_how_many_samples_are_expected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, out = tmp_path / "source", tmp_path / "out"
    for path, count in ((source, 50), (out, 20)):
        with bushel.Writer(path, {"x": "int"}, container="ffrecord", shard_samples=30, sync=False) as writer:
            writer.extend({"x": range(count)})
    hints: list[int | None] = []
    next_layout, publish = DatasetPlan.next_layout, WrittenShards._publish

    def noted(plan: DatasetPlan, *arguments: Any) -> Layout:
        layout = next_layout(plan, *arguments)
        hints.append(layout.options.expected)
        return layout

    def publish_one(shards: WrittenShards, finished: FinishedShard, **options: Any) -> None:
        if len(hints) == 2:
            raise KeyboardInterrupt
        publish(shards, finished, **options)

    monkeypatch.setattr(DatasetPlan, "next_layout", noted)
    monkeypatch.setattr(WrittenShards, "_publish", publish_one)
    with pytest.raises(KeyboardInterrupt):
        bushel.pack(source, out, container="ffrecord", mode="append", shard_samples=30, sync=False)
    assert hints == [30, 20], "a file has room for the samples that it gets"
    with pytest.warns(bushel.errors.IncompleteWarning, match="50 of 70 samples are there"):
        assert len(bushel.open(out)) == 50
