"""The object stores that `make cloud` starts: a bucket of Ceph's S3 gateway, empty for every test."""

from __future__ import annotations

import itertools
import os
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bushel.storage.objects.client import library
from bushel.storage.objects.location import ObjectPath

if TYPE_CHECKING:
    from obstore.store import ObjectStore

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "object_store.sh"
_numbers = itertools.count()


def environment() -> dict[str, str]:
    """The settings that the script prints for clients."""
    text = subprocess.run([SCRIPT, "env"], check=True, capture_output=True, text=True).stdout
    return dict(word.split("=", 1) for word in text.split() if "=" in word)


def make_bucket(bucket: ObjectPath) -> None:
    """Make a bucket, which obstore can only sign a request for."""
    url = library().sign(bucket.store, "PUT", "", timedelta(minutes=1))
    with urllib.request.urlopen(urllib.request.Request(url, method="PUT")) as answer:
        assert answer.status == 200


@pytest.fixture(scope="session")
def s3_environment() -> Iterator[dict[str, str]]:
    """The variables of the S3 server, which are also set."""
    variables = environment()
    try:
        urllib.request.urlopen(variables["AWS_ENDPOINT_URL"], timeout=5).close()
    except urllib.error.HTTPError:
        pass  # an answer
    except OSError as error:
        pytest.fail(f"the S3 server does not answer ({error}): run `make cloud`, or `make object-store` before pytest")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        for name, value in variables.items():
            patch.setenv(name, value)
        yield variables


@pytest.fixture(scope="session")
def session_bucket(s3_environment: dict[str, str]) -> ObjectPath:
    """A bucket that the tests of this process share; each test has a folder of its own in it (`bucket`)."""
    path = ObjectPath.parse(f"s3://bushel-{os.getpid()}")
    make_bucket(path)
    return path


@pytest.fixture
def bucket(session_bucket: ObjectPath, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectPath]:
    """An empty folder in a bucket."""
    monkeypatch.setenv("BUSHEL_NETWORK_PATIENCE", "20")
    folder = session_bucket / f"test-{next(_numbers)}"
    store = folder.store  # of this environment, whatever the test makes of it
    yield folder
    remove(folder, store)


def remove(folder: ObjectPath, store: ObjectStore) -> None:
    """Delete all objects in a folder."""
    for page in library().list(store, folder.key or None, chunk_size=1000):
        library().delete(store, [each["path"] for each in page])


def upload(folder: Path, target: ObjectPath, *, last: str = ".bushel") -> None:
    """Copy a folder as other tools do, without times; files in folders called `last` come last."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: (last in path.parts, path)):
        library().put(target.store, f"{target.key}/{path.relative_to(folder).as_posix()}", path.read_bytes())
