"""Which options of `bushel pack` go with which sources: one that would do nothing is refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from bushel.sources import Source, Stream

__all__ = ["check_options", "image_types"]

_LAYOUTS = ("20bn-json", "20bn-csv-webm", "20bn-csv-jpeg", "kinetics", "activitynet")
_WITH_VIDEOS = ("videos", "table", *_LAYOUTS)
_KINDS: Mapping[str, Collection[str]] = {
    "--root": ("list", "table", "recipe", *_LAYOUTS),
    "--file": ("table",),
    "--columns": ("table",),
    "--exts": ("images", "files", "videos"),
    "--allow-commands": ("recipe",),
    "--rate": _WITH_VIDEOS,
    "--stride": _WITH_VIDEOS,
    "--clip": _WITH_VIDEOS,
}
_OF_IMAGES = ("--center-crop", "--color", "--encoding", "--inter-method", "--orient")
_OF_PIXELS = (*_OF_IMAGES, "--rate", "--stride", "--resize", "--quality", "--check", "--jpeg")


def check_options(kind: str, given: Collection[str], *, framed: bool) -> None:
    """Make sure that each of the options does something to this source.

    Args:
        kind: A name of `bushel.sources.opening.KINDS`.
        given: The options, such as `--root`.
        framed: Whether frames are taken of videos.

    Raises:
        BadParameter: One does not.
    """
    for option in given:
        kinds = _KINDS.get(option, (kind,))
        if kind not in kinds:
            raise typer.BadParameter(
                f"this source is of kind {kind}, and it is for {', '.join(kinds)}", param_hint=option
            )
        if "--clip" in given and option in _OF_PIXELS:
            raise typer.BadParameter("--clip stores videos as they are", param_hint=option)
        if framed and option in _OF_IMAGES:
            message = "frames of videos are changed by --rate, --stride, --resize and --quality only"
            raise typer.BadParameter(message, param_hint=option)
    if kind in _LAYOUTS and "--root" not in given:
        raise typer.BadParameter(f"a list of kind {kind} needs the folder of its videos", param_hint="--root")


def image_types(source: Source | Stream, encoding: str) -> dict[str, str]:
    """The new types of a source's fields of images, all of which are to be encoded alike.

    Raises:
        BadParameter: It has none.
    """
    from bushel.ingest.prepare import image_fields
    from bushel.spec import parse_spec

    fields = parse_spec(source.spec)
    names = [name for name in fields if name == "image" or name in image_fields(fields)]
    if not names:
        raise typer.BadParameter(f"there are no images in this source: it has {', '.join(fields)}", param_hint="SOURCE")
    return {name: f"{encoding}[]" if fields[name].sequence else encoding for name in names}
