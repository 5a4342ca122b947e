"""The same script with webdataset and with Bushel prints the same."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.compat.originals import INTEROP, python_of

import bushel.compat.webdataset as wds

pytestmark = pytest.mark.interop


def printed(python: Path, script: str, package: str) -> list[str]:
    command = [str(python), str(INTEROP / "same" / script), package]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("suffix", ["tar", "tar.gz", "tar.bz2", "tar.xz"])
def test_the_original_reads_what_is_written(tmp_path: Path, suffix: str) -> None:
    python = python_of("webdataset")
    samples: list[dict[str, Any]] = [
        {"__key__": "long/" * 40 + "é", "txt": "é"},
        {"__key__": "b", "cls": 3, "x.json.gz": [1, None]},
    ]
    with wds.TarWriter(str(tmp_path / f"a.{suffix}")) as writer:  # with the time of now
        for sample in samples:
            writer.write(sample)
    command = [str(python), str(INTEROP / "read_webdataset.py"), str(tmp_path / f"a.{suffix}"), "--decode"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert [line["key"] for line in found] == [sample["__key__"] for sample in samples]
    assert [{name: field["value"] for name, field in line["fields"].items()} for line in found] == [
        {"txt": "é"},
        {"cls": 3, "x.json.gz": [1, None]},
    ]


@pytest.mark.parametrize("script", ["webdataset_pipeline.py"])
def test_the_same_script_prints_the_same(script: str) -> None:
    wanted = printed(python_of("webdataset"), script, "webdataset")
    found = printed(Path(sys.executable), script, "bushel.compat.webdataset")
    assert found == wanted
    assert len(found) > 300
