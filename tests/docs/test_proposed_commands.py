"""Commands that errors, help and pages propose: each can be parsed, and the main ones are run."""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from tests.paths import ROOT

import bushel
from bushel.cli.app import ORIGINALS, app
from bushel.compat.mxnet.recordio import MXIndexedRecordIO

QUOTED = re.compile(r"`(bushel [^`]+)`")
LINE = re.compile(r"^ *(?:\$ )?(bushel [a-z0-9_-]+(?: .*)?)$", re.MULTILINE)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def commands_in(text: str, *, lines: bool) -> set[str]:
    joined = text.replace("\\\n", " ")
    found = QUOTED.findall(joined) + (LINE.findall(joined) if lines else [])
    return {" ".join(command.split()) for command in found}


def modules() -> Iterator[Path]:
    """Yield the modules in which a text may have the command, or end before its next word."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        if re.search("bushel[ \"']", path.read_text("utf-8")):
            yield path


def texts_of(path: Path) -> Iterator[str]:
    """Yield the texts of a module; VALUE stands for what an f-string puts in."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value
        elif isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else "VALUE" for part in node.values)


def proposed() -> dict[str, str]:
    """Return each command, with a file that proposes it."""
    found: dict[str, str] = {}
    for path in modules():
        for text in texts_of(path):
            found |= dict.fromkeys(commands_in(text, lines=path.parent.name == "cli"), str(path.relative_to(ROOT)))
    for path in PAGES:
        found |= dict.fromkeys(commands_in(path.read_text("utf-8"), lines=True), str(path.relative_to(ROOT)))
    return found


def check(command: str) -> None:
    """Raise UsageError if a command has an unknown name or option, or too many arguments. Arguments may be left out."""
    words = [word for word in shlex.split(command, comments=True)[1:] if word not in ("...", "…")]
    end = next((at for at, word in enumerate(words) if word in ("&&", "|", ">", ";")), None)
    # `get` takes negative positions, which the parser below takes for options
    name, *arguments = [re.sub(r"^-(?=\d)", "", word) for word in words[:end]]
    if name.startswith("-") or not name.islower():
        return
    known = app.get_command(click.Context(app), name)
    if known is None:
        raise click.UsageError(f"there is no command {name!r}")
    if name in ORIGINALS:
        return
    parser = known.make_parser(click.Context(known, **known.context_settings))
    try:
        _, left, _ = parser.parse_args(list(arguments))
    except click.BadOptionUsage:  # `bushel index --columns` in a sentence: an option without its value
        _, left, _ = known.make_parser(click.Context(known, **known.context_settings)).parse_args([*arguments, "VALUE"])
    if left:
        raise click.UsageError(f"{left} are too many")


def test_commands_can_be_parsed() -> None:
    wrong = []
    commands = proposed()
    for command, place in commands.items():
        try:
            check(command)
        except click.UsageError as error:
            wrong.append(f"{place}: {command}: {error.format_message()}")
    assert not wrong, "\n".join(wrong)
    assert len(commands) > 250


@pytest.mark.parametrize("command", ["bushel idnex x", "bushel index x --colums n", "bushel version x"])
def test_wrong_commands_are_found(command: str) -> None:
    with pytest.raises(click.UsageError):
        check(command)


def test_values_in_commands_are_quoted() -> None:
    """An f-string puts a path into a command by `bushel.errors.command`, or by `shlex.quote`."""
    wrong = []
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if not isinstance(node, ast.JoinedStr):
                continue
            before = ""
            for part in node.values:
                if isinstance(part, ast.Constant):
                    before += str(part.value)
                elif re.search(r"`bushel [^`]*$", before) and "quote" not in ast.unparse(part):
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {before[-60:]}")
    assert not wrong, "\n".join(wrong)


def written(path: str, *, container: str = "tar", samples: int = 6, shard_samples: int | None = None) -> None:
    texts = {"n": range(samples), "tokens": [list(range(n + 1)) for n in range(samples)]}
    bushel.pack(texts, path, container=container, shard_samples=shard_samples, sync=False)
    shutil.rmtree(Path(path, ".bushel") if shard_samples else ".bushel")


