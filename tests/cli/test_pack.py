"""`bushel pack` and `bushel im2rec-list`."""

from __future__ import annotations

import json
import os
import pty
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.cli.running import SLOW, bushel_command, fails, run
from tests.interrupts import interruptible
from tests.sources.folders import image_folder, jpeg

import bushel
from bushel.containers.kept_folder import FolderNames, list_below
from bushel.jpeg import tile
from bushel.sources import files, opening


def opened(path: Path | str) -> bushel.Dataset:
    return bushel.open(path)


def test_pack_a_folder(tmp_path: Path) -> None:
    image_folder(tmp_path / "photos", 6)
    said = run("pack", tmp_path / "photos", tmp_path / "out", "-c", "bag")
    assert said.startswith(f"{tmp_path / 'out'}: 6 samples written as bag (image: jpg, label: int), ")
    assert len(opened(tmp_path / "out")) == 6
    done = json.loads(run("pack", tmp_path / "photos", tmp_path / "x.tar", "--json"))
    assert (done["samples"], done["errors"], done["paths"]) == (6, 0, [str(tmp_path / "x.tar")])
    assert run("pack", tmp_path / "photos", tmp_path / "y.tar", "-q") == ""


def test_a_folder_is_listed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image_folder(tmp_path / "photos", 2)
    listed = []

    def observed(path: Path) -> FolderNames:
        listed.append(path)
        return list_below(path)

    for module in (files, opening):
        monkeypatch.setattr(module, "list_below", observed)
    run("pack", tmp_path / "photos", tmp_path / "x.tar", "-q")
    assert listed == [tmp_path / "photos"]
    assert len(opened(tmp_path / "x.tar")) == 2


