"""A process that writes a dataset and waits: `python -m tests._writer.other_writer TARGET CONTAINER MODE COUNT`.

It appends samples `theirs0`, `theirs1` …, says so, and closes the writer when its standard input ends.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.paths import ROOT

import bushel

SPEC = {"data": "bytes", "label": "int"}


def add(writer: bushel.Writer, name: str, count: int) -> None:
    """Append samples."""
    for number in range(count):
        writer.append({"data": name.encode() * 50, "label": number}, key=f"{name}{number}")


@contextmanager
def another_writer(target: Path, container: str, mode: str, count: int = 3) -> Iterator[subprocess.Popen[bytes]]:
    """Start the process, and wait until it has appended its samples. At the end it closes its writer."""
    command = [sys.executable, "-m", "tests._writer.other_writer", str(target), container, mode, str(count)]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"begun\n"
            yield process
            process.communicate(timeout=60)
        finally:
            process.kill()


def main() -> None:
    """Write."""
    target, container, mode, count = sys.argv[1:]
    options: dict[str, Any] = {} if "." in Path(target).name else {"shard_samples": 2}
    with bushel.Writer(target, SPEC, container=container, mode=mode, **options) as writer:  # type: ignore[arg-type]
        add(writer, "theirs", int(count))
        print("begun", flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
