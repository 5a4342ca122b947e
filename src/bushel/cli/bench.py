"""`bushel bench`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Annotated, Any, Literal

from bushel._runtime.structs import Struct
from bushel.cli.command import Option
from bushel.cli.options import Allow, DatasetOptions, Json, Path, Workers


class TrainingOptions(Struct, frozen=True):
    """The batches to load, and how."""

    batch: Annotated[int, Option("--batch", "-b", min=1, help="Samples in a batch.")] = 256
    seconds: Annotated[float, Option("--seconds", min=0.05, help="Time to measure each stage.")] = 5.0
    fields: Annotated[list[str] | None, Option("--field", help="Read only this field; may be repeated.")] = None
    crop: Annotated[
        int | None,
        Option("--crop", min=1, help="Take random crops of this size and flip them at random, as in training."),
    ] = None
    shuffle: Annotated[Literal["exact", "blocks", "none"], Option("--shuffle", help="Order of the samples.")] = "exact"
    workers: Workers = None
    processes: Annotated[int, Option("--processes", min=0, help="Number of worker processes.")] = 0


def command(
    path: Path,
    *,
    chosen: DatasetOptions,
    training: TrainingOptions,
    allow_commands: Allow = False,
    as_json: Json = False,
) -> None:
    """Measure how fast a dataset loads, and what limits it.

    Reading and decoding are also measured alone: a loader cannot be faster than the slower of the two.

    Example:
      bushel bench train/ --crop 224
    """
    from bushel._dataset.open.open import open_any
    from bushel.cli.output import print_json, print_text
    from bushel.cli.stage_benchmarks import measure

    dataset = open_any(chosen.files(path), container=chosen.container, allow_commands=allow_commands, damaged="warn")
    batch, crop, fields = training.batch, training.crop, training.fields
    found = measure(
        dataset,
        batch,
        seconds=training.seconds,
        shuffle=None if training.shuffle == "none" else training.shuffle,
        transforms={} if crop is None else _crops(crop, fields or dataset.spec, dataset.spec),
        fields=fields,
        workers=training.workers,
        processes=training.processes,
    )
    rates: dict[str, Any] = {"storage": found.storage, "decode": found.decode, "whole": found.whole}
    if as_json:
        names = ("samples_per_second", "bytes_per_second")
        speeds = {name: {each: getattr(rate, each) for each in names} for name, rate in rates.items()}
        result = {"bound": found.bound, "share": found.share, "stats": asdict(found.stats), "advice": found.advice}
        print_json({"path": path, "batch": batch, **speeds, **result})
        return
    _print_rates(f"{path}, batches of {batch}", rates)
    stats = found.stats
    seconds_of = {name: getattr(stats, name) for name in ("storage", "decode", "transform", "collate", "waiting")}
    spent = ", ".join(f"{name} {value:.2f} s" for name, value in seconds_of.items())
    print_text(f"in {stats.seconds:.2f} s of loading, the time of all threads was: {spent}")
    print_text(found.advice)


def _crops(size: int, wanted: Collection[str], spec: Mapping[str, str]) -> dict[str, Sequence[Callable[..., Any]]]:
    """Return the transforms of training for the wanted image fields.

    Raises:
        ValueError: No wanted field holds images.
    """
    from bushel.codecs import holds_image
    from bushel.transforms import RandomHorizontalFlip, RandomResizedCrop

    names = [name for name, kind in spec.items() if name in wanted and holds_image(kind)]
    if not names:
        raise ValueError(f"--crop needs an image field; the fields are {', '.join(wanted) or 'unknown'}")
    return {name: [RandomResizedCrop(size), RandomHorizontalFlip()] for name in names}


def _print_rates(title: str, rates: Mapping[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table("", title=title, title_justify="left")
    for heading in ("samples/s", "MB/s"):
        table.add_column(heading, justify="right")
    for name, label in (("storage", "storage alone"), ("decode", "decoding alone"), ("whole", "the loader")):
        rate = rates[name]
        table.add_row(label, f"{rate.samples_per_second:,.0f}", f"{rate.bytes_per_second / 1e6:,.1f}")
    Console(highlight=False).print(table)
