"""Mixtures: several datasets by weight, loaded as one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableSequence, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from bushel._dataset.views.concat import concat
from bushel._dataset.views.dataset import Dataset
from bushel._runtime.arrays import I64, NO_NUMBERS, check_count, python_numbers, refuse_bools
from bushel._runtime.public import public
from bushel._runtime.scheduled import Point, Scheduled

if TYPE_CHECKING:
    from bushel.loader.decode.sample_transforms import SampleTransforms
    from bushel.transforms.by_field import Transforms

Until = Literal["first", "all"] | int
Schedule: TypeAlias = "Sequence[tuple[int, Mapping[str, float]]]"


SOURCE = "__source__"
"""The name of the dataset in each sample of a mixture."""


class Sources(Struct, frozen=True, eq=False):
    """The datasets of a mixture, one after another.

    Attributes:
        names: Their names; of those in a mixture that is mixed again, the names of both, as
            `text/web`.
        starts: int64[datasets], the number of samples before each.
        transforms: The transforms of each, instead of the loader's; None for the loader's. Once
            they are `planned`, empty if all have the transforms of the loader.
    """

    names: tuple[str, ...] = ()
    starts: I64 = NO_NUMBERS
    transforms: tuple[Any, ...] = ()

    def planned(self, usual: SampleTransforms, plan: Callable[[Any], SampleTransforms]) -> Sources:
        """Return the datasets with transforms as samples take them, given the planned ones of the loader."""
        if all(transforms is None for transforms in self.transforms):
            return replace(self, transforms=())
        steps = [
            usual if transforms is None else plan(transforms) for transforms in self.transforms
        ]
        return replace(self, transforms=tuple(steps))

    def numbers(self, samples: I64) -> I64:
        """Return the number of the dataset of each sample."""
        return np.searchsorted(self.starts, samples, side="right") - 1

    def names_of(self, samples: I64) -> list[str]:
        """Return the name of the dataset of each sample."""
        return [self.names[number] for number in self.numbers(samples).tolist()]

    def name(self, decoded: MutableSequence[Any], samples: I64) -> None:
        """Write the name of its dataset into each sample."""
        for sample, name in zip(decoded, self.names_of(samples), strict=True):
            if isinstance(sample, dict):
                sample[SOURCE] = name

    def runs(self, samples: I64, begin: int, stop: int) -> list[tuple[SampleTransforms, int, int]]:
        """Return the runs of samples of one dataset: its transforms, the place of the first of them, and the end."""
        numbers = self.numbers(samples[begin:stop])
        firsts = np.flatnonzero(np.diff(numbers, prepend=-1))
        bounds = [*(begin + firsts).tolist(), stop]
        chosen = [self.transforms[number] for number in numbers[firsts].tolist()]
        return list(zip(chosen, bounds, bounds[1:], strict=False))


@public("bushel.loader")
class Mixture(Struct, frozen=True):
    """Datasets by weight, as `mix` returns them. Give it to a `Loader`, or mix it again.

    Attributes:
        dataset: All of the datasets, one after another.
        order: The order of an epoch.
        sources: Their names and transforms.

    Examples:
        >>> mixture = bushel.mix({"cats": ds[:6], "dogs": ds[6:]}, weights={"cats": 1, "dogs": 3})
        >>> len(mixture.dataset), len(mixture)
        (12, 8)
    """

    dataset: Dataset
    order: Scheduled
    sources: Sources = Sources()

    def __len__(self) -> int:
        """Number of samples in an epoch."""
        return self.order.samples

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the datasets one after another. Weights and seed are in a state's version, not here."""
        return self.dataset.fingerprint

    def __repr__(self) -> str:
        order = self.order
        # of the outermost mixture
        names = dict.fromkeys(name.partition("/")[0] for name in self.sources.names)
        sizes = zip(names, order.sizes, strict=True)
        datasets = ", ".join(f"{name!r} of {size}" for name, size in sizes)
        first, *changes = order.points
        weights = f" by {' : '.join(f'{weight:g}' for weight in first[1])}"
        if changes:
            weights = f", {len(changes)} changes of weights"
        epoch = f"{len(self)} samples per epoch, seed {order.seed}"
        return f"<bushel.loader.Mixture: {datasets} samples{weights}; {epoch}>"


