"""What the campaign of kills kills: one class for each way to write a dataset.

A job writes `FOLDER/out` or `FOLDER/out.tar`; its sources are in another folder, which survives.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from tests._dataset.views.models import SPECS, Sample, make_samples

import bushel
from bushel._pack import merge
from bushel._writer.target import Mode

__all__ = ["JOBS", "Job", "data_path"]

COUNT = 32
SUFFIXES = {"tar": ".tar", "ffrecord": ".ffr", "recordio": ".rec"}
CONTAINERS = tuple(SPECS)
Options = Mapping[str, Any]


@dataclass(frozen=True)
class Job:
    """A way to write a dataset.

    Attributes:
        name: Its name on the command line.
        choices: Options, each with its possible values.
        prepare: Makes the sources in a folder, and what is in the target's folder before the first run.
        run: Writes the target from the sources. The last argument is whether an earlier run may have been killed.
        fixed: Options that are always the same.
    """

    name: str
    choices: Mapping[str, tuple[Any, ...]]
    prepare: Callable[[Path, Path, Options], None]
    run: Callable[[Path, Path, Options, bool], None]
    fixed: Mapping[str, Any] = field(default_factory=dict)

    def choose(self, rng: random.Random) -> dict[str, Any]:
        """Return options."""
        chosen = {name: rng.choice(values) for name, values in self.choices.items()}
        if chosen.get("single") and chosen["container"] not in SUFFIXES:
            chosen["single"] = False
        if chosen.get("single") and "parts" in chosen:
            chosen["parts"] = None
        return {**chosen, **self.fixed}


def data_path(folder: Path, options: Options) -> Path:
    """Return the path of the dataset that a job writes."""
    suffix = SUFFIXES.get(options["container"], "") if options.get("single") else ""
    return folder / f"out{suffix}" / str(options.get("inside", ""))


def _samples(container: str, seed: int = 0) -> list[Sample]:
    """Samples, some of them larger than a page, one larger than the writer's buffer."""
    samples = make_samples(container, COUNT, seed=seed)
    rng = random.Random(seed)
    for number, sample in enumerate(samples):
        if container != "gulp":
            sample["text"] = sample.get("text", "") + "x" * rng.choice([0, 0, 3000, 20_000])
        if container != "gulp" and number == 12:
            sample["parts"] = [rng.randbytes(1_200_000), b"small"]
    return samples


def _write(path: Path, container: str, seed: int = 0, **options: Any) -> None:
    with bushel.Writer(path, SPECS[container], container=container, sync=False, **options) as writer:
        for sample in _samples(container, seed):
            writer.append(sample)


def _write_again(path: Path, container: str, mode: Mode, options: Options) -> None:
    """Write the samples that all containers but gulp hold alike."""
    like = "gulp" if container == "gulp" else "bag"
    with bushel.Writer(path, SPECS[like], container=container, mode=mode, **_shards(options)) as writer:
        for sample in _samples(like):
            writer.append(sample)


def _shards(options: Options) -> dict[str, Any]:
    return {} if options.get("single") or not options.get("sharded") else {"shard_samples": 10}


def _nothing(sources: Path, folder: Path, options: Options) -> None:
    pass


# Writer


def _prepare_writer(sources: Path, folder: Path, options: Options) -> None:
    if options["append"] or options["overwrite"]:
        _write(data_path(folder, options), options["container"], seed=1, **_shards(options))


def _run_writer(sources: Path, folder: Path, options: Options, again: bool) -> None:
    path, before = data_path(folder, options), 0
    mode: Mode = "resume" if again else "create"
    if options["append"]:
        before, mode = COUNT, "resume" if again else "append"
    elif options["overwrite"]:
        mode = "overwrite"
    rng = random.Random()
    container = options["container"]
    with bushel.Writer(path, SPECS[container], container=container, mode=mode, **_shards(options)) as writer:
        for sample in _samples(options["container"])[len(writer) - before :]:
            writer.append(sample)
            if rng.random() < 0.1:
                writer.flush()


# another container in the place of a dataset with removed samples and saved views


def _prepare_replace(sources: Path, folder: Path, options: Options) -> None:
    path = data_path(folder, options)
    _write_again(path, options["before"], "create", options)
    bushel.open(path)[[4, 2, 20, 30]].save_view("four")
    _remove(folder, options)
    bushel.open(path).where("label < 70").save_view("few")


def _run_replace(sources: Path, folder: Path, options: Options, again: bool) -> None:
    _write_again(data_path(folder, options), options["container"], "overwrite", options)


# pack


def _prepare_photos(sources: Path, folder: Path, options: Options) -> None:
    for number in range(COUNT):
        path = sources / f"class {number % 4}" / f"{number:03d}.jpg"
        path.parent.mkdir(exist_ok=True, parents=True)
        pixels = np.random.default_rng(number).integers(0, 256, (24, 32 + number, 3), np.uint8)
        Image.fromarray(pixels).save(path, quality=90)
        if number % 11 == 5:
            path.write_bytes(b"not a photo" * number)


