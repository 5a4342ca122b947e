"""What a frame of the viewer's map costs the page: its own code, and the bytes that it sends to the graphics card.

    python benchmarks/map_frames.py                     # 100,000 points; needs `make browser` once
    python benchmarks/map_frames.py --points 1000000

Chromium moves and zooms the map for some hundred frames, and a pointer goes over it. The time of a frame is that of the
page's callbacks for it, without the drawing itself, which a graphics card does: without one, software does it, the map
draws fewer points while it moves, and `--drawing` waits until they are drawn.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

import bushel

_BUDGET = 1000 / 60

COUNTING = """
    window.frames_ = []; window.moves_ = []; window.sent_ = 0; window.points_ = 0;
    const asked = window.asked_ = window.requestAnimationFrame.bind(window);
    window.requestAnimationFrame = (work) => asked((time) => {
        window.sent_ = window.points_ = 0;
        const started = performance.now();
        work(time);
        if (!window.points_) return;
        const gl = DRAWING ? document.getElementById('points')?.getContext('webgl') : null;
        if (gl) gl.readPixels(0, 0, 1, 1, gl.RGBA, gl.UNSIGNED_BYTE, new Uint8Array(4));
        window.frames_.push([performance.now() - started, window.sent_, window.points_]);
    });
    const types = WebGLRenderingContext.prototype, draw = types.drawArrays;
    types.drawArrays = function (kind, first, count) {
        window.points_ += count;
        return draw.call(this, kind, first, count);
    };
    for (const name of ['bufferData', 'bufferSubData', 'texImage2D', 'texSubImage2D']) {
        const own = types[name];
        types[name] = function (...values) {
            for (const value of values) if (value?.byteLength) window.sent_ += value.byteLength;
            return own.apply(this, values);
        };
    }
    const listen = EventTarget.prototype.addEventListener;
    EventTarget.prototype.addEventListener = function (kind, work, ...more) {
        if (kind !== 'pointermove' || typeof work !== 'function') return listen.call(this, kind, work, ...more);
        return listen.call(this, kind, (event) => {
            const started = performance.now();
            work(event);
            window.moves_.push(performance.now() - started);
        }, ...more);
    };
"""
MOVING = """(frames) => new Promise((done) => {
    const canvas = document.getElementById('points');
    const keys = ['ArrowLeft', '+', 'ArrowUp', '-', 'ArrowRight', 'ArrowDown'];
    let left = frames;
    window.frames_ = [];
    const started = performance.now();
    const next = () => {
        if (!left--) { done(performance.now() - started); return; }
        canvas.dispatchEvent(new KeyboardEvent('keydown', { key: keys[left % keys.length], bubbles: true }));
        window.asked_(() => setTimeout(next, 0));
    };
    next();
})"""


def measure(url: str, frames: int, *, drawing: bool) -> dict[str, Any]:
    """Return times in milliseconds and bytes."""
    with sync_playwright() as driver:
        path = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        page.add_init_script(COUNTING.replace("DRAWING", str(drawing).lower()))
        page.goto(f"{url.rstrip('/')}/d/0/map")
        page.wait_for_selector("#points[data-drawn='WebGL']", timeout=120_000)
        page.wait_for_timeout(500)
        wall = page.evaluate(MOVING, frames)
        drawn = page.evaluate("window.frames_")
        box = page.locator("#points").bounding_box()
        for step in range(frames):
            page.mouse.move(box["x"] + 20 + (step * 7) % (box["width"] - 40), box["y"] + box["height"] / 2)
        moves = page.evaluate("window.moves_")
        browser.close()
    times = sorted(each[0] for each in drawn)
    return {
        "frames": len(drawn),
        "median": statistics.median(times),
        "99 of 100": times[int(0.99 * (len(times) - 1))],
        "bytes": max(each[1] for each in drawn),
        "points": statistics.median(each[2] for each in drawn),
        "pointer": statistics.median(moves),
        "wall": wall / frames,
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=100_000)
    parser.add_argument("--frames", type=int, default=600)
    parser.add_argument(
        "--drawing", action="store_true", help="wait until the points are drawn, with or without a graphics card"
    )
    options = parser.parse_args()
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        with bushel.Writer(Path(folder, "data"), {"label": "int"}, container="bag", sync=False) as writer:
            for number in range(options.points):
                writer.append({"label": number % 10})
        bushel.index(Path(folder, "data"), columns=["label"]).close()
        np.save(Path(folder, "places.npy"), rng.normal(size=(options.points, 2)).astype(np.float32))
        with bushel.view(Path(folder, "data"), embeddings=Path(folder, "places.npy")) as viewer:
            found = measure(viewer.url, options.frames, drawing=options.drawing)
    print(f"{options.points:,} points, {found['frames']} frames of {_BUDGET:.1f} ms at 60 a second")
    print(f"the page's code for a frame   {found['median']:8.3f} ms, 99 of 100 at most {found['99 of 100']:.3f} ms")
    print(f"sent to the graphics card     {found['bytes']:8,} bytes")
    print(f"points drawn while it moves   {found['points']:8,.0f}")
    print(f"the nearest point to a pointer{found['pointer']:8.3f} ms")
    print(f"between two frames            {found['wall']:8.1f} ms, with what draws here")


if __name__ == "__main__":
    main()
