"""What the first `bushel.open` of a process, and its first sample, import."""

from __future__ import annotations

import json
import subprocess
import sys
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
    "bushel._discovery.remote_discovery",
    "bushel._dataset.stream",
    "bushel._index.arrow",
    "bushel._index.segment_scan",
    "bushel._writer",
    "bushel.ingest",
    "bushel.loader",
    "bushel.storage.fileobject",
    "bushel.storage.forward",
    "bushel.storage.objects",
    "bushel.storage.staging",
    "PIL",
    "av",
    "concurrent.futures",
    "obstore",
    "pyarrow",
    "safetensors",
    "secrets",
    "subprocess",
    "tarfile",
    "tempfile",
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
    assert len([name for name in imported if name.startswith("bushel")]) <= 57
