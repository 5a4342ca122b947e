"""Reading datasets from S3: every container, however they came there."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.cloud.conftest import make_bucket, remove, upload
from tests.formats import each_format
from tests.storage.objects.datasets import SPEC, stored, write

import bushel
from bushel.loader import StreamLoader
from bushel.storage import as_path
from bushel.storage.objects.client import library
from bushel.storage.objects.location import ObjectPath

pytestmark = pytest.mark.cloud

ALL = list(range(40))


def opened(source: object, **more: object) -> bushel.Dataset:
    return bushel.open(source, **more)  # type: ignore[arg-type] # of any kind


@pytest.mark.parametrize("shard_samples", [None, 7])
@each_format
def test_uploaded_with_sidecars(
    bucket: ObjectPath, tmp_path: Path, container: str, generation: str | None, shard_samples: int | None
) -> None:
    write(tmp_path / "set", container, generation, shard_samples=shard_samples)
    upload(tmp_path / "set", bucket / "set")
    local, remote = opened(tmp_path / "set"), opened(f"{bucket}/set/")
    assert remote.info.indexed == local.info.indexed
    assert remote.spec == local.spec
    assert remote.fingerprint == local.fingerprint
    order = np.random.default_rng(0).permutation(40).tolist()
    assert stored(remote, order) == stored(local, order)
    assert remote.position("key-39") == 39
    assert stored(opened([f"{bucket}/set"], verify=True), [3]) == stored(local, [3])


@pytest.mark.parametrize("shard_samples", [None, 7])
@each_format
def test_uploaded_without_sidecars(
    bucket: ObjectPath, tmp_path: Path, container: str, generation: str | None, shard_samples: int | None
) -> None:
    write(tmp_path / "set", container, generation, shard_samples=shard_samples)
    for sidecars in list((tmp_path / "set").rglob(".bushel")):
        shutil.rmtree(sidecars)
    upload(tmp_path / "set", bucket / "set")
    spec = SPEC if container in ("ffrecord", "recordio") else None
    local, remote = opened(tmp_path / "set", spec=spec, index="memory"), opened(as_path(f"{bucket}/set"), spec=spec)
    assert remote.spec == local.spec
    assert stored(remote, ALL) == stored(local, ALL)
    names = [each["path"] for page in library().list(bucket.store, bucket.key) for each in page]
    assert not any(".bushel" in name for name in names), "opening writes nothing"


def test_patterns(bucket: ObjectPath, tmp_path: Path) -> None:
    write(tmp_path / "set", "tar", None, shard_samples=7)
    upload(tmp_path / "set", bucket / "set")
    (tmp_path / "set" / "shard-000000.tar").rename(tmp_path / "odd[1].tar")
    library().put(bucket.store, f"{bucket.key}/odd[1].tar", (tmp_path / "odd[1].tar").read_bytes())
    assert len(opened(f"{bucket}/set/*.tar")) == 40
    assert len(opened(f"{bucket}/s*/shard-00000[12].tar")) == 14
    assert len(opened(f"{bucket}/set/shard-{{000001..000003}}.tar")) == 21
    assert len(opened([f"{bucket}/set/shard-000001.tar", f"{bucket}/set/shard-000005.tar"])) == 12
    assert len(opened(f"{bucket}/odd[1].tar")) == 7
    with pytest.raises(FileNotFoundError, match="no object matches"):
        opened(f"{bucket}/set/*.rec")
    with pytest.raises(FileNotFoundError, match="the object or bucket does not exist"):
        opened(f"{bucket}/set/shard-{{000005..000007}}.tar")
    with pytest.raises(FileNotFoundError, match="no such file or folder:"):
        opened(f"{bucket}/nothing")


def test_sidecar_of_older_data_is_not_used(bucket: ObjectPath, tmp_path: Path) -> None:
    samples = write(tmp_path / "set", "tar", None)
    upload(tmp_path / "set", bucket / "set")
    with bushel.Writer(tmp_path / "other", SPEC, container="tar") as writer:
        for number, sample in enumerate(reversed(samples)):
            writer.append(sample, key=f"yek-{number}")
    name = next((tmp_path / "set").glob("*.tar")).name
    modified = (bucket / "set" / ".bushel" / f"{name}.safetensors").stat().modified
    while (bucket / "set" / name).stat().modified <= modified:
        library().put(bucket.store, f"{bucket.key}/set/{name}", (tmp_path / "other" / name).read_bytes())
    remote = opened(f"{bucket}/set")
    assert remote.keys[0] == "yek-0"
    assert not remote.info.indexed


def test_many_shards_open_by_the_manifest(bucket: ObjectPath, tmp_path: Path) -> None:
    write(tmp_path / "set", "tar", None, shard_samples=1)
    upload(tmp_path / "set", bucket / "set")
    remote = opened(f"{bucket}/set")
    assert remote.info.shards == 40
    assert not any(shard.loaded for shard in remote.shards)
    assert stored(remote, ALL[::-1]) == stored(opened(tmp_path / "set"), ALL[::-1])


def test_changes_while_it_is_open(bucket: ObjectPath, tmp_path: Path) -> None:
    write(tmp_path / "set", "recordio", None)
    upload(tmp_path / "set", bucket / "set")
    remote = opened(f"{bucket}/set")
    remote.read([1])
    [path] = (bucket / "set").glob("*.rec")
    data = path.read_bytes()
    library().put(path.store, path.key, data[::-1])
    with pytest.raises(bushel.errors.FormatError, match="another ETag"):
        remote.read([2])
    library().put(path.store, path.key, data[:-8])
    with pytest.raises(bushel.errors.FormatError, match="has changed since"):
        remote.read([2])
    library().delete(path.store, path.key)
    with pytest.raises(FileNotFoundError):
        remote.read([2])


def test_refusals(bucket: ObjectPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "set", "tar", None)
    upload(tmp_path / "set", bucket / "set")
    remote = opened(f"{bucket}/set")
    remote.read([1])
    with pytest.raises(FileNotFoundError):
        opened("s3://bushel-no-such-bucket/set")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(PermissionError, match="credentials come from AWS_ACCESS_KEY_ID"):
        opened(f"{bucket}/set")
    assert len(remote.read([3])) == 1, "an open file keeps its connection"
    monkeypatch.undo()


def test_profile_in_files(
    bucket: ObjectPath, s3_environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "set", "tar", None)
    upload(tmp_path / "set", bucket / "set")
    (tmp_path / "credentials").write_text("[team]\naws_access_key_id = AKTEST\naws_secret_access_key = SKTEST\n")
    endpoint = s3_environment["AWS_ENDPOINT_URL"]
    (tmp_path / "config").write_text(f"[profile team]\nregion = us-east-1\nendpoint_url = {endpoint}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL", "AWS_REGION"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_PROFILE", "team")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    assert len(opened(f"{bucket}/set")) == 40


def test_streams(bucket: ObjectPath, tmp_path: Path) -> None:
    import tarfile

    samples = write(tmp_path / "set", "tar", None)
    archive = tmp_path / "set" / "x.tar.gz"
    with tarfile.open(archive, "w:gz") as packed, tarfile.open(tmp_path / "set" / "shard-000000.tar") as plain:
        for member in plain:
            packed.addfile(member, plain.extractfile(member))
    upload(tmp_path / "set", bucket / "set")
    stream = bushel.open_stream([f"{bucket}/set/x.tar.gz"] * 2, spec=SPEC)
    assert [sample["data"] for sample in stream] == 2 * [sample["data"] for sample in samples]
    loader = StreamLoader(stream, batch_size=10)
    assert sum(len(batch["label"]) for batch in loader) == 80


@pytest.mark.parametrize("processes", [0, 2])
def test_loader_in_blocks(bucket: ObjectPath, tmp_path: Path, processes: int) -> None:
    write(tmp_path / "set", "tar", None, shard_samples=10)
    upload(tmp_path / "set", bucket / "set")
    remote = opened(f"{bucket}/set")
    loader = bushel.Loader(remote, batch_size=8, shuffle="blocks", seed=1, processes=processes)
    for _ in range(2):
        seen = [int(label) for batch in loader for label in batch["label"]]
        assert sorted(seen) == ALL


def test_cache_of_loaders_and_their_worker_processes(
    bucket: ObjectPath, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BUSHEL_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("BUSHEL_CACHE_SIZE", "100MB")
    samples = write(tmp_path / "set", "tar", None, shard_samples=10)
    upload(tmp_path / "set", bucket / "set")
    remote = opened(f"{bucket}/set")
    for processes in (2, 0):
        loader: bushel.Loader[list[dict[str, Any]]] = bushel.Loader(
            remote, batch_size=8, shuffle="blocks", seed=1, processes=processes, collate=list
        )
        for batch in loader:
            for sample in batch:
                assert sample["data"] == samples[int(sample["label"])]["data"]
    kept = list((tmp_path / "cache").glob("*/*-*"))
    assert len(kept) >= 4
    assert not any(path.name.endswith(".partial") for path in kept)
    for path in (bucket / "set").glob("*.tar"):
        library().delete(path.store, path.key)
    assert stored(remote, [39, 3]) == stored(opened(tmp_path / "set"), [39, 3]), "what is kept needs no store"


def test_golden_datasets(bucket: ObjectPath, golden: Path) -> None:
    compared = 0
    for folder in sorted({path.parent for path in golden.glob("*/*/**/*") if path.is_file()}):
        try:
            local = opened(folder, index="memory", pickle=True, verify=False, on_damage="raise")
        except (bushel.BushelError, OSError):
            continue
        name = str(folder.relative_to(golden))
        upload(folder, bucket / name)
        remote = opened(f"{bucket}/{name}", index="memory", pickle=True, verify=False)
        numbers = list(range(min(50, len(local))))
        assert stored(remote, numbers) == stored(local, numbers), folder
        assert list(remote.keys) == list(local.keys)
        compared += 1
    assert compared > 10


def test_root_of_a_bucket(s3_environment: dict[str, str], tmp_path: Path) -> None:
    root = ObjectPath.parse("s3://bushel-root")
    make_bucket(root)
    remove(root, root.store)
    write(tmp_path / "set", "tar", None)
    for path in (tmp_path / "set").glob("*.tar"):
        library().put(root.store, path.name, path.read_bytes())
    assert len(opened("s3://bushel-root/")) == 40
    assert len(opened("s3://bushel-root/*.tar")) == 40
    remove(root, root.store)