@public()
def mix(
    datasets: Mapping[str, Dataset | Mixture],
    weights: Mapping[str, float] | None = None,
    *,
    schedule: Schedule | None = None,
    ramp: bool = False,
    transforms: Mapping[str, Transforms] | None = None,
    seed: int = 0,
    until: Until = "first",
) -> Mixture:
    """Mix datasets by weight. Each has its share to within one sample at every point.

    Each dataset is read in a random order, pass after pass, another for each pass. The order is a
    pure function of (seed, epoch, position), so a loader over a mixture resumes like any other.
    Samples have the name of their dataset (`__source__`), weights may change, and training may
    resume with another future of the schedule.

    Args:
        datasets: A mapping of names to datasets or mixtures.
        weights: Name to weight, 0 or more, of every dataset. They need not add up to 1.
        schedule: Weights that change: pairs of a number of samples of the mixture, from 0, and the
            weights from there on, such as
            `[(0, {"web": 1}), (1_000_000, {"web": 0.5, "code": 0.5})]`. A name that is left out has
            the weight 0.
        ramp: Whether weights change evenly from one pair of the schedule to the next, instead of at
            once.
        transforms: Name to transforms, as `Loader(transforms=...)` takes them, for the samples of
            that dataset, instead of the loader's.
        seed: Seed of the order and of random transforms, 0 to 2**64 - 1.
        until: End of an epoch: `"first"` for the end of the first dataset to be read completely;
            `"all"` for the time when all datasets were read completely, the smaller ones more than
            once; or a number of samples. The next epoch continues where this one ends.

    Raises:
        ValueError: A weight is out of its range, a dataset is empty, no dataset is given, or
            `until` never comes.
        TypeError: An argument has another type.
        KeyError: A weight or a transform is for a name that is not mixed, or `weights` lacks a
            name.
        FormatError: A field is a sequence in only some of the datasets.

    Examples:
        >>> cats, dogs = ds.where("label == 0"), ds.where("label == 1")
        >>> mixture = bushel.mix({"cats": cats, "dogs": dogs}, weights={"cats": 0.75, "dogs": 0.25})
        >>> loader = bushel.Loader(mixture, batch_size=4)
        >>> loader.peek()["__source__"]
        ['cats', 'cats', 'dogs', 'cats']
    """
    seed, until = python_numbers(seed), python_numbers(until)
    if not isinstance(datasets, Mapping) or any(
        not isinstance(name, str) or "/" in name or not name for name in datasets
    ):
        raise TypeError(
            "mix takes a mapping of names, texts without '/', to datasets, and their weights by "
            'name: write bushel.mix({"web": a, "code": b}, weights={"web": 0.7, "code": 0.3})'
        )
    points = _points(datasets, weights, schedule)
    orders, parts, start = list[int | Scheduled](), list[Dataset](), 0
    names, starts, by_name = list[str](), list[int](), list[Any]()
    remaining = dict(transforms or {})
    for name, part in datasets.items():
        transform = remaining.pop(name, None)
        if isinstance(part, Mixture):
            dataset, inner = part.dataset, part.sources
            orders.append(part.order)
            names += [f"{name}/{inner_name}" for inner_name in inner.names]
            starts += (start + inner.starts).tolist()
            by_name += [
                transform if inner_transform is None else inner_transform
                for inner_transform in inner.transforms
            ]
        elif isinstance(part, Dataset):
            dataset = part
            orders.append(len(part))
            names.append(name)
            starts.append(start)
            by_name.append(transform)
        else:
            raise TypeError(
                f"mix: {name!r} is a {type(part).__name__}: "
                "expected a dataset, or a mixture; what ds.map would do, "
                "sample_transform= does, whose samples have their dataset's name (`__source__`)"
            )
        if not len(dataset):
            raise ValueError(f"a dataset of the mixture is empty: {name!r}")
        parts.append(dataset)
        start += len(dataset)
    if remaining:
        raise KeyError(
            f"transforms= has {next(iter(remaining))!r}, which is not mixed: {', '.join(datasets)}"
        )
    endless = Scheduled(tuple(orders), points, ramp, 0, seed)
    if isinstance(until, int):
        samples = until
    else:
        samples = _scheduled_length(endless, list(datasets), until)
    sources = Sources(tuple(names), np.array(starts, np.int64), tuple(by_name))
    return Mixture(concat(parts), replace(endless, samples=samples), sources)


def _points(
    datasets: Mapping[Any, Any], weights: Mapping[str, float] | None, schedule: Schedule | None
) -> tuple[Point, ...]:
    """Return the weights by number of draws."""
    if (weights is None) == (schedule is None):
        raise ValueError("a mixture needs weights= or schedule=, and not both")
    pairs = [(0, weights)] if schedule is None else list(schedule)
    if not datasets:
        raise ValueError("invalid weights []: a mixture needs datasets with finite weights above 0")
    if not pairs or pairs[0][0] != 0:
        raise ValueError("schedule=: the first pair must give the weights from 0 samples on")
    points: list[Point] = []
    least = 0
    for start, weights_there in pairs:
        at = check_count("schedule", start, least=least, most=(1 << 48) - 1, instead=", ascending")
        least = at + 1
        if not isinstance(weights_there, Mapping):
            raise TypeError(f"weights {weights_there!r}: expected a mapping of names to weights")
        if unknown := [name for name in weights_there if name not in datasets]:
            raise KeyError(
                f"a weight is for {unknown[0]!r}, which is not "
                f"mixed: the names are {', '.join(datasets)}"
            )
        refuse_bools(weights=[*weights_there.values()])
        values = tuple(float(weights_there.get(name, 0)) for name in datasets)
        if not all(0 <= value < float("inf") for value in values) or not sum(values):
            raise ValueError(
                f"invalid weights {dict(weights_there)}: "
                "expected finite weights from 0, and one above 0"
            )
        if schedule is None and (
            lacking := [name for name in datasets if name not in weights_there]
        ):
            raise KeyError(f"weights= has no weight for {lacking[0]!r}: 0 leaves it out")
        points.append((at, values))
    return tuple(points)


def _scheduled_length(
    order: Scheduled, names: Sequence[str], until: Literal["first", "all"]
) -> int:
    """Return the number of draws until the first set, or the last one, was read completely."""
    sizes = [source if isinstance(source, int) else source.samples for source in order.sources]
    if until == "first":
        ends = [order.draw_of(number, size) for number, size in enumerate(sizes)]
        return min(end for end in ends if end is not None)
    if until == "all":
        last = [order.draw_of(number, size - 1) for number, size in enumerate(sizes)]
        if never := [name for name, end in zip(names, last, strict=True) if end is None]:
            raise ValueError(
                f'until="all": {never[0]!r} is never read completely; give a number of samples'
            )
        return max(end for end in last if end is not None) + 1
    raise ValueError(f'unknown until={until!r}: expected "first", "all" or a number of samples')
