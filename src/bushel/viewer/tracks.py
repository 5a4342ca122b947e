"""Values that play together: the elements of a sample, or the samples of an episode."""

from __future__ import annotations

from typing import Any

import numpy as np

from bushel._dataset.views.inside import column_of_view
from bushel.errors import BushelError

from .extents import stored_values
from .kinds import ShownField
from .rows import keys_of
from .shelf import Shown, plain_text
from .site import Pages, as_json_answer, at

_EPISODE, _TIME = "episode_index", "timestamp"
"""The columns of LeRobot that say to which episode a frame belongs, and when it was taken."""
_STEPS = 20_000  # samples of an episode that are played at most
_DRAWN, _CHANNELS = 1500, 32  # steps and channels of an array that are drawn
_RATE = 10.0


def is_played(shown: Shown) -> bool:
    """Return whether a sample can be played: an episode, a sequence of pictures, a clip, or a sound."""
    if _EPISODE in shown.dataset.columns:
        return True
    return any(
        (field.sequence and field.visual) or field.kind in ("clip", "audio")
        for field in shown.fields
    )


def episode_of(shown: Shown, position: int) -> range | None:
    """Return the positions of the samples around one that are of the same episode; None without episodes.

    Raises:
        IndexError: The position is out of range.
    """
    if _EPISODE not in shown.dataset.columns:
        return None
    if not 0 <= position < len(shown.dataset):
        raise IndexError(
            f"position {position} is out of range: the dataset has {len(shown.dataset)} samples"
        )
    numbers, _ = column_of_view(shown.dataset, _EPISODE)
    ends = np.flatnonzero(numbers[1:] != numbers[:-1]) + 1
    place = int(np.searchsorted(ends, position, side="right"))
    first = int(ends[place - 1]) if place else 0
    last = int(ends[place]) if place < len(ends) else len(numbers)
    start = max(first, min(position, last - _STEPS))
    return range(start, min(last, start + _STEPS))


def tracks_of(shown: Shown, position: int) -> dict[str, Any]:
    """Return the values that play together with a sample, as JSON values.

    Returns:
        `steps`, `rate` (steps in a second), `first` (the position of the first step; None without
        an episode), `start` (the step to begin with), `title`, `tracks` (each a `field`, a `kind`,
        which is `pictures`, `channels`, `audio` or `video`, and a `count` of steps), and `errors`,
        one text for each field that cannot be read.

    Raises:
        IndexError: The position is out of range.
    """
    episode = episode_of(shown, position)
    playback: dict[str, Any] = {
        "tracks": [],
        "errors": [],
        "rate": _RATE,
        "first": None,
        "start": 0,
    }
    for field in shown.fields:
        try:
            if episode is None:
                track = _of_sample(shown, field, position)
            else:
                track = _of_episode(shown, field, episode)
        except (BushelError, OSError, ValueError, LookupError) as error:
            playback["errors"].append(f"{field.name}: {plain_text(str(error))}")
            continue
        if track is not None:
            playback["tracks"].append({"field": field.name, **track})
    if episode is None:
        counts = [track["count"] for track in playback["tracks"] if "count" in track]
        playback["title"], playback["steps"] = (
            plain_text(keys_of(shown.dataset, [position])[0]),
            max(counts, default=1),
        )
        return playback
    number = int(column_of_view(shown.dataset, _EPISODE)[0][position])
    playback |= {
        "first": episode.start,
        "start": position - episode.start,
        "steps": len(episode),
        "title": f"episode {number}",
    }
    if _TIME in shown.dataset.columns and len(episode) > 1:
        times = column_of_view(shown.dataset, _TIME)[0][episode.start : episode.stop].astype(
            np.float64
        )
        step = float(np.median(np.diff(times)))
        playback["rate"] = 1 / step if np.isfinite(step) and step > 0 else _RATE
    return playback


def _of_sample(shown: Shown, field: ShownField, position: int) -> dict[str, Any] | None:
    if field.kind in ("clip", "audio") and not field.sequence:
        present = stored_values(shown.dataset, position, field.name) is not None
        if present:
            return {"kind": "video" if field.kind == "clip" else "audio"}
        return None
    if field.sequence:
        values = stored_values(shown.dataset, position, field.name) or []
        if field.kind == "image" and values:
            return {"kind": "pictures", "count": len(values)}
        return None
    if field.kind != "array":
        return None
    value = shown.dataset[position, [field.name]].get(field.name)
    array = None if value is None else np.asarray(value)
    if (
        array is None
        or array.dtype.kind not in "biuf"
        or array.ndim not in (1, 2)
        or len(array) < 2
    ):
        return None
    return _channels(array.reshape(len(array), -1))


def _of_episode(shown: Shown, field: ShownField, episode: range) -> dict[str, Any] | None:
    if field.kind in ("image", "frame") and not field.sequence:
        return {"kind": "pictures", "count": len(episode)}
    if field.kind == "array" and not field.sequence:
        step = max(1, -(-len(episode) // _DRAWN))
        samples = shown.dataset.read(list(episode)[::step], [field.name])
        values = [
            np.asarray(sample[field.name]).reshape(-1)
            for sample in samples
            if sample.get(field.name) is not None
        ]
        if (
            len(values) == len(samples)
            and len({len(vector) for vector in values}) == 1
            and values[0].dtype.kind in "biuf"
        ):
            return _channels(np.stack(values), len(episode))
    return None


def _channels(array: np.ndarray, count: int | None = None) -> dict[str, Any]:
    """Return an array (steps, channels) as a track; numbers that are not finite are None."""
    if count is None:
        count = len(array)
    thin = array[:: max(1, -(-len(array) // _DRAWN)), :_CHANNELS].astype(np.float64)
    rows = [
        [float(f"{number:.5g}") if np.isfinite(number) else None for number in row]
        for row in thin.tolist()
    ]
    return {
        "kind": "channels",
        "count": count,
        "values": rows,
        "hidden": max(0, array.shape[1] - _CHANNELS),
    }


class PlayPages(Pages):
    """The handlers of the player."""

    @at("/d/{d:int}/play/{position:int}")
    def page(self, request: Any) -> Any:
        """The player of a sample, or of the episode that it is of."""
        shown, position = self._site.shown(request), request.path_params["position"]
        key = plain_text(shown.key(position))
        return self._site.page(
            request, "play.html", shown, here="samples", position=position, key=key
        )

    @at("/api/{d:int}/tracks/{position:int}")
    def tracks(self, request: Any) -> Any:
        """Return the values that play together, as JSON."""
        return as_json_answer(tracks_of(self._site.shown(request), request.path_params["position"]))
