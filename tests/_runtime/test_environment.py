"""Environment variables that have no effect are said."""

import os
import re
import subprocess
import sys

import pytest
from tests.paths import ROOT

import bushel
from bushel._runtime import messages


def said(code: str = "import bushel", **variables: str) -> str:
    """Return what a program prints as errors that has these variables."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("BUSHEL_")}
    done = subprocess.run([sys.executable, "-c", code], env={**own, **variables}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stderr


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("BUSHEL_SIMDD", "scalar", r"BUSHEL_SIMDD has no effect: did you mean BUSHEL_SIMD\?"),
        ("BUSHEL_CACHE", "/tmp", r"BUSHEL_CACHE has no effect: did you mean BUSHEL_\w*CACHE"),
        ("BUSHEL_XYZZY", "1", "BUSHEL_XYZZY has no effect: Bushel knows BUSHEL_ALLOW_COMMANDS, "),
        ("BUSHEL_SIMD", "scaler", "BUSHEL_SIMD is 'scaler', which has no effect: expected scalar"),
        ("BUSHEL_ALLOW_PICKLE", "false", "BUSHEL_ALLOW_PICKLE is 'false', which has no effect: expected 1 or 0"),
    ],
)
def test_a_name_or_value_without_effect_is_a_warning(name: str, value: str, words: str) -> None:
    warning = said(**{name: value})
    assert re.search(words, warning)
    assert warning.startswith("<string>:1: RuntimeWarning")


@pytest.mark.parametrize(
    "variables",
    [{"BUSHEL_SIMD": "scalar"}, {"BUSHEL_CACHE_SIZE": "3GB"}, {"BUSHEL_PORT": "tcp://1", "BUSHEL_PORT_80_TCP": "1"}],
)
def test_others_are_not(variables: dict[str, str]) -> None:
    assert said(**variables) == ""


def test_worker_processes_do_not_repeat_it() -> None:
    code = "import bushel, multiprocessing as m; m.set_start_method('spawn'); m.Pool(2).map(abs, [1])"
    assert said(f"if __name__ == '__main__':\n    {code}", BUSHEL_XYZZY="1").count("BUSHEL_XYZZY") == 1


def test_all_variables_of_the_source_are_known() -> None:
    texts = [path.read_text("utf-8") for path in (ROOT / "src/bushel").rglob("*.py")]
    used = set(re.findall(r"\"(BUSHEL_[A-Z_]*[A-Z])\"", "".join(texts)))
    assert used - {*messages._VALUES, *bushel._SETTINGS} == {"BUSHEL_PORT"}
