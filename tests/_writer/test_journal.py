from __future__ import annotations

import resource
import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bushel._index.builders import FieldBuilder, IndexBuilder
from bushel._writer.journal import Journal, SavedShard, read_journal
from bushel.kernels import crc32
from bushel.spec import Field

Stage = tuple[int, int, dict[str, Any]]
"""Size of the journal, samples, and their table."""

HEAD: dict[str, Any] = {"container": "bag", "name": "000000", "columns": [["a", "bytes", "bytes", 0]]}


def new_builder() -> IndexBuilder:
    columns = [FieldBuilder(Field("a", "bytes"), "bytes", 0), FieldBuilder(Field("b", "utf8", True), "utf8", 1)]
    return IndexBuilder("bag", columns, keyed=True)


def add(builder: IndexBuilder, number: int) -> None:
    builder.columns["a"].add(number * 10, number, number * 7)
    for element in range(number % 3):
        builder.columns["b"].add(number * 100 + element, element, 2**32 - 1)
    if number % 5 == 4:
        builder.columns["b"].mark_absent()
    if number % 4 == 1:
        builder.left_out.append((number, number * 10))
    builder.close_sample(f"kéy {number}")


def state(builder: IndexBuilder) -> dict[str, Any]:
    return builder.since(0)


def good(stages: list[Stage], data: bytes, whole: bytes) -> list[Stage]:
    """The checkpoints that lie in the part of a journal that is as it was written."""
    same = next((at for at, (one, two) in enumerate(zip(data, whole, strict=False)) if one != two), len(data))
    return [stage for stage in stages if stage[0] <= same]


def restored(kept: SavedShard) -> dict[str, Any]:
    builder = new_builder()
    kept.restore(builder)
    return state(builder)


def write(folder: Path, checkpoints: list[int]) -> list[Stage]:
    """A journal with a checkpoint after so many samples each; its stages."""
    folder.mkdir(exist_ok=True)
    journal, builder = Journal(folder, head=HEAD), new_builder()
    path = folder / "journal"
    stages = [(path.stat().st_size, 0, state(builder))]
    for count in checkpoints:
        for _ in range(count):
            add(builder, builder.samples)
        journal.checkpoint(builder, {"a.bag": builder.samples * 10, "b.bag": builder.samples})
        stages.append((path.stat().st_size, builder.samples, state(builder)))
    return stages


def test_a_checkpoint_without_news_writes_nothing(tmp_path: Path) -> None:
    stages = write(tmp_path, [2, 0, 0, 3])
    assert stages[1] == stages[2] == stages[3]
    assert stages[4][0] > stages[3][0]


@given(checkpoints=st.lists(st.integers(0, 6), max_size=5), data=st.data())
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_every_cut_is_as_good_as_an_earlier_checkpoint(tmp_path: Path, checkpoints: list[int], data: Any) -> None:
    stages = write(tmp_path, checkpoints)
    path = tmp_path / "journal"
    whole = path.read_bytes()
    cut = data.draw(st.integers(0, len(whole)))
    rest = data.draw(st.sampled_from([b"", bytes(1), bytes(8), bytes(4096), b"\xff" * 20]))
    path.write_bytes(whole[:cut] + rest)
    kept = read_journal(tmp_path)
    stages = good(stages, whole[:cut] + rest, whole)
    if not stages:
        assert kept is None
        return
    size, samples, table = stages[-1]
    assert kept is not None
    assert (kept.head, kept.samples, kept.commit) == (HEAD, samples, None)
    assert kept.positions == ({"a.bag": samples * 10, "b.bag": samples} if samples else kept.positions)
    assert restored(kept) == table
    assert path.stat().st_size == size, "what is damaged is cut off, so that later frames can be read"


@given(at=st.integers(0), mask=st.integers(1, 255))
@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
def test_a_changed_byte_ends_the_journal_there(tmp_path: Path, at: int, mask: int) -> None:
    stages = write(tmp_path, [3, 1, 4])
    path = tmp_path / "journal"
    whole = path.read_bytes()
    at %= len(whole)
    path.write_bytes(whole[:at] + bytes([whole[at] ^ mask]) + whole[at + 1 :])
    kept = read_journal(tmp_path)
    stages = [stage for stage in stages if stage[0] <= at]
    assert (None if kept is None else restored(kept)) == (stages[-1][2] if stages else None)


