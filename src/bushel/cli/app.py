"""The command group."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from bushel import __version__
from bushel._runtime.public import did_you_mean

from .command import command_from, complete_files
from .output import WRONG_USE, guarded, say_json, stopped

_GROUPS = {
    "Look": {
        "info": "Describe a dataset: container, samples, fields, sizes, keys, checksums.",
        "view": "Look at datasets in a browser.",
        "ls": "List the keys of a dataset, in order.",
        "cat": "Print samples as lines of JSON.",
        "get": "Print a sample as JSON, or the stored bytes of one of its fields.",
        "who": "Print the keys of the samples that a rank had at a step, "
        "or the steps that had a sample.",
        "views": "List the views that are saved beside a dataset, or delete one.",
    },
    "Make": {
        "pack": "Pack images, videos, lists, arrays or files into a dataset.",
        "convert": "Write a dataset in another container, or with other fields, types or shards.",
        "split": "Divide a dataset into several datasets.",
        "merge": "Concatenate several datasets into one.",
        "card": "Describe a dataset for others: a data card in Markdown.",
    },
    "Check": {
        "verify": "Check a dataset: structure, index, checksums, keys.",
        "index": "Index a dataset, and store the index in `.bushel` beside it.",
        "repair": "Write the intact samples of a damaged dataset to a new one.",
        "remove": "Remove samples from a dataset, or restore them.",
        "diff": "Compare two datasets: samples that only one has, and fields that changed.",
        "audit": "Examine what any loader gave to each rank: shared, missing and repeated samples.",
    },
    "Scale": {
        "parts": "Show the progress of a run in parts: missing parts and errors.",
        "finish": "Join the parts of a run to one dataset: manifest, class names, error log.",
        "bench": "Measure how fast a dataset loads, and what limits it.",
    },
    "Commands of the original tools": {
        "im2rec-list": "Write lists of images for `bushel pack` and MXNet's im2rec.",
        "gulp2_20bn_json_videos": "Gulp videos listed in a JSON file.",
        "gulp2_20bn_csv_webm": "Gulp videos listed in a CSV file.",
        "gulp2_20bn_csv_jpeg": "Gulp folders of frames listed in a CSV file.",
        "gulp2_activitynet": "Gulp a subset of ActivityNet.",
        "gulp2_kinetics": "Gulp Kinetics.",
        "gulp2_image_folder": "Gulp images in a folder for each label.",
        "gulp2_image_list": "Gulp the images of a list.",
        "gulp2_video_folder": "Gulp videos in a folder for each label.",
        "gulp2_register_adapter": "Make a command line for an adapter.",
        "gulp2_sanity_check": "Check the files of a gulp directory.",
        "im2rec": "Make lists of images and MXNet record files (both im2rec tools).",
        "rec2idx": "Rebuild the index of an MXNet record file.",
        "tarp": "Make, split and shuffle WebDataset archives.",
        "widsindex": "Make an index of wids.",
    },
}
"""The commands by what they are for, in the order of the help, and what each does."""

_COMMANDS_OF_MODULES = {
    "bushel.cli.info": "info views card",
    "bushel.cli.ls": "view ls cat get",
    "bushel.cli.ranks": "who audit",
    "bushel.cli.pack": "pack convert split merge im2rec-list",
    "bushel.cli.check": "verify index repair diff",
    "bushel.cli.remove": "remove",
    "bushel.cli.runs": "parts finish",
    "bushel.cli.bench": "bench",
    "bushel.compat.gulpio2.commands": (
        "gulp2_20bn_json_videos gulp2_20bn_csv_webm gulp2_20bn_csv_jpeg gulp2_activitynet "
        "gulp2_kinetics gulp2_image_folder gulp2_image_list gulp2_video_folder "
        "gulp2_register_adapter gulp2_sanity_check"
    ),
    "bushel.compat.mxnet.commands": "im2rec rec2idx",
    "bushel.compat.webdataset.commands.tarp": "tarp",
    "bushel.compat.webdataset.commands.widsindex": "widsindex",
}
"""The modules of the commands, which are imported when a command is used.

