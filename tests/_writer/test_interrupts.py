"""Writers that threads share, and writers that are interrupted."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._dataset.views.models import CONTAINERS, SPECS, expected, files_of, make_samples, opened, plain, write
from tests.descriptors import open_files
from tests.interrupts import interruptible

import bushel
from bushel.storage.staging import Staging


@pytest.mark.parametrize("container", CONTAINERS)
def test_eight_threads_append(tmp_path: Path, container: str) -> None:
    samples = make_samples(container, 200)
    positions: dict[str, int] = {}
    with bushel.Writer(tmp_path / "ds", SPECS[container], container=container, shard_samples=30, sync=False) as writer:

        def work(first: int) -> None:
            for sample in samples[first::8]:
                positions[sample["__key__"]] = writer.append(sample)

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(work, range(8)))
    assert sorted(positions.values()) == list(range(200))
    dataset = opened(tmp_path / "ds")
    assert {key: position for position, key in enumerate(dataset.keys)} == positions
    whole = {sample["__key__"]: sample for sample in expected(container, samples)}
    assert plain(list(dataset)) == [whole[key] for key in dataset.keys]


class Interrupted:
    """Has Ctrl-C pressed when the second element is asked for."""

    def __iter__(self) -> Iterator[bytes]:
        yield b"first"
        signal.raise_signal(signal.SIGINT)
        yield b"second"


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_ctrl_c_within_a_sample(tmp_path: Path, container: str) -> None:
    samples = make_samples(container, 20)
    whole = write(tmp_path / "whole", container, samples, shard_samples=8)
    options: dict[str, Any] = {"container": container, "shard_samples": 8, "sync": False}

    def interrupted() -> None:
        with bushel.Writer(tmp_path / "ds", SPECS[container], **options) as writer:
            for sample in samples[:11]:
                writer.append(sample)
            writer.append({**samples[11], "parts": Interrupted()})

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    with bushel.Writer(tmp_path / "ds", SPECS[container], mode="resume", **options) as writer:
        assert len(writer) == 8
        for sample in samples[8:]:
            writer.append(sample)
    assert files_of(tmp_path / "ds") == files_of(tmp_path / "whole")
    assert list(opened(tmp_path / "ds")) == list(whole)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_ctrl_c_that_is_caught(tmp_path: Path, container: str) -> None:
    samples = make_samples(container, 20)
    write(tmp_path / "whole", container, samples)
    with bushel.Writer(tmp_path / "ds", SPECS[container], container=container, sync=False) as writer:
        for sample in samples:
            with pytest.raises(KeyboardInterrupt):
                writer.append({**sample, "parts": Interrupted()})
            writer.append(sample)
    assert files_of(tmp_path / "ds") == files_of(tmp_path / "whole")


PACKING = textwrap.dedent("""
    import sys
    from pathlib import Path
    import bushel
    from tests._dataset.views.models import SPECS, make_samples
    path, container, size = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    samples = make_samples(container, size)
    options = {"container": container, "shard_samples": 40, "sync": False, "mode": "resume"}
    with bushel.Writer(path, SPECS[container], **options) as writer:
        print("begun", flush=True)
        for sample in samples[len(writer):]:
            writer.append(sample)
""")


@pytest.mark.parametrize("container", CONTAINERS)
def test_ctrl_c_at_any_moment(tmp_path: Path, container: str) -> None:
    rng = np.random.default_rng(0)
    samples = make_samples(container, 1500)
    command = [sys.executable, "-c", PACKING, str(tmp_path / "ds"), container, "1500"]
    for _ in range(2):
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=interruptible()
        )
        assert process.stdout is not None
        process.stdout.readline()
        threading.Event().wait(float(rng.uniform(0.0, 0.15)))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (0, -signal.SIGINT, 1)
        # A signal that comes when the work is done and the interpreter is ending kills it without a word.
        silent = process.returncode == -signal.SIGINT and not errors
        # Python 3.11's rmtree closes a folder twice if the signal comes while it closes it, and raises for the second.
        twice = "in _rmtree_safe_fd" in errors and "KeyboardInterrupt" in errors
        ended = "\nKeyboardInterrupt" in errors or twice
        assert process.returncode == 0 or silent or ended, errors
    options: dict[str, Any] = {"container": container, "shard_samples": 40, "sync": False}
    with bushel.Writer(tmp_path / "ds", SPECS[container], mode="resume", **options) as writer:
        for sample in samples[len(writer) :]:
            writer.append(sample)
    write(tmp_path / "whole", container, samples, shard_samples=40)
    assert files_of(tmp_path / "ds") == files_of(tmp_path / "whole")


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    for mode in ("create", "append"):
        with bushel.Writer(tmp_path / "ds", {"a": "int"}, container="bag", mode=mode) as writer:
            writer.append({"a": 1})
    writer = bushel.Writer(tmp_path / "other", {"a": "int"}, container="tar")
    writer.append({"a": 1})
    writer.suspend()
    assert open_files(tmp_path) == []


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
        patched.setattr("bushel._writer.shard_writer.save_index", full)
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


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
@pytest.mark.parametrize("together", [False, True])
def test_ctrl_c_right_after_a_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, container: str, together: bool
) -> None:
    """Who caught it and appended the sample again had it twice, under the same key."""
    positions: Any = Staging.positions
    pressed: list[int] = []

    def interrupted(staging: Staging) -> Any:
        if pressed:
            pressed.pop()
            raise KeyboardInterrupt
        return positions.fget(staging)

    monkeypatch.setattr(Staging, "positions", property(interrupted))
    keyed = container not in ("ffrecord", "recordio")
    samples = [{"x": number, "text": "x" * 40_000} for number in range(3, 6)]  # too large to be pending
    keys = [f"k{number}" for number in range(3, 6)]
    spec = {"x": "int", "text": "utf8"}
    with bushel.Writer(tmp_path / "ds", spec, container=container, sync=False) as writer:

        def add() -> None:
            if together:
                columns = {name: [sample[name] for sample in samples[1:]] for name in spec}
                writer.extend(columns, keys[1:] if keyed else None)
            else:
                writer.append(samples[1], key=keys[1] if keyed else None)

        writer.append(samples[0], key=keys[0] if keyed else None)
        writer.flush()
        pressed.append(1)
        with pytest.raises(KeyboardInterrupt):
            add()
        pressed.clear()
        add()
    assert [sample["x"] for sample in bushel.open(tmp_path / "ds")] == [3, 4, 5][: 3 if together else 2]
