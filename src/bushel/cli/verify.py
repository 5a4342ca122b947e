"""`bushel verify`."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import click

from bushel._runtime.structs import Struct
from bushel.cli.command import Option
from bushel.cli.options import DatasetOptions, IndexPlace, MaxProblems, OutputOptions, Path, Pickle, ShardRunOptions

if TYPE_CHECKING:
    from bushel import VerifyResult


class CheckOptions(Struct, frozen=True):
    """Options for the checks of values."""

    checksums: Annotated[
        bool, Option("--checksums/--no-checksums", help="Read all bytes and compare them with their checksums.")
    ] = True
    decode: Annotated[bool, Option("--decode", help="Also decode every value.")] = False
    index: IndexPlace = None


class DigestOptions(Struct, frozen=True):
    """Options for the digest of a dataset."""

    digest: Annotated[
        bool, Option("--digest", help="Also compare all files with the digest that `bushel sign` wrote.")
    ] = False
    allowed_signers: Annotated[
        str | None, Option("--allowed-signers", help="Check the digest's signature by this file of ssh-keygen's keys.")
    ] = None
    signer: Annotated[str | None, Option("--signer", help="Who in that file must have signed.")] = None

    def check(self) -> None:
        """Check that the options go together. Raise BadParameter if they do not."""
        if (self.allowed_signers is None) != (self.signer is None):
            raise click.BadParameter("give --allowed-signers and --signer together", param_hint="--signer")


def command(
    path: Path,
    *,
    chosen: DatasetOptions,
    checks: CheckOptions,
    signed: DigestOptions,
    max_problems: MaxProblems = 1000,
    running: ShardRunOptions,
    pickle: Pickle = False,
    shown: OutputOptions,
) -> None:
    """Check a dataset: structure, index, checksums, keys.

    The dataset is not changed.

    Each problem is printed on one line. The last line contains "ok" only if all bytes were compared with a checksum.
    The exit code is 1 if there are problems; warnings (stale, unfinished) do not count.

    Examples:
      bushel verify train/
      bushel verify train/ --decode
      bushel verify train/ --digest --allowed-signers signers.txt --signer ann@example.com
    """
    signed.check()
    import bushel
    from bushel.cli.messages import with_options
    from bushel.cli.output import print_json, print_text, progress_bar

    with progress_bar("verifying", quiet=shown.quiet) as progress:
        found = bushel.verify(
            chosen.files(path),
            **{name: value for name, value in asdict(checks).items() if value is not None},
            container=chosen.container,
            **asdict(running),
            pickle=pickle,
            max_problems=max_problems,
            progress=progress,
        )
    if signed.digest or signed.signer is not None:
        signers = {"allowed_signers": signed.allowed_signers, "signer": signed.signer}
        wrong = bushel.check_digest(path, **signers, workers=running.workers)
        found = replace(found, problems=(*found.problems, *wrong))
    if shown.as_json:
        more = {"ok": found.ok, "verdict": found.verdict, "bytes_unchecked": found.bytes_unchecked}
        print_json({"path": path, **more, **asdict(found)})
        raise click.exceptions.Exit(0 if found.ok else 1)
    for problem in found.problems:
        print_text(with_options(f"warning: {problem}" if problem.warning else str(problem)))
    if not shown.quiet:
        print_text(f"{path}: {_summary(found)}")
        if checks.checksums and found.ok and found.verdict != "ok":
            print_text("`bushel index` records the checksums of bytes that have none.")
    raise click.exceptions.Exit(0 if found.ok else 1)


def _summary(found: VerifyResult) -> str:
    from bushel.cli.output import count, size

    unlisted = f" ({found.more:,} of them not listed)" if found.more else ""
    erased = f"; {count(found.erased, 'removed sample')} erased" if found.erased else ""
    digests = f"; {found.digests:,} SHA-256 compared" if found.digests else ""
    return (
        f"{found.verdict}{unlisted}; {count(found.shards, 'shard')}, {count(found.samples, 'sample')}, "
        f"{size(found.bytes_checked)} compared with checksums{digests}{erased}"
    )
