"""The command line, run in this process or in one of its own."""

from __future__ import annotations

import sys

from click.testing import CliRunner

from bushel.cli.app import app


def run(*arguments: object, code: int = 0) -> str:
    """Run a command and give its standard output, after looking at its exit code."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    assert "Traceback" not in result.stderr
    return result.stdout


def fails(*arguments: object, code: int = 2) -> str:
    """Run a command that must fail, and return its standard error."""
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert result.exit_code == code, (result.exit_code, result.output, result.exception)
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    return result.stderr


SLOW = """
import time
from bushel.cli import main
from bushel._writer.dataset_writer import DatasetWriter

def slowly(method, seconds):
    def slow(*arguments, **options):
        time.sleep(seconds)
        return method(*arguments, **options)
    return slow
DatasetWriter.append = slowly(DatasetWriter.append, 0.02)
DatasetWriter._finish_shard = slowly(DatasetWriter._finish_shard, 0.5)
main()
"""
"""The command, with a writer that takes its time."""


def bushel_command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "bushel", *map(str, arguments)]
