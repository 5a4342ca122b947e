from __future__ import annotations

import copy
import errno
import pickle

import pytest

from bushel import errors
from bushel.errors import (
    BushelError,
    CodecError,
    CorruptError,
    FormatError,
    InUseError,
    MissingPackageError,
    SpecError,
    StateError,
    TooManyErrors,
    UnsupportedError,
    is_out_of_room,
    naming,
    noted_in,
)

EXAMPLES: list[BushelError] = [
    BushelError("plain"),
    BushelError("with details", shard=3, names=["a", "b"]),
    FormatError("a wrong magic"),
    FormatError("a wrong magic", file="a.rec"),
    FormatError("a wrong magic", file="a.rec", offset=0, hint="run this"),
    CorruptError("is damaged"),
    CorruptError("is damaged", key="k", field="f", file="a", offset=7, expected=1, found=2, hint="run that"),
    CodecError("no JPEG", field="image", key="é"),
    SpecError("unknown codec"),
    UnsupportedError("no random access"),
    MissingPackageError("to_arrow needs pyarrow, which is not installed: pip install 'bushel[arrow]'"),
    StateError("another dataset"),
    InUseError("out/ is in use: process 7 on host1 writes to it"),
    TooManyErrors("101 bad samples", count=101),
]


def test_every_error_of_the_tree_has_an_example() -> None:
    names = [name for name in errors.__all__ if name[0].isupper()]  # the others are functions about errors
    kinds = {getattr(errors, name) for name in names if not name.endswith("Warning")}
    assert {type(example) for example in EXAMPLES} == kinds
    assert all(issubclass(kind, BushelError) for kind in kinds)


@pytest.mark.parametrize("error", EXAMPLES, ids=repr)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_crosses_processes_whole(error: BushelError, protocol: int) -> None:
    for copied in (pickle.loads(pickle.dumps(error, protocol)), copy.copy(error), copy.deepcopy(error)):
        assert type(copied) is type(error)
        assert str(copied) == str(error)
        assert copied.args == error.args == (error.message,)
        assert copied.details == error.details
        assert vars(copied) == vars(error)


def test_a_format_error_says_where_and_what_to_do() -> None:
    assert [str(error) for error in EXAMPLES[2:5]] == [
        "a wrong magic",
        "a.rec: a wrong magic",
        "a.rec@0: a wrong magic (run this)",
    ]
    assert str(EXAMPLES[6]) == "a@7: is damaged (run that)"


def test_a_corrupt_error_has_all_that_is_known() -> None:
    error = EXAMPLES[6]
    assert isinstance(error, CorruptError)
    assert isinstance(error, FormatError)
    found = (error.key, error.field, error.file, error.offset, error.expected, error.found, error.hint)
    assert found == ("k", "f", "a", 7, 1, 2, "run that")


def test_details_are_kept() -> None:
    assert EXAMPLES[1].details == {"shard": 3, "names": ["a", "b"]}
    assert str(EXAMPLES[1]) == "with details"


def test_an_error_of_the_system_names_a_file() -> None:
    with pytest.raises(OSError, match="disk") as caught, naming("x.tar"):
        raise OSError(errno.ENOSPC, "the disk is full")
    assert (caught.value.filename, is_out_of_room(caught.value)) == ("x.tar", True)
    with pytest.raises(OSError, match="disk") as caught, naming("x.tar"):
        raise OSError(errno.ENOSPC, "the disk is full", "other.tar")
    assert caught.value.filename == "other.tar"
    with pytest.raises(OSError, match="the server") as caught, naming("x.tar"):
        raise OSError("the server is gone")
    assert (caught.value.filename, is_out_of_room(caught.value)) == (None, False)


def test_what_fails_in_cleaning_up_is_a_note_unless_it_says_nothing_new() -> None:
    error = OSError(errno.ENOSPC, "full")
    with noted_in(error):
        raise OSError(errno.EDQUOT, "full, too")
    assert getattr(error, "__notes__", []) == []
    with noted_in(error):
        raise ValueError("wrong")
    assert error.__notes__ == ["and cleaning up after this failed too: ValueError: wrong"]
