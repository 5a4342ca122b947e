"""What an interactive Python prints for samples and batches."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bushel
from bushel._pictures.terminal import is_brief, lines_of


@pytest.fixture
def path(tmp_path: Path) -> Path:
    with bushel.Writer(tmp_path / "a.tar", {"image": "jpg", "label": "int"}) as writer:
        for number in range(9):
            writer.append({"image": np.zeros((300, 200, 3), np.uint8), "label": number}, key=f"k{number}")
    return tmp_path / "a.tar"


SAMPLE = "__key__  'k0'\nimage    uint8[300, 200, 3]\nlabel    0\n"
BATCH = "__key__  list of 9: 'k0', …\nimage    uint8[9, 300, 200, 3]\nlabel    int64[9]\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.zeros((4, 5), np.float32), "float32[4, 5]"),
        (np.float32(1.5), "1.5" if np.__version__ < "2" else "np.float32(1.5)"),
        (b"x" * 100_000, "bytes[100,000]"),
        (b"x", "b'x'"),
        ([np.zeros((2, 3))] * 20, "list of 20: float64[2, 3], …"),
        ("a" * 500, "'aaaa"),
        ({"a": 1}, "{'a': 1}"),
        (None, "None"),
    ],
)
def test_a_value_is_described_in_a_few_words(value: Any, text: str) -> None:
    line = lines_of({"x": value})
    assert line.startswith(f"x  {text}")
    assert len(line) < 80


def test_a_number_that_python_refuses_to_print_is_described() -> None:
    line = lines_of({"x": 10**5000})
    assert "too large to print" in line or "5001 digits" in line  # as Python 3.14 says it
    assert len(line) < 100


def test_tensors_have_their_types() -> None:
    torch = pytest.importorskip("torch")
    assert lines_of({"x": torch.zeros(2, 30)}) == "x  float32[2, 30]"


def test_short_samples_stay_as_python_writes_them(path: Path) -> None:
    ds = bushel.open(path)
    assert repr(ds[3, ["label"]]) == "{'__key__': 'k3', 'label': 3}"
    assert f"{ds[0]!r}\n" == SAMPLE
    assert not is_brief({"a": [[1] * 9]})


def test_show(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ds = bushel.open(path)
    bushel.show(next(iter(bushel.Loader(ds, 9, threads=0))))
    bushel.show(ds[:1])
    bushel.show(3)
    assert capsys.readouterr().out == f"{BATCH}k0  label=0\n3\n"


def test_samples_and_batches_are_plain_dicts(path: Path) -> None:
    ds = bushel.open(path)
    assert type(ds.read([0])[0]) is dict
    assert type(next(iter(ds))) is dict
    assert type(next(iter(bushel.Loader(ds, 9, threads=0)))) is dict


STATEMENTS = """
import bushel
ds = bushel.open({path!r})
ds.read([0])[0]
next(iter(bushel.Loader(ds, 9, threads=0)))
{{"a": [1] * 20}}
_["a"][0] + 6
"""


@pytest.mark.parametrize("program", ["python", "ipython"])
def test_an_interactive_python_prints_them_as_lines(path: Path, program: str) -> None:
    command = [sys.executable, "-q", "-i"]
    if program == "ipython":
        pytest.importorskip("IPython")
        command = [sys.executable, "-m", "IPython", "--simple-prompt", "--no-banner", "--quick"]
    statements = STATEMENTS.format(path=str(path))
    done = subprocess.run(command, input=statements, capture_output=True, text=True, check=True)
    for text in (SAMPLE, BATCH, "{'a': [1, 1,", "7"):
        assert text in done.stdout


def test_a_program_prints_dicts_as_before(path: Path) -> None:
    code = f"import bushel, sys; bushel.open({str(path)!r}); print(sys.displayhook is sys.__displayhook__)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "True\n"


@pytest.mark.parametrize(
    ("key", "near"),
    [("k3.jpg", "'k3'"), ("photos/k3", "'k3'"), ("./k3", "'k3'"), ("K3", "'k3'"), ("k33", "'k3'"), ("x", None)],
)
def test_an_unknown_key_has_near_ones(path: Path, key: str, near: str | None) -> None:
    with pytest.raises(KeyError) as caught:
        bushel.open(path)[key]
    assert f"did you mean {near}" in str(caught.value) if near else "did you mean" not in str(caught.value)


def test_methods_of_other_libraries_say_what_to_write(path: Path) -> None:
    ds = bushel.open(path)
    for name, hint in (("take", r"ds\[:n\]"), ("shuffle", "bushel.Loader"), ("no_such", "'no_such'$")):
        with pytest.raises(AttributeError, match=hint):
            getattr(ds, name)
    with pytest.raises(TypeError, match=r"bushel.concat\(\[a, b\]\)"):
        ds + ds
