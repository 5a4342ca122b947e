"""Sixty layouts of folders: the same splits, samples, classes and numbers as `datasets` reads from them."""

from __future__ import annotations

import gc
import json
import logging
import warnings
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests._recognise.photos import stored

import bushel

datasets = pytest.importorskip("datasets")
pa = pytest.importorskip("pyarrow")
pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),  # it leaves files open
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

Contents = str | bytes | Callable[[Path], object] | None
"""The text or bytes of a file, a function that writes it, or None for media."""
Files = Mapping[str, Contents]


def _parquet(columns: Mapping[str, Any], **options: Any) -> Callable[[Path], object]:
    import pyarrow.parquet

    return lambda path: pyarrow.parquet.write_table(pa.table(columns), path, **options)


def _arrow(columns: Mapping[str, Any], *, stream: bool = True) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        table = pa.table(columns)
        new = pa.ipc.new_stream if stream else pa.ipc.new_file
        with pa.OSFile(str(path), "wb") as file, new(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=2)

    return write


def _lines(*rows: Mapping[str, Any]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def _media(*names: str) -> Files:
    return dict.fromkeys(names)


NUMBERS = {"x": [1, 2, 3], "y": [0.5, 1.5, -2.5], "t": ["a", "b", "ç"]}
CSV = "x,y,t\n1,0.5,a\n2,1.5,b\n3,-2.5,ç\n"
ROWS = _lines({"x": 1, "t": "a"}, {"x": 2, "t": "b"})
META = "file_name,text\n"
ANIMALS = _media(*(f"{name}/{number}.jpg" for name in ("cat", "dog", "elk") for number in range(3)))
SHARDS = [f"{split}-0000{number}-of-00002" for split in ("train", "test") for number in range(2)]
LISTS = pa.array([[1, 2], [3], [4, 5, 6]])
STRUCTS = pa.array([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}, {"a": 3, "b": "z"}])

