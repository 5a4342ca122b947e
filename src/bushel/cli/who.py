"""`bushel who`."""

from __future__ import annotations

import json
from pathlib import Path as FilePath
from typing import Annotated, cast

import click

from bushel.cli.command import Option
from bushel.cli.options import Json, Kind, Path

__all__ = ["command"]


def command(
    path: Path,
    *,
    state: Annotated[str, Option("--state", help="The state of the loader, saved as JSON.")],
    batch_size: Annotated[int, Option("--batch-size", min=1, help="Batch size of a rank.")],
    world_size: Annotated[int, Option("--world-size", min=1, help="Number of ranks.")] = 1,
    step: Annotated[int | None, Option("--step", min=0, help="Step, counted from the start of the epoch.")] = None,
    rank: Annotated[int, Option("--rank", min=0, help="Rank.")] = 0,
    key: Annotated[str | None, Option("--key", help="Print the steps that have this sample instead.")] = None,
    epoch: Annotated[int | None, Option("--epoch", min=0, help="Epoch. [default: that of the state]")] = None,
    lengths: Annotated[
        str | None, Option("--lengths", help="Of packs and chunks: the column of the lengths, such as tokens.length.")
    ] = None,
    drop_last: Annotated[bool, Option("--drop-last", help="The loader has drop_last=True.")] = False,
    pad: Annotated[str | None, Option("--pad", help="The loader has pad='wrap': wrap.")] = None,
    container: Kind = None,
    as_json: Json = False,
) -> None:
    """Print the keys of the samples that a rank had at a step, or the steps that had a sample.

    The order, its seed and the epoch come from a state that the loader saved. No data are read. Of a mixture, give the
    paths of all of its datasets, in their order. Each row of packs and chunks is a line.

    Examples:
      bushel who train/ --state state.json --batch-size 256 --world-size 8 --step 340 --rank 3
      bushel who train/ --state state.json --batch-size 256 --key n01440764/10026
    """
    if (step is None) == (key is None):
        raise click.BadParameter("give --step for the samples of a step, or --key for its steps", param_hint="--step")
    if pad not in (None, "wrap"):
        raise click.BadParameter(f"{pad!r}: expected wrap", param_hint="--pad")
    import bushel
    from bushel.cli.output import print_json, print_text
    from bushel.loader.order_of_state import plan_of_state
    from bushel.loader.plan import Pad
    from bushel.loader.state import LoaderState
    from bushel.loader.who import batch_of, keys_of, steps_with

    try:
        loaded = LoaderState.from_dict(json.loads(FilePath(state).read_text("utf-8")))
    except ValueError as error:
        raise click.BadParameter(f"{state} is not JSON: {error}", param_hint="--state") from None
    opened = [bushel.open(one, container=container) for one in ([path] if isinstance(path, str) else path)]
    dataset = opened[0] if len(opened) == 1 else bushel.concat(opened)
    end = cast("Pad", pad)
    plan = plan_of_state(loaded, dataset, batch_size, world_size, lengths=lengths, drop_last=drop_last, pad=end)
    own = loaded.epoch if epoch is None else epoch
    if key is not None:
        places = steps_with(plan, own, dataset.position(key))
        if as_json:
            print_json({"key": key, "steps": [{"epoch": own, "step": at, "rank": of} for at, of in places]})
        else:
            print_text("\n".join(f"epoch {own}, step {at}, rank {of}" for at, of in places) or "in no step")
        return
    keys = keys_of(batch_of(plan, own, step or 0, rank), dataset.keys)
    if as_json:
        print_json({"epoch": own, "step": step, "rank": rank, "keys": keys})
        return
    print_text("\n".join(one if isinstance(one, str) else " ".join(one) for one in keys))
