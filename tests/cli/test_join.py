"""`bushel join`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.cli.running import fails, run

import bushel


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with bushel.Writer(tmp_path / "texts.tar", {"txt": "utf8", "cls": "int"}, container="tar") as writer:
        for number in range(4):
            writer.append({"txt": f"text {number}", "cls": number}, key=f"cat/{number}")
    (tmp_path / "labels.csv").write_text("id,kind\ncat/0,kitten\ncat/2,tiger\ncat/9,lynx\n")
    (tmp_path / "same.csv").write_text("id,cls\ncat/0,5\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


JOIN = ("join", "texts.tar", "labels.csv", "--on", "key=id")


def test_it_counts_and_names_samples_without_partners(here: Path) -> None:
    assert run(*JOIN).splitlines() == [
        "2 samples with txt, cls, id, kind",
        "labels.csv: 2 samples of texts.tar matched by id",
        "  joined by id: no match for 2 of the first dataset ('cat/1', 'cat/3') and 1 of the second dataset ('cat/9')",
    ]
    assert run(*JOIN, "--how", "left").startswith("4 samples with")
    assert sorted(path.name for path in here.iterdir() if path.suffix) == ["labels.csv", "same.csv", "texts.tar"]


def test_json(here: Path) -> None:
    found = json.loads(run(*JOIN, "--json"))
    assert (found["samples"], found["fields"]["kind"], found["paths"]) == (2, "utf8", ["texts.tar", "labels.csv"])
    [joined] = found["joins"]
    assert (joined["matched"], joined["lone"], joined["examples"]) == (2, [2, 1], [["cat/1", "cat/3"], ["cat/9"]])


def test_a_view_keys_and_a_dataset_are_written(here: Path) -> None:
    run(*JOIN, "--save-view", "labelled", "--keys", "keys.txt", "--out", "pairs.tar", "-q")
    assert list(bushel.open("texts.tar", view="labelled").keys) == ["cat/0", "cat/2"]
    assert (here / "keys.txt").read_text() == run(*JOIN, "--keys", "-") == "cat/0\ncat/2\n"
    assert [(each["__key__"], each["kind"]) for each in bushel.open("pairs.tar")] == [
        ("cat/0", "kitten"),
        ("cat/2", "tiger"),
    ]


def test_several_datasets_are_joined_with_new_names(here: Path) -> None:
    found = run("join", "texts.tar", "labels.csv", "same.csv", "--on", "key=id", "--rename", "cls=other", code=0)
    assert found.startswith("1 sample with txt, cls, id, kind, other\n")
    assert "same.csv: 1 sample of texts.tar matched by id" in found


def test_errors_say_what_to_do(here: Path) -> None:
    same_field = fails("join", "texts.tar", "same.csv", "--on", "key=id")
    assert "'cls': give the second one's another name, with --rename cls=cls_2" in same_field
    assert "did you mean 'kind'?" in fails("join", "texts.tar", "labels.csv", "--on", "key=kinds")
    assert "is not one of 'inner', 'left'" in fails(*JOIN, "--how", "outer")
    assert "leave --how left out" in fails(*JOIN, "--how", "left", "--save-view", "some")
    assert "it is for --out" in fails(*JOIN, "-c", "tar")
    assert "Missing argument" in fails("join", "texts.tar")


def test_no_partner_at_all_is_exit_code_1(here: Path) -> None:
    assert "0 samples" in run("join", "texts.tar", "labels.csv", code=1)
