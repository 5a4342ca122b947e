"""Help texts: 80 columns, options in groups, and what each option takes."""

from __future__ import annotations

import re

import click
import pytest
from click.testing import CliRunner

from bushel.cli.app import _COMMANDS, app


def help_of(*words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--help"], terminal_width=80)
    assert done.exit_code == 0
    return done.output


@pytest.mark.parametrize("name", ["", *_COMMANDS])
def test_lines_fit_into_80_columns(name: str) -> None:
    assert [line for line in help_of(*name.split()).splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", _COMMANDS)
def test_options_say_what_they_take(name: str) -> None:
    found = re.findall(r"^  (?:-\w, )?(--[\w-]+) (?:INTEGER|FLOAT)", help_of(name), re.MULTILINE)
    assert found == []


@pytest.mark.parametrize("name", _COMMANDS)
def test_each_option_is_described(name: str) -> None:
    command = app.get_command(click.Context(app), name)
    assert command is not None
    options = [parameter for parameter in command.params if isinstance(parameter, click.Option)]
    assert [option.name for option in options if not option.help] == []


def test_options_are_in_groups() -> None:
    text = help_of("pack")
    titles = re.findall(r"^(\w.*):$", text, re.MULTILINE)
    assert titles[:3] == ["Arguments", "Source options", "Options"]
    assert titles[-2:] == ["Output options", "Other options"]
    assert "--kind NAME" in text
    assert "--spec FIELD=TYPE" in text
    assert "--shard-samples N" in text
    assert "FIELD=TYPE: " not in text


def test_the_start_fits_on_24_lines() -> None:
    lines = CliRunner().invoke(app, []).output.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80
