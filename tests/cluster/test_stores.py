"""Packing, converting, indexing and verifying to and from S3 on each engine: the bytes of one machine."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.cloud.conftest import upload
from tests.cloud.fault_proxy import Proxy, proxy_of
from tests.cluster.clusters import ENGINES, Cluster, Place, clusters, make_place, ray_nodes, s3_server
from tests.cluster.driver import PARTS, engine_of, pack
from tests.cluster.slurm import finished, use_slurm, wait_for
from tests.formats import each_format
from tests.paths import ROOT
from tests.sources.folders import image_folder

import bushel
from bushel._pack.run_folder import find_run
from bushel.storage import write_whole
from bushel.storage.objects.location import ObjectPath

pytestmark = [pytest.mark.cluster, pytest.mark.filterwarnings("ignore")]

PHOTOS, PHOTO_PARTS = 240, 8


@pytest.fixture(scope="module", params=ENGINES)
def cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    yield from clusters(request.param)


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return image_folder(tmp_path_factory.mktemp("photos"), PHOTOS)


@pytest.fixture(scope="module")
def bucket(cluster: Cluster, photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Place:
    place = make_place("s3", tmp_path_factory.mktemp("none"))
    upload(photos, ObjectPath.parse(f"{place.path}/photos"))
    return place


Expected = Callable[[str, Any, str], Place]


@pytest.fixture(scope="module")
def expected(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Expected:
    """Return the files that one machine packs, or converts from the packed tars, on its disk."""
    folder = tmp_path_factory.mktemp("expected")

    @cache
    def made(container: str, generation: Any, how: str) -> Place:
        out = folder / f"{how}-{container}{generation or ''}"
        options: dict[str, Any] = {"container": container, "generation": generation, "parts": PHOTO_PARTS}
        if how == "pack":
            bushel.pack(photos, out, shard_samples=20, **options)
        else:
            bushel.convert(made("tar", None, "pack").path, out, **options)
        return Place(str(out))

    return made


def engine(cluster: Cluster) -> Any:
    return engine_of(cluster.name, cluster.address())


@each_format
def test_packing(cluster: Cluster, bucket: Place, expected: Expected, container: str, generation: Any) -> None:
    options: dict[str, Any] = {"container": container, "generation": generation, "parts": PHOTO_PARTS}
    out = bucket / f"packed-{container}{generation or ''}"
    done = bushel.pack(f"{bucket.path}/photos", out.path, shard_samples=20, engine=engine(cluster), **options)
    assert (done.samples, done.kept) == (PHOTOS, 0)
    assert out.files() == expected(container, generation, "pack").files()
    assert out.leftovers() == []


@each_format
def test_converting_sharded_tars(
    tmp_path: Path, cluster: Cluster, bucket: Place, expected: Expected, container: str, generation: Any
) -> None:
    tars = Path(expected("tar", None, "pack").path)
    upload(tars, ObjectPath.parse(f"{bucket.path}/tars-{container}{generation or ''}"))
    source = f"{bucket.path}/tars-{container}{generation or ''}"
    options: dict[str, Any] = {"container": container, "generation": generation, "parts": PHOTO_PARTS}
    for out in (bucket / f"converted-{container}{generation or ''}", Place(str(tmp_path / "out"))):
        done = bushel.convert(source, out.path, engine=engine(cluster), **options)
        assert done.samples == PHOTOS
        assert out.files() == expected(container, generation, "convert").files()
        assert out.leftovers() == []


def test_indexing_verifying_and_repairing(tmp_path: Path, cluster: Cluster, bucket: Place, expected: Expected) -> None:
    tars = Path(expected("tar", None, "pack").path)
    raw = ObjectPath.parse(f"{bucket.path}/raw")
    shards = sorted(tars.rglob("*.tar"))
    for number, shard in enumerate(shards):
        data = bytearray(shard.read_bytes())
        if number == 0:
            photo = data.index(b"\xff\xd8\xff")
            data[photo : photo + 10] = bytes(10)  # it cannot be decoded
        write_whole(raw / f"shard-{number:02d}.tar", bytes(data))
    dataset = bushel.index(str(raw), engine=engine(cluster))
    assert (len(dataset), dataset.info.checksums) == (PHOTOS, True)
    found = bushel.verify(str(raw), engine=engine(cluster), decode=True)
    assert found == bushel.verify(str(raw), decode=True)
    assert (len(found.problems), found.samples) == (1, PHOTOS)
    done = bushel.repair(str(raw), f"{bucket.path}/fixed", decode=True, engine=engine(cluster))
    one = bushel.repair(str(raw), tmp_path / "fixed", decode=True, parts=len(shards))
    assert (done.samples, done.lost, done.problems) == (PHOTOS - 1, 1, one.problems)
    assert (bucket / "fixed").files() == Place(str(tmp_path / "fixed")).files()


def test_slurm(tmp_path: Path, cluster: Cluster, bucket: Place, expected: Expected, slurm: None) -> None:
    if cluster.name != "local":
        pytest.skip("Slurm runs its own processes")
    source, out = f"{bucket.path}/photos", bucket / "slurm"
    command = [sys.executable, "-m", "bushel", "pack", source, out.path, "-c", "tar", "--parts", str(PHOTO_PARTS)]
    command += ["--shard-samples", "20", "--engine", "slurm"]
    subprocess.run(command, check=True, capture_output=True, cwd=tmp_path)
    wait_for(lambda: finished(out.path))
    assert out.files() == expected("tar", None, "pack").files()
    again = bucket / "slurm-converted"
    command = [
        sys.executable,
        "-m",
        "bushel",
        "convert",
        out.path,
        again.path,
        "-c",
        "bag",
        "--parts",
        str(PHOTO_PARTS),
    ]
    subprocess.run([*command, "--engine", "slurm"], check=True, capture_output=True, cwd=tmp_path)
    wait_for(lambda: finished(again.path))
    assert again.files() == expected("bag", None, "convert").files()


# A worker that loses its network


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    variables = s3_server()
    if variables is None:
        pytest.skip("the S3 server does not run: `make cluster` starts it")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]))
    with proxy_of(variables["AWS_ENDPOINT_URL"]) as made:
        yield made


def ray_with_two_networks(proxy: Proxy) -> Iterator[Any]:
    from bushel.engines.ray import RayEngine

    both = [{}, {"AWS_ENDPOINT_URL": proxy.url, "BUSHEL_NETWORK_PATIENCE": "2"}]
    for cluster in ray_nodes(both):
        yield RayEngine(cluster.address())


def dask_with_two_networks(proxy: Proxy) -> Iterator[Any]:
    distributed = pytest.importorskip("distributed")
    from bushel.engines.dask import DaskEngine

    here = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": None}
    with distributed.LocalCluster(**here) as cluster:
        other = {**os.environ, "AWS_ENDPOINT_URL": proxy.url, "BUSHEL_NETWORK_PATIENCE": "2"}
        command = [sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--nthreads", "1"]
        worker = subprocess.Popen([*command, "--no-dashboard"], env=other, stderr=subprocess.DEVNULL)
        try:
            with distributed.Client(cluster) as client:
                client.wait_for_workers(2, timeout=60)
                yield DaskEngine(client)
        finally:
            worker.terminate()
            worker.wait()


@pytest.mark.parametrize("fault", ["refuse", "stall:0"])
@pytest.mark.parametrize("name", ["ray", "dask"])
def test_a_worker_loses_its_network_in_mid_part(tmp_path: Path, proxy: Proxy, name: str, fault: str) -> None:
    pytest.importorskip(name)
    out = make_place("s3", tmp_path) / "out"
    one = Place(str(tmp_path / "one"))
    pack(one.path, None)
    lost: list[int] = []

    def lose(progress: bushel.runs.Progress) -> None:
        if not lost and progress.parts is not None and progress.parts[0] >= PARTS // 3:
            lost.append(proxy.connections)
            proxy.become(lambda number: fault)
            proxy.drop()

    for running in (ray_with_two_networks if name == "ray" else dask_with_two_networks)(proxy):
        pack(out.path, running, progress=lose)
    assert lost
    assert lost[0] > 0  # the worker has used it before
    assert proxy.connections > 0  # and tried to use it afterwards
    assert out.files() == one.files()
    assert out.leftovers() == []
    run, plan = find_run(out.path)
    assert (run.missing(plan), len(run.written(plan))) == ([], PARTS)


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    use_slurm(monkeypatch, tmp_path)
