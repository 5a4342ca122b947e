"""open-muse: its own grouping of files, its filters, and its writer of shards."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from PIL import Image
from run_program import packages, picture, run_script, show, show_members, stand_ins, write_tar


def _examples() -> list[dict[str, object]]:
    pixels = np.arange(24 * 24, dtype=np.uint8).reshape(24, 24)
    return [{"image": Image.fromarray(pixels + n), "label": n} for n in range(5)]


def run(folder: Path) -> None:
    """Load samples by its stages, and write shards by its script."""
    packages(folder, "training")
    stand_ins("torchvision", "transformers")
    import webdataset as wds

    from training import data

    for shard in range(2):
        write_tar(
            f"{shard}.tar",
            [
                (f"{n}.{kind}", content)
                for n in range(4)
                for kind, content in (
                    ("jpg", picture(n)),
                    ("txt", b"<person> text"),
                    (
                        "json",
                        json.dumps(
                            {"original_width": 200 * n, "original_height": 512, "pwatermark": 0.1, "aesthetic": 5 + n}
                        ).encode(),
                    ),
                )
            ],
        )
    pipeline = wds.DataPipeline(
        wds.SimpleShardList("{0..1}.tar"),
        data.tarfile_to_samples_nothrow,
        wds.select(data.WebdatasetSelect(min_size=256)),
        wds.shuffle(3, rng=__import__("random").Random(2)),
        wds.decode("pil", handler=wds.ignore_and_continue),
        wds.rename(
            image="jpg;png;jpeg;webp",
            input_ids="text;txt;caption",
            orig_size="json",
            aesthetic_score="json",
            handler=wds.warn_and_continue,
        ),
        wds.map(data.filter_keys({"image", "input_ids", "orig_size", "aesthetic_score"})),
        wds.map_dict(
            orig_size=data.get_orig_size, aesthetic_score=data.get_aesthetic_score, handler=wds.warn_and_continue
        ),
        wds.to_tuple("image", "input_ids", "orig_size", "aesthetic_score"),
    )
    for sample in pipeline:
        show("sample", sample)
    stand_ins("datasets")
    import sys

    sys.modules["datasets"] = SimpleNamespace(load_dataset=lambda *_, **__: _examples())  # type: ignore[assignment]
    run_script(folder / "scripts/convert_imagenet_to_wds.py", "--output_dir", "out", "--max_train_samples_per_shard", 2)
    for path in sorted(Path("out").iterdir()):
        show_members(path)
