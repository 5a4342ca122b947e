"""timm: its reader of shards, in training and evaluation."""

import json
from pathlib import Path

from run_program import packages, picture, show, write_tar


def run(folder: Path) -> None:
    """Read splits by name and by braces."""
    packages(folder, "timm", "timm.data", "timm.data.readers")
    from timm.data.readers.reader_wds import ReaderWds

    for shard in range(3):
        write_tar(
            f"set/x-train-{shard:04}.tar",
            [
                (f"{shard}_{n}.{kind}", content)
                for n in range(6)
                for kind, content in (("cls", b"%d" % n), ("jpg", picture(shard * 10 + n)), ("json", b'{"alt": 4}'))
            ],
        )
    names = [f"x-train-{shard:04}.tar" for shard in range(3)]
    split = {"name": "train", "num_samples": 18, "filenames": names, "shard_lengths": [6] * 3}
    Path("set/_info.json").write_text(json.dumps({"splits": {"train": split}}))
    for options in (
        {"split": "train"},
        {"split": "train", "is_training": True, "batch_size": 4},
        {"split": "x-train-{0000..0001}.tar|12", "is_training": True, "sample_shuffle_size": 5},
    ):
        reader = ReaderWds("set", **options)
        show(f"length {options}", len(reader))
        for epoch in range(2):
            reader.set_epoch(epoch)
            for sample in reader:
                show(f"{epoch}", sample)
        show("names", reader.filenames(basename=True))
