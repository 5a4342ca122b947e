"""How fast the viewer answers: the first page of a large dataset, and a screen of thumbnails. It also measures memory.

    python benchmarks/viewing.py --samples 1000000 --photos PHOTOS --out .bench/viewing.json

A viewer runs in a process of its own, with a dataset of `--samples` samples and one of images. The client keeps its
connections open, as browsers do.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import numpy as np

import bushel

_TILES, _CONNECTIONS = 60, 6  # a screen, and the connections of a browser


def write_numbers(path: Path, samples: int) -> Path:
    """Write a dataset of many small samples."""
    with bushel.Writer(path, {"label": "int"}, container="bag") as writer:
        for number in range(samples):
            writer.append({"label": number % 10}, key=f"train/{number % 1000:03d}/{number:08d}")
    bushel.index(path, columns=["label"]).close()
    return path


def write_images(path: Path, photos: Path | None) -> Path:
    """Write a dataset of `_TILES` images: photos, or noise of the usual size."""
    files = sorted(photos.rglob("*.jpg"))[:_TILES] if photos else []
    noise = np.random.default_rng(0).integers(0, 256, (47, 63, 3), np.uint8).repeat(8, axis=0).repeat(8, axis=1)
    with bushel.Writer(path, {"image": "jpg"}, container="tar") as writer:
        for number in range(_TILES):
            writer.append({"image": files[number].read_bytes() if files else np.roll(noise, number, axis=1)})
    return path


def memory_of(pid: int, name: str) -> int:
    """Return the resident memory of a process in bytes: `VmRSS`, or `VmHWM` for the most it ever had."""
    found = re.search(rf"{name}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    return 1024 * int(found[1]) if found else 0


class Browser:
    """Keeps the connections of a browser open.

    Args:
        url: The URL with the token.
    """

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self._free: SimpleQueue[HTTPConnection] = SimpleQueue()
        for _ in range(_CONNECTIONS):
            self._free.put(HTTPConnection(place.hostname or "", place.port))
        self._prefix = place.path.rstrip("/")

    def get(self, path: str) -> bytes:
        """Return the body of an answer, which must be a good one."""
        connection = self._free.get()
        try:
            connection.request("GET", self._prefix + path)
            answer = connection.getresponse()
            body: bytes = answer.read()
        finally:
            self._free.put(connection)
        assert answer.status < 400, f"{path}: {answer.status} {body[:200]!r}"
        return body


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(url: str, repeats: int, pid: int) -> dict[str, Any]:
    """Return medians of seconds."""
    browser = Browser(url)

    def seconds(work: Any) -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    def first_page() -> None:
        for path in ("/d/0", "/static/view.css", "/static/grid.js", "/static/columns.js"):
            browser.get(path)
        browser.get(f"/api/0/rows?first=0&count={_TILES}")

    with ThreadPoolExecutor(_CONNECTIONS) as pool:

        def screen() -> None:
            list(pool.map(browser.get, [f"/d/1/thumb?i={number}&f=image&side=256" for number in range(_TILES)]))

        cold, pages = seconds(first_page), [seconds(first_page) for _ in range(repeats)]
        made, used = seconds(screen), processor_seconds(pid)
        kept = [seconds(screen) for _ in range(repeats)]
        used = (processor_seconds(pid) - used) / repeats
    rows = [seconds(lambda: browser.get("/api/0/rows?first=500000&count=60")) for _ in range(repeats)]
    return {
        "first page, first time": cold,
        "first page": statistics.median(pages),
        "60 thumbnails, first time": made,
        "60 thumbnails, kept": statistics.median(kept),
        "  processor time of these": used,
        "60 rows": statistics.median(rows),
        "filter by key": seconds(lambda: browser.get("/api/0/rows?q=00777&count=60")),
        "histogram": seconds(lambda: browser.get("/api/0/histogram?column=label")),
        "sort": seconds(lambda: browser.get("/api/0/rows?sort=-label&count=60")),
    }


def main() -> None:
    """Measure, print and store."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=1_000_000)
    parser.add_argument("--photos", type=Path)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        many = write_numbers(Path(folder, "many"), options.samples)
        images = write_images(Path(folder, "images"), options.photos)
        started = time.perf_counter()
        command = [sys.executable, "-m", "bushel", "view", str(many), str(images), "--no-browser"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
            try:
                assert process.stdout is not None
                url = process.stdout.readline().strip()
                opened, processor = time.perf_counter() - started, processor_seconds(process.pid)
                found = {
                    "until the URL is printed": opened,
                    "  processor time of this": processor,
                    **measure(url, options.repeats, process.pid),
                }
                found["memory in MB"] = memory_of(process.pid, "VmRSS") / 1e6
                found["most memory in MB"] = memory_of(process.pid, "VmHWM") / 1e6
            finally:
                process.terminate()
    for name, value in found.items():
        print(f"{name:<28}{value:9.3f}")
    if options.out:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps({"samples": options.samples, **found}, indent=2) + "\n")


if __name__ == "__main__":
    main()
