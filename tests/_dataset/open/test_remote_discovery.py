"""What a listing says of files, compared with what a table says."""

from __future__ import annotations

from bushel._dataset.open.remote_discovery import ListedFiles
from bushel._index.shard import FileStamp
from bushel.storage.base import FROM_TAG

TAG = FROM_TAG + 7
LISTED = ListedFiles({"a.tar": (100, TAG), "b.tar": (200, 1_700_000_000)})


def test_files_of_the_recorded_size_and_tag() -> None:
    assert LISTED.have(["a.tar"], [FileStamp("a.tar", 100, TAG, 5)])
    assert LISTED.have([], [])


def test_files_that_the_store_must_be_asked_for() -> None:
    same = FileStamp("a.tar", 100, TAG)
    assert not LISTED.have(["a.tar"], [FileStamp("a.tar", 101, TAG)])
    assert not LISTED.have(["a.tar"], [FileStamp("a.tar", 100, TAG + 1)])
    assert not ListedFiles({}).have(["a.tar"], [same])
    assert not LISTED.have(["a.tar", "c.tar"], [same, same])
    assert not LISTED.have(["a.tar"], [same, same]), "the table has another number of files"
    assert not LISTED.have(["b.tar"], [FileStamp("b.tar", 200, 1_700_000_000)]), "a time is too coarse"
