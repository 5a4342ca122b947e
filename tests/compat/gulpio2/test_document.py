"""The examples of GulpIO2's documentation, with another import; docs/compat-gulpio2.md lists the changes."""

import inspect
import json
import os
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.compat.gulpio2.frames import frame, make_video, write

from bushel.compat.gulpio2 import ChunkWriter, GulpChunk, GulpDirectory, GulpIngestor, commands


@pytest.fixture
def gulps(tmp_path: Path) -> str:
    """The folder that the document calls /tmp/something_something_gulps."""
    items = [
        (id_, {"label": "something something", "id": id_}, [frame(id_ + k) for k in range(12)])
        for id_ in (702766, 803959, 803957)
    ]
    return str(write(tmp_path / "something_something_gulps", items, per_chunk=2))


def test_an_example_invocation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gulp2_20bn_json_videos videos.json input_dir output_dir`."""
    monkeypatch.chdir(tmp_path)
    Path("input_dir", "1").mkdir(parents=True)
    make_video(tmp_path / "input_dir" / "1" / "video.mp4")
    Path("videos.json").write_text('[{"id": 1, "template": "something"}]')
    assert commands.gulp2_20bn_json_videos(["videos.json", "input_dir", "output_dir"]) == 0
    assert GulpDirectory("output_dir")["1"][1] == {"id": 1, "label": "something", "idx": 0}


def test_register_adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`gulp2_register_adapter gulpio.adapters <NewAdapterClassName>`, then `./new_adapter_class_name`."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "adapter.py").write_text(
        "from bushel.compat.gulpio2.adapters import ImageListAdapter\n\n\n"
        "class NewAdapterClassName(ImageListAdapter):\n    pass\n"
    )
    assert commands.gulp2_register_adapter(["adapter.py", "NewAdapterClassName"]) == 0
    shown = subprocess.run(["./new_adapter_class_name", "--help"], capture_output=True, text=True, check=True).stdout
    assert "output_folder input_file" in " ".join(shown.split())
    assert commands.gulp2_register_adapter(["gulpio.adapters", "ImageFolderAdapter"]) == 0
    assert os.access("image_folder_adapter", os.X_OK)


def test_sanity_check(gulps: str, capsys: pytest.CaptureFixture[str]) -> None:
    """`gulp2_sanity_check <folder containing the gulped files>` prints the files where a test fails."""
    assert commands.gulp2_sanity_check([gulps]) == 0
    Path(gulps, "data_1.gulp").write_bytes(b"")
    Path(gulps, "meta_0.gmeta").write_bytes(b"")
    assert commands.gulp2_sanity_check([gulps]) == 1
    printed = capsys.readouterr().out
    assert f"Test failed for: ['{gulps}/data_1.gulp']" in printed
    assert f"Test failed for: ['{gulps}/meta_0.gmeta']" in printed


@pytest.mark.parametrize("colorspace", ["GRAY", "RGB", None])
def test_read_a_gulped_dataset(gulps: str, colorspace: Any) -> None:
    # You can either read greyscale (`colorspace="GRAY"`) or RGB (`colorspace="RGB"`)
    # images.
    gulp_directory = GulpDirectory(gulps, colorspace=colorspace)
    seen = []
    # iterate over all chunks
    for chunk in gulp_directory:
        # for each 'video' get the metadata and all frames
        for frames, meta in chunk:
            # do something with the metadata
            for i, f in enumerate(frames):
                # do something with the frames
                assert f.shape == ((24, 36) if colorspace == "GRAY" else (24, 36, 3))
                seen.append((meta["id"], i))
    assert seen == [(id_, i) for id_ in (702766, 803959, 803957) for i in range(12)]


def test_a_video_with_a_specific_id(gulps: str) -> None:
    gulp_directory = GulpDirectory(gulps)
    frames, meta = gulp_directory[803959]
    assert (len(frames), meta) == (12, {"label": "something something", "id": 803959})
    every = [image.tobytes() for image in frames]

    frames, meta = gulp_directory[803959, slice(1, 10, 2)]
    assert [image.tobytes() for image in frames] == every[1:10:2]

    frames, meta = gulp_directory[803959, [1, 5, 6, 8]]
    assert [image.tobytes() for image in frames] == [every[number] for number in (1, 5, 6, 8)]

    frames, meta = gulp_directory[803959, 1:10:2]
    assert [image.tobytes() for image in frames] == every[1:10:2]


class GulpImageDataset:
    def __init__(self, gulp_dir: GulpDirectory, transform: Any = None) -> None:
        self.gulp_dir = gulp_dir
        self.transform = transform if transform is not None else lambda x: x
        self.example_ids = list(gulp_dir.merged_meta_dict.keys())

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, int):  # word for word
            example_id = self.example_ids[idx]
        else:
            example_id = idx
        imgs, meta = self.gulp_dir[example_id]
        return self.transform(imgs[0]), meta

    def __len__(self) -> int:
        return len(self.gulp_dir.merged_meta_dict)


@pytest.mark.parametrize("package", ["torch", "gulpio"])
def test_loading_data(tmp_path: Path, package: str) -> None:
    """With torch's DataLoader and the first GulpIO's, and the first GulpIO's transforms instead of torchvision's."""
    from bushel.compat.gulpio2.transforms import CenterCrop, Compose, Normalize, Scale

    if package == "torch":
        loader_of: Any = pytest.importorskip("torch.utils.data").DataLoader
    else:
        from bushel.compat.gulpio2.loader import DataLoader as loader_of
    folder = write(tmp_path / "train_data", [(n, {"label": n % 2}, [frame(n, 150, 200)]) for n in range(10)], 4)

    # define data augmentations. Notice that there are different functions for videos and images
    transform = Compose(
        [
            Scale(120),
            CenterCrop(112),
            Normalize((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
        ]
    )

    # define dataset wrapper and pick this up by the data loader interface.
    dataset = GulpImageDataset(GulpDirectory(str(folder)), transform=transform)
    loader = loader_of(dataset, batch_size=4, shuffle=True, num_workers=0, drop_last=True)

    dataset_val = GulpImageDataset(GulpDirectory(str(folder)), transform=transform)
    loader_val = loader_of(dataset_val, batch_size=4, shuffle=False, num_workers=0, drop_last=True)

    assert len(loader) == len(loader_val) == 2
    for data, label in loader:
        assert tuple(data.shape) == (4, 112, 112, 3)
        assert len(label["label"]) == 4
    np.testing.assert_allclose(np.asarray(next(iter(loader_val))[0][1]), dataset_val["1"][0], rtol=1e-12)
    assert [number for _, label in loader_val for number in label["label"].tolist()] == [0, 1, 0, 1, 0, 1, 0, 1]


TABLE = [(4, 1), (4, 2), (4, 0), (4, 1), (4, 3), (8, 1)]
SNIPPET = """{"702766": {"frame_info": [[0, 3, 7260],
                           [7260, 3, 7252],
                           [14512, 2, 7256],
                           [21768, 2, 7260],
                           [29028, 1, 7308]],
            "meta_data":  [{"label": "something something",
                            "id":    702766}]}}"""


def test_format_description(tmp_path: Path) -> None:
    """The table of lengths and paddings, and the snippet of a meta file."""
    [chunk] = GulpDirectory(tmp_path, jpeg_decoder=bytes).new_chunks(1)
    entry = json.loads(SNIPPET)["702766"]
    with chunk.open("wb"):
        chunk.append("702766", entry["meta_data"][0], [b"x" * (n - pad) for _, pad, n in entry["frame_info"]])
        chunk.append("table", {}, [b"y" * (length - pad) for length, pad in TABLE])
    stored = json.loads(Path(chunk.meta_file_path).read_text())
    assert stored["702766"] == entry
    assert [(length, pad) for _, pad, length in stored["table"]["frame_info"]] == TABLE
    assert Path(chunk.data_file_path).stat().st_size == 29028 + 7308 + 28
    Path(chunk.meta_file_path).write_text(SNIPPET)
    frames, meta = GulpDirectory(tmp_path, jpeg_decoder=bytes)[702766]
    assert ([len(stored) for stored in frames], meta["id"]) == ([7257, 7249, 7254, 7258, 7307], 702766)


def test_api() -> None:
    """Signatures and members as in the section API."""

    def names(what: Any) -> list[str]:
        parameters = inspect.signature(what).parameters.values()
        return [parameter.name for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]

    assert names(GulpDirectory) == ["output_dir", "jpeg_decoder"]
    assert names(GulpDirectory.new_chunks) == ["self", "total_new_chunks"]
    assert names(GulpChunk) == ["data_file_path", "meta_file_path", "serializer", "jpeg_decoder"]
    assert names(GulpChunk.append) == ["self", "id_", "meta_data", "frames"]
    assert names(GulpChunk.iter_all) == ["self", "accepted_ids", "shuffle"]
    assert names(GulpChunk.open) == ["self", "flag"]
    assert names(GulpChunk.read_frames) == ["self", "id_", "slice_"]
    assert names(GulpIngestor) == ["adapter", "output_folder", "videos_per_chunk", "num_workers"]
    assert names(ChunkWriter.write_chunk) == ["self", "output_chunk", "input_slice"]


def test_installation() -> None:
    """`pip install bushel` is enough: the command exists, and no dependency of the original is imported."""
    scripts = {script.name: script.value for script in distribution("bushel").entry_points}
    assert scripts["bushel"] == "bushel.cli:main"
    code = (
        "import pkgutil, sys\nimport bushel.compat.gulpio2 as package\n"
        "for module in pkgutil.walk_packages(package.__path__, package.__name__ + '.'): __import__(module.name)\n"
        "absent = {'av', 'cv2', 'docopt', 'gulpio2', 'jinja2', 'sh', 'simplejpeg', 'torch', 'tqdm'}\n"
        "print(sorted(absent & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
