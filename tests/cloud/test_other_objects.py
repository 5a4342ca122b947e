"""A folder of a real S3 server that has objects of others takes no new dataset."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests._dataset.views.models import CONTAINERS
from tests.faults.ways import JPEG, spec_of

import bushel
from bushel.storage import read_whole, walk_names, write_whole
from bushel.storage.objects.location import ObjectPath

pytestmark = pytest.mark.cloud


def samples(container: str) -> list[dict[str, Any]]:
    return [{"__key__": f"k{n}", "data": JPEG if container == "gulp" else b"x" * 50, "label": n} for n in range(4)]


def write(target: Any, container: str) -> None:
    with bushel.Writer(target, spec_of(container), container=container) as writer:
        for sample in samples(container):
            writer.append(sample)


WAYS: dict[str, Callable[[ObjectPath, Path, str], object]] = {
    "Writer": lambda target, source, container: write(target, container),
    "pack": lambda target, source, container: bushel.pack(
        samples(container), target, spec=spec_of(container), container=container
    ),
    "parts": lambda target, source, container: bushel.pack(
        samples(container), target, spec=spec_of(container), container=container, parts=2
    ),
    "convert": lambda target, source, container: bushel.convert(source, target, container=container),
    "merge": lambda target, source, container: bushel.merge([source], target, container=container),
    "repair": lambda target, source, container: bushel.repair(source, str(target), to=container),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["notes.txt", "raw/notes.txt"])
def test_a_folder_with_other_objects_is_refused(
    bucket: ObjectPath, tmp_path: Path, way: str, container: str, name: str
) -> None:
    write(tmp_path / "source", container)
    write_whole(bucket / name, b"mine")
    with pytest.raises(FileExistsError, match=rf"has other files \({name.partition('/')[0]}\)"):
        WAYS[way](bucket, tmp_path / "source", container)
    assert list(walk_names(bucket)) == [name]
    assert read_whole(bucket / name) == b"mine"
    WAYS[way](bucket / "dataset", tmp_path / "source", container)  # what the error advises
    assert len(bushel.open(bucket / "dataset")) == 4


@pytest.mark.parametrize("way", WAYS)
def test_hidden_objects_do_not_count(bucket: ObjectPath, tmp_path: Path, way: str) -> None:
    write(tmp_path / "source", "tar")
    write_whole(bucket / ".DS_Store", b"")
    WAYS[way](bucket, tmp_path / "source", "tar")
    assert len(bushel.open(bucket)) == 4


def test_the_command_line(bucket: ObjectPath, tmp_path: Path) -> None:
    write(tmp_path / "source", "tar")
    write_whole(bucket / "notes.txt", b"mine")
    command = [sys.executable, "-m", "bushel", "convert", str(tmp_path / "source"), str(bucket), "--container", "bag"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "has other files (notes.txt)" in done.stderr
    assert "Traceback" not in done.stderr
