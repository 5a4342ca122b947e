"""Datasets of no samples, no shards or a header only: every command works on them, or says clearly why not."""

from __future__ import annotations

import json
import shlex
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import bushel
from bushel.cli.app import app

pa = pytest.importorskip("pyarrow")


def _written(container: str, spec: dict[str, str]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        with bushel.Writer(path, spec, container=container, sync=False):
            pass

    return write


def _arrow(path: Path) -> None:
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, pa.schema([("x", pa.int64())])):
        pass


def _parquet(path: Path) -> None:
    import pyarrow.parquet

    pyarrow.parquet.write_table(pa.table({"x": pa.array([], pa.int64())}), path)


NOTHING: dict[str, Callable[[Path], object]] = {
    "bag": _written("bag", {"x": "int"}),
    "tar": _written("tar", {"x": "int"}),
    "gulp": _written("gulp", {"frames": "jpg[]"}),
    "ffrecord": _written("ffrecord", {"data": "bytes"}),
    "recordio": _written("recordio", {"image": "jpg", "label": "float"}),
    "header.csv": lambda path: path.write_text("a,b\n"),
    "empty.csv": lambda path: path.write_text(""),
    "empty.jsonl": lambda path: path.write_text(""),
    "empty.parquet": _parquet,
    "empty.arrow": _arrow,
    "empty.npy": lambda path: np.save(path, np.zeros((0, 3), np.float32)),
    "empty.tar": lambda path: tarfile.open(path, "w").close(),
    "empty.zip": lambda path: zipfile.ZipFile(path, "w").close(),
    "empty.tfrecord": lambda path: path.write_bytes(b""),
}
"""How each dataset is written."""

READ_IN_PLACE = r"dataset(s are read in place|, which Bushel reads and does not write)"
NO_FIELD = "needs at least one field"
COMMANDS: dict[str, str] = {
    "info PATH": "",
    "info PATH --columns": "",
    "ls PATH": "",
    "cat PATH": "",
    "get PATH 0": "position 0 is out of range for a dataset of 0 samples",
    "verify PATH": "",
    "index PATH": "",
    "index PATH --keys": "",
    "diff PATH PATH": "",
    "convert PATH OUT -c bag": NO_FIELD,
    "convert PATH OUT -c tar": "",
    "pack PATH OUT -c bag": NO_FIELD,
    "split PATH OUT a=0.5 b=0.5": READ_IN_PLACE,
    "merge OUT PATH PATH -c tar": "",
    "repair PATH OUT --to tar": "no samples, and no damage",
    "remove PATH --position 0 --reason x": "position 0 is out of range",
    "remove PATH --list": "",
    "card PATH": "",
    "bench PATH --seconds 0.1": "the dataset has no samples to measure",
    "who PATH --state STATE --step 0 --batch-size 4": "epoch 0 has 0 steps",
    "views PATH": "",
}
"""Each command, and what its error says if it is one."""


@pytest.mark.parametrize("name", NOTHING)
@pytest.mark.filterwarnings("ignore::bushel.errors.IncompleteWarning")
def test_every_command(name: str, tmp_path: Path) -> None:
    NOTHING[name](path := tmp_path / name)
    assert len(bushel.open(path)) == 0
    wrong = []
    for number, (line, reason) in enumerate(COMMANDS.items()):
        state = tmp_path / "state.json"
        state.write_text(json.dumps(bushel.Loader(bushel.open(path), batch_size=4).state_dict()))
        places = {"PATH": path, "OUT": tmp_path / f"out{number}", "OUT.png": tmp_path / "out.png", "STATE": state}
        arguments = [str(places.get(word, word)) for word in shlex.split(line)]
        done = CliRunner().invoke(app, arguments)
        unexpected = done.exception is not None and not isinstance(done.exception, SystemExit)
        if unexpected or (done.exit_code and not (reason and _says(done.output + done.stderr, reason))):
            wrong.append((line, done.exit_code, done.output, done.exception))
    assert not wrong


def _says(output: str, reason: str) -> bool:
    import re

    return re.search(reason, output.strip().replace("\n", " ")) is not None
