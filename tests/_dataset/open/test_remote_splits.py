"""A folder of splits in an object store asks for one of them, as a local folder does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests._recognise.photos import stored
from tests.storage.objects.memory import Buckets

import bushel
from bushel.errors import SpecError
from bushel.storage import as_path, write_whole

CSV = b"x\n1\n2\n"
LAYOUTS = {
    "folders of photos": {f"{split}/{name}/0.jpg": b"" for split in ("train", "test") for name in ("cat", "dog")},
    "files": {"train.csv": CSV, "test.csv": CSV},
    "numbered files in data": {
        f"data/{name}.csv": CSV for name in ("train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001")
    }
    | {"README.md": b"words"},
    "folders of fields": {
        f"{folder}/{split}/{number}.{suffix}": data
        for folder, suffix, data in (("images", "jpg", b""), ("labels", "txt", b"0 0.5"))
        for split in ("train", "test")
        for number in range(3)
    },
    "folders of tables": {"train/a.csv": CSV, "test/a.csv": CSV},
}


@pytest.fixture
def buckets(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Buckets:
    return Buckets(monkeypatch, tmp_path / "scratch")


def _both(files: dict[str, bytes], tmp_path: Path) -> tuple[str, str]:
    for name, data in files.items():
        path = tmp_path / "local" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        content = data or stored(name)
        path.write_bytes(content)
        write_whole(as_path(f"s3://bucket/of/{name}"), content)
    return str(tmp_path / "local"), "s3://bucket/of"


def _samples(path: str, **options: Any) -> tuple[Any, list[Any]]:
    dataset = bushel.open(path, index="memory", **options)
    return dataset.labels, [[sample["__key__"], sample.get("label"), sample.get("x")] for sample in dataset]


@pytest.mark.parametrize("name", LAYOUTS)
def test_as_a_local_folder(name: str, buckets: Buckets, tmp_path: Path) -> None:
    local, remote = _both(LAYOUTS[name], tmp_path)
    for path in (local, remote):
        with pytest.raises(SpecError, match=rf"{path} has several splits: train, test\. Name one: split='train', or"):
            bushel.open(path)
        with pytest.raises(SpecError, match="has no split 'dev'"):
            bushel.open(path, split="dev")
    for split in ("train", "test", "all"):
        assert _samples(remote, split=split)[1] == _samples(local, split=split)[1]


def test_one_split_alone_and_other_data_open(buckets: Buckets, tmp_path: Path) -> None:
    for files in ({"train.csv": CSV}, {"train.csv": CSV, "test.csv": CSV, "more.csv": CSV}):
        local, remote = _both(files, tmp_path)
        assert _samples(remote)[1] == _samples(local)[1]
