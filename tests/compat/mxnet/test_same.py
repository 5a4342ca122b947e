"""The same script with MXNet and with Bushel prints the same, and the same command writes the same bytes."""

from __future__ import annotations

import io
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.compat.originals import INTEROP, python_of
from tests.sources.folders import image_folder, jpeg

from bushel.compat.mxnet import commands

pytestmark = pytest.mark.interop

LABELS = "0\t1.5\tclass0/0000.jpg\n17\t3\t4.5\tclass1/0001.jpg\n5\t2\tclass2/0002.jpg\n"
Run = Callable[..., str]


@pytest.fixture(scope="module")
def mxnet() -> Path:
    """Return the Python interpreter of the environment with MXNet."""
    return python_of("mxnet")


def printed(python: Path, *arguments: object) -> str:
    done = subprocess.run([str(python), *map(str, arguments)], capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return "\n".join(line for line in done.stdout.splitlines() if not line.startswith("["))


def equal(mxnet: Path, script: str, ours: list[Any], theirs: list[Any], least: int) -> None:
    path = INTEROP / "same" / script
    wanted, found = printed(mxnet, path, "mxnet", *theirs), printed(Path(sys.executable), path, *ours)
    assert found.splitlines() == wanted.splitlines()
    assert len(found.splitlines()) >= least


def every_kind(folder: Path, photos: Path) -> list[Path]:
    """Return photos, images rotated by Exif, images of other kinds, and a file that is not an image."""
    coarse = np.random.default_rng(0).integers(0, 256, (8, 10, 3), np.uint8)
    picture = Image.fromarray(np.kron(coarse, np.ones((12, 11, 1), np.uint8)))
    for orientation in range(1, 9):
        exif = Image.Exif()
        exif[0x112] = orientation
        picture.save(folder / f"turned{orientation}.jpg", exif=exif)
    picture.save(folder / "progressive.jpg", progressive=True)
    picture.convert("L").save(folder / "grey.jpg")
    for mode in ("RGB", "L", "RGBA", "LA", "P", "1"):
        picture.convert(mode).save(folder / f"{mode}.png")
    picture.save(folder / "lossless.webp", lossless=True)
    (folder / "none.jpg").write_bytes(b"no image at all")
    return [*sorted(photos.rglob("*.jpg"))[:3], *sorted(folder.iterdir())]


def test_recordio(mxnet: Path, photos: Path, tmp_path: Path) -> None:
    (tmp_path / "kinds").mkdir()
    images = every_kind(tmp_path / "kinds", photos)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    equal(
        mxnet,
        "mxnet_recordio.py",
        ["bushel.compat.mxnet", tmp_path / "a", *images],
        [tmp_path / "b", *images],
        least=100,
    )
    assert (tmp_path / "a/a.idx").read_bytes() == (tmp_path / "b/a.idx").read_bytes()
    assert (tmp_path / "a/a.rec").read_bytes() == (tmp_path / "b/a.rec").read_bytes()


def test_images_and_transforms(mxnet: Path, photos: Path) -> None:
    images = sorted(photos.rglob("*.jpg"))[:3]
    equal(mxnet, "mxnet_images.py", ["bushel.compat.mxnet", *images], images, least=150)


def test_iterators_and_datasets(mxnet: Path, photos: Path, tmp_path: Path) -> None:
    for number, photo in enumerate(sorted(photos.rglob("*.jpg"))[:7]):
        folder = tmp_path / "photos" / f"class{number % 3}"
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(photo, folder)
    prefix, root = str(tmp_path / "few"), str(tmp_path / "photos")
    commands.im2rec(["--list", "--recursive", prefix, root])
    assert commands.im2rec(["--resize", "150", prefix, root]) == 0
    files = [f"{prefix}.rec", f"{prefix}.idx", f"{prefix}.lst", root]
    equal(mxnet, "mxnet_iterate.py", ["bushel.compat.mxnet", *files], files, least=35)


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = image_folder(tmp_path / "tree", 11)
    (root / "top.PNG").write_bytes(png())
    (root / "broken.jpg").symlink_to("nowhere.jpg")
    return root


def png() -> bytes:
    stream = io.BytesIO()
    Image.fromarray(np.arange(300, dtype=np.uint8).reshape(10, 10, 3)).save(stream, "PNG")
    return stream.getvalue()


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    "options",
    [
        "",
        "--recursive",
        "--recursive --no-shuffle",
        "--recursive --chunks 3",
        "--recursive --train-ratio 0.5 --test-ratio 0.25",
        "--recursive --chunks 5 --train-ratio 0.6 --test-ratio 0.2",
        "--exts .png",
    ],
)
def test_lists(mxnet: Path, tree: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: str) -> None:
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
    wanted = printed(
        mxnet, "-m", "mxnet.tools.im2rec", "--list", str(tmp_path / "theirs/p"), str(tree), *options.split()
    )
    assert commands.im2rec(["--list", str(tmp_path / "ours/p"), str(tree), *options.split()]) == 0
    assert capsys.readouterr().out.splitlines() == wanted.splitlines()
    assert contents(tmp_path / "ours") == contents(tmp_path / "theirs")


@pytest.mark.parametrize(
    "options",
    [
        "--pass-through",
        "--pass-through --pack-label",
        "",
        "--resize 9",
        "--resize 40",
        "--center-crop",
        "--center-crop --resize 10 --quality 80",
        "--color 0",
        "--color -1",
        "--num-thread 2 --resize 10",
    ],
)
def test_record_files(mxnet: Path, tmp_path: Path, options: str) -> None:
    root = image_folder(tmp_path / "tree", 3)
    turned = Image.Exif()
    turned[0x112] = 6
    Image.open(io.BytesIO(jpeg(8))).save(root / "turned.jpg", exif=turned)
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "p.lst").write_text(LABELS + "8\t0\tturned.jpg\n")
    printed(mxnet, "-m", "mxnet.tools.im2rec", *options.split(), str(tmp_path / "theirs/p"), str(root))
    assert commands.im2rec([*options.split(), str(tmp_path / "ours/p"), str(root)]) == 0
    assert contents(tmp_path / "ours") == contents(tmp_path / "theirs")


def test_an_appended_file_opens_in_the_original(mxnet: Path, tmp_path: Path) -> None:
    from bushel.compat.mxnet.recordio import MXIndexedRecordIO

    rec, idx = str(tmp_path / "a.rec"), str(tmp_path / "a.idx")
    for flag, keys in (("w", range(3)), ("a", range(3, 6))):
        with MXIndexedRecordIO(idx, rec, flag) as writer:
            for key in keys:
                writer.write_idx(key, b"record %d" % key)
    code = (
        "import sys; from mxnet.recordio import MXIndexedRecordIO\n"
        "reader = MXIndexedRecordIO(sys.argv[1], sys.argv[2], 'r')\n"
        "print([(key, reader.read_idx(key)) for key in reader.keys])"
    )
    done = subprocess.run([str(mxnet), "-c", code, idx, rec], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == str([(key, b"record %d" % key) for key in range(6)])
