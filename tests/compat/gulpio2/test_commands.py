"""The ten commands: output, options and spellings, and the scripts of `gulp2_register_adapter`."""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image
from tests.compat.gulpio2.frames import frame, make_video

from bushel.cli.output import exit_code_of
from bushel.compat.gulpio2 import GulpDirectory, commands
from bushel.compat.gulpio2.commands.register import build_parser, run, script_name
from bushel.compat.gulpio2.errors import DuplicateIdException, ListFileError

Command = Callable[[list[str]], int]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Videos and images in all the layouts."""
    for id_ in ("1", "2"):
        for folder in (f"mp4/{id_}", "webm", "net", "kinetics/x", f"jpeg/{id_}", f"images/label{id_}"):
            (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        make_video(tmp_path / "mp4" / id_ / "v.mp4", 25)
        make_video(tmp_path / "webm" / f"{id_}.webm", 25)
        make_video(tmp_path / "net" / f"{id_}.mp4", 5)
        make_video(tmp_path / "kinetics" / "x" / f"{id_}_000000_000010.mp4", 5)
        for number in range(3):
            Image.fromarray(frame(number)).save(tmp_path / "jpeg" / id_ / f"{number}.jpg")
            Image.fromarray(frame(number)).save(tmp_path / "images" / f"label{id_}" / f"{number}.jpg")
    (tmp_path / "videos.json").write_text(json.dumps([{"id": n, "template": "t", "other": "o"} for n in (1, 2)]))
    (tmp_path / "videos.csv").write_text("1;t\n2;u\n")
    (tmp_path / "net.json").write_text(json.dumps({"database": {n: {"subset": "training"} for n in ("1", "2")}}))
    (tmp_path / "kinetics.json").write_text(json.dumps({"1": {"a": 1}, "2": {}}))
    (tmp_path / "images.txt").write_text("label1/0.jpg, label1\nlabel2/1.jpg, label2\n")
    return tmp_path


CASES = [
    (commands.gulp2_20bn_json_videos, "videos.json mp4 out", 10),
    (commands.gulp2_20bn_json_videos, "--frame_rate 25 --frame_size=24 --label_name other videos.json mp4 out", 25),
    (commands.gulp2_20bn_csv_webm, "videos.csv webm out --extend --shm_dir /tmp --remove_duplicates", 10),
    (commands.gulp2_20bn_csv_jpeg, "--image_size 12 videos.csv jpeg out", 3),
    (commands.gulp2_activitynet, "net.json net out --phase training", 5),
    (commands.gulp2_activitynet, "net.json net out", 5),
    (commands.gulp2_kinetics, "kinetics.json kinetics out --image_size 24", 5),
    (commands.gulp2_video_folder, "kinetics out --frame_size 24", 5),
]


@pytest.mark.parametrize(("command", "line", "frames"), CASES)
def test_videos(data: Path, monkeypatch: pytest.MonkeyPatch, command: Command, line: str, frames: int) -> None:
    monkeypatch.chdir(data)
    assert command(["--videos_per_chunk", "1", "--num_workers", "2", "--shuffle", *line.split()]) == 0
    directory = GulpDirectory("out")
    assert [len(chunk.meta_dict) for chunk in directory] == [1, 1]
    assert [len(found) for chunk in directory for found, _ in chunk] == [frames, frames]


@pytest.mark.parametrize(
    ("command", "line", "count"),
    [
        (commands.gulp2_image_folder, "--images_per_chunk 4 images/ out", 6),
        (commands.gulp2_image_folder, "images out --image_size 12 --shuffle", 6),
        (commands.gulp2_image_list, "images.txt out --root_path images --num_workers 1", 2),
    ],
)
def test_images(data: Path, monkeypatch: pytest.MonkeyPatch, command: Command, line: str, count: int) -> None:
    monkeypatch.chdir(data)
    assert command(line.split()) == 0
    directory = GulpDirectory("out")
    assert len(directory.merged_meta_dict) == count
    assert json.loads(Path("out/label2idx.json").read_text()) == {"label1": 0, "label2": 1}


def test_again_without_duplicates(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    line = ["videos.json", "mp4", "out", "--remove_duplicates", "--num_workers", "1"]
    commands.gulp2_20bn_json_videos(line)
    with pytest.raises(DuplicateIdException, match="2 items are in out already"):
        commands.gulp2_20bn_json_videos(line)
    assert list(GulpDirectory("out").chunk_objs_lookup) == [0]


@pytest.mark.parametrize("name", commands.__all__)
def test_help_and_wrong_use(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    command: Command = getattr(commands, name)
    with pytest.raises(SystemExit) as caught:
        command(["--help"])
    assert caught.value.code == 0
    assert f"bushel {name}" in capsys.readouterr().out
    with pytest.raises(SystemExit) as caught:
        command(["--no_such_option"])
    assert caught.value.code == 2


ADAPTER = '''
from bushel.compat.gulpio2.adapters import AbstractDatasetAdapter
import numpy as np


class NewAdapterClassName(AbstractDatasetAdapter):
    """Grey frames."""

    def __init__(self, first, second, count=3, grey=False, scale=1.5, names=("a", "b"),
                 note=None, exact: int | None = None):
        assert isinstance(count, int) and isinstance(grey, bool) and isinstance(scale, float), (count, grey, scale)
        self.meta = {"first": first, "second": second, "scale": scale, "names": list(names), "note": note,
                     "exact": exact}
        self.count, self.grey = count, grey

    def __len__(self):
        return self.count

    def iter_data(self, slice_element=None):
        for number in range(self.count)[slice_element or slice(None)]:
            pixels = np.full((4, 4) if self.grey else (4, 4, 3), number, np.uint8)
            yield {"id": number, "meta": self.meta, "frames": [pixels]}
'''


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_adapter_module.py").write_text(ADAPTER)
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


@pytest.mark.parametrize("module", ["my_adapter_module", "my_adapter_module.py"])
def test_register_adapter(adapter: Path, module: str) -> None:
    assert commands.gulp2_register_adapter([module, "NewAdapterClassName"]) == 0
    script = adapter / "new_adapter_class_name"
    assert os.access(script, os.X_OK)
    line = "2nd 1st out --count 5 --grey True --scale 2 --names x,y --exact 7 --videos_per_chunk 2 --num_workers 2"
    path = {**os.environ, "PYTHONPATH": str(adapter)}
    done = subprocess.run([f"./{script.name}", *line.split()], capture_output=True, text=True, env=path, check=False)
    assert done.returncode == 0, done.stderr
    directory = GulpDirectory("out")
    assert [len(chunk.meta_dict) for chunk in directory] == [2, 2, 1]
    frames, meta = directory["4"]
    assert frames[0].shape == (4, 4)
    assert meta == {"first": "1st", "second": "2nd", "scale": 2.0, "names": ["x", "y"], "note": None, "exact": 7}
    shown = subprocess.run([f"./{script.name}", "--help"], capture_output=True, text=True, env=path, check=True).stdout
    assert "Grey frames." in shown
    assert "--names NAMES" in shown
    assert "[a,b]" in shown


@pytest.mark.parametrize(
    ("words", "grey"), [([], False), (["--grey"], True), (["--grey", "False"], False), (["--grey=true"], True)]
)
def test_options_have_their_types(adapter: Path, words: list[str], grey: bool) -> None:
    import my_adapter_module  # type: ignore[import-not-found]

    parser = build_parser(my_adapter_module.NewAdapterClassName, "x")
    given = vars(parser.parse_args(["2nd", "1st", "out", *words]))
    assert given == {
        "first": "1st",
        "second": "2nd",
        "output_folder": "out",
        "count": 3,
        "grey": grey,
        "scale": 1.5,
        "names": ("a", "b"),
        "note": None,
        "exact": None,
        "videos_per_chunk": 100,
        "num_workers": 4,
    }


LISTS = [
    (commands.gulp2_20bn_json_videos, "{", "invalid JSON"),
    (commands.gulp2_20bn_json_videos, "[" * 100_000, "invalid JSON"),
    (commands.gulp2_20bn_json_videos, '{"id": 1}', "expected a list of objects"),
    (commands.gulp2_20bn_json_videos, '[{"id": 1, "template": "t"}, {"id": 2}]', "entry 1 has no 'template'"),
    (commands.gulp2_activitynet, "[]", "found a list"),
    (commands.gulp2_activitynet, '{"version": "1.3"}', "expected an object with a 'database'"),
    (commands.gulp2_activitynet, '{"database": {"1": 7}}', "for each video"),
    (commands.gulp2_kinetics, "[]", "found a list"),
]


@pytest.mark.parametrize(("command", "content", "message"), LISTS)
def test_lists_that_are_none(tmp_path: Path, command: Command, content: str, message: str) -> None:
    (tmp_path / "list.json").write_text(content)
    (tmp_path / "videos").mkdir()
    with pytest.raises(ListFileError, match=message) as caught:
        command([*(str(tmp_path / name) for name in ("list.json", "videos", "out"))])
    assert "list.json" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_packed_list_that_is_cut(tmp_path: Path) -> None:
    packed = gzip.compress(b'[{"id": 1, "template": "t"}]')
    for content in (packed[:20], b"no gzip"):
        (tmp_path / "list.json.gz").write_bytes(content)
        with pytest.raises(ListFileError, match="invalid gzip file"):
            commands.gulp2_20bn_json_videos([*(str(tmp_path / name) for name in ("list.json.gz", "", "out"))])


def test_left_out_items_set_the_exit_code(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(data)
    (data / "images" / "label1" / "0.jpg").write_bytes(b"no image")
    assert commands.gulp2_image_list(["--root_path", "images", "images.txt", "out", "--images_per_chunk", "1"]) == 1
    assert sorted(path.name for path in Path("out").iterdir()) == ["data_1.gulp", "label2idx.json", "meta_1.gmeta"]
    assert [*GulpDirectory("out").merged_meta_dict] == ["1.jpg"]
    assert commands.gulp2_sanity_check(["out"]) == 0


@pytest.mark.parametrize("command", [commands.gulp2_image_folder, commands.gulp2_video_folder])
def test_a_folder_that_is_not_there(tmp_path: Path, command: Command) -> None:
    with pytest.raises(FileNotFoundError, match="no such folder"):
        command([str(tmp_path / "none"), str(tmp_path / "out")])
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match="no items"):
        command([str(tmp_path / "empty"), str(tmp_path / "out")])
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("rate", ["0", "-1", "x"])
def test_a_rate_is_positive(rate: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        commands.gulp2_20bn_csv_webm(["--frame_rate", rate, "a", "b", "c"])
    assert "--frame_rate" in capsys.readouterr().err


def test_a_script_prints_errors_in_a_line(adapter: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["2nd", "1st", "out", "--count", "0"]
    assert exit_code_of(lambda: run("my_adapter_module", "NewAdapterClassName", words)) == 2
    assert capsys.readouterr().err == "bushel: the adapter has no items: nothing was found to gulp\n"


@pytest.mark.parametrize("package", ["gulpio", "gulpio2", "bushel.compat.gulpio2"])
def test_register_a_shipped_adapter(adapter: Path, package: str) -> None:
    assert commands.gulp2_register_adapter([f"{package}.adapters", "ImageListAdapter"]) == 0
    Image.fromarray(frame(1)).save("1.png")
    Path("list.txt").write_text("1.png,x\n")
    command = [sys.executable, "image_list_adapter", "out", "list.txt", "--img_size", "8", "--shuffle", "False"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert GulpDirectory("out")["x-1.png"][0][0].shape == (8, 12, 3)


def test_what_cannot_be_registered(adapter: Path) -> None:
    with pytest.raises(ModuleNotFoundError):
        commands.gulp2_register_adapter(["no_such_module", "X"])
    with pytest.raises(AttributeError, match="no class X"):
        commands.gulp2_register_adapter(["my_adapter_module", "X"])
    (adapter / "broken_module.py").write_text("raise RuntimeError('boom')")
    with pytest.raises(ImportError, match="broken_module cannot be imported: RuntimeError: boom"):
        commands.gulp2_register_adapter(["broken_module.py", "X"])

    class Odd:
        def __init__(self, given: dict[str, int]) -> None: ...

    with pytest.raises(TypeError, match="the parameter given"):
        build_parser(Odd, "odd")


def test_names_of_scripts() -> None:
    assert script_name("NewAdapterClassName") == "new_adapter_class_name"
    assert script_name("Custom20BNJsonVideoAdapter") == "custom20_b_n_json_video_adapter"
