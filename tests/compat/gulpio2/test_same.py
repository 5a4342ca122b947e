"""The same script with GulpIO2 and with Bushel prints the same, and leaves the same files."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from tests.compat.gulpio2.frames import frame, make_video
from tests.compat.originals import INTEROP, python_of

from bushel.compat.gulpio2 import GulpDirectory

pytestmark = pytest.mark.interop


def printed(python: Path, script: str, package: str, *arguments: Path) -> list[str]:
    command = [str(python), str(INTEROP / "same" / script), package, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout.replace(str(arguments[0]), "FOLDER").splitlines()


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".pickle"
    }


def test_chunks(tmp_path: Path) -> None:
    wanted = printed(python_of("gulpio2"), "gulpio2_chunks.py", "gulpio2", tmp_path / "original")
    found = printed(Path(sys.executable), "gulpio2_chunks.py", "bushel.compat.gulpio2", tmp_path / "bushel")
    assert found == wanted
    assert len(found) > 80
    assert files(tmp_path / "bushel") == files(tmp_path / "original")


def test_pickled_metadata_is_read_by_both(tmp_path: Path) -> None:
    python = python_of("gulpio2")
    for writer, package in ((python, "gulpio2"), (Path(sys.executable), "bushel.compat.gulpio2")):
        printed(writer, "gulpio2_chunks.py", package, tmp_path / package)
        for reader, other in ((python, "gulpio2"), (Path(sys.executable), "bushel.compat.gulpio2")):
            code = (
                f"from {other}.fileio import GulpChunk, pickle_serializer as serializer\n"
                f"chunk = GulpChunk('data_0.gulp', 'meta_0.pickle', serializer=serializer)\n"
                f"with chunk.open():\n    print(chunk['a'][0][0].shape, chunk['a'][1])"
            )
            done = subprocess.run(
                [str(reader), "-c", code], cwd=tmp_path / package, capture_output=True, text=True, check=True
            )
            assert done.stdout == "(5, 5, 3) {'n': 1}\n"


def test_adapters(tmp_path: Path) -> None:
    if shutil.which("ffmpeg") is None:
        pytest.skip("there is no program ffmpeg, which GulpIO2 needs for videos")
    for folder, names in {"plain": ["a", "b", "c"], "other": ["d"], "third": ["x", "y", "z", "w"]}.items():
        (tmp_path / "images" / folder).mkdir(parents=True)
        for number, name in enumerate(names):
            Image.fromarray(frame(number, 60 + number, 80)).save(tmp_path / "images" / folder / f"{name}.jpg")
    entries = []
    for number in range(3):
        (tmp_path / "videos" / str(number)).mkdir(parents=True)
        make_video(tmp_path / "videos" / str(number) / "v.mp4", 20 + 10 * number, flat=True)
        entries.append({"id": number, "template": f"é{number % 2}"})
    (tmp_path / "videos" / "list.json").write_text(json.dumps(entries))
    more = (tmp_path / "images", tmp_path / "videos")
    wanted = printed(python_of("gulpio2"), "gulpio2_adapters.py", "gulpio2", tmp_path / "original", *more)
    found = printed(Path(sys.executable), "gulpio2_adapters.py", "bushel.compat.gulpio2", tmp_path / "bushel", *more)
    assert found == wanted
    assert len(found) > 20


def test_golden_pixels_are_those_of_the_original(golden: Path) -> None:
    """`jpeg_bytes_to_img` decodes to the same pixels: GulpIO2 prints their digests during the test."""
    code = (
        "import hashlib, sys\nfrom {} import GulpDirectory\n"
        "for chunk in GulpDirectory(sys.argv[1]):\n    for frames, meta in chunk:\n"
        "        for image in frames: print(image.shape, hashlib.sha256(image.tobytes()).hexdigest())"
    )
    folder = golden / "gulpio2-0.0.4" / "videos" / "data"
    outputs = [
        subprocess.run(
            [str(python), "-c", code.format(package), str(folder)], capture_output=True, text=True, check=True
        ).stdout
        for python, package in ((python_of("gulpio2"), "gulpio2"), (Path(sys.executable), "bushel.compat.gulpio2"))
    ]
    assert outputs[0] == outputs[1]
    assert len(outputs[1].splitlines()) == sum(
        len(entry["frame_info"]) for entry in GulpDirectory(folder).merged_meta_dict.values()
    )
