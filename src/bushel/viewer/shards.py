"""The page of the shards: a map of them by size, and which of them have checksums."""

from __future__ import annotations

from typing import Any

from bushel._pictures.texts import plain_text

from .shelf import Shown
from .site import Pages, at

_LISTED = 200  # number of boxes that are listed, too
_BOXES = 2000  # largest number of boxes on the map; of more shards, each box stands for several


def shard_boxes(shown: Shown) -> list[dict[str, Any]]:
    """Return the boxes of the map, each for a shard or for several neighbouring ones.

    Returns:
        For each box: `number` of its first shard, `shards`, `name` (path of the first file),
        `samples`, `bytes` of all files, `first` (position of its first sample), `state`, which is
        `ok` (the checksums of all fields are recorded), `partly` or `damaged` (its structure is),
        and `note`, the description of an error.
    """
    shards, starts = shown.dataset.shards, shown.dataset.reader.starts
    step = max(1, -(-len(shards) // _BOXES))
    boxes = []
    for number in range(0, len(shards), step):
        group = [shards[position] for position in range(number, min(number + step, len(shards)))]
        stamps = [stamp for shard in group for stamp in shard.stamps]
        name = plain_text(str(group[0].path(0)))
        if len(stamps) > 1:
            name += f" and {len(stamps) - 1:,} more"
        state, note = "ok" if all(shard.checksums for shard in group) else "partly", ""
        damages = [shard.damage for shard in group if shard.damage is not None]
        if damages:
            state = "damaged"
            note = plain_text(f"{damages[0].error.message}: {damages[0].describe()}")
        boxes.append(
            {
                "number": number,
                "shards": len(group),
                "name": name,
                "samples": sum(shard.samples for shard in group),
                "bytes": sum(stamp.size for stamp in stamps),
                # of a dataset that is joined to the first one, positions are not known
                "first": int(starts[number]) if number < len(starts) - 1 else 0,
                "state": state,
                "note": note,
            }
        )
    return boxes


class ShardPages(Pages):
    """The handler of the page of shards."""

    @at("/d/{d:int}/shards")
    def shards(self, shown: Shown, request: Any) -> Any:
        """The map and the list of shards."""
        boxes, reader = shard_boxes(shown), shown.dataset.reader
        # whether positions count all stored samples, in their order
        whole = shown.dataset.selection.is_whole(int(reader.starts[-1]))
        return self._site.page(
            request,
            "shards.html",
            shown,
            info=shown.dataset.info,
            boxes=boxes,
            largest=max((box["bytes"] for box in boxes), default=1) or 1,
            listed=boxes[:_LISTED],
            whole=whole and reader.windows is None,
        )
