"""A package that is installed beside Bushel adds a container: everything takes its files without another line."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.paths import ROOT
from tests.testing.shelves import PACKAGE, TEXTS, write_shelf


@pytest.fixture(scope="module", name="installed")
def _installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of processes that have the package, installed by pip into a folder of its own."""
    site = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", site, PACKAGE], check=True, timeout=600)
    assert (site / "bushel_shelf").is_dir()
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(site), str(ROOT)])}


@pytest.fixture(name="data")
def _data(tmp_path: Path) -> Path:
    (tmp_path / "shelves").mkdir()
    write_shelf(tmp_path / "shelves" / "000.shelf", TEXTS)
    write_shelf(tmp_path / "shelves" / "001.shelf", {f"more/{number}": str(number) for number in range(5)})
    return tmp_path / "shelves"


def run(installed: dict[str, str], code: str, *arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], env=installed, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def bushel_command(installed: dict[str, str], *arguments: object, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "bushel", *map(str, arguments)],
        env=installed,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_it_is_read_checked_and_fed_to_training(installed: dict[str, str], data: Path) -> None:
    code = """
import json, pickle, sys, bushel
if __name__ == "__main__":
    ds = bushel.open(sys.argv[1])
    print(json.dumps({
        "container": ds.info.container, "keys": list(ds.keys), "last": ds[-1]["text"], "named": ds["ç/d"]["text"],
        "ok": bushel.verify(sys.argv[1]).ok,
        "pickled": pickle.loads(pickle.dumps(ds))[0]["text"],
        "epoch": sorted(key for batch in bushel.Loader(ds, 2, shuffle=True) for key in batch["__key__"]),
        "processes": sorted(key for batch in bushel.Loader(ds, 2, processes=1) for key in batch["__key__"]),
    }))
"""
    found = json.loads(run(installed, code, data))
    keys = [*TEXTS, *(f"more/{number}" for number in range(5))]
    assert found == {
        "container": "shelf",
        "keys": keys,
        "last": "4",
        "named": TEXTS["ç/d"],
        "ok": True,
        "pickled": "one",
        "epoch": sorted(keys),
        "processes": sorted(keys),
    }


def test_the_command_line_takes_it(installed: dict[str, str], data: Path, tmp_path: Path) -> None:
    assert "shelf" in bushel_command(installed, "info", data)
    bushel_command(installed, "verify", data)
    bushel_command(installed, "index", data)
    assert "more/4" in bushel_command(installed, "ls", data)
    assert "déjà vu" in bushel_command(installed, "get", data, "ç/d", "text")
    bushel_command(installed, "convert", data, tmp_path / "out.tar")
    out = run(installed, "import sys, bushel; print(len(bushel.open(sys.argv[1])))", tmp_path / "out.tar")
    assert out.strip() == "9"
    message = bushel_command(installed, "convert", data, tmp_path / "x", "--container", "shelf", code=2)
    assert "shelf datasets are read in place, and not written: choose one of bag, tar" in message


def test_damage_is_repaired_into_a_container_that_is_written(
    installed: dict[str, str], data: Path, tmp_path: Path
) -> None:
    bushel_command(installed, "index", data, "--checksums")
    shelf = data / "000.shelf"
    stat = shelf.stat()
    damaged = bytearray(shelf.read_bytes())
    damaged[-1] ^= 1
    shelf.write_bytes(damaged)
    os.utime(shelf, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert "should have the CRC-32" in bushel_command(installed, "verify", data, code=1)
    message = bushel_command(installed, "repair", data, tmp_path / "fixed", code=2)
    assert "is a shelf dataset, which Bushel reads and does not write: name the container" in message
    assert "8 samples written as tar" in bushel_command(
        installed, "repair", data, tmp_path / "fixed", "--to", "tar", code=1
    )


def test_the_viewer_shows_it(installed: dict[str, str], data: Path) -> None:
    pytest.importorskip("jinja2")
    code = """
import sys, bushel
from urllib.request import HTTPCookieProcessor, build_opener
with bushel.view(sys.argv[1]) as viewer:
    print(build_opener(HTTPCookieProcessor()).open(viewer.url).read().decode())
"""
    assert "shelf" in run(installed, code, data)


def test_the_suite_passes(installed: dict[str, str], data: Path) -> None:
    code = """
import sys
from pathlib import Path
from tests.testing.shelves import TEXTS
from bushel.testing import Golden, check_readable
golden = Golden(Path(sys.argv[1]), [{"text": text} for text in TEXTS.values()], list(TEXTS))
print(check_readable("shelf", golden))
"""
    assert run(installed, code, data / "000.shelf").strip() == "[]"


def test_a_broken_package_is_named_and_keeps_nothing_else_from_working(
    installed: dict[str, str], data: Path, tmp_path: Path
) -> None:
    site = tmp_path / "broken"
    info = site / "bushel_broken-2.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: bushel-broken\nVersion: 2.0\n")
    groups = "".join(
        f"[bushel.{group}]\nbroken = bushel_broken:THING\nlifeless = json:dumps\n"
        for group in ("containers", "codecs", "filters")
    )
    (info / "entry_points.txt").write_text(groups)
    (site / "bushel_broken.py").write_text("import a_module_that_is_not_there\n")
    both = {**installed, "PYTHONPATH": os.pathsep.join([str(site), installed["PYTHONPATH"]])}
    code = """
import sys, warnings, bushel
from bushel.codecs import get_codec
from bushel.filters import get_filter
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    print(bushel.open(sys.argv[1]).info.container, [str(each.message) for each in told])
for what in (bushel.containers.get_container, get_codec, get_filter):
    for name in ("broken", "lifeless"):
        try:
            what(name)
        except bushel.errors.UnsupportedError as error:
            print(error)
"""
    out = run(both, code, data)
    assert out.startswith("shelf ")
    missing = "which cannot be used (ModuleNotFoundError: No module named 'a_module_that_is_not_there')"
    for group in ("containers", "codecs", "filters"):
        assert f"bushel-broken 2.0 adds 'broken' to bushel.{group} (bushel_broken:THING), {missing}" in out
    assert "function is not a container: its class must inherit from bushel.containers.Container" in out
    assert "it is a function, not the result of bushel.register_codec" in out
    assert "it is a function, not a Filter" in out
