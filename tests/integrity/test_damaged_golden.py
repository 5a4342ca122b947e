"""The exact samples that repair saves of each damaged golden dataset, without and with an index made before the damage.

The tables were derived from what was done to each file (`what` in damaged.json), not from what the code does.
"""

from __future__ import annotations

import json
import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import pytest
from tests.paths import GOLDEN

import bushel
from bushel.errors import FormatError

CASES: list[dict[str, Any]] = json.loads((GOLDEN / "damaged" / "damaged.json").read_text())["cases"]
MORE = {
    # a table that does not end with the file is found by the number of records that refs.bag names
    "bag/last-byte-lost": "0 1 2 3 4 5",
    "bag/garbage-5": "0 1 2 3 4 5",
    "bag/garbage-16": "0 1 2 3 4 5",
    # members after a damaged header are found by magic and checksum; members of one sample by its name
    "tar/header-size-bit": "0002 0003",
    "tar/files-not-adjacent": "0000 0001 0002 0003",
    # the offset of the first record gives the number of records, and their CRC-32 proves it
    "ffrecord/count-bit": "0 1 2 3 4 5",
    # the second sample with an id is saved under another one
    "gulp/id-in-two-chunks": "item_00 item_10",
    # the framing finds records that the .idx does not name, or names wrongly
    "recordio/idx-wrong-offset": "2",
    "recordio/idx-behind": "4 5",
    "recordio/idx-key-twice": "3 4",
    "recordio/idx-no-numbers": "2",
}
"""Samples that can be saved beside the intact ones of damaged.json, without an index."""

UNNOTICED = {
    # changes that no number in the files contradicts
    "bag/payload-bit": 1,
    "bag/end-low-bit": 2,
    "bag/ref-wrong-record": 1,
    "bag-c/payload-bit": 1,
    "tar/payload-bit": 1,
    "gulp/payload-bit": 1,
    "recordio/payload-bit": 1,
    # copies of whole samples
    "tar/key-in-two-shards": 4,
}
"""Number of other samples that are written without an index."""

ALL = {
    "bag": "0 1 2 3 4 5",
    "bag-c": "0 1 2 3 4 5",
    "tar": "0000 0001 0002 0003 0004 0005 0006 0007",
    "ffrecord": "0 1 2 3 4 5",
    "gulp": "item_00 item_01 item_10 item_11",
    "recordio": "0 1 2 3 4 5",
}
WITH_INDEX = {
    # values that are gone or changed; the damage of all other cases is in tables, which the index replaces
    "bag/data-cut": "0 1 2",
    "bag/zero-bytes": "",
    "bag/field-missing": "",
    "bag/payload-bit": "0 1 3 4 5",
    "bag-c/data-cut": "0 1 2 3",
    "bag-c/bag-zero-bytes": "",
    "bag-c/payload-bit": "0 1 3 4 5",
    "tar/data-cut": "0000 0001 0004 0005 0006 0007",
    "tar/header-cut": "0000 0001 0004 0005 0006 0007",
    "tar/cut-at-a-border": "0000 0001 0004 0005 0006 0007",
    "tar/payload-bit": "0000 0001 0003 0004 0005 0006 0007",
    "tar/zero-bytes": "0004 0005 0006 0007",
    "tar/no-tar": "0004 0005 0006 0007",
    "tar/key-in-two-shards": "0000 0001 0002 0003",
    "tar/file-twice-in-a-sample": "0000 0002 0003 0004 0005 0006 0007",
    "ffrecord/header-3-bytes": "",
    "ffrecord/tables-cut": "",
    "ffrecord/data-cut": "0 1 2",
    "ffrecord/last-byte-lost": "0 1 2 3 4",
    "ffrecord/payload-bit": "0 1 3 4 5",
    "ffrecord/garbage-at-the-end": "0 1 2 3 4",
    "ffrecord/zero-bytes": "",
    "ffrecord/no-ffrecord": "",
    "gulp/data-cut": "item_00 item_10 item_11",
    "gulp/meta-cut": "item_10 item_11",
    "gulp/meta-missing": "item_10 item_11",
    "gulp/data-missing": "item_10 item_11",
    "gulp/data-zero-bytes": "item_10 item_11",
    "gulp/meta-zero-bytes": "item_10 item_11",
    "gulp/payload-bit": "item_00 item_10 item_11",
    "gulp/offset-out-of-file": "item_00 item_10 item_11",
    "recordio/data-cut": "0 1 2 3 4",
    "recordio/header-cut": "0 1 2 3 4",
    "recordio/cut-between-parts": "0 1 2",
    "recordio/payload-bit": "0 1 3 4 5",
    "recordio/zero-bytes": "",
}
"""Samples that are saved with an index, where these are not all."""

NOT_OPENED = {
    # no sample of a shard can be located, so that not even their number is known
    "bag/data-cut", "bag/table-cut", "bag/refs-cut", "bag/zero-bytes", "bag/refs-zero-bytes",
    "bag-c/idx-zero-bytes", "bag-c/bag-zero-bytes",
    "tar/zero-bytes", "tar/no-tar",
    "ffrecord/header-3-bytes", "ffrecord/tables-cut", "ffrecord/zero-bytes", "ffrecord/aborted-writer",
    "ffrecord/no-ffrecord",
    "gulp/meta-cut", "gulp/data-zero-bytes", "gulp/meta-zero-bytes",
    "recordio/zero-bytes",
    # a file is missing, or says no more which files belong together
    "bag/refs-missing", "bag/spec-missing", "bag/spec-cut", "bag/field-missing", "bag-c/idx-missing",
    "gulp/meta-missing", "gulp/data-missing",
}  # fmt: skip
"""Cases that `bushel.open` refuses."""

