"""Azurite, the Azure Blob server of Microsoft's for tests, in memory."""

from __future__ import annotations

import base64
import hashlib
import hmac
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import formatdate
from pathlib import Path

from tests.cloud.ports import free_port, wait_for_server

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
"""The account that every Azurite has (https://learn.microsoft.com/azure/storage/common/storage-use-azurite)."""

_HERE = Path(__file__).resolve().parents[2] / ".cloud" / "node_modules" / ".bin" / "azurite-blob"
_VERSION = "2021-12-02"


def installed() -> str | None:
    """The command, where `make cloud` or the system has it."""
    return str(_HERE) if _HERE.exists() else shutil.which("azurite-blob")


@contextmanager
def azurite(command: str) -> Iterator[dict[str, str]]:
    """Run a server; the variables that clients need."""
    port = free_port()
    options = ["--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
    process = subprocess.Popen([command, "--blobHost", "127.0.0.1", "--blobPort", str(port), *options])
    try:
        wait_for_server(process, port)
        yield {
            "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/{ACCOUNT}",
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            "AZURE_STORAGE_ACCOUNT_KEY": KEY,
        }
    finally:
        process.terminate()
        process.wait(30)


def make_container(endpoint: str, name: str) -> None:
    """Make a container, with a request signed by the account's key (Shared Key authorization)."""
    date = formatdate(usegmt=True)
    canonical = f"x-ms-date:{date}\nx-ms-version:{_VERSION}\n/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
    text = "PUT" + "\n" * 12 + canonical
    signature = base64.b64encode(hmac.digest(base64.b64decode(KEY), text.encode(), hashlib.sha256)).decode()
    request = urllib.request.Request(
        f"{endpoint}/{name}?restype=container",
        method="PUT",
        headers={
            "x-ms-date": date,
            "x-ms-version": _VERSION,
            "Authorization": f"SharedKey {ACCOUNT}:{signature}",
            "Content-Length": "0",
        },
    )
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 201
