"""What the ranks of a training run got: `bushel who` and `bushel audit`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal, NamedTuple

import click
from msgspec import Struct

import bushel

from .command import Argument, Option
from .options import Json, Kind, OutputOptions, Path
from .output import print_json, print_text


class OrderOptions(Struct, frozen=True):
    """Options of the loader that its state does not have."""

    lengths: Annotated[
        str | None,
        Option("For packs and chunks: the column of the lengths, such as tokens.length."),
    ] = None
    weights: Annotated[str | None, Option("The column of the loader's weights=.")] = None
    balance: Annotated[str | None, Option("The column of the loader's balance=.")] = None
    bucket_by: Annotated[str | None, Option("The column of the loader's bucket_by=.")] = None
    batch_tokens: Annotated[float | None, Option("The loader's batch_tokens=.")] = None
    drop_last: Annotated[bool, Option("The loader has drop_last=True.")] = False
    pad: Annotated[Literal["wrap"] | None, Option("The loader's pad=.")] = None

    def check(self, batch_size: str | None) -> None:
        """Check that the options go together. Raise BadParameter if they do not."""
        if batch_size is None and self.batch_tokens is None:
            raise click.BadParameter("give the batch size on a rank", param_hint="--batch-size")
        if self.bucket_by is None and (self.batch_tokens is not None or ":" in str(batch_size)):
            raise click.BadParameter(
                "sizes of batches by length need --bucket-by", param_hint="--batch-size"
            )


class StepOptions(Struct, frozen=True):
    """The step or the sample that is asked for."""

    step: Annotated[int | None, Option("Step, counted from the start of the epoch.", min=0)] = None
    rank: Annotated[int, Option("Rank.", min=0)] = 0
    key: Annotated[str | None, Option("Print the steps that have this sample instead.")] = None
    epoch: Annotated[int | None, Option("Epoch. [default: the state's]", min=0)] = None


def who(
    path: Path,
    *,
    state: Annotated[str, Option("The state of the loader, saved as JSON.")],
    batch_size: Annotated[
        str | None, Option("Batch size on a rank; with --bucket-by also such as 128:64,512:16.")
    ] = None,
    world_size: Annotated[int, Option("Number of ranks.", min=1)] = 1,
    wanted: StepOptions,
    options: OrderOptions,
    container: Kind = None,
    as_json: Json = False,
) -> None:
    r"""Print the keys of the samples that a rank had at a step, or the steps that had a sample.

    The order, its seed and the epoch come from a state that the loader saved. No data are read. For
    a mixture, give the paths of all of its datasets, in their order. Each row of packs and chunks
    is a line. If samples were removed from the dataset since, the answer is about the order before
    that, and names them.

    Examples:
      bushel who train/ --state state.json --batch-size 256 --world-size 8 \
        --step 340 --rank 3
      bushel who train/ --state state.json --batch-size 256 --key n01440764/10026
    """
    step, key = wanted.step or 0, wanted.key
    if (wanted.step is None) == (key is None):
        raise click.BadParameter(
            "give --step for the samples of a step, or --key for its steps", param_hint="--step"
        )
    options.check(batch_size)

    saved = _read_state(state)
    opened = [
        bushel.open(location, container=container)
        for location in ([path] if isinstance(path, str) else path)
    ]
    dataset = opened[0] if len(opened) == 1 else bushel.concat(opened)
    ends: dict[str, Any] = {"drop_last": options.drop_last, "pad": options.pad}
    size = None if batch_size is None else _batch_size(batch_size)
    columns = {
        "weights": options.weights,
        "balance": options.balance,
        "bucket_by": options.bucket_by,
    }
    if any(name is not None for name in columns.values()):  # their values are not in the state
        loader_options = {**columns, **ends, "batch_tokens": options.batch_tokens}
        order = _of_loader(dataset, saved, loader_options, size, world_size)
    else:
        order = _of_state(dataset, saved, {**ends, "lengths": options.lengths}, size, world_size)
    epoch = order.epoch if wanted.epoch is None else wanted.epoch
    shown = OutputOptions(as_json=as_json)
    if key is None:
        rank = wanted.rank
        keys = order.who(step, rank, epoch)
        rows = (row if isinstance(row, str) else " ".join(row) for row in keys)
        shown.show({"epoch": epoch, "step": step, "rank": rank, "keys": keys}, *rows)
        return
    places = order.when(key, epoch)
    steps = [{"epoch": epoch, "step": at, "rank": of} for at, of in places]
    rows = (f"epoch {epoch}, step {at}, rank {of}" for at, of in places)
    shown.show({"key": key, "steps": steps}, *(rows if places else ["in no step"]))


class _Order(NamedTuple):
    """The order of an epoch, by functions."""

    epoch: int
    who: Callable[[int, int, int], Sequence[str | list[str]]]  # of a step, a rank and an epoch
    when: Callable[[str, int], Sequence[tuple[int, int]]]  # of a key and an epoch


def _of_loader(
    dataset: Any, saved: Any, options: dict[str, Any], batch_size: Any, world_size: int
) -> _Order:
    """Return the order of a loader that is made again, for orders that depend on columns."""
    from bushel.loader.state import LoaderState

    seed = LoaderState.from_dict(saved).seed
    loader: Any = bushel.Loader(
        dataset, batch_size, seed=seed, rank=0, world_size=world_size, **options
    )
    loader.load_state_dict(saved, allow_removed=True)
    return _Order(
        loader.epoch,
        loader.who,
        lambda key, epoch: [place[1:] for place in loader.when(key, epoch)],
    )


def _of_state(
    dataset: Any, saved: Any, options: dict[str, Any], batch_size: Any, world_size: int
) -> _Order:
    """Return the order that a state names, of a dataset as it was when the state was saved."""
    from bushel._dataset.views.earlier import before_append, before_removal
    from bushel.loader.plan.who import batch_of, keys_of, plan_of_state, steps_with
    from bushel.loader.state import LoaderState

    loaded = LoaderState.from_dict(saved)
    if loaded.fingerprint != dataset.fingerprint:
        earlier = before_removal(dataset, loaded.fingerprint) or before_append(
            dataset, loaded.fingerprint
        )
        if earlier is not None:
            dataset = earlier.dataset
    plan = plan_of_state(loaded, dataset, batch_size, world_size, **options)
    return _Order(
        loaded.epoch,
        lambda step, rank, epoch: keys_of(batch_of(plan, epoch, step, rank), dataset.keys),
        lambda key, epoch: steps_with(plan, epoch, dataset.position(key)),
    )


def _batch_size(text: str) -> int | dict[float, int]:
    """Return a batch size, or the batch size of each largest length.

    Raises:
        click.BadParameter: The text is neither.
    """
    if re.fullmatch("[1-9][0-9]*", text):
        return int(text)
    if re.fullmatch(r"[0-9.]+:[1-9][0-9]*(,[0-9.]+:[1-9][0-9]*)*", text):
        return {
            float(length): int(size)
            for length, size in (pair.split(":") for pair in text.split(","))
        }
    raise click.BadParameter(
        f"{text!r}: expected a number from 1, or such as 128:64,512:16", param_hint="--batch-size"
    )


def _read_state(path: str) -> Any:
    try:
        return json.loads(FilePath(path).read_text("utf-8"))
    except ValueError as error:
        raise click.BadParameter(f"{path} is not JSON: {error}", param_hint="--state") from None


def audit(
    run: Annotated[str, Argument("The folder that bushel.audit.record(loader, RUN) filled.")],
    *,
    against: Annotated[
        str | None, Option("A run that is to have the same samples at the same steps.")
    ] = None,
    of: Annotated[str | None, Option("The dataset whose samples are all to come.")] = None,
    samples: Annotated[
        int | None, Option("How many samples are to come in an epoch.", min=1)
    ] = None,
    as_json: Json = False,
) -> bool:
    """Examine what any loader gave to each rank: shared, missing and repeated samples.

    bushel.audit.record records it, of any loader.

    The report says which samples ranks share or had twice, which never came, whether ranks have
    equal steps, whether a resumed epoch equals the uninterrupted one, and whether two runs agree.
    The exit code is 1 if there is a problem.

    Examples:
      bushel audit runs/a --of train/
      bushel audit runs/resumed --against runs/whole
    """
    from bushel.audit import examine

    with nullcontext() if of is None else bushel.open(of) as dataset:
        keys = None if dataset is None else dataset.keys
        report = examine(run, against=against, keys=keys, samples=samples)
    if as_json:
        findings = [
            {"epoch": finding.epoch, "problem": finding.is_problem, "text": finding.text}
            for finding in report.findings
        ]
        print_json({"run": run, "problems": len(report.problems), "findings": findings})
    else:
        print_text(str(report))
    return not report.problems
