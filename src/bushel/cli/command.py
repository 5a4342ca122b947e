"""Click commands made from annotated functions: `def command(path: Annotated[str, Argument("A folder.")])`."""

from __future__ import annotations

import inspect
import os
import re
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

import click

from bushel._runtime.messages import few
from bushel._runtime.public import PARAMETERS, instead_of

if typing.TYPE_CHECKING:
    from click.shell_completion import CompletionItem

QUIET = "bushel.quiet"
"""Key in the metadata of a click context: whether warnings are hidden."""
DEBUG = "bushel.debug"
"""Key in the metadata of a click context: whether an error is printed with its traceback."""


class Argument(NamedTuple):
    """A positional argument of a command.

    Args:
        help: Description.
        metavar: Name in the help; by default the name of the parameter in capitals.
        files: Whether a shell completes the names of files.
        several: Whether it can be repeated. The value is then a str or a `Several`.
        joins: Whether the files of one kind, or the parts, at the beginning of the line are its
            values, as when the shell expands a pattern, though other arguments follow. The value is
            then a str or a `Several`.
    """

    help: str
    metavar: str | None = None
    several: bool = False
    joins: bool = False
    files: bool = True


class Several(list[str]):
    """Several values of one argument."""

    def __str__(self) -> str:
        return few(self, 2)


class Option:
    """An option of a command. A bool makes it a flag, and a list makes it repeatable.

    Args:
        help: Description.
        names: Names, such as `--number` and `-n`; by default the name of the parameter, such as
            `--world-size`, or `--keys/--no-keys` for a bool that is True.
        min: Least value of a number.
        max: Greatest value of a number.
    """

    def __init__(
        self,
        help: str,
        *names: str,
        min: float | None = None,
        max: float | None = None,
    ) -> None:
        self.names, self.help, self.min, self.max = names, help, min, max


