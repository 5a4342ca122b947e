"""The same samples, classes and numbers as `datasets` finds in a folder."""

from __future__ import annotations

import gc
import io
import logging
import warnings
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests._recognise.photos import stored

import bushel

datasets = pytest.importorskip("datasets")
pytestmark = [  # it leaves files open
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]


def folder(root: Path, names: Mapping[str, str | None] | list[str]) -> Path:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = names[name] if isinstance(names, Mapping) else None
        path.write_bytes(stored(name) if text is None else text.encode())
    return root


def theirs(root: Path, builder: str, cache: Path, split: str) -> tuple[list[tuple[bytes, Any, Any]], list[str] | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)  # it leaves files of metadata open
        found = datasets.load_dataset(builder, data_dir=str(root), cache_dir=str(cache))[split]
        gc.collect()
    media = {"imagefolder": "image", "audiofolder": "audio", "videofolder": "video"}[builder]
    kinds = {"imagefolder": datasets.Image, "audiofolder": datasets.Audio, "videofolder": datasets.Video}
    classes = found.features["label"].names if "label" in found.features else None
    rows = found.cast_column(media, kinds[builder](decode=False))
    samples = [(Path(row[media]["path"]).read_bytes(), row.get("label"), row.get("text")) for row in rows]
    return sorted(samples, key=repr), classes


def ours(dataset: bushel.Dataset, media: str) -> tuple[list[tuple[bytes, Any, Any]], list[str] | None]:
    classes = list(dataset.labels["label"]) if "label" in dataset.labels else None
    samples = []
    for row in dataset.read(range(len(dataset)), decode=False):
        rest = dataset.decode_sample({name: each for name, each in row.items() if name != media}, 0)
        samples.append((bytes(row[media]), rest.get("label"), rest.get("text")))
    return sorted(samples, key=repr), classes


CLASSES = [f"{name}/{number}.jpg" for name in ("cat", "dog", "elk") for number in range(3)]
META = "file_name,text\n"
LAYOUTS: dict[str, Mapping[str, str | None] | list[str]] = {
    "classes": CLASSES,
    "kinds": [*CLASSES, "dog/x.png", "elk/y.PNG"],
    "suffixes in upper case": ["cat/a.JPG", "dog/b.Jpeg"],
    "flat": ["b.jpg", "a.jpg"],
    "dots": ["x/v.1.jpg", "x/v.2.jpg", "y/v.1.jpg"],
    "other files": {**dict.fromkeys(CLASSES), "README.md": "x", "cat/notes.txt": "x", "LICENSE": "x"},
    "hidden files": {**dict.fromkeys(CLASSES), ".DS_Store": "x", "cat/._0.jpg": "x", ".git/a.jpg": "x"},
    "spaces and accents": ["le chat/é 1.jpg", "le chien/b (2).jpg"],
    "metadata": {"a.jpg": None, "b.jpg": None, "metadata.csv": META + "b.jpg,two\na.jpg,one\n"},
    "metadata of JSON": {"a.jpg": None, "metadata.jsonl": '{"file_name": "a.jpg", "text": "one"}\n'},
    "metadata with ./": {"s/a.jpg": None, "b.jpg": None, "metadata.csv": META + "./s/a.jpg,one\nb.jpg,two\n"},
    "metadata with //": {"s/a.jpg": None, "b.jpg": None, "metadata.csv": META + "s//a.jpg,one\nb.jpg,two\n"},
    "metadata in folders": {
        **dict.fromkeys(["x/a.jpg", "y/a.jpg"]),
        "x/metadata.csv": META + "a.jpg,one\n",
        "y/metadata.csv": META + "a.jpg,two\n",
    },
}
SPLITS: dict[str, tuple[list[str], dict[str, str]]] = {
    "train and test": (
        ["train/cat/1.jpg", "train/dog/1.jpg", "train/elk/1.jpg", "test/cat/1.jpg", "test/elk/2.jpg"],
        {},
    ),
    "train and val": (["train/a/1.jpg", "train/b/1.jpg", "val/b/2.jpg", "val/c/2.jpg"], {"val": "validation"}),
    "three": ([f"{split}/{name}/1.jpg" for split in ("train", "dev", "test") for name in "ab"], {"dev": "validation"}),
}


@pytest.fixture(autouse=True)
def _quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    datasets.disable_progress_bars()
    logging.getLogger("datasets").setLevel(logging.ERROR)


@pytest.mark.parametrize("title", LAYOUTS)
def test_images(title: str, tmp_path: Path) -> None:
    root = folder(tmp_path / "in", LAYOUTS[title])
    assert ours(bushel.open(root), "image") == theirs(root, "imagefolder", tmp_path / "cache", "train")


@pytest.mark.parametrize("title", SPLITS)
def test_splits(title: str, tmp_path: Path) -> None:
    names, renamed = SPLITS[title]
    root = folder(tmp_path / "in", names)
    for split in {name.partition("/")[0] for name in names}:
        expected = theirs(root, "imagefolder", tmp_path / "cache", renamed.get(split, split))
        assert ours(bushel.open(root, split=split), "image") == expected
        assert ours(bushel.open(root / split), "image") == expected


@pytest.mark.parametrize(
    ("builder", "media", "suffixes"),
    [
        ("audiofolder", "audio", ("wav", "flac", "mp3", "ogg")),
        ("videofolder", "clip", ("mp4",)),
    ],
)
def test_sounds_and_clips(builder: str, media: str, suffixes: tuple[str, ...], tmp_path: Path) -> None:
    if media == "audio" and find_spec("torchcodec") is None:
        pytest.skip("torchcodec is not installed")
    names = [f"{name}/{number}.{suffix}" for name in ("bell", "drum") for number, suffix in enumerate(suffixes)]
    root = folder(tmp_path / "in", {name: f"the bytes of {name}" for name in names})
    assert ours(bushel.open(root), media) == theirs(root, builder, tmp_path / "cache", "train")


def test_the_helper_writes_images() -> None:
    from PIL import Image

    assert Image.open(io.BytesIO(stored("a.jpg"))).format == "JPEG"
