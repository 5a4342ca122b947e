"""The training examples, run as a user runs them, where their libraries are installed."""

import re
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.paths import ROOT
from tests.sources.folders import jpeg
from tests.storage.objects.range_server import serving

import bushel

EXAMPLES = ROOT / "examples"

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")
needs_jax = pytest.mark.skipif(find_spec("jax") is None, reason="jax is not installed")
needs_pyarrow = pytest.mark.skipif(find_spec("pyarrow") is None, reason="pyarrow is not installed")
needs_av = pytest.mark.skipif(find_spec("av") is None, reason="PyAV is not installed")
needs_lightning = pytest.mark.skipif(find_spec("lightning") is None, reason="lightning is not installed")
needs_grain = pytest.mark.skipif(find_spec("grain") is None, reason="grain is not installed")


def run(*arguments: str | Path, dies: bool = False) -> str:
    done = subprocess.run([sys.executable, *map(str, arguments)], capture_output=True, text=True, check=False)
    assert (done.returncode != 0) == dies, done.stderr
    return done.stdout


def losses_of(output: str) -> list[float]:
    """The printed losses. Two runs may differ in the last digits, since BLAS rounds by the alignment of the memory."""
    [line] = [line for line in output.splitlines() if line.startswith("loss")]
    return [float(number) for number in re.findall(r"\d+\.\d+", line)]


def steps_of(output: str) -> int:
    return int(re.findall(r"after (\d+) steps", output)[-1])


@needs_torch
def test_a_torch_loop_that_was_stopped_ends_as_one_that_was_not(tmp_path: Path) -> None:
    script = EXAMPLES / "train_torch.py"
    whole = run(script, tmp_path / "whole")
    assert "stopped after step 13" in run(script, tmp_path / "cut", "--stop-after", "13")
    resumed = run(script, tmp_path / "cut")
    assert "going on at step 10, in epoch 0" in resumed
    assert losses_of(resumed)[-1] == pytest.approx(losses_of(whole)[-1], rel=1e-3)
    assert "samples/s" in whole


@needs_jax
def test_a_jax_loop_learns(tmp_path: Path) -> None:
    output = run(EXAMPLES / "train_jax.py", tmp_path)
    losses = [float(found) for found in re.findall(r"mean loss ([0-9.]+) over 16 steps", output)]
    assert len(losses) == 2
    assert losses[1] < losses[0]


@needs_torch
@pytest.mark.skipif(find_spec("tokenizers") is None, reason="tokenizers is not installed")
def test_chats_resume_in_mid_epoch(tmp_path: Path) -> None:
    script = EXAMPLES / "train_chats.py"
    whole = run(script, tmp_path / "whole")
    assert "stopped after step 13" in run(script, tmp_path / "cut", "--stop-after", "13")
    resumed = run(script, tmp_path / "cut")
    assert "going on at step 10, in epoch 0" in resumed
    assert losses_of(resumed)[-1] == pytest.approx(losses_of(whole)[-1], rel=1e-3)


@needs_grain
def test_processes_of_grain_read_every_sample_once(tmp_path: Path) -> None:
    output = run(EXAMPLES / "grain_source.py", tmp_path)
    assert output.count("16 steps, 512 samples, each of them once") == 2
    assert output.endswith("no problems\n")


@pytest.mark.skipif(find_spec("torchtitan") is None, reason="torchtitan is not installed")
def test_a_loader_of_torchtitan_resumes(tmp_path: Path) -> None:
    assert "batches of (4, 64); resumed in the same place: True" in run(EXAMPLES / "torchtitan_loader.py", tmp_path)


@needs_torch
def test_tokens_are_learned_and_resumed(tmp_path: Path) -> None:
    script = EXAMPLES / "train_tokens.py"
    whole = run(script, tmp_path / "whole")
    run(script, tmp_path / "cut", "--stop-after", "13")
    resumed = run(script, tmp_path / "cut")
    assert "going on at step 10" in resumed
    assert steps_of(resumed) == steps_of(whole)
    first, last = losses_of(whole)
    assert losses_of(resumed)[-1] == pytest.approx(last, rel=1e-3)
    assert last < first


