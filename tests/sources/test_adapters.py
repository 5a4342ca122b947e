from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cli.running import fails, run
from tests.sources.folders import picture

import bushel
from bushel.cli.adapter import build_parser
from bushel.compat.gulpio2.scripts import load_class
from bushel.errors import FormatError
from bushel.sources import Adapter, open_source
from bushel.testing import check_source

MODULE = '''
"""Adapters for a test."""
import numpy as np


class SmallVideos:
    """Videos of grey frames."""

    def __init__(self, names: str, count: int, shade: float = 0.5, color: bool = False, sizes=[8, 9], note=None):
        self.names, self.count, self.shade, self.color = names.split(","), count, shade, color
        self.sizes, self.note = sizes, note

    def __len__(self):
        return len(self.names)

    def iter_data(self, slice_element=None):
        self.names = self.names[slice_element or slice(None)]
        for name in self.names:
            shape = (*self.sizes, 3) if self.color else tuple(self.sizes)
            frames = [np.full(shape, int(255 * self.shade), np.uint8)] * self.count
            yield {"id": name, "frames": frames, "meta": {"note": self.note, "types": [type(self.shade).__name__]}}
'''


class Videos:
    """As GulpIO's documentation has it; cuts its own list, as one of GulpIO's own adapters does."""

    def __init__(self, count: int) -> None:
        self.numbers = list(range(count))

    def __len__(self) -> int:
        return len(self.numbers)

    def iter_data(self, slice_element: slice | None = None) -> Iterator[dict[str, Any]]:
        self.numbers = self.numbers[slice_element or slice(None)]
        for number in self.numbers:
            if number != 3:
                yield {"id": number, "frames": [picture(number), picture(number + 1)], "meta": {"label": number}}


def test_an_adapter_is_packed_as_it_is(tmp_path: Path) -> None:
    check_source(Adapter(Videos(3)))
    assert type(open_source(Videos(3))) is Adapter
    done = bushel.pack(Videos(6), tmp_path / "out", container="gulp", shard_samples=2, threads=4, max_errors=1)
    assert (done.samples, done.errors) == (5, 1)
    dataset = bushel.open(tmp_path / "out")
    assert list(dataset.keys) == ["0", "1", "2", "4", "5"]
    assert [sample["meta"] for sample in dataset] == [{"label": number} for number in (0, 1, 2, 4, 5)]
    assert [len(sample["frames"]) for sample in dataset] == [2] * 5
    assert np.abs(dataset[0]["frames"][1].astype(int) - picture(1)).mean() < 8
    meta = json.loads(min((tmp_path / "out").glob("*.gmeta")).read_text())
    assert meta["0"]["meta_data"] == [{"label": 0}]
    with pytest.raises(FormatError, match="returned no frames for item 3"):
        Adapter(Videos(6))[3]


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    path = tmp_path / "small_videos_of_a_test.py"
    path.write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield path
    sys.modules.pop(path.stem, None)


def test_a_command_line_is_made(module: Path, tmp_path: Path) -> None:
    said = run("adapter", module, "SmallVideos")
    assert said == "small_videos: run it with --help\n"
    script = tmp_path / "small_videos"
    helped = subprocess.run([script, "--help"], capture_output=True, text=True, check=True).stdout
    assert "Videos of grey frames." in helped
    for option in ("--shade SHADE", "--color, --no-color", "--sizes", "--note", "names", "count", "OUTPUT"):
        assert option in helped
    options = ["--shade", "0.25", "--color", "--sizes", "4", "6", "--note", "n"]
    packing = ["--processes", "1", "--shard-samples", "2"]
    command = [str(script), "a,b,c", "3", str(tmp_path / "out"), *options, *packing]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == f"{tmp_path / 'out'}: 3 samples written as gulp\n"
    dataset = bushel.open(tmp_path / "out")
    assert (dataset.info.shards, dataset.info.container) == (2, "gulp")
    assert [(sample["__key__"], sample["meta"]) for sample in dataset] == [
        (name, {"note": "n", "types": ["float"]}) for name in "abc"
    ]
    assert [frame.shape for frame in dataset[0]["frames"]] == [(4, 6, 3)] * 3
    again = subprocess.run(command, capture_output=True, text=True)
    assert again.returncode == 2
    assert "is a dataset already" in again.stderr
    wrong = subprocess.run([script, "a", "three", "out"], capture_output=True, text=True)
    assert wrong.returncode == 2
    assert "invalid int value: 'three'" in wrong.stderr


def test_what_cannot_be_made(module: Path, tmp_path: Path) -> None:
    assert "does not exist" in fails("adapter", "nothing.py", "Videos")
    run("adapter", module, "SmallVideos", "-o", "mine", "-q")
    assert "File exists" in fails("adapter", module, "SmallVideos", "-o", "mine")
    with pytest.raises(AttributeError, match="has no class Missing"):
        load_class(str(module), "Missing")


def test_types_of_options() -> None:
    class Typed:
        def __init__(
            self,
            folder: Path,
            names: list[int],
            rate: float | None = None,
            verbose: bool = True,
            *,
            flag: bool,
            exts: tuple[str, ...] = (".mp4",),
            anything: object = None,
        ) -> None:
            pass

    parsed = build_parser(Typed).parse_args(["f", "1", "2", "out", "--flag", "--rate", "2", "--no-verbose"])
    assert parsed.folder == Path("f")
    assert (parsed.names, parsed.rate, parsed.verbose, parsed.flag) == ([1, 2], 2.0, False, True)
    assert (parsed.exts, parsed.output, parsed.container) == ((".mp4",), "out", "gulp")
    assert not hasattr(parsed, "anything")

    def needs(thing: dict[str, int]) -> None:
        """Take what no command line gives."""

    with pytest.raises(TypeError, match="which a command line cannot give"):
        build_parser(needs)