A command is the function of its name. In `bushel.compat`, that function takes the arguments and
returns the exit code.
"""

_MODULE_OF = {
    name: module for module, names in _COMMANDS_OF_MODULES.items() for name in names.split()
}
_LISTED = {name: text for group in _GROUPS.values() for name, text in group.items()}
ORIGINALS = {
    name: module for name, module in _MODULE_OF.items() if module.startswith("bushel.compat")
}
_COMMANDS = {name: text for name, text in _LISTED.items() if name not in ORIGINALS}

_ELSEWHERE = {
    "cat": "head show print",
    "convert": "copy export",
    "info": "count describe size stats",
    "merge": "concat",
    "remove": "delete rm",
    "verify": "check fsck test validate",
    "view": "browse dedup duplicates",
}
"""Commands, and the words that other tools have for them."""

START = """\
bushel: read, check and write training data, and feed it to models

Look
  info PATH             what a dataset has: samples, fields, sizes, checksums
  view PATH             its samples in a browser
  ls, cat, get          its keys, samples as JSON, one sample or one value
  who, views            samples of a step, saved views
Make
  pack PATH TARGET      a dataset of images, videos, lists, arrays or files
  convert PATH TARGET   its samples in another container, or with other types
  split, merge          several datasets of one, or one of several
  card PATH             a data card
Check
  verify PATH           structure, index, checksums, keys
  index PATH            record checksums, so that verify finds any later damage
  repair, remove, diff  save intact samples, remove some, compare two datasets
  audit RUN             what any loader gave to each rank
Scale
  parts, finish         runs in parts on several machines
  bench PATH            how fast a dataset loads, and what limits it

`bushel COMMAND --help` describes a command, `bushel --help` lists all, also
the original tools: gulp2_*, im2rec, im2rec-list, rec2idx, tarp, widsindex."""
"""What `bushel` alone prints: the commands to start with."""


class _Group(click.Group):
    """The command group: Bushel's commands, and the commands of the original tools."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return list(_LISTED)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return one command."""
        if cmd_name in ORIGINALS:
            return _original(cmd_name)
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(_MODULE_OF[cmd_name])
        return command_from(guarded(getattr(module, cmd_name.replace("-", "_"))), cmd_name)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command that the arguments name. With `--json`, wrong use is reported as JSON, too.

        Ctrl-C while the command is imported, or its arguments are read, ends as while it runs.
        """
        as_json = "--json" in [*ctx._protected_args, *ctx.args]
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if not as_json:
                raise
            say_json("UsageError", error.format_message(), WRONG_USE)
            raise click.exceptions.Exit(WRONG_USE) from None
        except KeyboardInterrupt:
            raise stopped() from None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command that the arguments name."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = did_you_mean(args[0], self.list_commands(ctx), _ELSEWHERE).capitalize()
            raise click.UsageError(f"{error.message} {hint}".rstrip(), ctx) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the groups of commands into the help."""
        for title, rows in _GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(rows.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse a command line. Without any words, the commands to start with are printed."""
        if args or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        click.echo(START)
        raise click.exceptions.Exit(WRONG_USE)


def _original(name: str) -> click.Command:
    """Return a command that passes all its arguments to the drop-in, which parses them as the original did."""

    def call(arguments: tuple[str, ...]) -> None:
        run = getattr(import_module(ORIGINALS[name]), name)
        raise click.exceptions.Exit(run(list(arguments)))

    return click.Command(
        name,
        params=[
            click.Argument(
                ["arguments"], nargs=-1, type=click.UNPROCESSED, shell_complete=complete_files
            )
        ],
        callback=guarded(call),
        help=_LISTED[name],
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
    )


app = _Group(
    "bushel",
    help="Read, check and write training data in existing formats, and feed it to models.",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Exit codes: 0 fine, 1 problems found in the data, 2 wrong use, 130 stopped by Ctrl-C.",
)
click.version_option(__version__, message="%(version)s", help="Print the version.")(app)