def test_captions_are_found_and_training_resumes(tmp_path: Path) -> None:
    script = EXAMPLES / "train_captions.py"
    whole = run(script, tmp_path / "whole")
    right, steps = map(int, re.findall(r"(\d+) of 200 photos get the right caption after (\d+) steps", whole)[0])
    assert (right >= 190, steps) == (True, 62)
    assert "after 25 steps" in run(script, tmp_path / "cut", "--stop-after", "25")
    resumed = run(script, tmp_path / "cut")
    assert "going on at step 20" in resumed
    assert whole in resumed


def check_segmentation(output: str) -> None:
    [line] = [line for line in output.splitlines() if line.startswith("IoU")]
    assert min(map(float, re.findall(r"\d\.\d+", line))) > 0.85


def check_detection(output: str) -> None:
    found, boxes = map(int, re.findall(r"(\d+) of (\d+) boxes of new images are found", output)[0])
    assert found >= 0.95 * boxes


def check_packs(output: str) -> None:
    assert float(re.findall(r"([\d.]+) bits per byte of new texts", output)[0]) < 4
    assert "in its row, a document has the scores that it has alone: True" in output


def check_robot(output: str) -> None:
    assert int(re.findall(r"(\d+) of 100 new goals are reached", output)[0]) >= 90


def check_streams(output: str) -> None:
    assert float(re.findall(r"([\d.]+) of the speed in 128 windows of new episodes is explained", output)[0]) >= 0.9


def check_video(output: str) -> None:
    right, windows = map(int, re.findall(r"(\d+) of (\d+) windows of new clips are right", output)[0])
    assert right >= 0.95 * windows


@needs_torch
@pytest.mark.parametrize(
    ("script", "stop", "check"),
    [
        pytest.param("train_segmentation.py", 25, check_segmentation, id="segmentation"),
        pytest.param("train_detection.py", 25, check_detection, id="detection"),
        pytest.param("train_packs.py", 25, check_packs, id="packs"),
        pytest.param("train_robot.py", 25, check_robot, id="robot", marks=needs_pyarrow),
        pytest.param("train_streams.py", 25, check_streams, id="streams"),
        pytest.param("train_video.py", 13, check_video, id="video", marks=needs_av),
    ],
)
def test_a_result_is_reached_also_when_training_was_stopped_in_mid_epoch(
    tmp_path: Path, script: str, stop: int, check: Callable[[str], None]
) -> None:
    assert len((EXAMPLES / script).read_text("utf-8").splitlines()) < 80
    whole = run(EXAMPLES / script, tmp_path / "whole")
    check(whole)
    assert f"stopped after step {stop}" in run(EXAMPLES / script, tmp_path / "cut", "--stop-after", str(stop))
    resumed = run(EXAMPLES / script, tmp_path / "cut")
    assert f"going on at step {stop // 10 * 10}, in epoch" in resumed
    assert steps_of(resumed) == steps_of(whole)
    assert losses_of(resumed)[-1] == pytest.approx(losses_of(whole)[-1], rel=1e-3)
    check(resumed)


@needs_torch
@needs_lightning
def test_lightning_resumes_after_a_kill(tmp_path: Path) -> None:
    script = EXAMPLES / "train_lightning.py"
    run(script, tmp_path, "--die-after", "7", dies=True)
    assert "32 steps, 864 samples here, 512 different ones" in run(script, tmp_path)  # 27 batches after the fifth


def test_a_pipeline_moves_by_one_line(tmp_path: Path) -> None:
    script = EXAMPLES / "webdataset_pipeline.py"
    expected = "8 batches, the last one (64, 32, 32, 3); samples of each class [256, 256]"
    assert expected in run(script, tmp_path)
    if find_spec("webdataset") is not None:
        assert expected in run(script, tmp_path, "--original")


def test_the_second_epoch_comes_from_the_cache(tmp_path: Path) -> None:
    with bushel.Writer(tmp_path / "train", {"image": "jpg"}, container="tar", shard_samples=50) as writer:
        for number in range(200):
            writer.append({"image": jpeg(number % 10)}, key=f"{number:03d}")
    with serving(tmp_path) as server:
        script, cache = EXAMPLES / "train_cloud.py", str(tmp_path / "cache")
        assert "epoch 0: 200 samples" in run(script, f"{server.url}/train/", "--cache", cache, "--epochs", "1")
        asked = len(server.gets(".tar"))
        output = run(script, f"{server.url}/train/", "--cache", cache)
        assert "epoch 1: 200 samples" in output
        assert asked
        assert len(server.gets(".tar")) == asked
