"""PyVideoAI: its dataset over GulpIO2, in training and test."""

from pathlib import Path
from typing import Any

import numpy as np
from gulpio2 import ChunkWriter, GulpDirectory
from PIL import Image
from run_program import packages, picture, show, stand_ins


class _Adapter:
    def __len__(self) -> int:
        return 4

    def iter_data(self, part: slice) -> Any:
        for number in range(*part.indices(4)):
            Path("one.jpg").write_bytes(picture(number))
            frame = np.asarray(Image.open("one.jpg"))
            frames = [np.roll(frame, shift, 0) for shift in range(9 + number)]
            yield {"id": f"v{number}", "frames": frames, "meta": {"num_frames": len(frames)}}


def run(folder: Path) -> None:
    """Write videos, and sample frames of them."""
    packages(folder, "pyvideoai", "pyvideoai.dataloaders")
    stand_ins("cv2", "torchvision", "torchvision.transforms")
    from pyvideoai.dataloaders.gulp_sparsesample_dataset import GulpSparsesampleDataset

    Path("gulp").mkdir()
    chunks = GulpDirectory("gulp").new_chunks(2)
    for part, chunk in zip((slice(0, 2), slice(2, 4)), chunks, strict=True):
        ChunkWriter(_Adapter()).write_chunk(chunk, part)
    Path("list.csv").write_text(
        "0\n" + "".join(f"v{number} {number} {number % 2} 1 {7 + number}\n" for number in range(4))
    )
    for mode in ("train", "test"):
        for code in ("pyvideoai", "tsn"):
            dataset = GulpSparsesampleDataset(
                "list.csv",
                mode,
                4,
                "gulp",
                train_jitter_min=20,
                train_jitter_max=28,
                test_scale=24,
                crop_size=16,
                test_num_spatial_crops=5,
                sample_index_code=code,
                processing_backend="torch",
                train_class_balanced_sampling=mode == "train",
            )
            for index in range(len(dataset)):
                show(f"{mode} {code}", dataset[index])