def complete_files(
    ctx: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """Let the shell complete the names of files."""
    from click.shell_completion import CompletionItem

    return [CompletionItem(incomplete, type="file")]


def command_from(function: Callable[..., None], name: str) -> click.Command:
    """Make a command with the parameters, the defaults and the docstring of a function.

    Args:
        function: The function. Each parameter is annotated with an `Argument` or an `Option`, or
            with a struct that groups options: each of its fields is annotated with an `Option` or
            another such struct, and the function gets an instance. An option is also described
            under `Options:` of the function's docstring, or `Attributes:` of the struct's.
        name: Name of the command.
    """
    parameters = [_parameter(parameter, hint) for parameter, hint, _ in _flat(function)]
    text = _OPTIONS.sub("", inspect.getdoc(function) or "")
    # a backspace before the examples makes click keep their lines
    text = re.sub(r"\n\n(?=Examples?:\n)", "\n\n\b\n", text)

    def call(**values: Any) -> None:
        function(**_arguments(function, values))

    names = {option for parameter in parameters for option in parameter.opts}
    for flags, help, callback in _EVERYWHERE:
        if flags[0] not in names:
            parameters.append(
                click.Option(flags, is_flag=True, expose_value=False, callback=callback, help=help)
            )
    command = _Command(name, params=parameters, callback=call, help=text)
    command.titles = {parameter.name: title for parameter, _, title in _flat(function)}
    return command


def _groups(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the parameters of a function, or the fields of a struct, that are groups of options, and their structs."""
    hints = typing.get_type_hints(function)
    return {name: kind for name, kind in hints.items() if hasattr(kind, "__struct_fields__")}


def _texts(function: Callable[..., Any]) -> dict[str, str]:
    """Return the descriptions of options in docstrings: of a function, or of a struct and its bases."""
    texts = {}
    # the bases of a struct first
    for kind in reversed(getattr(function, "__mro__", (function,))):
        for section in _OPTIONS.findall(inspect.cleandoc(kind.__doc__ or "")):
            for name, text in _OPTION.findall(section):
                texts[name] = " ".join(text.split())
    return texts


_OPTIONS = re.compile(r"\n\n(?:Attributes|Options):(?:\n {4}.*)+")
"""The section of a docstring that describes options."""
_OPTION = re.compile(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", re.MULTILINE)
"""An option in it: its name and its description."""


def _flat(
    function: Callable[..., Any], title: str = "Options"
) -> Iterator[tuple[inspect.Parameter, Any, str]]:
    """Yield the parameters of a function, their annotations and the titles of their groups."""
    hints, groups = typing.get_type_hints(function, include_extras=True), _groups(function)
    texts = _texts(function)
    for parameter in inspect.signature(function).parameters.values():
        if parameter.name in groups:
            words = re.sub("(?<=[a-z])(?=[A-Z])", " ", groups[parameter.name].__name__)
            yield from _flat(groups[parameter.name], words.capitalize())
        else:
            hint = hints[parameter.name]
            if typing.get_origin(hint) is not Annotated:  # `python -OO` has no docstrings
                hint = Annotated[hint, Option(texts.get(parameter.name, ""))]
            yield parameter, hint, title


def _arguments(function: Callable[..., Any], values: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a function, or the fields of a struct, with the structs of groups of options."""
    groups = _groups(function)
    return {
        name: groups[name](**_arguments(groups[name], values)) if name in groups else values[name]
        for name in inspect.signature(function).parameters
    }


def _log(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        import logging

        logging.basicConfig(format="bushel: %(message)s", force=True)
        logging.getLogger("bushel").setLevel(logging.INFO)


def _note(ctx: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    ctx.meta[f"bushel.{parameter.name}"] = wanted


_EVERYWHERE = (
    (["--debug"], "Show a traceback with an error.", _note),
    (["--verbose", "-v"], "Show log messages.", _log),
    (["--quiet", "-q"], "Show no warnings.", _note),
)
"""Options of every command: flags, description, and the function that stores the value."""


_PART = re.compile(r"part-[0-9]{5,}")
_POSITION = re.compile(r"-[0-9]+")
_ESCAPE = "\0"  # prefix of a negative position, which hides it from click's parser of options


class _Command(click.Command):
    """A command whose help describes its arguments, and its options in groups."""

    titles: Mapping[str | None, str] = {}  # the title of the group of each option, by its name

    def _arguments(self) -> list[_Argument]:
        return [parameter for parameter in self.params if isinstance(parameter, _Argument)]

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments, then the options of each group, then the options of every command."""
        rows = [
            (argument.make_metavar(ctx), argument.described.help) for argument in self._arguments()
        ]
        if rows:
            with formatter.section("Arguments"):
                formatter.write_dl(rows)
        sections: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None and not isinstance(parameter, _Argument):
                title = self.titles.get(parameter.name, "Other options")
                sections.setdefault(title, []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the words of a command line. A negative number after an argument is an argument, not an option."""
        arguments = self._arguments()
        if any(argument.name == "sample" for argument in arguments):
            args = [
                _ESCAPE + arg if _POSITION.fullmatch(arg) and not before.startswith("-") else arg
                for before, arg in zip(["-", *args], args, strict=False)
            ]
        if any(argument.described.joins for argument in arguments):
            flags = {
                name
                for parameter in self.params
                if isinstance(parameter, click.Option) and parameter.is_flag
                for name in (*parameter.opts, *parameter.secondary_opts)
            }
            args = _joined(args, sum(argument.required for argument in arguments) - 1, flags)
        last = args[-1:]
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            name = error.option_name.strip("-").replace("-", "_")
            options = {f"--{ours.replace('_', '-')}" for ours in instead_of(name, PARAMETERS)}
            if name == "format":  # of the files, or of the output
                options.add("--json")
            names = {name for parameter in self.params for name in parameter.opts}
            if not options & names:
                raise
            meant = " or ".join(sorted(options & names))
            raise click.UsageError(f"{error.message} Did you mean {meant}?", ctx) from None
        except click.UsageError as error:
            if "unexpected extra argument" not in error.message or not os.path.exists(*last):
                raise
            hint = "Quote a pattern such as 'train-*.tar', so that the shell does not expand it."
            raise click.UsageError(f"{error.message}. {hint}", ctx) from None


def _joined(args: list[str], needed: int, flags: Collection[str]) -> list[str]:
    """Return the words of a command line with the first paths, if they are files of one kind or parts, as one word."""
    start = 0
    while start < len(args) and args[start].startswith("-"):
        start += 1 if args[start] in flags or "=" in args[start] else 2
    end = start
    while end < len(args) and _alike(args[start], args[end]):
        end += 1
    following = sum(not word.startswith("-") for word in args[end:])
    end -= max(needed - following, 0)
    if end - start > 1:
        return [*args[:start], _ESCAPE.join(args[start:end]), *args[end:]]
    return args


def _alike(first: str, other: str) -> bool:
    suffix = os.path.splitext(first)[1]
    if suffix and other.endswith(suffix) and os.path.isfile(other):
        from bushel.containers import is_data_file

        return is_data_file(os.path.basename(first))
    return bool(_PART.fullmatch(os.path.basename(other.rstrip("/")))) and os.path.isdir(other)


class _Argument(click.Argument):
    """An argument with a description."""

    def __init__(self, names: list[str], described: Argument, **settings: Any) -> None:
        super().__init__(names, metavar=described.metavar, **settings)
        self.described = described

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        """Return the value in the argument's type."""
        if isinstance(value, str):
            value = value.removeprefix(_ESCAPE)
            if self.described.joins and _ESCAPE in value:
                return Several(value.split(_ESCAPE))
        value = super().type_cast_value(ctx, value)
        if self.described.several and value:  # without values, it is missing
            return value[0] if len(value) == 1 else Several(value)
        return value


_OPTIONS_THAT_TAKE = {
    "FILE": "output keys state tags token_file embeddings out",
    "FOLDER": "root index against",
    "PATH": "of",
    "NAME": "container to split revision config view kind key delete "
    "save_view title creator license engine generation progress",
    "NAMES": "fields columns index_columns",
    "FIELD": "field stratify",
    "COLUMN": "sort weights bucket_by balance lengths",
    "CONDITION": "where",
    "SIZE": "shard_bytes resize batch_size batch_tokens",
    "TREATMENT": "images",
    "ID": "call undo",
    "NUMBER": "max_errors",
    "ADDRESS": "host",
    "SUFFIX": "exts encoding",
    "PATTERN": "file",
    "URL": "url",
}
_TAKES = {name: taken for taken, names in _OPTIONS_THAT_TAKE.items() for name in names.split()}
"""What the help says that an option takes, by the name of its parameter; N for other numbers."""


_FORM = re.compile("[A-Z]+[=:][A-Z]+(:[A-Z]+)?")
"""What an option takes, at the beginning of its help."""


def _parameter(parameter: inspect.Parameter, hint: Any) -> click.Parameter:
    kind, described = typing.get_args(hint)[:2]
    many, kind = _element(kind)
    needed = parameter.default is parameter.empty
    if typing.get_origin(kind) is Literal:
        kind = click.Choice(typing.get_args(kind))
    if isinstance(described, Argument):
        return _Argument(
            [parameter.name],
            described,
            type=kind,
            nargs=-1 if many or described.several else 1,
            required=needed,
            shell_complete=complete_files if kind is str and described.files else None,
        )
    name = parameter.name.replace("_", "-")
    if kind is bool and parameter.default:
        name += f"/--no-{name}"
    declared = [*(described.names or (f"--{name}",)), parameter.name]
    if kind is bool:
        return click.Option(declared, help=described.help, is_flag=True, default=parameter.default)
    form = _FORM.match(described.help)
    taken = _TAKES.get(parameter.name, "N" if kind in (int, float) else None)
    if form:
        taken = form[0]
    if described.min is not None or described.max is not None:
        kind = (click.IntRange if kind is int else click.FloatRange)(described.min, described.max)
        kind.name = "number"  # for errors
    # with a default, click takes no option for missing
    default_of_option = {} if needed else {"default": parameter.default}
    return click.Option(
        declared,
        help=described.help.removeprefix(f"{taken}: "),
        metavar=taken,
        type=kind,
        required=needed,
        multiple=many,
        # a list; None without any
        callback=(lambda _ctx, _parameter, values: list(values) or None) if many else None,
        show_default=not needed and parameter.default not in (None, ""),
        shell_complete=complete_files if taken in ("FILE", "FOLDER", "PATH") else None,
        **default_of_option,
    )


def _element(kind: Any) -> tuple[bool, Any]:
    """Return whether a type is a list, and the type of a single value, without `| None`."""
    if type(None) in typing.get_args(kind):
        [kind] = [member for member in typing.get_args(kind) if member is not type(None)]
    if typing.get_origin(kind) in (list, tuple):
        return True, typing.get_args(kind)[0]
    return False, kind
