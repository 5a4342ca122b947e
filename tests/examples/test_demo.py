"""The demo, as `make demo` runs it."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.interrupts import interruptible
from tests.paths import ROOT

import bushel

DEMO = ROOT / "examples" / "demo.py"
CONTAINERS = ("bag", "tar", "ffrecord", "gulp", "recordio")


def demo(*options: str | Path, temporary: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, DEMO, *map(str, options)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "TMPDIR": str(temporary), "COLUMNS": "120"},
    )


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    """Forty JPEG files in two folders, with a dot in their names and a note among them."""
    folder = tmp_path / "pictures"
    generator = np.random.default_rng(0)
    for number in range(40):
        path = folder / f"kind{number % 2}" / f"v1.{number:02d}.JPG"
        path.parent.mkdir(parents=True, exist_ok=True)
        size = (20 + number, 30, 3) if number else (20, 30)
        Image.fromarray(generator.integers(0, 256, size, dtype=np.uint8)).save(path, format="JPEG")
    (folder / "note.txt").write_text("not a photo")
    return folder


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    folder = tmp_path / "scratch"
    folder.mkdir()
    return folder


def test_demo_packs_the_photos_of_a_folder_into_all_five_containers(
    pictures: Path, scratch: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    done = demo("--photos", pictures, "--keep", kept, temporary=scratch)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "All of it matched" in done.stdout
    for container in CONTAINERS:
        row = rf"^│ {container} +│ +\d+ │( +[\d,]+ │){{4}}$"
        assert re.search(row, done.stdout, re.MULTILINE)
        dataset = bushel.open(kept / container)
        with dataset:
            assert dataset.info.container == container
            assert len(dataset) == 40
            assert dataset[0, ["label"]] == {"__key__": "kind0/v1_00", "label": 0}
            [stored] = dataset.read([dataset.position("kind1/v1_39")], decode=False)
            assert stored["image"] == (pictures / "kind1" / "v1.39.JPG").read_bytes()
            assert dataset["kind1/v1_39", ["label"]]["label"] == 1
    assert list(scratch.iterdir()) == []


def test_quick_demo_takes_32_photos(scratch: Path) -> None:
    done = demo("--quick", temporary=scratch)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith("32 ")
    assert list(scratch.iterdir()) == []


def test_demo_refuses_a_folder_without_photos(scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = demo("--photos", tmp_path / "empty", temporary=scratch)
    assert done.returncode == 1
    assert "no JPEG files in" in done.stdout
    assert list(scratch.iterdir()) == []


def test_demo_does_not_write_over_what_was_kept(pictures: Path, scratch: Path, tmp_path: Path) -> None:
    (tmp_path / "kept" / "tar").mkdir(parents=True)
    done = demo("--photos", pictures, "--keep", tmp_path / "kept", temporary=scratch)
    assert done.returncode == 2
    assert "holds datasets already" in done.stderr


def test_demo_fails_on_a_file_that_is_no_photo(pictures: Path, scratch: Path) -> None:
    (pictures / "kind0" / "broken.jpg").write_bytes(b"\xff\xd8 no more than a beginning")
    done = demo("--photos", pictures, temporary=scratch)
    assert done.returncode == 1
    assert "kind0/broken" in done.stdout
    assert "All of it matched" not in done.stdout
    assert list(scratch.iterdir()) == []


def test_interrupted_demo_leaves_nothing(scratch: Path) -> None:
    command, environment = [sys.executable, str(DEMO)], {**interruptible(), "TMPDIR": str(scratch)}
    for _ in range(5):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as running:
            assert running.stdout is not None
            for line in running.stdout:
                if "packed" in line:
                    break
            time.sleep(0.05)  # anywhere in what follows will do
            running.send_signal(signal.SIGINT)
            errors = running.communicate()[1]
        # Python drops a KeyboardInterrupt that meets the callback of a weak reference: then nobody stopped the demo.
        # On a machine that does much else, it may have ended before.
        if "Exception ignored in" not in errors and running.returncode:
            break
    assert running.returncode == 130, errors
    assert list(scratch.iterdir()) == []
