"""The page on object stores: its code and commands run against the S3 server, which stands for the other stores, too.

`test_azure.py` and `test_https.py` read and write with Azure Blob Storage and over https.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.cloud.conftest import upload
from tests.docs.pages import run, run_commands, shown
from tests.sources.folders import jpeg

import bushel
from bushel.storage.objects.client import library
from bushel.storage.objects.location import ObjectPath

pytestmark = pytest.mark.cloud

PAGE = "docs/cloud.md"


@pytest.fixture
def placed(bucket: ObjectPath, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[[str], str]:
    """A function that gives the lines of the page URLs of this server. The folder here has `photos/`."""
    monkeypatch.chdir(tmp_path)
    for name in ("n01440764/10026", "n01440764/10027", "n01494475/1"):
        path = Path("photos") / f"{name}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(jpeg(len(name)))
    others = {
        "gs://bucket/": "",
        "gs://other/": "other/",
        "az://container/": "",
        "https://host/": "",
        "s3://bucket/": "",
    }

    def place(text: str) -> str:
        for url, folder in others.items():
            text = text.replace(url, f"{bucket}/{folder}")
        return text

    return place


def test_the_page(placed: Callable[[str], str], bucket: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> None:
    for shard in range(147):
        path = Path(f"local/train/shard-{shard:03d}.tar")
        path.parent.mkdir(parents=True, exist_ok=True)
        with bushel.Writer(path, {"label": "int"}, sync=False) as writer:
            for number in range(5):
                writer.append({"label": number}, key=f"{shard}/{number}")
    bushel.pack("photos", "theirs", container="tar")
    Path("train.tar.gz").write_bytes(gzip.compress(Path("local/train/shard-000.tar").read_bytes()))
    library().put(bucket.store, f"{bucket.key}/train.tar.gz", Path("train.tar.gz").read_bytes())
    upload(Path("local/train"), bucket / "train")
    upload(Path("theirs"), bucket / "theirs")
    names: dict[str, Any] = {"jpeg": jpeg(1)}
    ran = []
    for language, text in shown(PAGE):
        lines = placed(text)
        if language == "python":
            run(PAGE, lines, names)
        elif lines.startswith("export "):
            for word in lines.split()[1:]:
                monkeypatch.setenv(*word.replace("/scratch", str(Path.cwd())).split("=", 1))
        elif " pack " in lines.splitlines()[0]:  # the first block of commands reads what is packed before them
            upload(Path("photos"), bucket / "photos")
            for name in ("a", "b"):
                bushel.pack(
                    [{"__key__": f"{name}{number}", "label": number} for number in range(10)],
                    bucket / name,
                    container="tar",
                )
            run_commands(lines.replace(f"{bucket}/train/", f"{bucket}/retrain/"))
        else:
            run_commands(lines)
        ran.append(language)
    assert ran == ["python", "sh", "python", "sh", "sh"]
    assert len(bushel.open(str(bucket / "packed"))) == 3
    assert len(bushel.open(str(bucket / "fixed"))) == 20
    assert library().get(bucket.store, f"{bucket.key}/fish.jpg").bytes() == jpeg(len("n01440764/10026"))
    assert len(bushel.open("train.rec")) == 2  # a share of 0.9 of three photos
