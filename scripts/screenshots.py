"""Take the screenshots of docs/view.md: `python scripts/screenshots.py docs`, after `scripts/browser.sh`.

The pictures in them are drawn here, so nobody else has rights in them.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFilter

import bushel

CLASSES = ("apple", "lemon", "lime", "orange", "plum")
COLOURS = ((190, 48, 44), (238, 206, 62), (120, 176, 60), (236, 138, 44), (96, 56, 120))
SAMPLES = 600
STEPS = """for (let k = 0; k < 20; k++)
    document.body.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true }))"""


@dataclass(frozen=True)
class Fruit:
    """A drawn picture, the number of its class, the boxes of its fruit (x, y, width, height), and their mask."""

    image: Image.Image
    label: int
    boxes: list[list[int]]
    mask: Image.Image


def fruit(number: int, rng: np.random.Generator) -> Fruit:
    """Draw a bowl of fruit."""
    label = int(rng.integers(0, len(CLASSES)))
    width, height = int(rng.integers(220, 420)), int(rng.integers(200, 340))
    ground = np.array([(222, 214, 198), (198, 208, 214), (206, 196, 188), (230, 226, 218)])[number % 4]
    rows = np.linspace(1.06, 0.72, height)[:, None, None]
    image = Image.fromarray((ground * rows).clip(0, 255).astype(np.uint8).repeat(width, axis=1))
    draw, mask = ImageDraw.Draw(image), Image.new("L", (width, height))
    boxes = []
    for _ in range(int(rng.integers(2, 6))):
        size = int(rng.integers(50, 110))
        x, y = int(rng.integers(10, width - size - 5)), int(rng.integers(height // 3, height - size + 10))
        colour = np.array(COLOURS[label]) * rng.uniform(0.85, 1.1)
        tall = int(size * (0.78 if CLASSES[label] in ("lemon", "lime") else 1))
        boxes.append([x, y, min(size, width - x), min(tall, height - y)])
        ImageDraw.Draw(mask).ellipse((x, y, x + size, y + tall), fill=1 + label)
        draw.ellipse((x + 6, y + tall - 12, x + size + 10, y + tall + 8), fill=tuple((ground * 0.6).astype(int)))
        for step in range(14):  # shading, from the edge to the light
            share = step / 13
            shade = tuple((colour * (0.62 + 0.5 * share)).clip(0, 255).astype(int))
            inset, shift = int(size * 0.42 * share), int(size * 0.12 * share)
            box = (x + inset - shift, y + inset * tall // size - shift, x + size - inset - shift)
            draw.ellipse((*box, y + tall - inset * tall // size - shift), fill=shade)
        if label in (0, 4):
            draw.line((x + size // 2, y + 4, x + size // 2 + 6, y - 12), fill=(84, 62, 40), width=4)
    return Fruit(image.filter(ImageFilter.GaussianBlur(0.8)), label, boxes, mask)


def datasets(root: Path) -> tuple[Path, ...]:
    """Write the datasets of the screenshots: one, one with damage and other bytes, an annotated one, and a sequence."""
    rng = np.random.default_rng(7)
    spec = {"image": "jpg(88)", "label": "int", "caption": "utf8", "embedding": "array", "meta": "json"}
    middles = rng.normal(size=(len(CLASSES), 12, 24)).astype(np.float32) * 0.7
    for name in ("fruit", "fruit-edited"):
        drawn = np.random.default_rng(11)
        with bushel.Writer(root / name, spec, container="tar", shard_samples=12) as writer:
            for number in range(SAMPLES if name == "fruit" else SAMPLES // 4):
                made = fruit(number, drawn)
                image, label = made.image, made.label
                if name != "fruit" and number % 5 == 2:
                    image = image.filter(ImageFilter.GaussianBlur(5))
                meta = {"camera": {"iso": int(100 * 2 ** (number % 5))}, "tags": [CLASSES[label], "bowl"]}
                writer.append(
                    {
                        "image": np.asarray(image),
                        "label": label,
                        "caption": f"a bowl of {CLASSES[label]}s, number {number}",
                        "embedding": middles[label] + rng.normal(size=(12, 24)).astype(np.float32),
                        "meta": meta,
                    },
                    key=f"{CLASSES[label]}/{number:05d}",
                )
        bushel.index(root / name, columns="auto").close()
    found = bushel.open(root / "fruit-edited")
    path, offset = found.location(40, "image")
    found.close()
    stat = os.stat(path)
    with open(path, "r+b") as file:
        file.seek(offset + 4000)
        file.write(bytes(64))
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    return root / "fruit", root / "fruit-edited", annotated(root / "fruit-annotated"), moving(root / "camera")


def moving(path: Path) -> Path:
    """Write two cameras that move over a picture, and the places where they are."""
    still = np.asarray(fruit(3, np.random.default_rng(5)).image.resize((480, 360)))
    with bushel.Writer(path, {"left": "jpg(88)[]", "right": "jpg(88)[]", "place": "array"}, container="bag") as writer:
        steps = np.linspace(0, 1, 60)
        x, y = 80 + 70 * np.sin(6.28 * steps), 60 + 50 * np.cos(9.4 * steps)
        views = [
            [still[int(b) :, int(a + shift) :][:240, :320] for a, b in zip(x, y, strict=True)] for shift in (0, 10)
        ]
        place = np.stack([x, y, 0.5 * x + y], axis=1).astype(np.float32)
        writer.append({"left": views[0], "right": views[1], "place": place}, key="pan")
    return path


def annotated(path: Path) -> Path:
    """Write a dataset with boxes and masks."""
    drawn = np.random.default_rng(11)
    spec = {"image": "jpg(88)", "caption": "utf8", "objects": "json", "mask": "png"}
    with bushel.Writer(path, spec, container="tar") as writer:
        for number in range(60):
            made = fruit(number, drawn)
            name = CLASSES[made.label]
            writer.append(
                {
                    "image": np.asarray(made.image),
                    "caption": f"a bowl of {name}s",
                    "objects": [{"bbox": box, "category": name} for box in made.boxes],
                    "mask": np.asarray(made.mask),
                },
                key=f"{name}/{number:05d}",
            )
    return path


def take(folder: Path) -> None:
    """Take the screenshots."""
    from playwright.sync_api import sync_playwright

    shots: tuple[tuple[str, str, str, str], ...] = (
        ("grid", "/d/0?where=image.width+%3E+300&sort=label", "light", ""),
        ("sample", "/d/0/s/17", "light", ""),
        ("annotations", "/d/2", "light", ""),
        ("play", "/d/3/play/0", "light", STEPS),
        ("shards", "/d/1/shards", "light", "document.getElementById('run').click()"),
        ("batches", "/d/0/batches?loader=train+224%2C+colours&epoch=1", "dark", ""),
        ("compare", "/d/0/compare?left=0:image&right=1:image", "dark", ""),
    )
    place = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with (
        tempfile.TemporaryDirectory() as temporary,
        sync_playwright() as driver,
        bushel.view(*datasets(Path(temporary))) as viewer,
    ):
        browser = driver.chromium.launch(executable_path=place, args=["--no-sandbox"])
        for name, path, scheme, script in shots:
            options: dict[str, Any] = {"viewport": {"width": 1280, "height": 800}, "color_scheme": scheme}
            page = browser.new_context(**options).new_page()
            page.goto(viewer.url)
            page.goto(viewer.url.rstrip("/") + path)
            page.wait_for_load_state("networkidle")
            if script:
                page.evaluate(script)
                page.wait_for_timeout(2500)
            page.screenshot(path=folder / f"view-{name}.jpg", type="jpeg", quality=82)
        browser.close()


if __name__ == "__main__":
    take(Path(sys.argv[1]))
