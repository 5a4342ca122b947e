"""`bushel who`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path as FilePath
from typing import Annotated, Any, cast

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
    weights: Annotated[str | None, Option("--weights", help="The column of the loader's weights=.")] = None,
    balance: Annotated[str | None, Option("--balance", help="The column of the loader's balance=.")] = None,
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
    from bushel.loader.order_of_state import plan_of_state
    from bushel.loader.plan import Pad
    from bushel.loader.state import LoaderState
    from bushel.loader.who import batch_of, keys_of, steps_with

    saved = _read_state(state)
    loaded = LoaderState.from_dict(saved)
    opened = [bushel.open(one, container=container) for one in ([path] if isinstance(path, str) else path)]
    dataset = opened[0] if len(opened) == 1 else bushel.concat(opened)
    end = cast("Pad", pad)
    own = loaded.epoch if epoch is None else epoch
    if weights is not None or balance is not None:  # their values are not in the state
        drawn: dict[str, Any] = {"weights": weights, "balance": balance, "drop_last": drop_last, "pad": end}
        ranks: dict[str, Any] = {"rank": 0, "world_size": world_size}
        loader: bushel.Loader[Any] = bushel.Loader(dataset, batch_size, seed=loaded.seed, **ranks, **drawn)
        loader.load_state_dict(saved)
        if key is not None:
            _print_steps(own, key, [place[1:] for place in loader.when(key, own)], as_json=as_json)
        else:
            _print_keys(own, step or 0, rank, loader.who(step or 0, rank, own), as_json=as_json)
        return
    plan = plan_of_state(loaded, dataset, batch_size, world_size, lengths=lengths, drop_last=drop_last, pad=end)
    if key is not None:
        _print_steps(own, key, steps_with(plan, own, dataset.position(key)), as_json=as_json)
    else:
        keys = keys_of(batch_of(plan, own, step or 0, rank), dataset.keys)
        _print_keys(own, step or 0, rank, keys, as_json=as_json)


def _read_state(path: str) -> Any:
    try:
        return json.loads(FilePath(path).read_text("utf-8"))
    except ValueError as error:
        raise click.BadParameter(f"{path} is not JSON: {error}", param_hint="--state") from None


def _print_steps(epoch: int, key: str, places: Sequence[tuple[int, int]], *, as_json: bool) -> None:
    from bushel.cli.output import print_json, print_text

    if as_json:
        print_json({"key": key, "steps": [{"epoch": epoch, "step": at, "rank": of} for at, of in places]})
    else:
        print_text("\n".join(f"epoch {epoch}, step {at}, rank {of}" for at, of in places) or "in no step")


def _print_keys(epoch: int, step: int, rank: int, keys: Sequence[str | list[str]], *, as_json: bool) -> None:
    from bushel.cli.output import print_json, print_text

    if as_json:
        print_json({"epoch": epoch, "step": step, "rank": rank, "keys": keys})
    else:
        print_text("\n".join(one if isinstance(one, str) else " ".join(one) for one in keys))