LAYOUTS: dict[str, tuple[str, Files]] = {
    # images
    "classes": ("imagefolder", ANIMALS),
    "one class of many": ("imagefolder", _media(*(f"c{number:02}/0.jpg" for number in range(12)))),
    "kinds of images": ("imagefolder", {**ANIMALS, **_media("dog/x.png", "elk/y.PNG", "cat/z.jpeg")}),
    "suffixes in upper case": ("imagefolder", _media("cat/a.JPG", "dog/b.Jpeg", "dog/c.PNG")),
    "flat": ("imagefolder", _media("b.jpg", "a.jpg", "10.jpg", "9.jpg")),
    "dots": ("imagefolder", _media("x/v.1.jpg", "x/v.2.jpg", "y/v.1.jpg")),
    "other files": ("imagefolder", {**ANIMALS, "README.md": "x", "cat/notes.txt": "x", "LICENSE": "x"}),
    "hidden files": ("imagefolder", {**ANIMALS, ".DS_Store": "x", "cat/._0.jpg": "x", ".git/a.jpg": None}),
    "spaces and accents": ("imagefolder", _media("le chat/é 1.jpg", "le chien/b (2).jpg")),
    "names with signs": ("imagefolder", _media("a+b/1,2.jpg", "a&b/x=y.jpg", "a-b/~1.jpg")),
    "numbers as classes": ("imagefolder", _media(*(f"{number}/a.jpg" for number in (0, 1, 2, 10)))),
    "metadata": ("imagefolder", {**_media("a.jpg", "b.jpg"), "metadata.csv": META + "b.jpg,two\na.jpg,one\n"}),
    "metadata of JSON": (
        "imagefolder",
        {"a.jpg": None, "metadata.jsonl": _lines({"file_name": "a.jpg", "text": "one"})},
    ),
    "metadata of Parquet": (
        "imagefolder",
        {**_media("a.jpg", "b.jpg"), "metadata.parquet": _parquet({"file_name": ["a.jpg", "b.jpg"], "n": [1, 2]})},
    ),
    "metadata with ./": (
        "imagefolder",
        {**_media("s/a.jpg", "b.jpg"), "metadata.csv": META + "./s/a.jpg,one\nb.jpg,two\n"},
    ),
    "metadata with //": (
        "imagefolder",
        {**_media("s/a.jpg", "b.jpg"), "metadata.csv": META + "s//a.jpg,one\nb.jpg,two\n"},
    ),
    "metadata in folders": (
        "imagefolder",
        {
            **_media("x/a.jpg", "y/a.jpg"),
            "x/metadata.csv": META + "a.jpg,one\n",
            "y/metadata.csv": META + "a.jpg,two\n",
        },
    ),
    "metadata with numbers": (
        "imagefolder",
        {**_media("a.jpg", "b.jpg"), "metadata.csv": "file_name,n,r\na.jpg,1,0.5\nb.jpg,2,1.5\n"},
    ),
    "metadata with lists": (
        "imagefolder",
        {
            **_media("a.jpg", "b.jpg"),
            "metadata.jsonl": _lines(
                {"file_name": "a.jpg", "box": [1, 2, 3]}, {"file_name": "b.jpg", "box": [4, 5, 6]}
            ),
        },
    ),
    "metadata in splits": (
        "imagefolder",
        {
            **_media("train/a.jpg", "test/b.jpg"),
            "train/metadata.csv": META + "a.jpg,one\n",
            "test/metadata.csv": META + "b.jpg,two\n",
        },
    ),
    "train and test": ("imagefolder", _media("train/cat/1.jpg", "train/dog/1.jpg", "test/cat/1.jpg")),
    "train and val": ("imagefolder", _media("train/a/1.jpg", "train/b/1.jpg", "val/b/2.jpg", "val/c/2.jpg")),
    "three splits": (
        "imagefolder",
        _media(*(f"{split}/{name}/1.jpg" for split in ("train", "dev", "test") for name in "ab")),
    ),
    "training, validation and testing": (
        "imagefolder",
        _media(*(f"{split}/{name}/1.jpg" for split in ("training", "validation", "testing") for name in "ab")),
    ),
    # sounds and clips
    "classes of sounds": ("audiofolder", _media(*(f"{name}/{n}.wav" for name in ("bell", "drum") for n in range(2)))),
    "kinds of sounds": ("audiofolder", _media("bell/0.wav", "bell/1.flac", "drum/2.mp3", "drum/3.ogg")),
    "flat sounds": ("audiofolder", _media("b.wav", "a.wav")),
    "sounds with metadata": (
        "audiofolder",
        {**_media("a.wav", "b.wav"), "metadata.csv": META + "b.wav,two\na.wav,one\n"},
    ),
    "splits of sounds": ("audiofolder", _media("train/bell/0.wav", "train/drum/1.wav", "test/drum/2.wav")),
    "classes of clips": ("videofolder", _media("run/0.mp4", "jump/1.mp4")),
    "kinds of clips": ("videofolder", _media("run/0.mp4", "jump/1.mov", "jump/2.mkv")),
    "clips with metadata": (
        "videofolder",
        {
            **_media("a.mp4", "b.mp4"),
            "metadata.jsonl": _lines({"file_name": "a.mp4", "n": 1}, {"file_name": "b.mp4", "n": 2}),
        },
    ),
    "splits of clips": ("videofolder", _media("train/run/0.mp4", "train/jump/1.mp4", "val/jump/2.mp4")),
    # CSV
    "csv": ("csv", {"a.csv": CSV}),
    "csv of two files": ("csv", {"a.csv": CSV, "b.csv": CSV.replace("1,", "7,")}),
    "csv with quotes": ("csv", {"a.csv": 'x,t\n1,"a, b"\n2,"say ""no"""\n3,"two\nlines"\n'}),
    "csv with other line ends": ("csv", {"a.csv": CSV.replace("\n", "\r\n")}),
    "csv of truth values": ("csv", {"a.csv": "x,b\n1,True\n2,False\n3,True\n"}),
    "csv of long numbers": ("csv", {"a.csv": "x,y\n9007199254740993,1e300\n-5,0.1\n"}),
    "csv splits": ("csv", {"train.csv": CSV, "test.csv": "x,y,t\n9,0.25,z\n"}),
    "csv in folders of splits": ("csv", {"train/a.csv": CSV, "test/a.csv": "x,y,t\n9,0.25,z\n"}),
    "csv in data/": ("csv", {"data/train.csv": CSV, "data/test.csv": "x,y,t\n9,0.25,z\n"}),
    "csv of shards": ("csv", {f"data/{name}.csv": f"x\n{number}\n" for number, name in enumerate(SHARDS)}),
    # JSON
    "json": ("json", {"a.jsonl": ROWS}),
    "json of two files": ("json", {"a.jsonl": ROWS, "b.jsonl": _lines({"x": 7, "t": "z"})}),
    "json with an array": ("json", {"a.json": json.dumps([{"x": 1, "t": "a"}, {"x": 2, "t": "b"}])}),
    "json with lines in .json": ("json", {"a.json": ROWS}),
    "json with nulls": ("json", {"a.jsonl": _lines({"x": 1, "t": None}, {"x": None, "t": "b"})}),
    "json with missing names": ("json", {"a.jsonl": _lines({"x": 1, "t": "a"}, {"x": 2})}),
    "json with nesting": ("json", {"a.jsonl": _lines({"o": {"a": 1, "b": [1, 2]}}, {"o": {"a": 2, "b": [3]}})}),
    "json with lists": ("json", {"a.jsonl": _lines({"l": [1, 2], "s": ["a"]}, {"l": [3], "s": ["b", "c"]})}),
    "json with escapes": ("json", {"a.jsonl": '{"t": "\\u00e9\\n\\"x\\""}\n{"t": "ü"}\n'}),
    "json splits": ("json", {"train.jsonl": ROWS, "test.jsonl": _lines({"x": 7, "t": "z"})}),
    "json of shards": ("json", {f"{name}.jsonl": _lines({"x": number}) for number, name in enumerate(SHARDS)}),
    # Parquet
    "parquet": ("parquet", {"a.parquet": _parquet(NUMBERS)}),
    "parquet of row groups": ("parquet", {"a.parquet": _parquet(NUMBERS, row_group_size=2)}),
    "parquet with zstd": ("parquet", {"a.parquet": _parquet(NUMBERS, compression="zstd")}),
    "parquet without dictionaries": ("parquet", {"a.parquet": _parquet(NUMBERS, use_dictionary=False)}),
    "parquet of lists": ("parquet", {"a.parquet": _parquet({"l": LISTS})}),
    "parquet of structs": ("parquet", {"a.parquet": _parquet({"o": STRUCTS})}),
    "parquet with nulls": ("parquet", {"a.parquet": _parquet({"x": [1, None, 3], "t": ["a", None, "c"]})}),
    "parquet splits": (
        "parquet",
        {f"data/{name}.parquet": _parquet({"x": [number]}) for number, name in enumerate(SHARDS)},
    ),
    # Arrow
    "arrow": ("arrow", {"a.arrow": _arrow(NUMBERS)}),
    "arrow of two files": ("arrow", {"a.arrow": _arrow(NUMBERS), "b.arrow": _arrow(NUMBERS)}),
    "arrow of lists": ("arrow", {"a.arrow": _arrow({"l": LISTS, "o": STRUCTS})}),
    "arrow with nulls": ("arrow", {"a.arrow": _arrow({"x": pa.array([1, None, 3]), "t": pa.array(["a", None, "c"])})}),
    "arrow splits": (
        "arrow",
        {"train.arrow": _arrow(NUMBERS), "test.arrow": _arrow({"x": [4], "y": [1.0], "t": ["z"]})},
    ),
}
"""What `datasets.load_dataset` calls each layout, and its files."""