def folder() -> Callable[[], object]:
    written("my data/", shard_samples=2)
    return lambda: bushel.open("my data").where("n > 3")


def one_file_of_several() -> Callable[[], object]:
    written("my file.tar")
    written("other.rec", container="recordio")
    return lambda: bushel.open("my file.tar").where("n > 3")


def some_files_of_a_folder() -> Callable[[], object]:
    for name in ("a b.tar", "c.tar"):
        written(name)
    written("other.rec", container="recordio")
    return lambda: bushel.open(["a b.tar", "c.tar"]).where("n > 3")


def several_folders() -> Callable[[], object]:
    written("my data/", shard_samples=2)
    written("more/", shard_samples=2)
    return lambda: bushel.open(["my data", "more"]).where("n > 3")


def side_of_a_join() -> Callable[[], object]:
    written("my data/", shard_samples=2)
    written("more.tar")

    def joined() -> object:
        sides = bushel.open("my data").select_fields(["n"]), bushel.open("more.tar").select_fields(["tokens"])
        return bushel.join(*sides, on="key").where("n > 3")

    return joined


def stream() -> Callable[[], object]:
    written("my file.tar")
    return lambda: len(bushel.open_stream("my file.tar"))


def erased_rows() -> Callable[[], object]:
    Path("my rows.jsonl").write_text('{"n": 1}\n{"n": 2}\n')
    bushel.remove("my rows.jsonl", keys=["0"], reason="test")
    return lambda: bushel.erase("my rows.jsonl")


def parts() -> Callable[[], object]:
    for part in (0, 1):
        bushel.pack({"n": range(6)}, "my parts/", container="tar", parts=2, part=part, sync=False)
    return lambda: bushel.open("my parts/")


def index_file() -> Callable[[], object]:
    written("my file.rec", container="recordio")
    Path("my file.idx").write_text(Path("my file.idx").read_text()[:-1])
    return lambda: MXIndexedRecordIO("my file.idx", "my file.rec", "a")


def damaged(container: str) -> Callable[[], object]:
    path = f"my file.{container}"
    written(path, container={"ffr": "ffrecord", "rec": "recordio"}[container])
    content = bytearray(Path(path).read_bytes())
    content[:8] = b"\xff" * 8
    Path(path).write_bytes(content)
    return lambda: bushel.open(path, on_damage="raise")[0]


@pytest.mark.parametrize(
    ("make", "code", "helps"),
    [
        pytest.param(folder, 0, True, id="column-of-a-folder"),
        pytest.param(one_file_of_several, 0, True, id="column-of-a-file"),
        pytest.param(some_files_of_a_folder, 0, True, id="column-of-files"),
        pytest.param(several_folders, 0, True, id="column-of-folders"),
        pytest.param(side_of_a_join, 0, True, id="column-of-a-join"),
        pytest.param(stream, 0, False, id="stream"),
        pytest.param(erased_rows, 0, False, id="erase"),
        pytest.param(parts, 0, True, id="parts"),
        pytest.param(index_file, 0, True, id="rec2idx"),
        pytest.param(lambda: damaged("ffr"), 1, False, id="verify-ffrecord"),
        pytest.param(lambda: damaged("rec"), 1, False, id="verify-recordio"),
    ],
)
def test_a_proposed_command_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Callable[[], object]], code: int, helps: bool
) -> None:
    """It runs from the current folder, with names that a shell would divide, and what failed works afterwards."""
    (tmp_path / "my folder").mkdir()
    monkeypatch.chdir(tmp_path / "my folder")
    fails = make()
    [proposal, *_] = QUOTED.findall(said_by(fails))
    done = CliRunner().invoke(app, shlex.split(proposal)[1:])
    assert done.exit_code == code, (proposal, done.output, done.exception)
    if helps:
        assert said_by(fails) == ""


def said_by(fails: Callable[[], object]) -> str:
    """Return the text of the error or the warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fails()
        except (bushel.BushelError, KeyError, OSError) as error:
            return str(error)
    return "".join(str(warning.message) for warning in caught)