NOT_READ = {
    # `repair` joins members that are not adjacent, renames the second use of a key, and looks behind the `.idx`
    "tar/files-not-adjacent": "0000 0001 0002 0003",
    "recordio/idx-behind": "4 5",
}
"""Samples that only `repair` saves."""

Content = tuple[tuple[str, object], ...]


def contents(path: Path) -> list[tuple[str, Content]]:
    """Key and stored bytes of every sample."""
    dataset = bushel.open(path, index="memory")
    return [
        (sample.pop("__key__"), tuple(sorted((name, plain(value)) for name, value in sample.items())))
        for sample in dataset.read(range(len(dataset)), decode=False)
    ]


def plain(value: Any) -> object:
    return [bytes(each) for each in value] if isinstance(value, list) else bytes(value)


def saved(original: list[tuple[str, Content]], repaired: Path) -> tuple[list[str], int]:
    """Return the keys of the original samples that were saved, in the original order, and the number of others."""
    left, others = list(original), 0
    for key, content in contents(repaired):
        same = [one for one in left if one[1] == content]
        chosen = next((one for one in same if one[0] == key), same[0] if same else None)
        if chosen is None:
            others += 1
        else:
            left.remove(chosen)
    return [key for key, content in original if (key, content) not in left], others


def repaired_samples(source: Path, target: Path, original: list[tuple[str, Content]]) -> tuple[list[str], int]:
    try:
        done = bushel.repair(source, target)
    except FormatError as error:
        assert "no sample is intact" in str(error)  # noqa: PT017
        assert not target.exists()
        return [], 0
    assert bushel.verify(target).ok
    found = saved(original, target)
    assert done.samples == len(found[0]) + found[1]
    return found


def words(text: str) -> set[str]:
    return {word.replace("_", " ") for word in text.split()}


def case_id(case: dict[str, Any]) -> str:
    return str(case["open"]).removeprefix("cases/")


def test_there_are_78_cases() -> None:
    names = {case_id(case) for case in CASES}
    assert len(names) == 78
    assert {*MORE, *UNNOTICED, *WITH_INDEX} <= names


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_what_is_saved_without_an_index(golden: Path, tmp_path: Path, case: dict[str, Any]) -> None:
    damaged, name = golden / "damaged", case_id(case)
    original = contents(damaged / "base" / case["base"] / "data")
    found, others = repaired_samples(damaged / case["open"], tmp_path / "out", original)
    assert set(found) == set(case["intact"]) | words(MORE.get(name, ""))
    assert others == UNNOTICED.get(name, 0)


@pytest.mark.parametrize("same_time", [True, False])
@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_what_is_saved_with_an_index(golden: Path, tmp_path: Path, case: dict[str, Any], same_time: bool) -> None:
    damaged, work, name = golden / "damaged", tmp_path / "data", case_id(case)
    shutil.copytree(damaged / "base" / case["base"] / "data", work)
    bushel.index(work)
    original = contents(work)
    files = {path.name: path for path in (damaged / case["open"]).iterdir() if path.is_file()}
    for path in [path for path in work.iterdir() if path.is_file()]:
        before = path.stat()
        if path.name not in files:
            path.unlink()
        elif path.read_bytes() != files[path.name].read_bytes():
            path.write_bytes(files[path.name].read_bytes())
            if same_time:
                os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    found, others = repaired_samples(work, tmp_path / "out", original)
    if not same_time and name in ("bag/end-low-bit", "bag/ref-wrong-record", "tar/key-in-two-shards"):
        # files that are newer than the index and do not contradict themselves are read as they are now, but their
        # values are compared with the recorded checksums
        assert set(found) == set(case["intact"])
        assert others == (UNNOTICED[name] if name == "tar/key-in-two-shards" else 0)
        return
    assert others == 0
    if not same_time and name == "tar/files-not-adjacent":
        assert set(found) == words(ALL["tar"])
    elif name == "tar/files-not-adjacent":
        assert set(found) == words("0004 0005 0006 0007")
    else:
        assert set(found) == words(WITH_INDEX.get(name, ALL[case["base"]]))


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_what_can_be_read_without_an_index(golden: Path, case: dict[str, Any]) -> None:
    damaged, name = golden / "damaged", case_id(case)
    original = contents(damaged / "base" / case["base"] / "data")
    if name in NOT_OPENED:
        with pytest.raises(FormatError):
            bushel.open(damaged / case["open"], index="memory")
        return
    dataset, warned = opened(damaged / case["open"])
    read = []
    for position in range(len(dataset)):
        try:
            [sample] = dataset.read([position], decode=False)
        except FormatError:
            continue
        read.append(tuple(sorted((field, plain(value)) for field, value in sample.items() if field != "__key__")))
    found = {key for key, content in original if content in read}
    assert found >= (set(case["intact"]) | words(MORE.get(name, ""))) - words(NOT_READ.get(name, ""))
    if len(dataset) > len(read) and case["base"] != "ffrecord":  # whose records have a CRC-32 of their own
        assert warned
    if warned:
        with pytest.raises(FormatError):
            bushel.open(damaged / case["open"], index="memory", on_damage="raise")


def opened(path: Path) -> tuple[bushel.Dataset, list[str]]:
    """Open a dataset that may be damaged, with the warnings about that."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        dataset = bushel.open(path, index="memory")
    return dataset, [str(each.message) for each in caught if issubclass(each.category, bushel.errors.DamagedWarning)]
