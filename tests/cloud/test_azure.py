"""Datasets in Azure Blob Storage, as Azurite has it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.cloud.azurite import azurite, installed, make_container
from tests.cloud.conftest import upload
from tests.formats import FORMAT_NAMES, FORMATS
from tests.storage.objects.datasets import SPEC, stored, write

import bushel
from bushel.storage import as_path, place_file, read_whole, write_whole
from bushel.storage.objects.client import library
from bushel.storage.objects.location import ObjectPath
from bushel.storage.objects.upload import put_bytes

pytestmark = pytest.mark.cloud


@pytest.fixture(scope="module")
def container() -> Iterator[ObjectPath]:
    command = installed()
    if command is None:
        pytest.skip("Azurite is not installed: `make cloud` does that where there is npm")
    with azurite(command) as variables, pytest.MonkeyPatch.context() as patch:
        for name, value in variables.items():
            patch.setenv(name, value)
        patch.setenv("BUSHEL_NETWORK_PATIENCE", "20")
        make_container(variables["AZURE_STORAGE_ENDPOINT"], "bushel")
        yield ObjectPath.parse("az://bushel")


@pytest.mark.parametrize(("kind", "generation"), FORMATS, ids=FORMAT_NAMES)
def test_read(container: ObjectPath, tmp_path: Path, kind: str, generation: str | None) -> None:
    write(tmp_path / "set", kind, generation, shard_samples=15)
    target = container / f"{kind}{generation}"
    upload(tmp_path / "set", target)
    local, remote = bushel.open(tmp_path / "set"), bushel.open(str(target))
    assert remote.info.indexed == local.info.indexed
    order = np.random.default_rng(0).permutation(40).tolist()
    assert stored(remote, order) == stored(local, order)
    assert remote.position("key-17") == 17


def test_patterns_and_refusals(container: ObjectPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "set", "tar", None, shard_samples=15)
    upload(tmp_path / "set", container / "patterns")
    remote = bushel.open("az://bushel/patterns/shard-*[01].tar")
    assert len(remote) == 30
    path = as_path("az://bushel/patterns/shard-000000.tar")
    assert isinstance(path, ObjectPath)
    library().put(path.store, path.key, path.read_bytes()[::-1])
    with pytest.raises(bushel.errors.FormatError, match="another ETag"):
        remote.read([0])
    with pytest.raises(FileNotFoundError):
        bushel.open("az://bushel/nothing")
    with pytest.raises(FileNotFoundError):
        bushel.open("az://no-such-container/x.tar")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "d3Jvbmc=")
    with pytest.raises(PermissionError, match="AZURE_STORAGE_ACCOUNT_KEY"):
        bushel.open("az://bushel/patterns")


def test_write(container: ObjectPath, tmp_path: Path) -> None:
    samples = write(tmp_path / "set", "tar", None)
    with bushel.Writer("az://bushel/written", SPEC, container="tar", shard_samples=15) as writer:
        for number, sample in enumerate(samples):
            writer.append(sample, key=f"key-{number}")
    remote = bushel.open("az://bushel/written")
    assert remote.info.indexed
    assert [sample["data"] for sample in remote.read(range(40))] == [sample["data"] for sample in samples]


def test_an_object_in_parts(container: ObjectPath, tmp_path: Path) -> None:
    data = np.random.default_rng(0).bytes(20 << 20)
    (tmp_path / "large").write_bytes(data)
    place_file(tmp_path / "large", container / "large", new=True)
    assert read_whole(container / "large") == data
    with pytest.raises(FileExistsError, match="exists already, and did not when"):
        place_file(tmp_path / "large", container / "large", new=True)
    write_whole(container / "small", b"1")
    with pytest.raises(FileExistsError, match="exists already, and did not when"):
        put_bytes(container / "small", b"2", new=True)
