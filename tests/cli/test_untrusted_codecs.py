"""The command line, the viewer and streams do not run a codec that files name."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from tests._dataset.views.forged_codecs import COUNT, forged, trace
from tests.cli.running import run
from tests.fuzz.forged import Bomb
from tests.viewer.serving import client_of

import bushel

__all__ = ["trace"]


@pytest.fixture(params=["bag", "tar", "ffrecord", "recordio"])
def folder(request: pytest.FixtureRequest, tmp_path: Path, trace: Path) -> Path:
    forged(tmp_path / "set", trace, request.param)
    return tmp_path / "set"


@pytest.mark.filterwarnings("ignore::bushel.errors.UntrustedWarning")
@pytest.mark.parametrize(
    "command",
    [
        ("cat",),
        ("ls",),
        ("ls", "--json"),
        ("info",),
        ("info", "--columns"),
        ("verify",),
        ("verify", "--decode"),
        ("index", "--columns", "auto"),
        ("index", "--force"),
    ],
    ids=" ".join,
)
def test_commands(folder: Path, command: tuple[str, ...]) -> None:
    name, *options = command
    # whoever forged the type left the digest of the table as it was
    is_seen = name == "verify" and not (folder / "spec.json").exists()
    output = run(name, folder, *options, code=int(is_seen))
    assert ("its digest is not that of its contents" in output) == is_seen


@pytest.mark.filterwarnings("ignore::bushel.errors.UntrustedWarning")
@pytest.mark.parametrize("container", ["tar", "bag", "ffrecord", "recordio"])
def test_a_value_and_copies(folder: Path, container: str, tmp_path: Path, trace: Path) -> None:
    pickled = Bomb(trace).pickled
    run("get", folder, "0", "notes", "-o", tmp_path / "value")
    assert (tmp_path / "value").read_bytes() == pickled
    run("convert", folder, tmp_path / "copy", "-c", container)
    run("repair", folder, tmp_path / "repaired")
    for copy in ("copy", "repaired"):
        run("verify", tmp_path / copy, "--decode")
        ds = bushel.open(tmp_path / copy)
        assert len(ds) == COUNT
        assert bytes(ds.read([0], decode=False)[0]["notes"]) == pickled


@pytest.mark.filterwarnings("ignore::bushel.errors.UntrustedWarning")
def test_the_viewer(folder: Path) -> None:
    with client_of(folder) as client:
        for page in ("/d/0", "/api/0/rows", "/d/0/s/0", "/api/0/s/0", "/d/0/0", "/d/0/shards"):
            client.get(page)
        assert f"{COUNT} samples" in client.get("/").text


@pytest.mark.filterwarnings("ignore::bushel.errors.UntrustedWarning")
def test_streams(tmp_path: Path, trace: Path) -> None:
    forged(tmp_path / "set", trace, "tar")
    pickled = Bomb(trace).pickled
    with tarfile.open(tmp_path / "own.tar", "w") as archive:
        for name in ("a.pkl", "a.pickle", "a.pyd", "a.notes.pyd"):
            member = tarfile.TarInfo(name)
            member.size = len(pickled)
            archive.addfile(member, io.BytesIO(pickled))
    [shard] = (tmp_path / "set").glob("*.tar")
    for path in (shard, tmp_path / "own.tar"):
        samples = list(bushel.open_stream(str(path)))
        assert samples
        values = [value for sample in samples for name, value in sample.items() if name.startswith(("notes", "p"))]
        assert values
        assert set(map(bytes, values)) == {pickled}
        ds = bushel.open(path, index="memory")
        assert any(bytes(value) == pickled for value in ds[0].values() if isinstance(value, bytes | memoryview))
