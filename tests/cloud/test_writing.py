"""Writing datasets into a real S3 server: all containers, kills, Ctrl-C, refusals, many objects."""

from __future__ import annotations

import hashlib
import hmac
import io
import random
import signal
import subprocess
import sys
import time
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.formats import each_format
from tests.interrupts import interruptible
from tests.sources.folders import image_folder

import bushel
from bushel._pack.feeds import SourceFeed
from bushel.storage import place_file, read_whole, walk_names, write_whole
from bushel.storage.objects.client import library
from bushel.storage.objects.location import ObjectPath
from bushel.storage.objects.upload import put_bytes

pytestmark = pytest.mark.cloud

ROOT = Path(__file__).resolve().parents[2]

WRITER = """
import random, sys
import bushel

target, container, mode = sys.argv[1:]
values = random.Random(0)
with bushel.Writer(target, {"data": "bytes"}, container=container, mode=mode, shard_samples=60) as writer:
    kept = len(writer)
    print("begun", flush=True)
    for number in range(240):
        value = values.randbytes(250_000)
        if number >= kept:
            writer.append({"data": value}, key=f"{number:05d}")
"""


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for what is staged, also of child processes."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr("tempfile.tempdir", str(folder))
    return folder


def data_of(folder: ObjectPath) -> dict[str, bytes]:
    """The objects in a folder, without what Bushel adds."""
    names = sorted(name for name in walk_names(folder) if ".bushel" not in name.split("/"))
    return {name: read_whole(folder / name) for name in names}


def unfinished_uploads(folder: ObjectPath, variables: dict[str, str]) -> list[str]:
    """Keys of multipart uploads that were begun in a folder and neither completed nor aborted."""
    host = variables["AWS_ENDPOINT_URL"].partition("://")[2]
    query = f"prefix={folder.key.replace('/', '%2F')}&uploads="
    now = datetime.now(UTC)
    day, stamp, region = f"{now:%Y%m%d}", f"{now:%Y%m%dT%H%M%SZ}", variables.get("AWS_REGION", "us-east-1")
    bucket, empty = folder.root.removeprefix("s3://"), hashlib.sha256(b"").hexdigest()
    signed = "host;x-amz-content-sha256;x-amz-date"
    headers = f"host:{host}\nx-amz-content-sha256:{empty}\nx-amz-date:{stamp}\n"
    request = f"GET\n/{bucket}\n{query}\n{headers}\n{signed}\n{empty}"
    scope = f"{day}/{region}/s3/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = b"AWS4" + variables["AWS_SECRET_ACCESS_KEY"].encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    credential = f"{variables['AWS_ACCESS_KEY_ID']}/{scope}"
    authorization = f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={signed}, Signature={signature}"
    sent = {"Authorization": authorization, "x-amz-date": stamp, "x-amz-content-sha256": empty}
    with urllib.request.urlopen(urllib.request.Request(f"http://{host}/{bucket}?{query}", headers=sent)) as answer:
        found = answer.read().decode()
    return [part.partition("</Key>")[0] for part in found.split("<Key>")[1:]]


def spec(container: str) -> dict[str, str]:
    return {"frames": "jpg[]", "label": "int"} if container == "gulp" else {"data": "bytes", "label": "int"}


def make(container: str, number: int) -> dict[str, Any]:
    value = random.Random(number).randbytes(1000 + 50_000 * (number % 3))
    return {"frames" if container == "gulp" else "data": [value] if container == "gulp" else value, "label": number}


def write(target: Any, container: str, generation: str | None, first: int, last: int, **more: Any) -> None:
    with bushel.Writer(target, spec(container), container=container, generation=generation, **more) as writer:
        for number in range(first, last):
            writer.append(make(container, number), key=f"key-{number}")


@each_format
def test_every_container(bucket: ObjectPath, tmp_path: Path, container: str, generation: str | None) -> None:
    for target in (tmp_path / "set", f"{bucket}/set"):
        write(target, container, generation, 0, 30, shard_samples=8)
        write(target, container, generation, 30, 41, shard_samples=8, mode="append")
    paths = [path for path in (tmp_path / "set").rglob("*") if path.is_file() and ".bushel" not in path.parts]
    assert data_of(bucket / "set") == {p.relative_to(tmp_path / "set").as_posix(): p.read_bytes() for p in paths}
    remote, local = bushel.open(f"{bucket}/set", index="require"), bushel.open(tmp_path / "set")
    assert remote.read(range(41), decode=False) == local.read(range(41), decode=False)
    report = bushel.verify(f"{bucket}/set")
    assert (report.ok, report.problems, report.checksums_checked) == (True, (), True)
    with pytest.raises(FileExistsError, match="append"):
        write(f"{bucket}/set", container, generation, 0, 1)


@pytest.mark.parametrize("container", ["bag", "tar", "ffrecord"])
def test_kills(bucket: ObjectPath, container: str) -> None:
    def run(target: str, mode: str, patience: float | None) -> bool:
        child = subprocess.Popen(
            [sys.executable, "-c", WRITER, f"{bucket}/{target}", container, mode], stdout=subprocess.PIPE, cwd=ROOT
        )
        assert child.stdout is not None
        with child.stdout:
            assert child.stdout.readline() == b"begun\n"
            try:
                assert child.wait(patience) == 0
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
                return False
        return True

    started = time.monotonic()
    assert run("whole", "create", None)
    whole = time.monotonic() - started
    chances, mode = random.Random(container), "create"
    for number in range(6):
        if run("killed", mode, chances.uniform(0, whole) if number else 0.0):  # the first one leaves its lock
            break
        mode = "resume"
    else:
        assert run("killed", "resume", None)
    assert data_of(bucket / "killed") == data_of(bucket / "whole")
    report = bushel.verify(f"{bucket}/killed")
    assert report.ok, report.problems
    assert len(bushel.open(f"{bucket}/killed", index="require")) == 240


