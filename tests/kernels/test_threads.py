"""Threads that use the kernels at once: on a free-threaded Python they run at the same time, on others by turns."""

import os
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.at_once import at_once
from tests.kernels.jpegs import picture, save

from bushel.kernels import (
    KeySet,
    MappedFile,
    SampleBuffer,
    TarScanner,
    decode_jpeg,
    decode_jpegs,
    read_many,
    read_samples,
)

THREADS = 4
UNLIMITED = 1 << 62


def in_threads(work: Callable[[int], Any]) -> list[Any]:
    """Call `work` with the number of each thread, at the same time, and return what it returned."""
    return at_once(*(partial(work, number) for number in range(THREADS)))


@pytest.mark.skipif(not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python has an interpreter lock")
def test_importing_the_kernels_leaves_the_interpreter_without_a_lock() -> None:
    program = "import sys, bushel.kernels; sys.exit(sys._is_gil_enabled())"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, env=environment)


def test_pixels_of_an_image_are_never_those_of_another() -> None:
    images = [picture(200, 150, seed) for seed in range(THREADS)]
    jpegs = [save(image) for image in images]
    expected = [decode_jpeg(jpeg) for jpeg in jpegs]

    def decode(number: int) -> None:
        kept: list[Any] = []
        for step in range(60):
            pixels = decode_jpeg(jpegs[number])
            kept = [pixels, *kept[:2]]  # memory goes back to the pool later, from whichever thread
            if step % 10 == 0:
                for each in kept:
                    np.testing.assert_array_equal(each, expected[number])

    in_threads(decode)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_child_decodes_whatever_other_threads_did_when_it_was_forked() -> None:
    jpeg = save(picture(200, 150))
    expected = decode_jpeg(jpeg).tobytes()
    over = threading.Event()

    def decode() -> None:
        while not over.is_set():
            decode_jpeg(jpeg)

    threads = [threading.Thread(target=decode) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(5):
            if (child := os.fork()) == 0:
                os._exit(0 if decode_jpeg(jpeg).tobytes() == expected else 1)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        over.set()
        for thread in threads:
            thread.join()


def test_a_sample_buffer_holds_whole_samples() -> None:
    buffer = SampleBuffer([("a", str.encode), ("b", str.encode)], "__key__", True, False, 20, b"")
    known = KeySet()
    buffer.restart(UNLIMITED, UNLIMITED, 60, 0, 0, known)
    each = 400

    def add(number: int) -> list[int]:
        seen = []
        for step in range(each):
            value = f"{number}-{step}"
            stored = bytearray(value, "ascii") if step % 2 else value
            assert buffer.add({"a": stored, "b": value}, f"k{value}") >= 0
            if step % 50 == 0:
                keys, columns = buffer.rows(0)
                assert keys is not None
                seen.append(len(keys[1]) - 1)
                assert {len(offsets) - 1 for _, offsets in columns.values()} == {seen[-1]}
        return seen

    counts = in_threads(add)
    assert all(seen == sorted(seen) for seen in counts)
    assert buffer.count == THREADS * each == len(known)
    keys, columns = buffer.rows(0)
    assert keys is not None

    def listed(column: tuple[Any, Any]) -> list[bytes]:
        data, offsets = column
        return [data[first:last].tobytes() for first, last in zip(offsets, offsets[1:], strict=False)]

    values = listed(columns["a"])
    assert values == listed(columns["b"])
    assert [b"k" + value for value in values] == listed(keys)
    assert all(key.decode() in known for key in listed(keys))


def test_lists_may_change_while_they_are_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(256)) * 16)
    offset = np.arange(0, 4096, 64, dtype=np.int64)
    length = np.full(len(offset), 64, np.int64)
    numbers = np.zeros(len(offset), np.int32)
    jpeg = save(picture(24, 16))
    geometry = np.array([[0, 0, 24, 16, 24, 16, 0, 0, 0, 0]] * 2, np.int32)
    files: list[Any] = [MappedFile(tmp_path / "file")]
    jpegs: list[Any] = [jpeg, jpeg]
    keys = [f"k{number}" for number in range(len(offset))]
    expected = read_many(files, numbers, offset, length)

    def work(number: int) -> None:
        for step in range(100):
            if number == 0:  # this thread changes what the others read
                files[0] = MappedFile(tmp_path / "file")
                jpegs[step % 2] = bytes(bytearray(jpeg))
                keys[step % len(keys)] = f"n{step}"
                continue
            assert read_many(files, numbers, offset, length) == expected
            samples = read_samples(files, [("a", numbers, offset, length, None)], None, "__key__", keys)
            assert [sample["a"] for sample in samples] == expected
            assert all(str(sample["__key__"])[0] in "kn" for sample in samples)
            if step % 10 == 0:
                assert decode_jpegs(jpegs, geometry, np.empty((2, 16, 24, 3), np.uint8)) == []

    in_threads(work)


def test_one_scan_is_fed_by_one_thread_at_a_time() -> None:
    data = bytes(512 * 64)
    scanner = TarScanner(len(data), 0)

    def feed(_: int) -> None:
        while (window := scanner.next_window()) is not None:
            offset, wish = window
            try:
                scanner.feed(data[offset : offset + wish])
            except ValueError:  # another thread has fed this window
                continue

    in_threads(feed)
    assert len(scanner.take()) == 0


def test_one_scan_is_read_and_fed_by_one_thread_at_a_time(tmp_path: Path) -> None:
    data = bytes(512 * 64)
    path = tmp_path / "x.tar"
    path.write_bytes(data)
    scanner, file = TarScanner(len(data), 0), MappedFile(path)

    def read(_: int) -> None:
        while not scanner.over:
            assert len(scanner.read(file, 1)) == 0

    in_threads(read)