def _run_pack(sources: Path, folder: Path, options: Options, again: bool) -> None:
    bushel.pack(
        sources,
        data_path(folder, options),
        container=options["container"],
        mode="resume" if again else "create",
        threads=2,
        processes=options["processes"],
        parts=options["parts"],
        shuffle=options["shuffle"],
        max_errors=None,
        **_shards(options),
    )


# convert, merge, repair, index


def _prepare_convert(sources: Path, folder: Path, options: Options) -> None:
    _write(sources / "in", "gulp" if options["container"] == "gulp" else "tar", shard_samples=9)


def _run_convert(sources: Path, folder: Path, options: Options, again: bool) -> None:
    mode: Mode = "resume" if again else "create"
    path = data_path(folder, options)
    bushel.convert(
        _filled(sources / "in"), path, container=options["container"], threads=2, mode=mode, **_shards(options)
    )


def _filled(path: Path) -> Any:
    """A dataset without the samples that lack a field, as not every container holds them."""
    dataset = bushel.open(path)
    wanted = set(dataset.spec)
    return dataset[[number for number in range(len(dataset)) if wanted <= set(dataset[number])]]


def _prepare_merge(sources: Path, folder: Path, options: Options) -> None:
    for number in range(3):
        _write(sources / f"in{number}", options["container"], seed=number, shard_samples=30)


def _run_merge(sources: Path, folder: Path, options: Options, again: bool) -> None:
    mode: Mode = "resume" if again else "create"
    inputs = [sources / f"in{number}" for number in range(3)]
    merge(inputs, data_path(folder, options), container=options["container"], mode=mode, threads=2, **_shards(options))


def _prepare_repair(sources: Path, folder: Path, options: Options) -> None:
    _write(sources / "in", options["container"], shard_samples=25)
    largest = max((path for path in sources.rglob("*") if path.is_file() and ".bushel" not in path.parts), key=_size)
    data = bytearray(largest.read_bytes())
    data[len(data) // 2] ^= 0xFF
    largest.write_bytes(data)


def _size(path: Path) -> int:
    return path.stat().st_size


def _run_repair(sources: Path, folder: Path, options: Options, again: bool) -> None:
    bushel.repair(sources / "in", folder / "out", mode="resume" if again else "create", threads=2, shard_samples=10)


def _prepare_index(sources: Path, folder: Path, options: Options) -> None:
    _write(folder / "out", options["container"], **_shards(options))
    for sidecars in folder.rglob(".bushel"):
        shutil.rmtree(sidecars)


def _run_index(sources: Path, folder: Path, options: Options, again: bool) -> None:
    bushel.index(folder / "out", threads=2)


# split, remove, erase


def _run_split(sources: Path, folder: Path, options: Options, again: bool) -> None:
    mode: Mode = "resume" if again else "create"
    shares = {"first": 0.6, "second": 0.4}
    bushel.split(
        _filled(sources / "in"),
        folder / "out",
        shares,
        container=options["container"],
        mode=mode,
        threads=2,
        **_shards(options),
    )


def _prepare_remove(sources: Path, folder: Path, options: Options) -> None:
    _write(data_path(folder, options), options["container"], **_shards(options))


def _run_remove(sources: Path, folder: Path, options: Options, again: bool) -> None:
    _remove(folder, options)


def _remove(folder: Path, options: Options) -> None:
    bushel.remove(
        data_path(folder, options), keys=["k0/3", "k0/12", "k0/13", "k0/30"], reason="opt-out", ignore_missing=True
    )


def _prepare_erase(sources: Path, folder: Path, options: Options) -> None:
    _prepare_remove(sources, folder, options)
    _remove(folder, options)


def _run_erase(sources: Path, folder: Path, options: Options, again: bool) -> None:
    bushel.erase(data_path(folder, options))


_ALL = {"container": CONTAINERS}
_PACKED = {"container": CONTAINERS, "sharded": (True, False), "single": (False, False, True)}

JOBS = {
    job.name: job
    for job in (
        Job(
            "writer",
            {**_PACKED, "append": (False, False, True)},
            _prepare_writer,
            _run_writer,
            {"overwrite": False},
        ),
        Job("overwrite", _PACKED, _prepare_writer, _run_writer, {"overwrite": True, "append": False}),
        Job(
            "replace",
            {"container": CONTAINERS, "before": CONTAINERS, "sharded": (True, False)},
            _prepare_replace,
            _run_replace,
        ),
        Job(
            "pack",
            {**_PACKED, "parts": (None, None, 2), "shuffle": (False, True)},
            _prepare_photos,
            _run_pack,
            {"processes": 0},
        ),
        Job(
            "pack-processes",
            {**_PACKED, "shuffle": (False, True)},
            _prepare_photos,
            _run_pack,
            {"processes": 2, "parts": None},
        ),
        Job("convert", _PACKED, _prepare_convert, _run_convert),
        Job("repair", _ALL, _prepare_repair, _run_repair),
        Job("index", {**_ALL, "sharded": (True, False)}, _prepare_index, _run_index),
        Job("merge", _PACKED, _prepare_merge, _run_merge),
        Job("split", {**_ALL, "sharded": (True, False)}, _prepare_convert, _run_split, {"inside": "first"}),
        Job("remove", _PACKED, _prepare_remove, _run_remove),
        Job("erase", _PACKED, _prepare_erase, _run_erase),
    )
}
