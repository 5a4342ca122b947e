"""The public names, and what importing them costs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

import bushel

NAMES = [
    "BadSample",
    "BushelError",
    "Codec",
    "CodecError",
    "ConvertResult",
    "CorruptError",
    "DamagedWarning",
    "Dataset",
    "FormatError",
    "IncompleteWarning",
    "Info",
    "Loader",
    "LoaderStats",
    "Mixture",
    "PackResult",
    "Problem",
    "Progress",
    "RepairResult",
    "SpecError",
    "StateError",
    "StreamDataset",
    "StreamLoader",
    "TooManyErrors",
    "UnsupportedError",
    "VerifyResult",
    "Viewer",
    "Writer",
    "__version__",
    "concat",
    "convert",
    "from_hf",
    "index",
    "jpeg",
    "mix",
    "open",
    "open_stream",
    "pack",
    "register_codec",
    "repair",
    "to_hf",
    "transforms",
    "verify",
    "view",
]

HEAVY = {"PIL", "av", "click", "rich", "msgpack", "msgspec", "safetensors", "numpy", "bushel.kernels"}
"""What `import bushel` must not import: together these take several times as long as is left for it."""


def modules_after(statement: str) -> set[str]:
    """The modules that a new interpreter has imported by then."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout))


def test_public_names_are_these() -> None:
    assert bushel.__all__ == NAMES
    assert set(dir(bushel)) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_each_public_name_is_there_and_documented(name: str) -> None:
    value = getattr(bushel, name)
    assert name == "__version__" or value.__doc__


def test_other_names_are_no_attributes() -> None:
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        bushel.opne  # noqa: B018


def test_every_error_is_a_bushel_error() -> None:
    errors = [getattr(bushel, name) for name in NAMES if name.endswith("Error") or name == "TooManyErrors"]
    assert len(errors) == 8
    assert all(issubclass(error, bushel.BushelError) for error in errors)


def test_import_alone_imports_nothing_heavy() -> None:
    imported = modules_after("import bushel")
    assert imported & HEAVY == set()
    assert len({name for name in imported if name.startswith("bushel")}) == 1


def test_modules_are_reached_without_being_imported() -> None:
    imported = modules_after("import bushel; assert bushel.jpeg.tile and bushel.transforms.Resize")
    assert {"bushel.jpeg", "bushel.transforms"} <= imported


def test_open_imports_no_decoder_and_no_command_line() -> None:
    imported = modules_after("import bushel; bushel.open")
    assert imported & {"PIL", "av", "click", "rich"} == set()