def test_errors_are_reported_and_counted(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos", 6)
    (photos / "class0/0000.jpg").write_bytes(b"")
    said = fails("pack", photos, tmp_path / "a.tar", code=1)
    assert "1 of the first 1 items cannot be packed, but --max-errors allows 0" in said
    assert "0000.jpg" in said
    done = json.loads(run("pack", photos, tmp_path / "b.tar", "--max-errors", "20%", "--json"))
    assert (done["samples"], done["errors"]) == (5, 1)
    assert json.loads(Path(done["error_logs"][0]).read_text())["path"] == str(photos / "class0/0000.jpg")


@pytest.mark.parametrize("zero", ["0", "0.0", "0%", "00"])
def test_no_errors_are_none_however_they_are_written(tmp_path: Path, zero: str) -> None:
    """A damaged source was read as far as possible, unless zero was written as `0`; and a stream was refused."""
    run("pack", image_folder(tmp_path / "photos", 6), tmp_path / "a.tar")
    stream = (sample for sample in [{"x": 1}])
    assert bushel.pack(stream, tmp_path / "x.tar", max_errors=0.0).samples == 1
    whole = (tmp_path / "a.tar").read_bytes()
    (tmp_path / "a.tar").write_bytes(whole[: len(whole) // 2])
    shutil.rmtree(tmp_path / ".bushel")
    fails("convert", tmp_path / "a.tar", tmp_path / "b.tar", "--max-errors", zero, code=1)
    assert not (tmp_path / "b.tar").exists()


def test_im2rec_options(tmp_path: Path) -> None:
    image_folder(tmp_path / "photos", 2)
    run("pack", tmp_path / "photos", tmp_path / "a.tar", "--resize", "8", "--center-crop", "--encoding", ".png")
    assert [sample["image"].shape for sample in opened(tmp_path / "a.tar")] == [(8, 8, 3)] * 2
    assert opened(tmp_path / "a.tar").spec["image"] == "png"
    run("pack", tmp_path / "photos", tmp_path / "b.tar", "--resize", "6x5", "--color", "0", "--quality", "80")
    assert [sample["image"].shape for sample in opened(tmp_path / "b.tar")] == [(5, 6)] * 2


def test_tiled_jpegs(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos", 4)
    run("pack", photos, tmp_path / "a.tar", "--images", "tile")
    run("pack", photos, tmp_path / "plain.tar")
    run("convert", tmp_path / "plain.tar", tmp_path / "b.tar", "--images", "tile")
    images = [tile((photos / f"{key}.jpg").read_bytes()) for key in opened(tmp_path / "plain.tar").keys]
    for name in ("a.tar", "b.tar"):
        dataset = opened(tmp_path / name)
        assert [sample["image"] for sample in dataset.read(range(4), ["image"], decode=False)] == images
    for command, source in (("pack", photos), ("convert", tmp_path / "plain.tar")):
        said = fails(command, source, tmp_path / "c.tar", "--images", "png")
        assert "invalid --images png: write 'check', 'upright'" in said


def test_kinds_of_sources(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos", 3)
    run("im2rec-list", tmp_path / "set", photos, "--recursive", "--no-shuffle")
    run("pack", tmp_path / "set.lst", tmp_path / "list.rec", "--root", photos)
    assert [sample["label"] for sample in opened(tmp_path / "list.rec")] == [0, 1, 2]
    run("pack", photos, tmp_path / "files.ffr", "--kind", "files")
    assert list(opened(tmp_path / "files.ffr").keys)[0] == "class0/0000.jpg"
    (tmp_path / "rows.csv").write_text("class0/0000;cat\nclass1/0001;dog\n")
    run(
        *("pack", tmp_path / "rows.csv", tmp_path / "table.tar", "--columns", "id,label"),
        *("--file", "{id}.jpg", "--root", photos),
    )
    assert [sample["label"] for sample in opened(tmp_path / "table.tar")] == ["cat", "dog"]
    assert opened(tmp_path / "table.tar").labels == {"label": ("cat", "dog"), "idx": ("cat", "dog")}
    np.savez(tmp_path / "x.npz", x=np.arange(4))
    run("pack", tmp_path / "x.npz", tmp_path / "x.tar")
    run("pack", tmp_path / "x.tar", tmp_path / "again.ffr", "--spec", "x=u64")
    assert [sample["x"] for sample in opened(tmp_path / "again.ffr")] == [0, 1, 2, 3]


def test_photos_are_turned(tmp_path: Path) -> None:
    image_folder(tmp_path / "photos", 1)
    [photo] = (tmp_path / "photos").rglob("*.jpg")
    exif = Image.Exif()
    exif[0x112] = 6
    with Image.open(photo) as image:
        pixels = np.asarray(image)
        image.save(photo, exif=exif, quality=95)
    run("pack", tmp_path / "photos", tmp_path / "turned.tar", "--images", "upright")
    run("pack", tmp_path / "photos", tmp_path / "as_it_is.tar")
    height, width, _ = pixels.shape
    assert opened(tmp_path / "turned.tar")[0]["image"].shape == (width, height, 3)
    assert opened(tmp_path / "as_it_is.tar")[0]["image"].shape == (height, width, 3)


def test_parts_shuffle_append_and_resume(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos", 7)
    options = ("-c", "tar", "--shuffle", "--seed", 3, "--parts", 2, "--threads", 2)
    run("pack", photos, tmp_path / "out", *options, "--part", 1)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == [".bushel", "part-00001"]
    run("pack", photos, tmp_path / "out", *options, "--resume")
    assert len(opened(str(tmp_path / "out/part-*"))) == 7
    run("pack", photos, tmp_path / "more.rec", "--no-keys")
    run("pack", photos, tmp_path / "more.rec", "--no-keys", "--append", "--processes", 1)
    assert len(opened(tmp_path / "more.rec")) == 14
    (tmp_path / "dots").mkdir()
    (tmp_path / "dots/a.b.jpg").write_bytes(jpeg(0))
    run("pack", tmp_path / "dots", tmp_path / "dots.tar", "--replace-dots", "_")
    assert list(opened(tmp_path / "dots.tar").keys) == ["a_b"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--append", "--resume"], "--append and --resume exclude each other"),
        (["--max-errors", "many"], "is not a number, a share"),
        (["--resize", "3x4x5"], "is not a number of pixels or"),
        (["--inter-method", "7"], "expected 0 to 4, 9 or 10"),
        (["--parts", "2", "--part", "2"], "the parts are 0 to 1"),
        (["--kind", "photos"], "photos"),
        (["--root", "photos"], "the option has no effect on a source of kind images: it is for list, table"),
        (["--file", "{id}"], "it is for table"),
        (["--columns", "id"], "it is for table"),
        (["--clip"], "it is for videos"),
        (["--rate", "3"], "it is for videos"),
        (["--kind", "list", "--exts", ".png"], "it is for images, files, videos"),
        (["--kind", "videos", "--color", "0"], "videos take only"),
        (["--kind", "videos", "--images", "upright"], "videos take only"),
        (["--kind", "files", "--images", "upright"], "needs an image field, but the fields are data"),
        (["--no-keys", "--replace-dots", "_"], "--no-keys leaves the keys out"),
        (["--kind", "videos", "--clip", "--resize", "4"], "the option has no effect with --clip"),
        (["--kind", "files", "--resize", "4"], "no image field: its fields are data"),
        (["-c", "bag", "--part", "1"], "--part 1 needs --parts"),
        (["-c", "bag", "--part", "plan"], "--part plan needs --parts"),
        (["--parts", "2", "--part", "none"], "--part none is neither the number of a part nor 'plan'"),
        (["--kind", "videos", "--clip", "--images", "tile"], "the option has no effect with --clip"),
    ],
)
def test_wrong_use(tmp_path: Path, options: list[str], message: str) -> None:
    photos = image_folder(tmp_path / "photos", 2)
    said = " ".join(fails("pack", photos, tmp_path / "x.tar", *options).split())
    assert message in said
    assert [path.name for path in tmp_path.iterdir()] == ["photos"]


def test_messages_name_options_as_they_are_typed(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos", 2)
    assert "pass --container: bag, tar" in fails("pack", photos, tmp_path / "x")
    run("pack", photos, tmp_path / "x.tar")
    assert "use --append to add to it" in fails("pack", photos, tmp_path / "x.tar")
    (tmp_path / "kind='a'").mkdir()
    said = fails("pack", tmp_path / "kind='a'", tmp_path / "y.tar", code=1)
    assert said.startswith(f"bushel: {tmp_path}/kind='a': this folder")
    assert "--kind files packs any files unchanged" in said


def test_all_fields_of_images_are_changed(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos", 4)
    bushel.pack(
        [{"left": path.read_bytes(), "name": path.stem} for path in photos.rglob("*.jpg")],
        tmp_path / "a.ffr",
        spec={"left": "jpg"},
    )
    run("pack", tmp_path / "a.ffr", tmp_path / "b.ffr", "--resize", "6x5")
    assert opened(tmp_path / "b.ffr").spec == {"left": "jpg", "name": "utf8"}
    assert {sample["left"].shape for sample in opened(tmp_path / "b.ffr")} == {(5, 6, 3)}


def test_lists(tmp_path: Path) -> None:
    image_folder(tmp_path / "photos", 10, classes=2)
    ratios = ("--train-ratio", 0.75, "--test-ratio", 0.25)
    said = run("im2rec-list", tmp_path / "l/set", tmp_path / "photos", "--recursive", *ratios)
    lists = f"{tmp_path}/l/set_test.lst: 2 images\n{tmp_path}/l/set_train.lst: 8 images\n"
    assert said == f"{lists}class 0: class0\nclass 1: class1\n"
    told = json.loads(run("im2rec-list", tmp_path / "c", tmp_path / "photos", "--recursive", "--chunks", 3, "--json"))
    assert list(told["lists"].values()) == [4, 4, 2]
    assert told["labels"] == {"label": ["class0", "class1"]}
    assert "--recursive descends into its subfolders" in fails("im2rec-list", tmp_path / "c", tmp_path / "photos")
    run("im2rec-list", tmp_path / "old", tmp_path / "photos", "--recursive", "--im2rec-order")
    indices = [int(line.split("\t")[0]) for line in (tmp_path / "old.lst").read_text().splitlines()]
    assert indices == [4, 0, 5, 9, 3, 1, 6, 8, 7, 2]


def test_lists_number_classes_as_pack(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    for name in ("a.jpg", "cat/x/1.jpg", "cat/0.jpg", "bird/y/2.jpg"):
        (photos / name).parent.mkdir(parents=True, exist_ok=True)
        (photos / name).write_bytes(jpeg(0))
    run("pack", photos, tmp_path / "x.tar")
    said = run("im2rec-list", tmp_path / "set", photos, "--recursive", "--no-shuffle")
    assert said.splitlines()[1:] == ["class 0: bird", "class 1: cat"]
    run("pack", tmp_path / "set.lst", tmp_path / "y.tar", "--root", photos)
    packed, listed = opened(tmp_path / "x.tar"), opened(tmp_path / "y.tar")
    assert packed.labels == listed.labels == {"label": ("bird", "cat")}
    assert [one["label"] for one in packed] == [one["label"] for one in listed]
    said = run("im2rec-list", tmp_path / "old", photos, "--recursive", "--im2rec-order")
    assert said.splitlines()[1:] == ["class 0: .", "class 1: bird/y", "class 2: cat", "class 3: cat/x"]


def test_info_cat_and_quiet(tmp_path: Path) -> None:
    run("pack", image_folder(tmp_path / "photos", 4), tmp_path / "out", "-c", "tar", "--shard-samples", 2)
    assert "classes    label: 3 (0 class0, 1 class1, 2 class2)" in run("info", "-q", tmp_path / "out")
    assert json.loads(run("cat", tmp_path / "out", "-n", 1))["__labels__"] == {"label": "class0"}
    run("split", tmp_path / "out/shard-000000.tar", tmp_path / "s", "a=0.5", "b=0.5", "--stratify", "label")
    assert [len(opened(tmp_path / "s" / name)) for name in "ab"] == [1, 1]


def test_ctrl_c_is_resumed_and_progress_is_shown_on_a_terminal(tmp_path: Path) -> None:
    pack = ["pack", str(image_folder(tmp_path / "photos", 400)), str(tmp_path / "x.tar"), "--resize", "60"]
    main, other = pty.openpty()
    quiet = subprocess.DEVNULL
    command = [sys.executable, "-c", SLOW, *pack]
    environment = interruptible()
    with subprocess.Popen(command, stdin=quiet, stdout=quiet, stderr=other, env=environment) as process:
        os.close(other)
        shown = b""
        while b"samples" not in shown:
            shown += os.read(main, 4096)
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        try:
            while more := os.read(main, 4096):
                shown += more
        except OSError:  # how a terminal ends whose other side is closed
            pass
    os.close(main)
    assert process.returncode == 130
    assert b"--resume continues" in shown
    assert b"/s" in shown
    subprocess.run(bushel_command(*pack, "--resume", "-q"), check=True, timeout=300)
    assert len(opened(tmp_path / "x.tar")) == 400


def test_split_and_merge(tmp_path: Path) -> None:
    run("pack", image_folder(tmp_path / "photos", 10), tmp_path / "all", "-c", "bag", "-q")
    said = run("split", tmp_path / "all", tmp_path / "out", "train=0.8", "val=0.2", "--no-shuffle")
    assert said == (f"{tmp_path}/out/train: 8 samples written as bag\n{tmp_path}/out/val: 2 samples written as bag\n")
    done = json.loads(run("merge", tmp_path / "one.tar", tmp_path / "out/train", tmp_path / "out/val", "--json"))
    assert (done["samples"], done["container"]) == (10, "tar")
    assert list(opened(tmp_path / "one.tar").keys) == list(opened(tmp_path / "all").keys)
    assert "add up to 1" in fails("split", tmp_path / "all", tmp_path / "x", "train=0.8")
    assert "a share must be a number" in fails("split", tmp_path / "all", tmp_path / "x", "train=most")


def test_segments_in_the_index(tmp_path: Path) -> None:
    run("pack", image_folder(tmp_path / "photos", 2), tmp_path / "out", "-c", "bag", "--images", "tile")
    run("index", tmp_path / "out", "--segments")
    assert all(shard.index.fields["image"].segments is not None for shard in opened(tmp_path / "out").shards)
