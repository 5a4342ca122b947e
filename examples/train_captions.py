"""Learn which caption belongs to a photo: lines of JSON joined with a tar of photos, resumed in the middle of an epoch.

python examples/train_captions.py run                    trains two epochs, with a checkpoint after every tenth step
python examples/train_captions.py run --stop-after 25    stops there; the next call continues from the checkpoint
"""

from __future__ import annotations

import argparse
import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np

import bushel
from bushel.transforms import Resize

COLOURS = {"red": (220, 40, 40), "green": (40, 200, 40), "blue": (40, 40, 220), "white": (230, 230, 230)}
PLACES = {"left": (20, 4), "right": (20, 36), "top": (4, 20), "bottom": (36, 20)}
WORDS, CHOICES = (*COLOURS, *PLACES), list(map(" ".join, itertools.product(COLOURS, PLACES)))
SIDE, EVERY, EPOCHS, RATE = 8, 10, 2, 0.5


def write(folder: Path) -> None:
    """Write a tar of photos of squares, and lines of JSON with two captions of each."""
    random, lines = np.random.default_rng(0), list[str]()
    with bushel.Writer(folder / "photos.tar", {"jpg": "jpg"}, container="tar") as writer:
        for number in range(600):
            colour, place = str(random.choice(list(COLOURS))), str(random.choice(list(PLACES)))
            image, (top, left) = random.integers(0, 120, (64, 64, 3), np.uint8), PLACES[place]
            image[top : top + 24, left : left + 24] = COLOURS[colour]
            writer.append({"jpg": image}, key=f"train/{number:04d}")
            for caption in (f"a {colour} square at the {place}", f"at the {place}, there is something {colour}"):
                lines.append(json.dumps({"image": f"train/{number:04d}.jpg", "caption": caption}))
    (folder / "captions.jsonl").write_text("\n".join(random.permutation(lines)))


def numbers(batch: dict[str, Any]) -> tuple[Any, Any]:
    """Return the images of a batch as rows of numbers around 0, and which words are in each caption."""
    images = batch["jpg"].reshape(len(batch["jpg"]), -1) / 128 - 1
    return images, np.array([[word in caption for word in WORDS] for caption in batch["caption"]])


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description="Images and captions from JSON lines joined with a tar.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--stop-after", type=int)
    options = parser.parse_args()
    if not options.folder.exists():
        write(options.folder)
    lines, photos = (bushel.open(options.folder / name) for name in ("captions.jsonl", "photos.tar"))
    new, known = (bushel.join(lines, part, on="image") for part in (photos[:100], photos[100:]))
    small: dict[str, Any] = {"fields": ["jpg", "caption"], "transforms": {"jpg": Resize(SIDE)}}
    loader = bushel.Loader(known, 32, shuffle=True, seed=0, drop_last=True, **small)
    weights, steps, checkpoint = np.zeros((SIDE * SIDE * 3, len(WORDS))), 0, options.folder / "checkpoint.json"
    if checkpoint.exists():
        weights, steps, state = json.loads(checkpoint.read_text())
        loader.load_state_dict(state)
        print(f"going on at step {steps}")
    batches = itertools.chain.from_iterable(loader for _ in range(int(loader.state_dict()["epoch"]), EPOCHS))
    for images, words in map(numbers, itertools.islice(batches, options.stop_after)):
        chances = np.exp(images @ weights @ words.T)  # of each caption of the batch for each image
        same = (words @ words.T.astype(int)) == 2  # captions with the same two words
        wrong = chances / chances.sum(1, keepdims=True) - same / same.sum(1, keepdims=True)
        weights, steps = weights - RATE * images.T @ wrong @ words / len(images), steps + 1
        if steps % EVERY == 0:
            checkpoint.write_text(json.dumps([weights.tolist(), steps, loader.state_dict()]))
    right, (_, choices) = 0, numbers({"jpg": np.zeros((1, 1)), "caption": CHOICES})
    for images, words in map(numbers, bushel.Loader(new, 50, **small)):
        right += int((choices[(images @ weights @ choices.T).argmax(1)] == words).all(1).sum())
    print(f"{right} of {len(new)} photos get the right caption after {steps} steps; {np.abs(weights).sum():.6f}")


if __name__ == "__main__":
    main()
