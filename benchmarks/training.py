"""Benchmark of training: is the GPU ever waiting for the Loader? ResNet-50 and a small vision transformer, bfloat16.

    python benchmarks/training.py --out training.json      200 steps of 256 photos of 224 pixels, on the GPU
    python benchmarks/training.py --large                  photos of 1920 x 1080, without Pillow
    python benchmarks/training.py --small                  few small steps; also on the CPU, to try the program

Runs of each network, in turns: one whose every step uses the same batch on the device (the limit), one that a Loader
feeds with `device=` and page-locked memory, two whose Loader lets the GPU decode, too (`decode="device"`), and one that
a torch DataLoader with Pillow feeds. "waiting" is the part of the time in which the device had no work, by events that
the device itself records between steps. `--trace FILE` writes a timeline of ten steps (chrome://tracing, Perfetto), and
prints how much of the copies to the device happened while it computed. `taskset -c 0-3` gives it four processors.

The networks are made here, so torch is all that is needed; their weights start at random, and nothing is evaluated.
"""

from __future__ import annotations

import itertools
import os
import site
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.table import Table
from torch import nn

import bushel
import crops
import device as gpu_photos
from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop
from measure import console, machine, options_parser, save
from served import PEERS

site.addsitedir(str(PEERS))  # has crop.py, also for the processes of the DataLoader

import crop

SIDE = 224


class Bottleneck(nn.Module):  # type: ignore[misc]
    """A residual block of ResNet-50 (He et al. 2016; the stride is in the 3 x 3 convolution, as in torchvision)."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()

        def layer(into: int, out: int, kernel: int, step: int) -> list[nn.Module]:
            return [nn.Conv2d(into, out, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(out)]

        first, second, third = layer(inputs, width, 1, 1), layer(width, width, 3, stride), layer(width, 4 * width, 1, 1)
        self.body = nn.Sequential(*first, nn.ReLU(inplace=True), *second, nn.ReLU(inplace=True), *third)
        same = stride == 1 and inputs == 4 * width
        self.shortcut = nn.Identity() if same else nn.Sequential(*layer(inputs, 4 * width, 1, stride))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return relu(body(x) + shortcut(x))."""
        return torch.relu(self.body(x) + self.shortcut(x))


def resnet50() -> nn.Module:
    """Return ResNet-50: 25.6 million weights."""
    blocks: list[nn.Module] = []
    inputs = 64
    for width, depth, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for number in range(depth):
            blocks.append(Bottleneck(inputs, width, stride if number == 0 else 1))
            inputs = 4 * width
    stem = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    return nn.Sequential(*stem, *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, 1000))


class SmallViT(nn.Module):  # type: ignore[misc]
    """ViT-S/16 (Touvron et al. 2021): 12 layers of width 384 with 6 heads; mean of the patches, 22 million weights."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 384, 16, 16)
        self.position = nn.Parameter(torch.zeros(1, (SIDE // 16) ** 2, 384))
        layer = nn.TransformerEncoderLayer(384, 6, 1536, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
        self.head = nn.Linear(384, 1000)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Return 1000 logits for each image."""
        tokens = self.patches(x).flatten(2).transpose(1, 2) + self.position
        return self.head(self.layers(tokens).mean(1))


NETWORKS: dict[str, Callable[[], nn.Module]] = {"ResNet-50": resnet50, "ViT-S/16": SmallViT}


@dataclass(frozen=True, slots=True)
class Training:
    """Medians of the rounds of one way to feed a network.

    Attributes:
        images_per_second: Images per second.
        waiting: The part of the time in which the device had no work; None on the CPU, where it is unknown.
        cpu_ms: CPU time of the process per image, in milliseconds; without that of worker processes.
    """

    images_per_second: float
    waiting: float | None
    cpu_ms: float


