"""Which options of `bushel pack` each kind of source accepts. An option without effect is an error."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from bushel.sources import Source, Stream

__all__ = ["allowed_errors", "check_options", "image_types"]

_LAYOUTS = ("20bn-json", "20bn-csv-webm", "20bn-csv-jpeg", "kinetics", "activitynet")
_WITH_VIDEOS = ("videos", "table", *_LAYOUTS)
_KINDS: Mapping[str, Collection[str]] = {
    "--root": ("list", "table", "recipe", *_LAYOUTS),
    "--file": ("table",),
    "--columns": ("table",),
    "--exts": ("images", "files", "videos", "sounds"),
    "--allow-commands": ("recipe",),
    "--rate": _WITH_VIDEOS,
    "--stride": _WITH_VIDEOS,
    "--clip": _WITH_VIDEOS,
}
_OF_IMAGES = ("--center-crop", "--color", "--encoding", "--inter-method", "--orient")
_OF_PIXELS = (*_OF_IMAGES, "--rate", "--stride", "--resize", "--quality", "--check", "--jpeg")


def check_options(kind: str, given: Collection[str], *, framed: bool) -> None:
    """Check that every option has an effect on this source.

    Args:
        kind: A name of `bushel.sources.opening.KINDS`.
        given: The options, such as `--root`.
        framed: Whether videos are stored as frames.

    Raises:
        BadParameter: An option has no effect.
    """
    for option in given:
        kinds = _KINDS.get(option, (kind,))
        if kind not in kinds:
            raise click.BadParameter(
                f"the option has no effect on a source of kind {kind}: it is for {', '.join(kinds)}", param_hint=option
            )
        if "--clip" in given and option in _OF_PIXELS:
            raise click.BadParameter(
                "the option has no effect with --clip, which stores videos unchanged", param_hint=option
            )
        if framed and option in _OF_IMAGES:
            message = "frames of videos take only --rate, --stride, --resize and --quality"
            raise click.BadParameter(message, param_hint=option)
    if kind in _LAYOUTS and "--root" not in given:
        raise click.BadParameter(f"a list of kind {kind} needs --root, the folder of its videos", param_hint="--root")


def image_types(source: Source | Stream, encoding: str) -> dict[str, str]:
    """Return new types for the image fields of a source, all with the codec `encoding`.

    Raises:
        BadParameter: The source has no image field.
    """
    from bushel.ingest.images import image_fields
    from bushel.spec import parse_spec

    fields = parse_spec(source.spec)
    names = [name for name in fields if name == "image" or name in image_fields(fields)]
    if not names:
        raise click.BadParameter(
            f"the source has no image field: its fields are {', '.join(fields)}", param_hint="SOURCE"
        )
    return {name: f"{encoding}[]" if fields[name].sequence else encoding for name in names}


def allowed_errors(text: str) -> int | float | None:
    """Parse `100`, `1%`, `0.01` or `all`.

    Raises:
        BadParameter: It is none of these.
    """
    if text == "all":
        return None
    try:
        if text.endswith("%"):
            return float(text[:-1]) / 100
        return float(text) if "." in text else int(text)
    except ValueError:
        message = f"{text!r} is not a number, a share such as 1%, or all"
        raise click.BadParameter(message, param_hint="--max-errors") from None
