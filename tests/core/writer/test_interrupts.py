"""Writers that are shared, interrupted, or out of room."""

from __future__ import annotations

import resource
import signal
import subprocess
import sys
import textwrap
import threading
from array import array
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.core.models import CONTAINERS, SPECS, expected, make_samples, opened, plain, write
from tests.descriptors import open_files

import bushel


def files_of(path: Path) -> dict[str, bytes]:
    """The data files: all but what Bushel keeps beside them."""
    files = (file for file in sorted(path.rglob("*")) if file.is_file() and ".bushel" not in file.parts)
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


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
        assert len(writer) == 11
        for sample in samples[11:]:
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
    from tests.core.models import SPECS, make_samples
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
    samples = make_samples(container, 3000)
    command = [sys.executable, "-c", PACKING, str(tmp_path / "ds"), container, "3000"]
    for _ in range(3):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        threading.Event().wait(float(rng.uniform(0.0, 0.15)))
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        assert process.returncode in (0, -signal.SIGINT, 1)
        # A signal that comes when the work is done and the interpreter is ending kills it without a word.
        silent = process.returncode == -signal.SIGINT and not errors
        assert process.returncode == 0 or silent or errors.strip().endswith("KeyboardInterrupt"), errors
    options: dict[str, Any] = {"container": container, "shard_samples": 40, "sync": False}
    with bushel.Writer(tmp_path / "ds", SPECS[container], mode="resume", **options) as writer:
        for sample in samples[len(writer) :]:
            writer.append(sample)
    write(tmp_path / "whole", container, samples, shard_samples=40)
    assert files_of(tmp_path / "ds") == files_of(tmp_path / "whole")


@contextmanager
def little_room(size: int) -> Iterator[None]:
    """As on a full disk: no file of this process grows beyond `size` bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("flushing", [False, True])
@pytest.mark.parametrize("room", [0, 300, 3000, 10_000, 30_000])
def test_a_full_disk(tmp_path: Path, container: str, flushing: bool, room: int) -> None:
    samples = make_samples(container, 60)
    write(tmp_path / "whole", container, samples, shard_samples=25)
    options: dict[str, Any] = {"container": container, "shard_samples": 25, "sync": False}
    flushed = 0

    def pack() -> None:
        nonlocal flushed
        with bushel.Writer(tmp_path / "ds", SPECS[container], **options) as writer:
            for number, sample in enumerate(samples):
                writer.append(sample)
                if flushing and number % 4 == 3:
                    writer.flush()
                    flushed = number + 1

    with little_room(room), pytest.raises(OSError, match="too large") if room < 10_000 else suppress(OSError):
        pack()
    if files_of(tmp_path / "ds"):
        finished = opened(tmp_path / "ds", index="memory")
        assert plain(list(finished)) == expected(container, samples[: len(finished)])
    with bushel.Writer(tmp_path / "ds", SPECS[container], mode="resume", **options) as writer:
        assert len(writer) >= flushed
        for sample in samples[len(writer) :]:
            writer.append(sample)
    assert files_of(tmp_path / "ds") == files_of(tmp_path / "whole")
    assert plain(list(opened(tmp_path / "ds"))) == expected(container, samples)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "recordio"])
def test_a_sample_too_large_for_the_disk_is_left_out(tmp_path: Path, container: str) -> None:
    samples = make_samples(container, 12)
    huge = {**samples[5], "parts": [b"small", bytes(5 << 20), b"small"]}
    with bushel.Writer(tmp_path / "ds", SPECS[container], container=container, sync=False) as writer:
        for sample in samples[:5]:
            writer.append(sample)
        with little_room(1 << 20), pytest.raises(OSError, match="too large"):
            writer.append(huge)
        for sample in samples[5:]:
            writer.append(sample)
    write(tmp_path / "whole", container, samples)
    assert files_of(tmp_path / "ds") == files_of(tmp_path / "whole")


@pytest.mark.parametrize("name", ["x.tar", "bag"])
def test_appending_to_a_dataset_whose_index_has_no_checksums(tmp_path: Path, name: str) -> None:
    container = "tar" if name == "x.tar" else "bag"
    with bushel.Writer(tmp_path / name, {"txt": "utf8", "cls": "int"}, container=container) as writer:
        for number in range(3):
            writer.append({"txt": f"text {number}", "cls": number}, key=f"k{number}")
    for sidecar in tmp_path.rglob("*.safetensors"):
        sidecar.unlink()
    assert not bushel.index(tmp_path / name, checksums=False).info.checksums
    with bushel.Writer(tmp_path / name, mode="append") as writer:
        writer.append({"txt": "text 3", "cls": 3}, key="k3")
    found = opened(tmp_path / name)
    assert found.info.checksums
    assert [(sample["txt"], sample["cls"]) for sample in found] == [(f"text {number}", number) for number in range(4)]


def test_appending_a_field_that_the_samples_so_far_lack(tmp_path: Path) -> None:
    spec = {"txt": "utf8", "cls": "int", "parts": "bytes[]"}
    with bushel.Writer(tmp_path / "x.tar", spec) as writer:
        for number in range(3):
            writer.append({"txt": f"text {number}"}, key=f"k{number}")
    for sidecar in tmp_path.rglob("*.safetensors"):
        sidecar.unlink()
    with bushel.Writer(tmp_path / "x.tar", spec, mode="append") as writer:
        writer.append({"cls": 3, "parts": [b"a", b"bc"]}, key="k3")
    found = [(sample.get("txt"), sample.get("cls"), sample.get("parts")) for sample in opened(tmp_path / "x.tar")]
    assert found == [("text 0", None, None), ("text 1", None, None), ("text 2", None, None), (None, 3, [b"a", b"bc"])]


@pytest.mark.parametrize("container", ["tar", "ffrecord", "recordio", "bag"])
@pytest.mark.parametrize("value", [memoryview(array("i", range(5))), memoryview(b"")], ids=["int32", "empty"])
def test_views_of_memory_of_any_type(tmp_path: Path, container: str, value: memoryview) -> None:
    with bushel.Writer(tmp_path / "ds", {"raw": "bytes", "parts": "bytes[]"}, container=container) as writer:
        writer.append({"raw": value, "parts": [value, b"x", value]}, key="a")
        writer.append({"raw": b"next", "parts": []}, key="b")
    first, second = opened(tmp_path / "ds")
    assert (first["raw"], first["parts"]) == (value.tobytes(), [value.tobytes(), b"x", value.tobytes()])
    assert second["raw"] == b"next"


def test_a_key_that_no_file_can_hold(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "ds", {"a": "int"}, container="bag") as writer:
        with pytest.raises((ValueError, bushel.SpecError)):
            writer.append({"a": 1}, key="\ud800")
        writer.append({"a": 1}, key="fine")
    assert list(opened(tmp_path / "ds").keys) == ["fine"]


def test_descriptors_are_given_back(tmp_path: Path) -> None:
    for mode in ("create", "append"):
        with bushel.Writer(tmp_path / "ds", {"a": "int"}, container="bag", mode=mode) as writer:
            writer.append({"a": 1})
    writer = bushel.Writer(tmp_path / "other", {"a": "int"}, container="tar")
    writer.append({"a": 1})
    writer.suspend()
    assert open_files(tmp_path) == []
