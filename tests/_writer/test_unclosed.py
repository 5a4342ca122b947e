"""A writer that nobody closes says so when it is collected, or when the process ends."""

from __future__ import annotations

import gc
import logging
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import bushel

SPEC = {"y": "int"}


def writer_of(path: Path, **options: Any) -> bushel.Writer:
    options = {"sync": False, "mode": "overwrite", **options}
    return bushel.Writer(path, None if options["mode"] == "append" else SPEC, **options)


def messages(log: pytest.LogCaptureFixture) -> list[str]:
    gc.collect()
    return [record.getMessage() for record in log.records if record.levelno == logging.WARNING]


@pytest.mark.filterwarnings("ignore:unclosed file:ResourceWarning")
@pytest.mark.parametrize(
    ("mode", "said"),
    [
        ("create", "so its last samples are not in the dataset; mode='resume' continues after its last shard"),
        ("append", "so its last samples are not in the dataset; mode='resume' continues after its last shard"),
        ("overwrite", "so nothing was written"),
    ],
)
def test_a_writer_with_samples(tmp_path: Path, caplog: pytest.LogCaptureFixture, mode: str, said: str) -> None:
    path = tmp_path / "numbers.tar"
    if mode == "append":
        bushel.pack({"y": [1]}, path, sync=False)
    writer = writer_of(path, mode=mode)
    writer.append({"y": 2})
    del writer
    [message] = messages(caplog)
    assert message == f"{path}: a Writer was not closed, {said}. Use it in a `with` statement, or call close()"
    assert not path.exists() or len(bushel.open(path, allow_incomplete=True)) == 1


def test_other_writers_are_silent(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with writer_of(tmp_path / "a.tar") as writer:
        writer.append({"y": 1})
    for end in ("close", "suspend"):
        writer = writer_of(tmp_path / f"{end}.tar")
        writer.append({"y": 1})
        getattr(writer, end)()
    writer = writer_of(tmp_path / "empty.tar")
    del writer
    with pytest.raises(ZeroDivisionError), writer_of(tmp_path / "b.tar") as writer:
        writer.append({"y": 1 // 0})
    bushel.pack({"y": [1]}, tmp_path / "packed.tar", sync=False)
    writer = None  # type: ignore[assignment]
    assert messages(caplog) == []


def test_at_the_end_of_the_process(tmp_path: Path) -> None:
    program = f"import bushel\nw = bushel.Writer({str(tmp_path / 'x.tar')!r}, {SPEC})\nw.append({{'y': 1}})\n"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stderr.splitlines() == [
        f"{tmp_path / 'x.tar'}: a Writer was not closed, so its last samples are not in the dataset; mode='resume' "
        "continues after its last shard. Use it in a `with` statement, or call close()"
    ]
    bushel.Writer(tmp_path / "x.tar", SPEC, mode="resume", sync=False).close()
    assert bushel.open(tmp_path / "x.tar").info.complete
