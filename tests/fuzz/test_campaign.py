"""Campaigns of damaged files (`make campaign`): their cases can be repeated, and they can be stopped and resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from tests.fuzz.campaign.__main__ import main
from tests.fuzz.campaign.cases import ARMS, make_case
from tests.fuzz.campaign.check import WrongError, _compare
from tests.fuzz.campaign.material import CONTAINERS, make_materials
from tests.fuzz.campaign.watch import Campaign, Plan, summary_of
from tests.fuzz.campaign.worker import Bench, record_failure
from tests.fuzz.datasets import ORIGINALS

from bushel.codecs import registry

SOME = settings().max_examples // 2
"""How many cases of each container run: at night, many more."""


@pytest.fixture(autouse=True)
def _codecs_stay(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The campaign replaces codecs that run code, which other tests in this process use."""
    monkeypatch.setattr(registry, "registered", dict(registry.registered))
    yield
    for cached in registry._CACHED:
        cached.cache_clear()


def plan(out: Path, cases: int, suite: str = "read") -> Plan:
    return Plan(suite, ["recordio"], cases, seed=3, threads=1, out=out)


def test_a_case_depends_on_its_number_only(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = (make_materials("ffrecord", tmp_path / name) for name in ("one", "two"))
    cases = [make_case("ffrecord", 7, number, one) for number in range(64)]
    assert cases == [make_case("ffrecord", 7, number, two) for number in range(64)]
    assert {case.arm for case in cases} == set(range(len(ARMS)))
    assert len({case.data for case in cases}) > 60
    assert make_case("ffrecord", 8, 0, one) != cases[0]


@pytest.mark.filterwarnings("ignore:.* (was|were) not compared")  # hashes that need another package
@pytest.mark.parametrize(
    ("container", "suite"),
    [
        (container, suite)
        for container in CONTAINERS
        for suite in ("read", "kernels", "names")
        if suite != "names" or container in ORIGINALS  # it writes
    ],
)
def test_some_cases_of_every_container(tmp_path: Path, container: str, suite: str) -> None:
    bench = Bench(container, 1, tmp_path)
    run = {"read": bench.run, "kernels": bench.run_kernels, "names": bench.run_names}[suite]
    outcomes = [run(bench.case(number)) for number in range(16, 16 + SOME)]
    assert any(outcome.opened and outcome.samples for outcome in outcomes)
    material = bench.materials[0]
    for place in ("plain", "indexed"):  # every damaged file is put back
        assert all(
            (tmp_path / place / material.name / name).read_bytes() == data for name, data in material.files.items()
        )


def test_a_campaign_is_resumed_where_it_stopped(tmp_path: Path) -> None:
    assert Campaign(plan(tmp_path, 20)).run() == 0
    assert summary_of(tmp_path)["containers"]["recordio"]["cases"] == 20
    assert Campaign(plan(tmp_path, 50)).run() == 0
    summary = summary_of(tmp_path)
    done = summary["containers"]["recordio"]
    assert done["cases"] == 50
    assert sum(cases for cases, _, _ in done["arms"].values()) == 50
    assert done["peak_mib"] < 256
    assert summary["failures"] == {}
    with pytest.raises(SystemExit, match="another campaign"):
        Campaign(plan(tmp_path, 50, "kernels"))


def test_wrong_values_are_found_and_failures_are_kept(tmp_path: Path) -> None:
    bench = Bench("recordio", 1, tmp_path / "bench")
    material = bench.materials[0]
    key, sample = next(iter(material.samples.items()))
    _compare([(key, sample)], material, "read", by_key=True)
    with pytest.raises(WrongError, match="has other values"):
        _compare([("another key", sample)], material, "read", by_key=True)
    with pytest.raises(WrongError, match="never written"):
        _compare([(key, {name: b"other bytes" for name in sample})], material, "read", by_key=False)
    case = bench.case(5)
    record_failure(tmp_path / "failures.jsonl", case, "recordio", "error", "KeyError in x.py:f", "detail")
    [line] = [json.loads(each) for each in (tmp_path / "failures.jsonl").read_text().splitlines()]
    assert (line["case"], line["file"], line["signature"]) == (5, case.file, "KeyError in x.py:f")
    [kept] = (tmp_path / "damaged").iterdir()
    assert kept.read_bytes() == case.data


def test_the_status_of_no_campaign_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["campaign", "--status", "--out", str(tmp_path)])
    with pytest.raises(SystemExit):
        main()
    assert f"{tmp_path} has no campaign" in capsys.readouterr().err
