"""Examine a run: which samples ranks share or never had, whether they have equal steps, and whether runs agree."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

import msgspec
import numpy as np
import numpy.typing as npt

from bushel._runtime.arrays import U64
from bushel._runtime.messages import count, few

from .recordings import Stretch, digest, load_run, texts_of


class Finding(msgspec.Struct, frozen=True):
    """Something that is true of the recordings of a run.

    Attributes:
        epoch: The epoch that it is about.
        text: A sentence.
        is_problem: Whether it is wrong for nearly every training.
    """

    epoch: int
    text: str
    is_problem: bool


class Report(msgspec.Struct, frozen=True):
    """What `examine` found. Its text is what `bushel audit` prints.

    Attributes:
        title: The run, and how much was recorded.
        findings: In order of epochs.
    """

    title: str
    findings: list[Finding]

    @property
    def problems(self) -> list[Finding]:
        """The findings that are problems."""
        return [finding for finding in self.findings if finding.is_problem]

    def __str__(self) -> str:
        lines = [self.title]
        for finding in self.findings:
            mark = ("", "PROBLEM: ")[finding.is_problem]
            lines.append(f"epoch {finding.epoch}: {mark}{finding.text}")
        number = len(self.problems)
        lines.append(count(number, "problem") if number else "no problems")
        return "\n".join(lines)


class Samples:
    """The samples of an epoch: a row for each time that one was given to a rank.

    Attributes:
        digests: The digest of each row, ascending.
        ranks: The rank that had each.
        steps: The step at which it had it.
        stretches: The stretch of that step.
    """

    def __init__(self, stretches: list[Stretch]) -> None:
        digests: list[U64] = [np.empty(0, np.uint64)]
        places: list[tuple[int, int, int, int]] = []
        for number, stretch in enumerate(stretches):
            for (step, rank), samples in stretch.steps.items():
                digests.append(samples)
                places.append((len(samples), rank, step, number))
        columns = np.array(places, np.int64).reshape(-1, 4).T
        joined = np.concatenate(digests)
        order = np.argsort(joined, kind="stable")
        self.digests = joined[order]
        self.ranks, self.steps, self.stretches = (
            np.repeat(column, columns[0])[order] for column in columns[1:]
        )

    def repeated(self) -> npt.NDArray[np.int64]:
        """Return the rows whose sample is also in the row before."""
        return np.flatnonzero(self.digests[1:] == self.digests[:-1]) + 1


def examine(
    folder: str | os.PathLike[str],
    *,
    against: str | os.PathLike[str] | None = None,
    keys: Iterable[str | int] | None = None,
    samples: int | None = None,
) -> Report:
    """Examine what `record` noted of a run.

    Args:
        folder: The folder of the run.
        against: The folder of a run that is to have the same samples at the same steps: one with
            the same seed, or one that was not interrupted.
        keys: The keys of all samples, such as `ds.keys`, to find out which never came. They must be
            what `record` took for the keys.
        samples: The number of all samples, if their keys are not known.

    Raises:
        FileNotFoundError: A folder has no recordings.
        FormatError: A recording is damaged.
    """
    run = load_run(folder)
    other = None if against is None else load_run(against)
    named = None
    if keys is not None:
        named = {int.from_bytes(digest(key), "little"): key for key in texts_of(list(keys))}
    findings: list[Finding] = []
    orders: dict[bytes, int] = {}
    for epoch, stretches in run.items():
        rows = Samples(stretches)
        problems = [
            *_steps(stretches),
            *_repeats(rows, stretches),
            *_missing(rows, stretches, named, samples),
            *_same_order(stretches, epoch, orders),
        ]
        if other is not None:
            problems.extend(_differences(stretches, other.get(epoch, []), str(against)))
        findings.append(Finding(epoch, _summary(rows, stretches), is_problem=False))
        findings.extend(Finding(epoch, text, is_problem) for text, is_problem in problems)
    if other is not None:
        findings.extend(
            Finding(epoch, f"only {against} has this epoch", is_problem=True)
            for epoch in sorted(other.keys() - run.keys())
        )
    ranks = max(stretch.world_size for stretches in run.values() for stretch in stretches)
    return Report(f"{folder}: {count(ranks, 'rank')}, {count(len(run), 'epoch')}", findings)


Found = Iterator[tuple[str, bool]]


def _summary(rows: Samples, stretches: list[Stretch]) -> str:
    last = stretches[-1]
    steps = max(last.ends.values())
    samples, repeated = len(rows.digests), len(rows.repeated())
    counts = f"{count(steps, 'step')}, {count(samples, 'sample')}"
    if repeated:
        return f"{counts}, {samples - repeated:,} different ones"
    return f"{counts}, each of them once"


def _steps(stretches: list[Stretch]) -> Found:
    """Yield steps that ranks do not have, or did otherwise after a resume."""
    for stretch in stretches:
        absent = sorted(set(range(stretch.world_size)) - stretch.ranks)
        if absent:
            yield f"no recording of {_ranks(absent)} of {stretch.world_size}", True
        for rank, end in stretch.ends.items():
            steps = range(stretch.first, end)
            step = next((step for step in steps if (step, rank) not in stretch.steps), None)
            if step is not None:
                yield f"rank {rank} recorded no step {step}, but later ones", True
        for rank, step in sorted(stretch.unlike.items()):
            yield f"after a resume, rank {rank} was given other samples at step {step}", True
    last = stretches[-1]
    stopped, lengths = sorted(last.ranks - last.complete), last.ends
    if stopped:
        yield f"{_ranks(stopped)} stopped before the loader had ended", False
    elif len(set(lengths.values())) > 1:
        short, long = min(lengths, key=lengths.__getitem__), max(lengths, key=lengths.__getitem__)
        yield (
            (
                f"ranks have unequal steps: rank {long} has {lengths[long]:,}, rank {short} has "
                f"{lengths[short]:,}. The others wait for rank {short} in step {lengths[short]}"
            ),
            True,
        )


def _repeats(rows: Samples, stretches: list[Stretch]) -> Found:
    """Yield which samples came more than once, within a rank and in several."""
    repeated = rows.repeated()
    if not len(repeated):
        return
    last = max(stretches[-1].ends.values()) - 1
    is_padding = (rows.steps[repeated] == last) | (rows.steps[repeated - 1] == last)
    if is_padding.all() and rows.stretches[repeated].max() == len(stretches) - 1:
        number = len(repeated)
        yield f"{count(number, 'sample')} of the last step came before: it is padded", False
        return
    across = rows.ranks[repeated] != rows.ranks[repeated - 1]
    for chosen, what in ((repeated[across], "several ranks"), (repeated[~across], "one rank")):
        if len(chosen):
            first = chosen[np.argmin(rows.steps[chosen])]
            places = " and ".join(
                f"at step {rows.steps[row]} of rank {rows.ranks[row]}" for row in (first - 1, first)
            )
            times = count(len(chosen), "sample")
            yield f"{times} came more than once to {what}, the first of them {places}", True


def _missing(
    rows: Samples,
    stretches: list[Stretch],
    named: dict[int, str | bytes] | None,
    samples: int | None,
) -> Found:
    """Yield which samples never came. Fewer than a step of all ranks are what `drop_last` leaves out."""
    present = np.unique(rows.digests)
    last = stretches[-1]
    if last.ranks - last.complete or (named is None and samples is None):
        return
    if named is not None:
        expected = np.fromiter(named, np.uint64, len(named))
        absent = np.setdiff1d(expected, present)
        strange = len(np.setdiff1d(present, expected))
        if strange:
            yield f"{count(strange, 'sample')} came that the keys do not name", True
        number = len(absent)
        examples = ": " + few([str(named[int(number)]) for number in absent])
    else:
        number, examples = (samples or 0) - len(present), ""
    if number < 0:
        yield f"{count(-number, 'sample')} more came than there are", True
    elif number:
        text = f"{count(number, 'sample')} never came"
        if number < last.batch:
            yield f"{text} (less than a step of all ranks: dropped at the end?){examples}", False
        else:
            yield f"{text}{examples}", True


def _same_order(stretches: list[Stretch], epoch: int, orders: dict[bytes, int]) -> Found:
    """Yield whether an earlier epoch had the same samples at the same steps."""
    [stretch, *later] = stretches
    if later or stretch.first:
        return
    order = digest(b"".join(stretch.steps[place].tobytes() for place in sorted(stretch.steps)))
    before = orders.setdefault(order, epoch)
    if before != epoch:
        yield f"the same samples at the same steps as in epoch {before}: is it shuffled?", False


def _differences(stretches: list[Stretch], compared: list[Stretch], name: str) -> Found:
    """Yield how an epoch differs from that of another run."""
    if not compared:
        yield f"{name} has no such epoch", True
        return
    # the samples of a step are divided otherwise, if there are more or fewer ranks
    by_rank = len({stretch.world_size for stretch in (*stretches, *compared)}) == 1
    places, other_places = _by_place(stretches, by_rank), _by_place(compared, by_rank)
    for place in sorted(places.keys() & other_places.keys()):
        if not np.array_equal(places[place], other_places[place]):
            of_run, of_other = (np.unique(Samples(run).digests) for run in (stretches, compared))
            text = f"samples differ from {name} from step {place[0]} on"
            if np.array_equal(of_run, of_other):
                yield f"{text}: the same ones in another order", True
            else:
                yield f"{text}: not the same ones", True
            return
    steps, other_steps = {step for step, _ in places}, {step for step, _ in other_places}
    common = len(steps & other_steps)
    if not common:
        yield f"no step is in both this run and {name}", True
    elif common == len(steps) == len(other_steps):
        yield f"all steps have the same samples as {name}", False
    else:
        yield f"the {count(common, 'step')} of both have the same samples as {name}", False


def _by_place(stretches: list[Stretch], by_rank: bool) -> dict[tuple[int, int], U64]:
    """Return the samples of each step and rank, or of all ranks together, in the order of their digests."""
    places: dict[tuple[int, int], U64] = {}
    for stretch in stretches:
        if by_rank:
            places |= stretch.steps
            continue
        for (step, _), samples in stretch.steps.items():
            together = np.append(samples, places.get((step, 0), samples[:0]))
            places[step, 0] = np.sort(together)
    return places


def _ranks(ranks: list[int]) -> str:
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    return "ranks " + few(list(map(str, ranks)))