def resumed(folder: Path) -> tuple[Journal, IndexBuilder]:
    """Continue a journal, with the index of its samples."""
    kept = read_journal(folder)
    assert kept is not None
    builder = new_builder()
    kept.restore(builder)
    journal = Journal(folder, head=None)
    journal.resume(kept.samples, kept.positions)
    return journal, builder


def test_going_on_with_a_cut_journal(tmp_path: Path) -> None:
    write(tmp_path, [3, 2, 2])
    path = tmp_path / "journal"
    path.write_bytes(path.read_bytes()[:-3])
    journal, builder = resumed(tmp_path)
    for _ in range(4):
        add(builder, builder.samples)
    journal.checkpoint(builder, {"a.bag": 90, "b.bag": 9})
    again = read_journal(tmp_path)
    assert again is not None
    assert (again.samples, again.positions) == (9, {"a.bag": 90, "b.bag": 9})
    undisturbed = new_builder()
    for number in range(9):
        add(undisturbed, number)
    assert restored(again) == state(undisturbed)


@pytest.mark.parametrize("checkpoints", [[], [4]])
def test_a_commit_is_kept_and_a_cut_one_is_not(tmp_path: Path, checkpoints: list[int]) -> None:
    stages = write(tmp_path, checkpoints)
    journal = Journal(tmp_path, head=None)
    journal.commit(["a.bag", "spec.json", ".bushel/index.safetensors"])
    path = tmp_path / "journal"
    whole = path.read_bytes()
    kept = read_journal(tmp_path)
    assert kept is not None
    assert kept.commit == ["a.bag", "spec.json", ".bushel/index.safetensors"]
    assert (kept.samples, restored(kept)) == stages[-1][1:]
    for cut in range(stages[-1][0], len(whole)):
        path.write_bytes(whole[:cut])
        kept = read_journal(tmp_path)
        assert kept is not None
        assert (kept.samples, kept.commit) == (stages[-1][1], None)


def test_no_journal(tmp_path: Path) -> None:
    assert read_journal(tmp_path) is None
    (tmp_path / "journal").write_bytes(b"")
    assert read_journal(tmp_path) is None
    (tmp_path / "journal").write_bytes(bytes(100_000))
    assert read_journal(tmp_path) is None


def test_a_new_journal_takes_the_place_of_an_old_one(tmp_path: Path) -> None:
    write(tmp_path, [3])
    Journal(tmp_path, head={**HEAD, "name": "other"})
    kept = read_journal(tmp_path)
    assert kept is not None
    assert (kept.head["name"], kept.samples) == ("other", 0)


def test_a_checkpoint_that_fails_hides_no_later_one(tmp_path: Path) -> None:
    write(tmp_path, [3])
    journal, builder = resumed(tmp_path)
    add(builder, 3)
    size = (tmp_path / "journal").stat().st_size
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 20, hard))
    try:
        with pytest.raises(OSError, match="too large"):
            journal.checkpoint(builder, {"a.bag": 40, "b.bag": 4})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, before)
    assert (tmp_path / "journal").stat().st_size == size
    journal.checkpoint(builder, {"a.bag": 40, "b.bag": 4})
    again = read_journal(tmp_path)
    assert again is not None
    assert (again.samples, restored(again)) == (4, state(builder))


@pytest.mark.parametrize("damage", ["zeros", "cut", "gone"])
@pytest.mark.parametrize(("first", "samples"), [(0, 0), (12, 1), (25, 2), (31, 3)])
def test_a_checkpoint_counts_if_its_bytes_are_there(tmp_path: Path, damage: str, first: int, samples: int) -> None:
    data = bytes(range(1, 31))
    staged = tmp_path / "a.bag"
    journal, builder = Journal(tmp_path, head=HEAD), new_builder()
    for number in range(3):
        add(builder, number)
        size = 10 * builder.samples
        staged.write_bytes(data[:size])
        journal.checkpoint(builder, {"a.bag": size}, {"a.bag": (0, crc32(data[:size]))})
    if damage == "gone" and first < 30:
        staged.unlink()
        samples = 0
    elif damage == "cut":
        staged.write_bytes(data[:first])
    else:
        staged.write_bytes(data[:first] + bytes(max(30 - first, 0)))
    for _ in range(2):  # frames that do not count are gone
        kept = read_journal(tmp_path)
        assert kept is not None
        assert kept.samples == samples
        assert kept.positions == ({"a.bag": 10 * samples} if samples else {})
