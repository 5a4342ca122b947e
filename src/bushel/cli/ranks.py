"""What the ranks of a training run got: `bushel who` and `bushel audit`."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from msgspec import Struct
from msgspec.structs import asdict

import bushel

from .command import Argument, Option
from .options import Json, Kind, OutputOptions, Path
from .output import wrong_option


class OrderOptions(Struct, frozen=True):
    """Options of the loader that its state does not have.

    Attributes:
        lengths: For packs and chunks: the column of the lengths, such as tokens.length.
        drop_last: The loader has drop_last=True.
        pad: The loader's pad=.
    """

    lengths: str | None = None
    drop_last: bool = False
    pad: Literal["wrap"] | None = None


class StepOptions(Struct, frozen=True):
    """The step or the sample that is asked for.

    Attributes:
        key: Print the steps that have this sample instead.
    """

    step: Annotated[int | None, Option("Step, counted from the start of the epoch.", min=0)] = None
    rank: Annotated[int, Option("Rank.", min=0)] = 0
    key: str | None = None
    epoch: Annotated[int | None, Option("Epoch. [default: the state's]", min=0)] = None


def who(
    path: Path,
    *,
    state: str,
    batch_size: Annotated[int, Option("Batch size on a rank.", min=1)],
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
    that, and names them. The orders of weights=, balance= and bucket_by= depend on values that a
    state does not have: ask the loader itself, by loader.who() and loader.when().

    Options:
        state: The state of the loader, saved as JSON.

    Examples:
      bushel who train/ --state state.json --batch-size 256 --world-size 8 \
        --step 340 --rank 3
      bushel who train/ --state state.json --batch-size 256 --key n01440764/10026
    """
    step, key = wanted.step or 0, wanted.key
    if (wanted.step is None) == (key is None):
        raise wrong_option(
            "--step", "give --step for the samples of a step, or --key for its steps"
        )
    from bushel._dataset.views.earlier import earlier_form
    from bushel.loader.plan.who import batch_of, keys_of, plan_of_state, steps_with
    from bushel.loader.state import LoaderState

    saved = LoaderState.from_dict(_read_state(state))
    paths = [path] if isinstance(path, str) else path
    opened = [bushel.open(location, container=container) for location in paths]
    dataset: Any = opened[0] if len(opened) == 1 else bushel.concat(opened)
    if saved.fingerprint != dataset.fingerprint:  # the dataset as it was when the state was saved
        earlier = earlier_form(dataset, saved.fingerprint)
        if earlier is not None:
            dataset = earlier.dataset
    plan = plan_of_state(saved, dataset, batch_size, world_size, **asdict(options))
    epoch = saved.epoch if wanted.epoch is None else wanted.epoch
    shown = OutputOptions(as_json=as_json)
    if key is None:
        rank = wanted.rank
        keys = keys_of(batch_of(plan, epoch, step, rank), dataset.keys)
        rows = (row if isinstance(row, str) else " ".join(row) for row in keys)
        shown.show({"epoch": epoch, "step": step, "rank": rank, "keys": keys}, *rows)
        return
    places = steps_with(plan, epoch, dataset.position(key))
    steps = [{"epoch": epoch, "step": at, "rank": of} for at, of in places]
    rows = (f"epoch {epoch}, step {at}, rank {of}" for at, of in places)
    shown.show({"key": key, "steps": steps}, *(rows if places else ["in no step"]))


def _read_state(path: str) -> Any:
    try:
        return json.loads(FilePath(path).read_text("utf-8"))
    except ValueError as error:
        raise wrong_option("--state", f"{path} is not JSON: {error}") from None


def audit(
    run: Annotated[str, Argument("The folder that bushel.audit.record(loader, RUN) filled.")],
    *,
    against: str | None = None,
    of: str | None = None,
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

    Options:
        against: A run that is to have the same samples at the same steps.
        of: The dataset whose samples are all to come.

    Examples:
      bushel audit runs/a --of train/
      bushel audit runs/resumed --against runs/whole
    """
    from bushel.audit import examine

    with nullcontext() if of is None else bushel.open(of) as dataset:
        keys = None if dataset is None else dataset.keys
        report = examine(run, against=against, keys=keys, samples=samples)
    findings = [
        {"epoch": finding.epoch, "problem": finding.is_problem, "text": finding.text}
        for finding in report.findings
    ]
    facts = {"run": run, "problems": len(report.problems), "findings": findings}
    OutputOptions(as_json).show(facts, str(report))
    return not report.problems