class Trainer:
    """A network with its optimiser on a device."""

    def __init__(self, network: nn.Module, device: torch.device) -> None:
        self._device = device
        self._network = network.to(device, memory_format=torch.channels_last)
        self._optimizer = torch.optim.SGD(self._network.parameters(), 0.1, momentum=0.9)
        self._mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(1, 3, 1, 1) * 255
        self._deviation = torch.tensor([0.229, 0.224, 0.225], device=device).view(1, 3, 1, 1) * 255

    def step(self, images: torch.Tensor, labels: torch.Tensor) -> None:
        """Train with a batch: uint8[batch, height, width, 3] and int64[batch]."""
        x = ((images.permute(0, 3, 1, 2).float() - self._mean) / self._deviation).to(memory_format=torch.channels_last)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._device.type == "cuda"):
            loss = nn.functional.cross_entropy(self._network(x), labels)
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self._optimizer.step()

    def run(self, batches: Iterator[tuple[torch.Tensor, torch.Tensor]], steps: int) -> Training:
        """Train some steps after one that is not counted."""
        cuda = self._device.type == "cuda"
        self.step(*next(batches))
        busy: list[tuple[Any, Any]] = []
        if cuda:
            torch.cuda.synchronize()
        images, wall, cpu = 0, time.perf_counter(), time.process_time()
        for _ in range(steps):
            data, labels = next(batches)
            if cuda:
                start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                start.record()
            self.step(data, labels)
            if cuda:
                end.record()
                busy.append((start, end))
            images += len(labels)
        if cuda:
            torch.cuda.synchronize()
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        idle = sum(last[1].elapsed_time(one[0]) for last, one in itertools.pairwise(busy)) / 1e3
        return Training(images / wall, idle / wall if cuda else None, cpu / images * 1e3)


def same_batch(size: int, device: torch.device) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield one batch of random pixels again and again: the limit."""
    images = torch.randint(0, 256, (size, SIDE, SIDE, 3), dtype=torch.uint8, device=device)
    labels = torch.randint(0, 1000, (size,), device=device)
    while True:
        yield images, labels


def with_bushel(
    path: Path, size: int, device: torch.device, **options: Any
) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield shuffled batches of a Loader without end."""
    transforms: Any = {"image": [RandomResizedCrop(SIDE), RandomHorizontalFlip()]}
    options |= {"device": device, "pin_memory": True} if device.type == "cuda" else {}
    dataset = bushel.open(path)
    repeated = dataset[np.arange(1 << 20) % len(dataset)]  # an epoch as long as in real training
    loader = bushel.Loader(
        repeated, size, shuffle=True, seed=0, transforms=transforms, drop_last=True, to="torch", **options
    )
    while True:
        for batch in loader:
            yield batch["image"], torch.arange(size, device=device)


class Files(torch.utils.data.Dataset[tuple[torch.Tensor, int]]):  # type: ignore[misc]
    """Photos of a folder, decoded and cropped by Pillow as torchvision does."""

    def __init__(self, folder: Path) -> None:
        self._paths = sorted(folder.glob("*.jpg"))

    def __len__(self) -> int:
        return len(self._paths)

    def __getitem__(self, number: int) -> tuple[torch.Tensor, int]:
        image = crop.with_pillow(self._paths[number].read_bytes(), np.random.default_rng())
        return torch.from_numpy(np.array(image)), number % 1000


