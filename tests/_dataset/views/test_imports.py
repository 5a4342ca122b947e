"""What the first `bushel.open` of a process, and its first sample, import."""

from __future__ import annotations

import json
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

import bushel

PROGRAM = """
import json, sys
import numpy
before = set(sys.modules)
import bushel
sample = bushel.open(sys.argv[1])[3]
assert sample["label"] == 3, sample
print(json.dumps(sorted(set(sys.modules) - before)))
"""

UNUSED = (
    "bushel._dataset.open.remote_discovery",
    "bushel._dataset.views.stream",
    "bushel._index.arrow",
    "bushel._index.segment_scan",
    "bushel._writer",
    "bushel._pack",
    "bushel.loader",
    "bushel.storage.fileobject",
    "bushel.storage.forward",
    "bushel.storage.objects",
    "bushel.storage.staging",
    "PIL",
    "bushel._dataset.open.as_listed",
    "bushel._dataset.open.completeness",
    "bushel._dataset.open.discovery",
    "bushel._dataset.open.sources",
    "av",
    "concurrent.futures",
    "dataclasses",
    "logging",
    "obstore",
    "pyarrow",
    "safetensors",
    "secrets",
    "subprocess",
    "tarfile",
    "tempfile",
    "traceback",
)
"""Modules that reading a local dataset does not need."""


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord", "gulp", "recordio"])
def test_the_first_sample_imports_what_it_uses(tmp_path: Path, container: str) -> None:
    spec = {"frames": "jpg[]", "label": "int"} if container == "gulp" else {"label": "int", "text": "utf8"}
    with bushel.Writer(tmp_path / "ds", spec, container=container) as writer:
        for label in range(5):
            writer.append(
                {"label": label, "frames": []} if container == "gulp" else {"label": label, "text": "x"}, key=str(label)
            )
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "ds")], capture_output=True, text=True, check=True
    )
    imported = json.loads(done.stdout)
    unused = UNUSED if container in ("bag", "tar") else UNUSED[: UNUSED.index("PIL")]
    assert [name for name in imported if name.startswith(tuple(unused))] == []
    found = {name.split(".")[2] for name in imported if name.startswith("bushel.containers.") and name.count(".") == 2}
    assert not found & ({"bag", "tar", "ffrecord", "gulp", "recordio"} - {container})
    assert (
        len([name for name in imported if name.startswith("bushel")]) <= 71
    )  # four of them packages, which have only a docstring


SCANNED = """
import sys
import numpy
before = set(sys.modules)
import bushel
bushel.open(sys.argv[1], index="memory").close()
print(*(set(sys.modules) - before))
"""

UNUSED_BY_SCANS = {
    *("bushel._runtime.threads", "bushel.containers.references", "bushel.storage.block_file"),
    *("json", "queue", "sqlite3"),
}
"""Modules that the index of a plain archive does not need: those of block files, and of an index by Energon."""


def test_the_first_scan_of_an_archive_imports_what_it_uses(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("0.txt"))
    command = [sys.executable, "-c", SCANNED, str(tmp_path / "a.tar")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert "bushel.containers.tar.scan" in imported
    assert imported & UNUSED_BY_SCANS == set()
