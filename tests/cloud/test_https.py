"""Datasets behind nginx: ranges over https, with a certificate of one's own."""

from __future__ import annotations

import getpass
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.cloud.ports import free_port, wait_for_server
from tests.formats import each_format
from tests.storage.objects.datasets import stored, write

import bushel

pytestmark = pytest.mark.cloud

CONFIG = """
user {user}; daemon off; pid {place}/pid; error_log {place}/error.log;
events {{ }}
http {{
    access_log off; client_body_temp_path {place}/t1; proxy_temp_path {place}/t2; fastcgi_temp_path {place}/t3;
    uwsgi_temp_path {place}/t4; scgi_temp_path {place}/t5;
    server {{
        listen 127.0.0.1:{port} ssl; server_name localhost;
        ssl_certificate {place}/cert.pem; ssl_certificate_key {place}/key.pem;
        root {place}/files;
        location /private/ {{ return 403; }}
    }}
}}
"""


class Site:
    """Where nginx serves a folder."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    nginx, openssl = shutil.which("nginx", path="/usr/sbin:/usr/bin:/usr/local/sbin"), shutil.which("openssl")
    if nginx is None or openssl is None:
        pytest.skip("nginx or openssl is not installed: `make cloud` does that on Debian")
    place = tmp_path_factory.mktemp("nginx")
    (place / "files").mkdir()
    port = free_port()
    request = ["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"]
    files = ["-keyout", f"{place}/key.pem", "-out", f"{place}/cert.pem"]
    extensions = ["-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([openssl, *request, *files, *extensions], check=True, capture_output=True)
    (place / "nginx.conf").write_text(CONFIG.format(user=getpass.getuser(), place=place, port=port))
    process = subprocess.Popen([nginx, "-c", str(place / "nginx.conf"), "-p", str(place)])
    try:
        wait_for_server(process, port)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("BUSHEL_NETWORK_PATIENCE", "5")
            patch.setenv("BUSHEL_NETWORK_CA", f"{place}/cert.pem")
            yield Site(place / "files", f"https://localhost:{port}")
    finally:
        process.terminate()
        process.wait(30)


@each_format
def test_read(site: Site, container: str, generation: str | None) -> None:
    name = f"{container}{generation}"
    write(site.folder / name, container, generation, shard_samples=15)
    local, remote = bushel.open(site.folder / name), bushel.open(f"{site.url}/{name}/")
    order = np.random.default_rng(0).permutation(40).tolist()
    assert stored(remote, order) == stored(local, order)
    assert remote.position("key-17") == 17


def test_loader_with_worker_processes(site: Site) -> None:
    write(site.folder / "loaded", "tar", None, shard_samples=15)
    remote = bushel.open(f"{site.url}/loaded/shard-{{000000..000002}}.tar")
    loader = bushel.Loader(remote, batch_size=8, shuffle="blocks", seed=0, processes=2)
    assert sorted(int(label) for batch in loader for label in batch["label"]) == list(range(40))


def test_refusals(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(PermissionError, match="private/x.tar"):
        bushel.open(f"{site.url}/private/x.tar")
    monkeypatch.delenv("BUSHEL_NETWORK_CA")
    with pytest.raises(ConnectionError, match="loaded.*its certificate is not trusted; set BUSHEL_NETWORK_CA"):
        bushel.open(f"{site.url}/loaded/")
