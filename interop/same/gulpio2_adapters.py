"""The adapters: run with GulpIO2 and with its drop-in, it prints the same and leaves the same files.

python gulpio2_adapters.py PACKAGE FOLDER IMAGES VIDEOS

IMAGES has folders of images, VIDEOS `<id>/<any>.mp4` and `list.json`. Of the frames of videos only their level of grey
is compared, in steps of 12: GulpIO2 takes them through a JPEG of ffmpeg's.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import random
import sys
from pathlib import Path
from typing import Any

import numpy as np

package, folder, images, videos = sys.argv[1], *map(Path, sys.argv[2:])
gulp = importlib.import_module(package)
adapters = importlib.import_module(f"{package}.adapters")


def show(title: str, value: Any) -> None:
    """Print a result."""
    print(title, json.dumps(value), flush=True)


def gulped(adapter: Any, name: str, workers: int) -> None:
    """Gulp the items of an adapter, and print the chunks."""
    show(name, [type(adapter).__name__, len(adapter)])
    gulp.GulpIngestor(adapter, str(folder / name), 3, workers)()
    for path in sorted((folder / name).iterdir()):
        show(path.name, hashlib.sha256(path.read_bytes()).hexdigest())


random.seed(3)
out = folder / "image-folder"
out.mkdir(parents=True)
gulped(adapters.ImageFolderAdapter(f"{images}/", str(out), shuffle=True), out.name, 1)
out = folder / "image-list"
out.mkdir()
listed = folder / "images.txt"
paths = sorted(path for path in images.rglob("*.jpg"))
listed.write_text("".join(f"{path.name},{path.parent.name}\n" for path in paths if path.parent.name == "plain"))
gulped(adapters.ImageListAdapter(str(listed), str(out), root_folder=str(images / "plain")), out.name, 1)
out = folder / "csv-jpeg"
out.mkdir()
table = folder / "frames.csv"
table.write_text("".join(f"{path.name};label\n" for path in sorted(images.iterdir())))
gulped(adapters.Custom20BNCsvJpegAdapter(str(table), str(images), str(out)), out.name, 2)

resized = adapters.ImageFolderAdapter(f"{images}/", str(out), img_size=33)  # by another Pillow: shapes only
show("resized", [list(item["frames"][0].shape) for item in resized.iter_data(slice(1, 4))])

for rate in (8, 12):
    out = folder / f"videos{rate}"
    out.mkdir()
    adapter = adapters.Custom20BNJsonVideoAdapter(
        str(videos / "list.json"), str(videos), str(out), frame_size=64, frame_rate=rate, shm_dir_path=str(folder)
    )
    gulp.GulpIngestor(adapter, str(out), 2, 2)()
    directory = gulp.GulpDirectory(str(out))
    for id_ in directory.merged_meta_dict:
        frames, meta = directory[id_]
        levels = [round(float(np.median(image)) / 12) for image in frames]
        show(id_, [meta, len(frames), list(frames[0].shape), levels])
    show("labels", (out / "label2idx.json").read_text())
