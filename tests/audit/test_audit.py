"""The referee finds the faults that are planted in loaders, and none in those that have none."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import bushel
from bushel.audit import examine, record
from bushel.audit.recordings import digests
from bushel.cli.app import app
from bushel.errors import FormatError

SAMPLES, BATCH = 96, 4
KEYS = [f"photo{number}" for number in range(SAMPLES)]

KEYS_OF_ALL = list(range(SAMPLES))

Order = Callable[[int, int, int], list[int]]  # epoch, rank, number of ranks → positions


def shuffled(epoch: int, rank: int, ranks: int) -> list[int]:
    """Return what a rank gets from a loader without a fault."""
    return of_rank(everything(epoch, rank, ranks), rank, ranks)


def of_rank(order: list[int], rank: int, ranks: int) -> list[int]:
    """Return the part on a rank, if each step takes the next samples of the order."""
    return [number for at, number in enumerate(order) if at // BATCH % ranks == rank]


def everything(epoch: int, rank: int, ranks: int) -> list[int]:
    """Return the samples on a rank if nobody divided them."""
    return list(map(int, np.random.default_rng(epoch).permutation(SAMPLES)))


def shorter(epoch: int, rank: int, ranks: int) -> list[int]:
    """Return fewer samples to the last rank."""
    order = shuffled(epoch, rank, ranks)
    return order[: -2 * BATCH] if rank == ranks - 1 else order


def without_a_shard(epoch: int, rank: int, ranks: int) -> list[int]:
    """Return what a rank gets if a shard of 32 samples is never opened."""
    return of_rank([number for number in everything(epoch, rank, ranks) if number < 64], rank, ranks)


def doubled(epoch: int, rank: int, ranks: int) -> list[int]:
    """Return the first batch on a rank twice."""
    order = shuffled(epoch, rank, ranks)
    return order[:BATCH] + order


def seeded_once(epoch: int, rank: int, ranks: int) -> list[int]:
    """Return the same order in each epoch, as without `set_epoch`."""
    return shuffled(0, rank, ranks)


def batches(order: list[int]) -> Iterator[dict[str, Any]]:
    """Yield batches as a loader does."""
    for first in range(0, len(order), BATCH):
        yield {"__key__": [KEYS[number] for number in order[first : first + BATCH]]}


def run(folder: Path, order: Order, *, ranks: int = 2, epochs: int = 2) -> Path:
    """Record all ranks of a run."""
    for epoch in range(epochs):
        for rank in range(ranks):
            loader = batches(order(epoch, rank, ranks))
            for _ in record(loader, folder, epoch=epoch, rank=rank, world_size=ranks):
                pass
    return folder


@pytest.mark.parametrize(
    ("order", "said"),
    [
        (shuffled, []),
        (everything, [r"96 samples came more than once to several ranks, the first of them at step 0 of rank 0"] * 2),
        (
            shorter,
            [r"ranks have unequal steps: rank 0 has 12, rank 1 has 10. .* rank 1 in step 10", "8 samples never"] * 2,
        ),
        (without_a_shard, [r"32 samples never came: photo\d+, photo\d+, photo\d+ and 29 more"] * 2),
        (
            doubled,
            ["came more than once to one rank, the first of them at step 0 of rank 0 and at step 1 of rank 0"] * 2,
        ),
        (seeded_once, []),
    ],
)
def test_planted_faults(tmp_path: Path, order: Order, said: list[str]) -> None:
    report = examine(run(tmp_path / "run", order), keys=KEYS)
    problems = [problem.text for problem in report.problems]
    assert len(problems) == len(said), problems
    for pattern in said:
        assert any(re.search(pattern, text) for text in problems), (pattern, problems)
    same_order = [finding.epoch for finding in report.findings if "is it shuffled?" in finding.text]
    assert same_order == ([1] if order is seeded_once else [])


def test_a_run_without_faults(tmp_path: Path) -> None:
    assert str(examine(run(tmp_path / "a", shuffled), keys=KEYS)).splitlines()[1:] == [
        "epoch 0: 12 steps, 96 samples, each of them once",
        "epoch 1: 12 steps, 96 samples, each of them once",
        "no problems",
    ]


@pytest.mark.parametrize(
    ("samples", "said"), [(96, []), (98, []), (120, ["24 samples never"]), (90, ["6 samples more"])]
)
def test_a_number_of_samples(tmp_path: Path, samples: int, said: list[str]) -> None:
    report = examine(run(tmp_path / "run", shuffled, epochs=1), samples=samples)
    problems = [problem.text for problem in report.problems]
    assert len(problems) == len(said)
    assert all(text.startswith(start) for text, start in zip(problems, said, strict=True))
    dropped = any("2 samples never came (less than a step of all ranks" in finding.text for finding in report.findings)
    assert dropped == (samples == 98)


def test_padding_is_no_problem(tmp_path: Path) -> None:
    def padded(epoch: int, rank: int, ranks: int) -> list[int]:
        order = [number for number in everything(epoch, rank, ranks) if number < SAMPLES - 3]
        return of_rank(order + order[:3], rank, ranks)

    report = examine(run(tmp_path / "run", padded), keys=KEYS[: SAMPLES - 3])
    assert not report.problems
    assert [finding.text for finding in report.findings if "padded" in finding.text] == [
        "3 samples of the last step came before: it is padded"
    ] * 2


def interrupted(folder: Path, resumed: Callable[[list[int], int], list[int]], *, ranks: int = 2) -> Path:
    """Record an epoch whose processes are killed after seven steps, and resumed from a checkpoint of step 5."""
    for rank in range(ranks):
        order = shuffled(0, rank, ranks)
        for _ in islice(record(batches(order), folder, rank=rank, world_size=ranks), 7):
            pass
        for _ in record(batches(resumed(order, rank)), folder, step=5, rank=rank, world_size=ranks):
            pass
    return folder


def test_a_resume(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", shuffled, epochs=1)
    exact = interrupted(tmp_path / "exact", lambda order, rank: order[5 * BATCH :])
    report = examine(exact, against=whole, keys=KEYS)
    assert not report.problems
    assert "all steps have the same samples as" in str(report)

    late = interrupted(tmp_path / "late", lambda order, rank: order[(6 if rank else 5) * BATCH :])
    problems = "\n".join(problem.text for problem in examine(late, against=whole, keys=KEYS).problems)
    assert "after a resume, rank 1 was given other samples at step 5" in problems
    assert "samples differ from" in problems
    assert "from step 5 on: not the same ones" in problems


def test_a_resume_with_more_ranks(tmp_path: Path) -> None:
    whole = run(tmp_path / "whole", shuffled, epochs=1)
    for rank in range(2):
        loader = batches(shuffled(0, rank, 2))
        for _ in islice(record(loader, tmp_path / "more", rank=rank, world_size=2), 8):
            pass
    for rank in range(4):  # the checkpoint is that of step 6, which is step 3 of four ranks
        loader = batches(of_rank(everything(0, rank, 4)[6 * 2 * BATCH :], rank, 4))
        for _ in record(loader, tmp_path / "more", step=3, rank=rank, world_size=4):
            pass
    report = examine(tmp_path / "more", keys=KEYS)
    assert not report.problems, report
    assert "96 samples, each of them once" in str(report)
    assert "samples differ from" in str(examine(tmp_path / "more", against=whole))


def test_a_process_that_was_killed(tmp_path: Path) -> None:
    folder = run(tmp_path / "run", shuffled, epochs=1)
    [first, _] = sorted(folder.iterdir())
    first.write_bytes(first.read_bytes()[:-7])  # in the middle of the last step
    report = examine(folder, samples=SAMPLES)
    assert not report.problems
    assert "rank 0 stopped before the loader had ended" in str(report)
    first.write_bytes(b"nothing of the kind, but long enough")
    with pytest.raises(FormatError, match=r"not a recording of bushel\.audit"):
        examine(folder)
    first.unlink()
    assert [problem.text for problem in examine(folder).problems] == ["no recording of rank 0 of 2"]


def test_steps_that_nobody_recorded(tmp_path: Path) -> None:
    for first in (0, 1 << 40):  # which takes no memory for the steps between
        for _ in islice(record(batches(KEYS_OF_ALL), tmp_path, step=first, rank=0, world_size=1), 2):
            pass
    problem, _twice = examine(tmp_path).problems
    assert problem.text == "rank 0 recorded no step 2, but later ones"
    path = next(tmp_path.iterdir())
    path.write_bytes(path.read_bytes()[:8] + b"\5" + path.read_bytes()[9:])
    with pytest.raises(FormatError, match="rank 5 of 1 does not exist"):
        examine(tmp_path)


def test_a_second_recording_of_the_same_steps_is_refused(tmp_path: Path) -> None:
    run(tmp_path / "run", shuffled, epochs=1)
    with pytest.raises(FileExistsError, match="record each run in a folder of its own"):
        run(tmp_path / "run", shuffled, epochs=1)
    with pytest.raises(FileNotFoundError, match=r"bushel\.audit\.record\(loader, folder\) makes them"):
        examine(tmp_path)


ROWS = np.arange(6).reshape(3, 2)


@pytest.mark.parametrize(
    ("batch", "key"),
    [
        ({"x": ROWS, "label": np.arange(3)}, None),
        ((ROWS, np.arange(3)), None),
        ([{"x": row, "label": number} for number, row in enumerate(ROWS)], None),
        ({"x": ROWS, "text": ["a", "b", "c"]}, "text"),
        ({"x": ROWS, "text": ["a", "b", "c"]}, lambda batch: batch["text"]),
        ([{"x": row, "text": str(number)} for number, row in enumerate(ROWS)], "text"),
        ({"__key__": [["a"], ["b", "c"]]}, None),
        (ROWS, None),
    ],
)
def test_samples_of_batches(batch: Any, key: Any) -> None:
    noted = digests(batch, key)
    assert len(noted) == 24
    assert len({noted[:8], noted[8:16], noted[16:]}) == 3


def test_the_same_sample_in_another_batch() -> None:
    assert digests(ROWS[::-1])[16:] == digests(ROWS)[:8]
    assert digests({"__key__": "a"}) == digests({"id": ["a"]}, "id")
    assert digests({"id": np.array([7])}, "id") == digests({"__key__": ["7"]})


@pytest.mark.parametrize("keys", [range(4), np.arange(4), ["0", "1", "2", "3"], iter([0, 1, 2, 3])], ids=type)
def test_keys_may_be_numbers(keys: Any, tmp_path: Path) -> None:
    batches = [{"id": np.array([number])} for number in (0, 1, 3)]
    assert len(list(record(batches, tmp_path, key="id", rank=0, world_size=1))) == 3
    [problem] = examine(tmp_path, keys=keys).problems
    assert problem.text == "1 sample never came: 2"


def test_samples_that_cannot_be_told_apart() -> None:
    for batch in ({"a": ROWS, "b": np.arange(2)}, {"loss": 3.0}):
        with pytest.raises(TypeError, match="cannot be distinguished"):
            digests(batch)
    with pytest.raises(TypeError, match="whose bytes are not known"):
        digests([{"a": object()}])
    for batch_without_keys in ({"a": ROWS}, [{"a": row} for row in ROWS]):
        with pytest.raises(KeyError, match="id"):
            digests(batch_without_keys, "id")


def test_a_loader_of_this_house_and_the_command(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "ds", {"label": "int"}, container="bag") as out:
        for number, key in enumerate(KEYS):
            out.append({"label": number}, key=key)
    ds = bushel.open(tmp_path / "ds")
    for rank in range(2):
        loader = bushel.Loader(ds, BATCH, shuffle=True, seed=0, rank=rank, world_size=2)
        for _ in record(loader, tmp_path / "run", rank=rank, world_size=2):
            pass
    good = CliRunner().invoke(app, ["audit", str(tmp_path / "run"), "--of", str(tmp_path / "ds")])
    assert (good.exit_code, good.output.splitlines()[-1]) == (0, "no problems")
    bad = CliRunner().invoke(app, ["audit", str(tmp_path / "run"), "--samples", "200", "--json"])
    assert bad.exit_code == 1
    assert '"problems": 1' in bad.output


def test_torch_with_and_without_a_sampler(tmp_path: Path) -> None:
    torch, data = pytest.importorskip("torch"), pytest.importorskip("torch.utils.data")
    numbers = data.TensorDataset(torch.arange(SAMPLES))
    for name, divided in (("divided", True), ("whole", False)):
        for rank in range(2):
            sampler = data.distributed.DistributedSampler(numbers, 2, rank, seed=3) if divided else None
            loader = data.DataLoader(numbers, BATCH, sampler=sampler)
            for _ in record(loader, tmp_path / name, rank=rank, world_size=2):
                pass
    assert not examine(tmp_path / "divided", samples=SAMPLES).problems
    [problem] = examine(tmp_path / "whole", samples=SAMPLES).problems
    assert problem.text.startswith("96 samples came more than once to several ranks")