def test_ctrl_c_aborts_the_upload(bucket: ObjectPath, s3_environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(random.Random(0).randbytes(200 << 20))
    script = (
        "import pathlib, sys\nfrom bushel.storage import as_path, place_file\n"
        "place_file(pathlib.Path(sys.argv[1]), as_path(sys.argv[2]))\n"
    )
    command = [sys.executable, "-c", script, str(tmp_path / "large"), f"{bucket}/large"]
    child = subprocess.Popen(command, stderr=subprocess.PIPE, cwd=ROOT, env=interruptible())
    end = time.monotonic() + 60
    while not unfinished_uploads(bucket, s3_environment):
        assert child.poll() is None, "the upload was over before it could be interrupted"
        assert time.monotonic() < end
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert b"KeyboardInterrupt" in said
    assert unfinished_uploads(bucket, s3_environment) == []
    assert list(walk_names(bucket)) == []


def test_an_error_aborts_the_upload(
    bucket: ObjectPath, s3_environment: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "large").write_bytes(bytes(40 << 20))
    monkeypatch.setattr("bushel.storage.objects.upload.open", _OnFailingDisk, raising=False)
    with pytest.raises(OSError, match="the disk is gone"):
        place_file(tmp_path / "large", bucket / "large")
    assert unfinished_uploads(bucket, s3_environment) == []
    assert list(walk_names(bucket)) == []


class _OnFailingDisk(io.FileIO):
    """A file whose third piece cannot be read."""

    _pieces = 0

    def __init__(self, path: Path, mode: str, buffering: int) -> None:
        super().__init__(path, mode)

    def read(self, size: int | None = -1, /) -> bytes:
        self._pieces += 1
        if self._pieces > 2:
            raise OSError("the disk is gone")
        return super().read(size)


def test_new_objects_are_put_on_condition(bucket: ObjectPath) -> None:
    put_bytes(bucket / "x", b"one", new=True)
    put_bytes(bucket / "x", b"one", new=True)
    with pytest.raises(FileExistsError, match="exists already, and did not when"):
        put_bytes(bucket / "x", b"two", new=True)
    assert read_whole(bucket / "x") == b"one"


@pytest.mark.parametrize(
    ("variable", "value", "error"),
    [("AWS_SECRET_ACCESS_KEY", "wrong", PermissionError), ("AWS_ACCESS_KEY_ID", "nobody", PermissionError)],
)
def test_refusals(
    bucket: ObjectPath, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, error: type[Exception]
) -> None:
    with monkeypatch.context() as patch:
        patch.setenv(variable, value)
        with pytest.raises(error, match="AWS_ACCESS_KEY_ID"):
            write(f"{bucket}/set", "tar", None, 0, 3)
    assert list(walk_names(bucket)) == []


def test_no_such_bucket(s3_environment: dict[str, str]) -> None:
    with pytest.raises(FileNotFoundError, match="s3://bushel-nowhere"):
        write("s3://bushel-nowhere/set", "tar", None, 0, 3)


def test_packing_from_there_to_there(bucket: ObjectPath, tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos", 60)
    for path in photos.rglob("*.jpg"):
        write_whole(bucket / "photos" / path.relative_to(photos).as_posix(), path.read_bytes())
    for container in ("bag", "tar", "ffrecord", "recordio"):
        options: dict[str, Any] = {"container": container, "shard_samples": 25}
        bushel.pack(photos, tmp_path / container, **options)
        done = bushel.pack(f"{bucket}/photos", f"{bucket}/{container}", **options)
        assert (done.samples, done.errors) == (60, 0)
        paths = [path for path in (tmp_path / container).rglob("*") if path.is_file() and ".bushel" not in path.parts]
        expected = {path.relative_to(tmp_path / container).as_posix(): path.read_bytes() for path in paths}
        assert data_of(bucket / container) == expected
        bushel.convert(f"{bucket}/{container}", f"{bucket}/again-{container}", container="tar", shard_samples=25)
        assert len(bushel.open(f"{bucket}/again-{container}", index="require")) == 60
    processes = bushel.pack(f"{bucket}/photos", f"{bucket}/processes.tar", processes=2)
    assert processes.samples == 60


def test_a_hundred_thousand_objects(bucket: ObjectPath) -> None:
    names = [f"class{number % 10}/{number:06d}.jpg" for number in range(100_000)]
    _put_many(bucket / "many", names)
    source = bushel.sources.LabelledFolder(f"{bucket}/many")
    assert len(source) == 100_000
    assert [source.origin(position) for position in (0, 50_000, 99_999)] == [
        f"{bucket}/many/class0/000000.jpg",
        f"{bucket}/many/class5/000005.jpg",
        f"{bucket}/many/class9/099999.jpg",
    ]
    read = SourceFeed(source, {}).samples(np.arange(1000, 1300))
    assert [sample["image"] for _, _, sample in read] == [
        source.origin(position).rpartition("/")[2].encode() for position in range(1000, 1300)
    ]


def _put_many(folder: ObjectPath, names: list[str]) -> None:
    import asyncio

    async def put(room: asyncio.Semaphore, name: str) -> None:
        async with room:
            data = name.rpartition("/")[2].encode()
            await library().put_async(folder.store, f"{folder.key}/{name}", data)

    async def every() -> None:
        room = asyncio.Semaphore(64)
        await asyncio.gather(*(put(room, name) for name in names))

    asyncio.run(every())
