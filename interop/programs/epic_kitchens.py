"""EPIC-Kitchens C1: its adapter for GulpIO2, and its datasets over what it wrote."""

import random
import sys
from pathlib import Path

import pandas as pd
from run_program import packages, picture, run_script, show, show_files


def run(folder: Path) -> None:
    """Pack frames and flow, and load frames of segments."""
    sys.path.insert(0, str(folder / "src"))
    packages(folder / "src", "datasets")
    rows = []
    for number in range(5):
        for axis in ("", "u", "v"):
            place = Path("frames", f"P{number % 2:02}", f"P{number % 2:02}_{number}", axis)
            place.mkdir(parents=True, exist_ok=True)
            for frame in range(1, 8):
                (place / f"frame_{frame:010}.jpg").write_bytes(picture(number + frame))
        rows.append(
            {
                "uid": number,
                "narration_id": f"n_{number}",
                "participant_id": f"P{number % 2:02}",
                "video_id": f"P{number % 2:02}_{number}",
                "start_frame": 1 + number % 2,
                "stop_frame": 6,
                "narration_timestamp": float("nan"),
                "all_nouns": ["a"],
            }
        )
    pd.DataFrame(rows).set_index("uid").to_pickle("labels.pkl")
    pd.DataFrame(rows).set_index("uid").to_csv("labels.csv")
    for kind, labels, size in (("rgb", "labels.pkl", 12), ("flow", "labels.csv", -1)):
        sys.modules.pop("utils.gulp_adapter", None)
        run_script(
            folder / "src/gulp_data.py",
            "frames",
            kind,
            labels,
            kind,
            "--segments-per-chunk",
            "2",
            "-j",
            "1",
            "--frame-size",
            str(size),
        )
        show_files(kind)
    from datasets.epic_dataset import EpicVideoDataset, EpicVideoFlowDataset

    for kind, dataset_class in (("rgb", EpicVideoDataset), ("flow", EpicVideoFlowDataset)):
        dataset = dataset_class(Path(kind), filter_fn=lambda key: key != "n_3")
        show("records", len(dataset))
        for record in dataset.video_records:
            show("metadata", record.metadata)
            show("frames", dataset.load_frames(record, random.sample(range(record.num_frames), 3)))
