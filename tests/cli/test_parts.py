"""`bushel parts`, `bushel finish`, and the options of runs in parts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from tests.cli.running import fails, run
from tests.sources.folders import image_folder

import bushel
from bushel.engines import slurm


def test_parts_and_finish(tmp_path: Path) -> None:
    photos, out = image_folder(tmp_path / "photos", 9), tmp_path / "out"
    options = ("-c", "tar", "--parts", 5, "--replace-dots", "_")
    assert "missing: 0-4" in run("pack", photos, out, *options, "--part", "plan")
    for part in (0, 3):
        run("pack", photos, out, *options, "--part", part)
    assert run("parts", out, "--missing") == "1-2,4\n"
    assert "2 of 5 parts of a run to tar, missing 1-2,4" in run("parts", out)
    assert "3 of 5 parts" in fails("finish", out)
    done = json.loads(run("parts", out, "--json"))
    assert (done["missing"], done["finished"], done["samples"]) == ([1, 2, 4], False, 9)
    for part in (1, 2, 4):
        run("pack", photos, out, *options, "--part", part)
    assert "run `bushel finish`" in run("parts", out)
    assert run("finish", out).startswith(f"{out}: 9 samples in 5 parts")
    assert json.loads(run("finish", out, "--json"))["samples"] == 9
    assert "finished" in run("parts", out)
    assert run("parts", out, "--missing") == "\n"
    assert len(bushel.open(out)) == 9
    assert "no plan of a run" in fails("parts", photos)


def test_an_engine_and_progress_in_lines_of_json(tmp_path: Path) -> None:
    photos = image_folder(tmp_path / "photos", 9)
    run("pack", photos, tmp_path / "out", "-c", "bag", "--parts", 2, "--engine", "local", "--progress", "json")
    run("convert", tmp_path / "out", tmp_path / "tars", "-c", "tar", "--parts", 2, "--engine", "local")
    assert len(bushel.open(tmp_path / "tars")) == 9
    assert "is not bar, json or none" in fails("pack", photos, tmp_path / "x.tar", "--progress", "some")
    for options, message in (
        (["--engine", "slurm"], "slurm needs --parts"),
        (["--sbatch", "-p x"], "needs --engine slurm"),
        (["--engine", "local", "--parts", "2", "--part", "1"], "leave one of them out"),
        (["--engine", "spark", "--parts", "2"], "unknown engine 'spark'"),
    ):
        assert message in " ".join(fails("pack", photos, tmp_path / "x.tar", *options).split())


def test_slurm_gets_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a pretended sbatch, which keeps what it is given; `make cluster` runs the real one."""
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "sbatch").write_text(
        f'#!/bin/sh\nn=$(ls {tmp_path}/jobs-* 2>/dev/null | wc -l)\n(echo "$@"; cat) > {tmp_path}/jobs-$n\necho $n\n'
    )
    (tools / "sbatch").chmod(0o755)
    monkeypatch.setenv("PATH", str(tools), prepend=":")
    photos, out = image_folder(tmp_path / "photos", 9), tmp_path / "out"
    options = ["pack", str(photos), str(out), "-c", "tar", "--parts", "5"]
    run(*options, "--part", 1)
    submit = [*options, "--engine", "slurm", "--sbatch", "--mem=1G"]
    monkeypatch.setenv("BUSHEL_SLURM_RETRIES", "1")
    monkeypatch.setattr(sys, "argv", ["bushel", *submit])
    assert "submitted 4 of 5 parts to Slurm: 0, 1" in run(*submit)
    array, last = ((tmp_path / f"jobs-{number}").read_text() for number in range(2))
    assert array.startswith("--parsable --mem=1G --job-name=bushel --array=0,2-4\n#!/bin/bash\n")
    assert f"-m bushel pack {photos} {out} -c tar --parts 5 --part $SLURM_ARRAY_TASK_ID\n" in array
    assert "--dependency=afterany:0\n" in last
    assert f"-m bushel finish {out}\n" in last
    assert "then exec env BUSHEL_SLURM_RETRIES=0 " in last
    assert "--engine slurm --sbatch --mem=1G" in last


def test_without_slurm_no_plan_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    photos = image_folder(tmp_path / "photos", 9)
    monkeypatch.setenv("PATH", str(tmp_path))
    options = ["-c", "tar", "--parts", "5", "--engine", "slurm"]
    assert "sbatch was not found on this machine" in fails("pack", photos, tmp_path / "out", *options)
    assert not (tmp_path / "out").exists()


def test_arrays_are_as_long_as_slurm_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[list[str], str]] = []

    def submitted(options: list[str], text: str) -> str:
        given.append((options, text))
        return str(len(given))

    monkeypatch.setattr(slurm, "_sbatch", submitted)
    monkeypatch.setattr("shutil.which", lambda name: name)
    assert slurm.submit(["bushel", "pack"], "out", [7, 999, 1000, 1001, 2500]) == "1, 2, 3, 4"
    assert [options[-1] for options, _ in given[:-1]] == ["--array=7,999", "--array=0-1", "--array=500"]
    assert "--part $(( SLURM_ARRAY_TASK_ID + 1000 ))" in given[1][1]
    assert "--dependency=afterany:1:2:3" in given[-1][0]
    assert slurm.without_engine(["pack", "--engine=slurm", "a", "--sbatch", "--mem=1G", "--part", "1", "b"]) == [
        "pack",
        "a",
        "b",
    ]
    monkeypatch.setattr("shutil.which", lambda name: None)
    with pytest.raises(FileNotFoundError, match="sbatch was not found"):
        slurm.submit(["bushel", "pack"], "out", [1])
