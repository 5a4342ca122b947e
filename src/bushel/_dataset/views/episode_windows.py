"""Windows of episodes, as LeRobot asks for them: each frame with its neighbours, at given distances in seconds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bushel._dataset.read.windows import PAD
from bushel.codecs import holds_elements
from bushel.containers import get_container
from bushel.errors import SpecError


def episode_windows(dataset: Any, deltas: Mapping[str, Iterable[float]]) -> Any:
    """Return the view of a dataset of episodes whose samples are frames with their neighbours.

    `deltas` has, by field, the seconds from the frame to each of its neighbours, such as
    `{"action": [0, 0.1]}`.

    Raises:
        SpecError: The frames have no rate.
        KeyError: The field does not exist.
        TypeError: A field has no frames, or an argument has another type.
        ValueError: No frame has one of the times.
    """
    if not isinstance(deltas, Mapping) or not deltas:
        raise TypeError(
            f"delta_timestamps={deltas!r}: expected fields and seconds, such as"
            f" {{'action': [0, 0.1]}}"
        )
    rates = set(map(_rate, dataset.shards))
    if len(rates) != 1:
        raise SpecError(f"delta_timestamps needs one rate of frames, found {sorted(rates)}")
    whole_fields = {
        name: [0.0]
        for name, kind in dataset.spec.items()
        if kind.endswith("[]") or holds_elements(kind)
    }
    delta = {**whole_fields, **deltas}
    windows = dataset.windows(next(iter(deltas)), delta=delta, times=rates.pop())
    # one frame is never outside
    padding = {name + PAD for name in whole_fields if name not in deltas}
    return windows.select_fields([name for name in windows.spec if name not in padding])


def _rate(shard: Any) -> float:
    rate = get_container(shard.container).rate(shard.shard)
    if rate is None:
        raise SpecError(
            f"delta_timestamps needs frames at a fixed rate, which {shard.container} does not have"
        )
    return rate
