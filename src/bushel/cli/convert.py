"""`bushel convert`."""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import Struct
from msgspec.structs import asdict

from .command import Option
from .options import (
    ModeOptions,
    OutputOptions,
    Path,
    SplitOptions,
    Target,
    TrustOptions,
    View,
    pairs,
)
from .packoptions import functions
from .runs import RunOptions, tell_of_run


class ChangeOptions(Struct, frozen=True):
    """The samples and fields of the new dataset, and how they differ from the old ones."""

    view: View = None
    fields: Annotated[str | None, Option("Fields to keep, such as image,label. [default: all]")] = (
        None
    )
    rename: Annotated[list[str] | None, Option("OLD=NEW: Rename a field; may be repeated.")] = None
    spec: Annotated[
        list[str] | None,
        Option("FIELD=TYPE: A new type, such as label=int; may be repeated."),
    ] = None
    transform: Annotated[
        list[str] | None,
        Option(
            "FIELD=MODULE:FUNCTION: Changes the values of a field (by its new name); may be"
            " repeated."
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """Return the arguments of `bushel.convert`.

        Raises:
            BadParameter: An option has another form, or names no function.
        """
        return {
            "fields": None
            if self.fields is None
            else [name for name in self.fields.split(",") if name],
            "rename": pairs(self.rename, "--rename"),
            "spec": pairs(self.spec, "--spec"),
            "transforms": functions(self.transform),
        }


def command(
    source: Path,
    target: Target,
    *,
    changes: ChangeOptions,
    run: RunOptions,
    chosen: SplitOptions,
    modes: ModeOptions,
    trust: TrustOptions,
    shown: OutputOptions,
) -> None:
    r"""Write a dataset in another container, or with other fields, types or shards.

    Keys and order stay the same. Bytes that both containers store alike are copied: no JPEG is
    encoded again.

    Examples:
      bushel convert 'train-{000..146}.tar' out/ --container bag --shard-bytes 1GB
      bushel convert train/ clean/ --container tar --view clean
      bushel convert frames/ images.tar --fields frames --rename frames=jpg \
        --spec frames=jpg
      bushel convert texts/ tokens/ --rename text=tokens --spec text=array \
        --transform tokens=tokenizer:encode
    """
    mode = modes.mode()
    run.parts.check()
    import bushel
    from bushel._dataset.open.open import open_any

    from .output import resumable

    opened = open_any(
        chosen.files(source, ask=True), verify=True, **asdict(trust), view=changes.view
    )
    with resumable(target):
        result = bushel.convert(
            opened, target, **changes.arguments(), mode=mode, **run.arguments(shown)
        )
    tell_of_run(target, result, run.parts, shown)
