"""Arguments and options that several commands share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from msgspec import Struct

if TYPE_CHECKING:
    from bushel import Dataset
    from bushel._writer.target import Mode
    from bushel.datasets import StreamDataset

from .command import Argument, Option
from .output import print_json, print_text, wrong_option

OnePath = Annotated[
    str,
    Argument(
        "A file, a folder, a glob or a brace pattern such as 'train-{000..146}.tar'; local, or a "
        "URL: s3://, gs://, az://, https://. Several files of one kind, or parts, are one dataset.",
        joins=True,
    ),
]
Path = Annotated[
    str,
    Argument(
        "A file, a folder, a glob or a brace pattern such as 'train-{000..146}.tar'; "
        "local, or a URL: s3://, gs://, az://, https://. Several paths are one dataset.",
        several=True,
    ),
]
Kind = Annotated[
    str | None,
    Option(
        "Container, such as tar or parquet, if the files do not imply it.",
        "--container",
        "-c",
    ),
]
Target = Annotated[
    str, Argument("New folder, or one file: out/train.tar, train.ffr, s3://bucket/train.rec.")
]
NewKind = Annotated[
    str | None,
    Option(
        "bag, tar, ffrecord, gulp or recordio. [default: from the suffix of TARGET, or the dataset there]",
        "--container",
        "-c",
    ),
]
Resume = Annotated[bool, Option("Continue an interrupted run with the same options.")]
Parts = Annotated[
    int | None, Option("Number of parts (TARGET/part-*); each is written exactly once.", min=1)
]
Workers = Annotated[int | None, Option("Number of threads.", min=1)]
MaxProblems = Annotated[int, Option("Number of problems to list.", min=1)]
IndexPlace = Annotated[
    str, Option("The folder of the index, if that is not the folder of the data.")
]
Pickle = Annotated[
    bool,
    Option("Use codecs that run code where the files name them, if you trust their author."),
]
Json = Annotated[bool, Option("Print JSON.", "--json")]
Quiet = Annotated[bool, Option("Show no progress bar and no summary.", "--quiet", "-q")]


class TrustOptions(Struct, frozen=True):
    """Options that let the files of a dataset run code.

    Attributes:
        allow_commands: Allow a PATH 'pipe:COMMAND', which runs the command.
    """

    allow_commands: bool = False
    pickle: Pickle = False


class ShardRunOptions(Struct, frozen=True):
    """Where shards are read, and by how many threads.

    Attributes:
        engine: Where shards are read: local, ray, dask, an address.
    """

    threads: Workers = None
    engine: str | None = None


class SplitOptions(Struct, frozen=True):
    """Options that choose files of a dataset of the Hugging Face Hub, or of a local copy.

    Attributes:
        config: Configuration of a dataset of the Hub (hf://), or of a local copy.
        split: Split of a dataset of the Hub, or of a folder of splits; 'all' joins these.
        revision: Branch, tag or commit of a dataset of the Hub. [default: main]
    """

    config: str | None = None
    split: str | None = None
    revision: str | None = None

    def files(self, source: str, *, ask: bool = False) -> Any:
        """Return the files that are chosen; the source itself, if no option is given and it names files.

        Args:
            source: What the user named.
            ask: Whether a folder of several splits is refused if none is named, instead of standing
                for all of them.

        Raises:
            BadParameter: The options do not suit the source.
            SpecError: The source has several splits, and none is named.
        """
        if self.revision is not None:
            from bushel.storage.objects.hub import HubPath

            if isinstance(source, list) or not HubPath.names_repository(source) or "@" in source:
                raise wrong_option(
                    "--revision", f"it is for hf://datasets/ORG/NAME, not for {source}"
                )
            source = f"{source.rstrip('/')}@{self.revision.replace('/', '%2F')}"
        if isinstance(source, list) and (self.config or self.split):
            raise wrong_option(
                "--config, --split", "they are for one dataset, not for several paths"
            )
        from bushel._dataset.open.sources import files_named, refuse_splits

        if ask and self.config is None and self.split is None:
            refuse_splits(source)
        return files_named(source, self.config, self.split)


class DatasetOptions(SplitOptions, frozen=True):
    """Options that choose files of a dataset, and the container that reads them."""

    container: Kind = None

    def opened(self, source: str, **options: Any) -> Dataset | StreamDataset:
        """Open the dataset or stream. Damaged shards cause warnings."""
        from bushel._dataset.open.open import open_any

        return open_any(self.files(source), container=self.container, on_damage="warn", **options)


View = Annotated[
    str | None,
    Option(
        "Only the samples and fields of the view of this name, which `bushel views` lists.",
    ),
]


class OutputOptions(Struct, frozen=True):
    """Options for what a command prints."""

    as_json: Json = False
    quiet: Quiet = False

    def show(self, facts: Any, *lines: str) -> None:
        """Print a result: its facts as JSON, or as lines of text, or nothing."""
        if self.as_json:
            print_json(facts)
        elif not self.quiet:
            print_text("\n".join(lines))


class SizeOptions(Struct, frozen=True):
    """Options for the sizes of shards.

    Attributes:
        shard_bytes: Size of a shard, such as 500MB; by default 1GiB in a folder.
    """

    shard_samples: Annotated[int | None, Option("Number of samples in a shard.", min=1)] = None
    shard_bytes: str | None = None


SameKind = Annotated[
    str | None,
    Option(
        "Container of the new datasets. [default: that of the source, or of the first one]",
        "--container",
        "-c",
    ),
]


class ShardOptions(SizeOptions, frozen=True):
    """Options for the files of a new dataset.

    Attributes:
        generation: Generation of a bag: B (Granular 0.20, 0.21) or C (0.22 and later).
    """

    generation: str | None = None


_MODES: tuple[Mode, ...] = ("append", "resume", "overwrite")


class ModeOptions(Struct, frozen=True):
    """Options for a dataset that exists at the target.

    Attributes:
        append: Add samples to the dataset at TARGET.
        overwrite: Replace the dataset at TARGET once the new one is complete.
    """

    append: bool = False
    resume: Resume = False
    overwrite: bool = False

    def mode(self) -> Mode:
        """Return the mode of `bushel.Writer`. Raise BadParameter if more than one of the options is given."""
        modes: list[Mode] = [mode for mode in _MODES if getattr(self, mode)]
        if len(modes) > 1:
            raise wrong_option(f"--{modes[0]}", f"--{modes[0]} and --{modes[1]} exclude each other")
        return modes[0] if modes else "create"


def names_in(text: str | None) -> list[str] | None:
    """Parse a list of names such as `image,label`; None if it is not given."""
    if text is None:
        return None
    return [name.strip() for name in text.split(",") if name.strip()]


def pairs(items: list[str] | None, option: str) -> dict[str, str]:
    """Parse `NAME=VALUE` options. Raise BadParameter if one has no name or value, or two have the same name."""
    values = dict[str, str]()
    for item in items or ():
        name, _, value = item.partition("=")
        if not name or not value:
            raise wrong_option(option, f"{item!r} should be NAME=VALUE")
        if name in values:
            raise wrong_option(option, f"{name!r} is given twice")
        values[name] = value
    return values