def with_pillow(path: Path, size: int, device: torch.device) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Yield shuffled batches of a torch DataLoader with Pillow without end."""
    threads = len(os.sched_getaffinity(0))
    loader = torch.utils.data.DataLoader(
        Files(path.with_name("files")),
        size,
        shuffle=True,
        num_workers=threads,
        drop_last=True,
        pin_memory=device.type == "cuda",
        persistent_workers=True,
    )
    while True:
        for images, labels in loader:
            yield images.to(device, non_blocking=True), labels.to(device, non_blocking=True)


FEEDS = {
    "same": "the same batch",
    "bushel": "bushel.Loader",
    "device": "bushel.Loader, the GPU decodes, too",
    "all": "bushel.Loader, the GPU decodes all",
    "pillow": "torch + Pillow",
}
FEED: dict[str, Callable[[Path, int, torch.device], Iterator[tuple[torch.Tensor, torch.Tensor]]]] = {
    "same": lambda _, size, device: same_batch(size, device),
    "bushel": with_bushel,
    "device": partial(with_bushel, decode="device"),
    "all": partial(with_bushel, decode="device"),
    "pillow": with_pillow,
}


def trace(trainer: Trainer, batches: Iterator[tuple[torch.Tensor, torch.Tensor]], steps: int, path: Path) -> None:
    """Write a timeline of a few steps."""
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as profile:
        trainer.run(batches, steps)
    profile.export_chrome_trace(str(path))
    console.print(f"timeline written to {path}")
    on_device = [one for one in profile.events() if one.device_type == torch.autograd.DeviceType.CUDA]
    spans = [(one.time_range.start, one.time_range.end) for one in on_device if not one.name.startswith("Mem")]
    computing = np.array(sorted(spans))
    copies = [one.time_range for one in on_device if one.name.startswith("Memcpy HtoD")]
    if copies:
        hidden = sum(_overlap(computing, one.start, one.end) for one in copies)
        total = sum(one.end - one.start for one in copies)
        console.print(f"copies to the device: {total / 1e3:.1f} ms, {hidden / total:.1%} of it while it computed")


def _overlap(spans: np.ndarray[Any, Any], start: float, end: float) -> float:
    """Return how much of the time from start to end is in at least one of the spans, which are sorted."""
    inside, at = 0.0, start
    for first, last in spans[(spans[:, 0] < end) & (spans[:, 1] > start)]:
        inside += max(0.0, min(last, end) - max(first, at))
        at = max(at, min(last, end))
    return inside


def median(rounds: list[Training]) -> Training:
    """Return the medians of several rounds."""
    waiting = [one.waiting for one in rounds if one.waiting is not None]
    return Training(
        statistics.median(one.images_per_second for one in rounds),
        statistics.median(waiting) if waiting else None,
        statistics.median(one.cpu_ms for one in rounds),
    )


def show(network: str, results: dict[str, Training]) -> None:
    """Print the results of a network."""
    table = Table("", title=network, title_justify="left")
    for heading in ("images/s", "of the limit", "waiting", "CPU ms/image"):
        table.add_column(heading, justify="right")
    limit = next(iter(results.values())).images_per_second
    for name, one in results.items():
        waiting = "" if one.waiting is None else f"{one.waiting:.1%}"
        rate = one.images_per_second
        table.add_row(name, f"{rate:,.1f}", f"{rate / limit:.3f}", waiting, f"{one.cpu_ms:.2f}")
    console.print(table)


def main() -> None:
    """Run the benchmark with the options of the command line."""
    parser = options_parser("Training that a Loader feeds.", "few small steps, to try the program")
    parser.add_argument("--photos", type=Path, help="a folder of JPEG files")
    parser.add_argument("--trace", type=Path, help="JSON file for a timeline of ten steps with the Loader")
    parser.add_argument("--networks", nargs="+", choices=tuple(NETWORKS), default=tuple(NETWORKS))
    parser.add_argument("--batch", type=int, help="images per batch (default: 256, small: 4)")
    parser.add_argument("--large", action="store_true", help="photos of 1920 x 1080, without Pillow")
    parser.add_argument("--feeds", nargs="+", choices=tuple(FEEDS), default=tuple(FEEDS))
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    cuda = torch.cuda.is_available()
    device = torch.device("cuda" if cuda else "cpu")
    skipped = {} if cuda else {"the GPU": "torch has none here: the CPU's figures say nothing of waiting"}
    if not cuda and not options.small:
        parser.error("torch has no GPU here; --small tries the program on the CPU")
    batch, steps, rounds = (options.batch or 4, 2, 1) if options.small else (options.batch or 256, options.steps, 3)
    case = crops.CASES[0]
    if options.large:
        path, feeds_of = gpu_photos.fill(options.photos), [one for one in options.feeds if one != "pillow"]
    else:
        path = crops.fill(case, case.images // 10 if options.small else case.images, options.photos) / "plain"
        feeds_of = options.feeds
    results: dict[str, dict[str, Training]] = {}
    for network in options.networks:
        torch.manual_seed(0)
        trainer = Trainer(NETWORKS[network](), device)
        feeds = {FEEDS[one]: FEED[one](path, batch, device) for one in feeds_of if one not in ("device", "all") or cuda}
        measured: dict[str, list[Training]] = {name: [] for name in feeds}
        for _ in range(rounds):
            for name, batches in feeds.items():
                measured[name].append(trainer.run(batches, steps))
        results[network] = {name: median(rounds_of) for name, rounds_of in measured.items()}
        show(network, results[network])
        if options.trace is not None and FEEDS["bushel"] in feeds:
            trace(
                trainer,
                feeds[FEEDS["bushel"]],
                min(steps, 10),
                options.trace.with_stem(f"{options.trace.stem}-{network[:3]}"),
            )
    figures: dict[str, Any] = {name: {feed: asdict(one) for feed, one in of.items()} for name, of in results.items()}
    if cuda:
        figures["gpu"] = torch.cuda.get_device_name(device)
    figures["processor"] = machine()["processor"]
    save(options.out, figures, skipped)


if __name__ == "__main__":
    main()
