"""Results of webdataset, by any package with its names: ``webdataset_pipeline.py PACKAGE``.

Works in a temporary folder and prints what comes out, so that the output of two packages can be compared.
"""

from __future__ import annotations

import hashlib
import importlib
import io
import os
import random
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

warnings.simplefilter("ignore")
PACKED = bytes.fromhex("1f8b08000000000002032b484cce4e4d010010b4f62106000000")
"""`packed`, compressed by gzip without the time that a compressing writer adds."""
wds: Any = importlib.import_module(sys.argv[1])


def show(title: str, values: Any) -> None:
    """Print values; arrays as digests."""
    print(title)
    for value in values:
        print("   ", plain(value))


def plain(value: Any) -> Any:
    """Return a value as text that is equal for equal values."""
    if isinstance(value, dict):
        return {key: plain(value[key]) for key in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return type(value)(plain(item) for item in value)
    if isinstance(value, np.ndarray):
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()[:16]
        return f"{value.dtype}{list(value.shape)} {digest}"
    if isinstance(value, Image.Image):
        return f"{value.mode} {value.size} {hashlib.sha256(value.tobytes()).hexdigest()[:16]}"
    if isinstance(value, bytes | bytearray | memoryview):
        return f"{len(value)} bytes {hashlib.sha256(bytes(value)).hexdigest()[:16]}"
    return value


def picture(seed: int, grey: bool = False) -> np.ndarray:
    """Return an image of smooth colours, which JPEG hardly changes."""
    rng = np.random.default_rng(seed)
    small = Image.fromarray(rng.integers(0, 256, (6, 8) if grey else (6, 8, 3), dtype=np.uint8))
    return np.asarray(small.resize((40, 30), Image.Resampling.BICUBIC))


def file(seed: int, kind: str, **options: Any) -> bytes:
    """Return the bytes of an image file."""
    out = io.BytesIO()
    Image.fromarray(picture(seed, **options)).save(out, kind)
    return out.getvalue()


def sample(i: int) -> dict[str, Any]:
    """Return a sample with fields of many types."""
    return {
        "__key__": f"dir.x/s{i:03d}",
        "__meta__": "not written",
        "jpg": file(i, "JPEG", grey=i % 5 == 0),
        "left.png": file(100 + i, "PNG"),
        "cls": i,
        "txt": f"naïve {i}",
        "json": {"i": i, "list": [1, None, "é"]},
        "npy": np.arange(i, dtype=np.float32),
        "npz": {"a": np.arange(3), "b": np.ones((2, 2))},
        "mp": {"i": i},
        "ten": [np.full((2, 3), i, np.int64), np.zeros(0, np.float32)],
        "bin": bytes(range(i)),
    }


def write() -> None:
    """Write three shards, and print the digests of those without compressed fields."""
    with wds.ShardWriter("train-%04d.tar", maxcount=10, mtime=0, verbose=1) as sink:
        for i in range(25):
            sink.write(sample(i))
    with wds.TarWriter("exact.tar", mtime=1234567890, user="me", group="us", mode=0o600) as sink:
        sizes = []
        for i in range(4):
            full = sample(i)
            sizes.append(sink.write({**full, "png": picture(i), "ppm": picture(i), "image": picture(i, grey=True)}))
        sizes.append(sink.write({"__key__": "long/" * 40 + "é", "txt": "x", "_own": "kept out"}))
    with wds.TarWriter("float.tar", mtime=0.5, keep_meta=True) as sink:
        sink.write({"__key__": "a", "cls": 3, "_own": "kept", "float.jpg": np.linspace(0, 1, 48).reshape(4, 4, 3)})
    with open("handle.tar", "wb") as handle, wds.TarWriter(handle, encoder=False, mtime=7) as sink:
        sink.write({"__key__": "a", "x": b"1", "txt.gz": PACKED})
    print("sizes", sizes)
    for name in ("exact.tar", "float.tar", "handle.tar"):
        print(name, os.path.getsize(name), hashlib.sha256(Path(name).read_bytes()).hexdigest())
    for wrong in ({"cls": 3}, {"__key__": "a", "cls": [1], "what": object()}, {"__key__": "a", "_m": 3}):
        try:
            wds.TarWriter(io.BytesIO()).write(wrong)
        except ValueError as error:
            print("refused", type(error).__name__, str(error)[:30])


def dataset(urls: Any = "train-{0000..0002}.tar", **options: Any) -> Any:
    """Return the shards in order."""
    return wds.WebDataset(urls, **{"shardshuffle": False, **options})


def read() -> None:
    """Test fields, orders and stages."""
    show("raw", dataset("train-0000.tar").slice(2))
    show("decoded", dataset().decode())
    for spec in ("l8", "rgb8", "rgba8", "l", "rgb", "rgba", "pil", "pill", "pilrgb", "pilrgba"):
        show(spec, dataset("train-0000.tar").decode(spec).to_tuple("jpg", "left.png").slice(6))
    show("packed", dataset("handle.tar").decode())
    show("only", dataset("train-0000.tar").decode("rgb8", only="cls jpg").slice(1))
    show("partial", dataset("train-0000.tar").decode(only=["cls"]).decode("rgb8", partial=True).slice(1))
    show("handlers", dataset().decode(wds.handle_extension("txt left.png", len)).to_tuple("left.png txt").slice(2))
    show("keys", [s["__key__"] for s in dataset().shuffle(7, initial=3, seed=5)])
    show("shards", [s["__key__"] for s in dataset(shardshuffle=3, seed=1)])
    twice = dataset(shardshuffle=3, detshuffle=True, seed=1)
    show("detshuffle", [[s["__key__"] for s in twice] for _ in range(3)])
    show(
        "batches",
        dataset().decode("rgb8").to_tuple("jpg;png", "cls", "__key__").select(lambda x: x[0].ndim == 3).batched(4),
    )
    show("dict batches", dataset().decode().rename(keep=False, n="cls", text="txt").batched(10, partial=False))
    show("listed", dataset().decode().to_tuple("cls").listed(9).map(lambda x: len(x)))
    show("unbatched", dataset().decode().to_tuple("cls", "txt").batched(4).unbatched().slice(20, 25))
    show("unlisted", dataset().decode().to_tuple("cls").listed(4).unlisted().slice(3))
    show("map_dict", dataset().decode().map_dict(cls=lambda x: -x, txt=str.upper).to_tuple("cls", "txt").slice(3))
    show("map_tuple", dataset().decode().to_tuple("cls", "txt").map_tuple(None, len).slice(3))
    show("rename_keys", dataset().rename_keys(("text", "t*t"), n="cls", must_match=True).slice(1))
    show("extract_keys", dataset().extract_keys("*.png", "c*;z*", "npy").slice(1))
    show(
        "xdecode",
        dataset().xdecode(png=lambda s: len(s.read()), must_decode=False).extract_keys("txt", "*.png").slice(1),
    )
    show(
        "files",
        dataset(select_files=lambda n: n.endswith("cls"), rename_files=lambda n: n.replace("s00", "r")).slice(2),
    )
    show("epochs", [len(list(dataset().with_epoch(n))) for n in (3, 40)])
    show("repeat", [len(list(dataset().repeat(3)))])
    show("cached", [len(list(d)) for d in [dataset().mcached()] for _ in range(2)])
    show("length", [len(dataset().with_length(17, silent=True))])
    stage = wds.map(lambda s: s["__key__"])
    show("pipeline", wds.DataPipeline(wds.SimpleShardList("train-{0000..0002}.tar"), wds.tarfile_to_samples(), stage))
    show("shuffled list", wds.SimpleShardList("{a,b}{1..3}.tar::c.tar", seed=3))
    show("resampled", wds.ResampledShards("{a,b}{1..3}.tar", 8, seed=3, deterministic=True))
    show(
        "associate",
        wds.DataPipeline(dataset(), wds.associate({"dir.x/s001": {"x": 1}}), wds.select(lambda s: "x" in s)),
    )
    random.seed(4)
    parts = [dataset(f"train-000{i}.tar").map(lambda s: s["__key__"]) for i in range(3)]
    show("mix", [list(wds.RandomMix(parts, probs=[1, 2, 3], longest=longest)) for longest in (False, True)])
    show("robin", [list(wds.RoundRobin(parts, longest=longest)) for longest in (False, True)])
    show("rsample", dataset().rsample(0.3).map(lambda s: s["__key__"]))
    os.environ |= {"WORKER": "1", "NUM_WORKERS": "2", "RANK": "0", "WORLD_SIZE": "1"}
    show("worker", dataset().map(lambda s: s["__key__"]))
    os.environ |= {"RANK": "1", "WORLD_SIZE": "2", "WORKER": "0", "NUM_WORKERS": "1"}
    show("node", dataset(nodesplitter=wds.split_by_node).map(lambda s: s["__key__"]))
    try:
        list(dataset())
    except ValueError as error:
        print("nodes", str(error)[:30])
    os.environ |= {"RANK": "0", "WORLD_SIZE": "1"}


def fail() -> None:
    """Test error handlers and the remaining samples."""
    seen: list[str] = []

    def note(error: Exception) -> bool:
        seen.append(type(error).__name__)
        return True

    with wds.TarWriter("twice.tar", mtime=0) as sink:
        sink.write({"__key__": "a", "x": b"1", "X": b"2", "y": b"3"})
        sink.write({"__key__": "b", "cls": b"no number"})
    show("twice", dataset("twice.tar", handler=note).map(lambda s: sorted(s)))
    show("decoding", dataset("twice.tar", handler=note).decode(handler=note))
    show("missing", dataset(["nowhere.tar", "train-0002.tar"], handler=note).map(lambda s: s["__key__"]))
    show("to_tuple", dataset().to_tuple("nothing", handler=note))
    show("default", dataset().to_tuple("nothing", missing_is_error=False).slice(1))
    show("stopped", dataset().map(lambda s: 1 / 0, handler=wds.ignore_and_stop))
    show("seen", seen)
    for what in (lambda: list(dataset("nowhere.tar")), lambda: list(dataset("twice.tar")), lambda: list(dataset([]))):
        try:
            what()
        except Exception as error:
            print("raised", isinstance(error, ValueError | OSError | IndexError))
    try:
        list(dataset().slice(0).with_epoch(1))
    except ValueError as error:
        print("empty", str(error)[:20])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        write()
        read()
        fail()
        os.chdir("/")
