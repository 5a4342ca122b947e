"""The pages on many machines: their commands and scripts run on Ray, torchrun and S3, with few photos.

Lines for Slurm are left out here; `test_slurm.py` submits such jobs.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cloud.conftest import upload
from tests.cluster.clusters import Place, make_place, s3_server
from tests.docs.pages import commands_of, shown
from tests.paths import ROOT
from tests.sources.folders import image_folder

import bushel
from bushel.storage.objects.location import ObjectPath

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]

PHOTOS, PARTS = 300, 4


@pytest.fixture(scope="module")
def bucket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    with pytest.MonkeyPatch.context() as patch:
        for variable, value in (s3_server() or {}).items():
            patch.setenv(variable, value)
        patch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
        patch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
        place = make_place("s3", tmp_path_factory.mktemp("none"))
        upload(image_folder(tmp_path_factory.mktemp("photos"), PHOTOS), ObjectPath.parse(f"{place.path}/raw/photos"))
        yield place


def placed(text: str, bucket: Place) -> str:
    """Return lines of a page with URLs of the bucket, and a small number of parts."""
    text = text.replace("s3://raw/", f"{bucket.path}/raw/").replace("s3://data/", f"{bucket.path}/data/")
    return text.replace("--parts 4096", f"--parts {PARTS}")


def call(words: list[str], folder: Path) -> str:
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, (words, done.stdout[-2000:], done.stderr[-3000:])
    return done.stdout


def test_ten_million_photos(bucket: Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray")
    pytest.importorskip("torch")
    ran = 0
    for language, text in shown("docs/ten-million-photos.md"):
        if language == "python":
            (tmp_path / "train.py").write_text(placed(text, bucket))
            continue
        for line in commands_of(placed(text, bucket)):
            words = shlex.split(line, comments=True)
            if words[0] == "export":
                for word in words[1:]:
                    monkeypatch.setenv(*word.replace("/scratch", str(tmp_path)).split("=", 1))
            elif words[0] == "torchrun":
                printed = call([sys.executable, "-m", "torch.distributed.run", *words[1:]], tmp_path)
                assert sum("of 2: 128 samples" in each for each in printed.splitlines()) == 2, printed
            elif "slurm" not in words:
                call([sys.executable, "-m", *words], tmp_path)
                ran += 1
    assert ran == 5
    assert len(bushel.open(f"{bucket.path}/data/train/")) == PHOTOS


def test_ray_train(bucket: Place, tmp_path: Path) -> None:
    pytest.importorskip("ray.train")
    pytest.importorskip("torch")
    target = f"{bucket.path}/data/more/"
    bushel.pack([{"__key__": str(number), "label": number} for number in range(100)], target, container="tar")
    [text] = [text for language, text in shown("docs/reading-at-scale.md") if language == "python"]
    (tmp_path / "train.py").write_text(text.replace("s3://data/train/", target))
    call([sys.executable, "train.py"], tmp_path)