MEDIA = {"imagefolder": "image", "audiofolder": "audio", "videofolder": "clip"}


def _write(root: Path, files: Files) -> None:
    for name, contents in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(contents):
            contents(path)
        elif isinstance(contents, bytes):
            path.write_bytes(contents)
        elif contents is not None:
            path.write_text(contents, "utf-8", newline="")
        else:
            is_image = name.lower().endswith(("jpg", "jpeg", "png"))
            path.write_bytes(stored(name.lower()) if is_image else f"the bytes of {name}".encode())


def _theirs(builder: str, root: Path, cache: Path) -> dict[str, list[dict[str, Any]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        loaded = datasets.load_dataset(builder, data_dir=str(root), cache_dir=str(cache))
        gc.collect()
    splits = {}
    for split, found in loaded.items():
        features = found.features
        for name, feature in features.items():
            if type(feature).__name__ in ("Image", "Audio", "Video"):
                found = found.cast_column(name, type(feature)(decode=False))
        rows = []
        for row in found:
            for name, value in list(row.items()):
                if isinstance(value, dict) and set(value) == {"bytes", "path"}:
                    row[name] = Path(value["path"]).read_bytes()
                    row["clip" if name == "video" else name] = row.pop(name)
                elif name == "label" and builder in MEDIA and value is not None:
                    row[name] = (value, features["label"].names[value])
            rows.append(_plain(row))
        splits[split] = rows
    return splits


def _ours(dataset: bushel.Dataset, media: str | None) -> list[dict[str, Any]]:
    rows = []
    for position, row in enumerate(dataset.read(range(len(dataset)), decode=False)):
        row = {name: value for name, value in row.items() if name != "__key__"}
        files = {name: bytes(row.pop(name)) for name in [media] if name in row}
        sample = dataset.decode_sample(row, position) | files
        if media is not None and "label" in sample:
            number = int(sample["label"])
            sample["label"] = (number, dataset.labels["label"][number])
        rows.append(_plain(sample))
    return rows


def _plain(value: Any) -> Any:
    """Return a value without what is missing, and arrays as lists."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in sorted(value.items()) if each is not None}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return [_plain(each) for each in value] if isinstance(value, list) else value


NAMED = {"json with an array": "a.json", "json with lines in .json": "a.json"}
"""Files that are opened by their names: a folder may have `.json` files beside its data."""
NAMES_OF_SPLITS = {"val": "validation", "dev": "validation", "training": "train", "testing": "test"}


@pytest.fixture(autouse=True)
def _quiet() -> None:
    datasets.disable_progress_bars()
    logging.getLogger("datasets").setLevel(logging.ERROR)


@pytest.mark.parametrize("title", LAYOUTS)
def test_a_layout(title: str, tmp_path: Path) -> None:
    builder, files = LAYOUTS[title]
    root, media = tmp_path / "in", MEDIA.get(builder)
    if media == "audio" and find_spec("torchcodec") is None:
        pytest.skip("torchcodec is not installed")
    _write(root, files)
    expected = _theirs(builder, root, tmp_path / "cache")
    if len(expected) == 1:
        spec = {"b": "bool"} if "truth" in title else None  # Bushel reads texts
        found = {next(iter(expected)): bushel.open(root / NAMED.get(title, ""), spec=spec)}
    else:
        with pytest.raises(bushel.errors.SpecError, match="has several splits"):
            bushel.open(root)
        folder = root / "data" if (root / "data").is_dir() else root
        splits = {path.name.partition(".")[0].partition("-0")[0] for path in folder.iterdir()}
        found = {NAMES_OF_SPLITS.get(split, split): bushel.open(root, split=split) for split in splits}
    assert found.keys() == expected.keys()
    for split, rows in expected.items():
        assert sorted(map(repr, _ours(found[split], media))) == sorted(map(repr, rows))


def test_there_are_sixty() -> None:
    assert len(LAYOUTS) >= 60
