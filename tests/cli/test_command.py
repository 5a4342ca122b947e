"""Commands made from functions: single options, and groups of options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from click.testing import CliRunner
from msgspec import Struct

from bushel.cli.command import Argument, Option, command_from
from bushel.cli.packoptions import ImageOptions, SourceOptions, VideoOptions, given_options
from bushel.cli.runs import PartOptions


class Size(Struct, frozen=True):
    """Two options."""

    width: Annotated[int, Option("Pixels.", min=1)] = 3
    names: Annotated[list[str] | None, Option("A name; may be repeated.", "--name")] = None


class Form(Struct, frozen=True):
    """A group within a group, and an option after it."""

    size: Size
    round: Annotated[bool, Option("Round corners.")] = False


class Plain(Struct, frozen=True):
    """Options that the docstring describes.

    Attributes:
        colour: NAME=VALUE: A colour, which is described
            on two lines: long.
        fast: Quickly.
    """

    colour: str | None = None
    fast: bool = False


class Derived(Plain, frozen=True):
    """Such options with others.

    Attributes:
        fast: More quickly.
        depth: Levels.
    """

    depth: int = 1


def test_docstrings_describe_options() -> None:
    def command(*, options: Derived) -> None:
        """Do something."""

    text = CliRunner().invoke(command_from(command, "test"), ["--help"]).output
    words = " ".join(text.split())
    assert "--colour NAME=VALUE A colour, which is described on two lines: long." in words
    assert "--fast More quickly." in words
    assert "--depth N Levels. [default: 1]" in words


def _ran(*words: str) -> tuple[int, str, dict[str, Any]]:
    called: dict[str, Any] = {}

    def command(
        path: Annotated[str, Argument("A path.")],
        *,
        loud: Annotated[bool, Option("Shout.")] = False,
        size: Size,
        depth: Annotated[int, Option("Levels.")] = 1,
    ) -> None:
        """Do something."""
        called.update(path=path, loud=loud, size=size, depth=depth)

    done = CliRunner().invoke(command_from(command, "test"), words)
    return done.exit_code, done.output, called


def test_a_group_gets_its_options() -> None:
    code, _, called = _ran("a", "--width", "5", "--name", "x", "--name", "y", "--depth", "2")
    assert code == 0
    assert called == {"path": "a", "loud": False, "size": Size(5, ["x", "y"]), "depth": 2}
    assert _ran("a")[2]["size"] == Size()


def test_the_options_of_a_group_have_its_title_in_the_help() -> None:
    text = _ran("--help")[1]
    places = [text.index(option) for option in ("--loud", "--depth", "Size:", "--width N", "--name")]
    assert places == sorted(places)
    assert "[default: 3; x>=1]" in text


def test_a_group_may_hold_another() -> None:
    called: list[Form] = []

    def command(*, form: Form, depth: Annotated[int, Option("Levels.")] = 1) -> None:
        """Do something."""
        called.append(form)

    made = command_from(command, "test")
    assert CliRunner().invoke(made, ["--round", "--name", "x", "--width", "7"]).exit_code == 0
    assert CliRunner().invoke(made, ["--depth", "2"]).exit_code == 0
    assert called == [Form(Size(7, ["x"]), round=True), Form(Size())]
    text = CliRunner().invoke(made, ["--help"]).output
    places = [
        text.index(option) for option in ("Size:", "--width", "--name", "Form:", "--round", "Options:", "--depth")
    ]
    assert places == sorted(places)


def test_a_wrong_value_of_a_group_is_refused() -> None:
    code, output, called = _ran("a", "--width", "0")
    assert (code, called) == (2, {})
    assert "--width" in output


@pytest.mark.parametrize(
    ("groups", "options"),
    [
        ([ImageOptions(), VideoOptions(), SourceOptions()], []),
        ([ImageOptions(center_crop=True, inter_method=0)], ["--center-crop", "--inter-method"]),
        ([VideoOptions(stride=2), SourceOptions(root="photos")], ["--stride", "--root"]),
    ],
)
def test_given_options(groups: list[Any], options: list[str]) -> None:
    assert given_options(*groups) == options


def test_slurm_gets_a_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = PartOptions(parts=3, engine="slurm")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="sbatch was not found on this machine"):
        options.check()
    (tmp_path / "sbatch").write_text("#!/bin/sh\n")
    (tmp_path / "sbatch").chmod(0o755)
    options.check()
    assert options.only_planned
    assert options.arguments() == {"parts": 3, "part": "plan"}
    assert not PartOptions(parts=3, engine="ray").only_planned
