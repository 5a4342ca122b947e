"""open_clip: training with shards drawn at random, and evaluation."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from run_program import packages, picture, show, stand_ins, write_tar


def _words(texts: Any) -> Any:
    return [torch.tensor([ord(letter) for letter in text.ljust(9)]) for text in [texts]]


def _pixels(image: Any) -> Any:
    return torch.tensor(list(image.getdata()), dtype=torch.uint8)


def run(folder: Path) -> None:
    """Load epochs of both kinds."""
    os.environ |= {"OPENCLIP_WDS_SAMPLE_SHUFFLE_SIZE": "1", "OPENCLIP_WDS_SAMPLE_SHUFFLE_INITIAL": "1"}
    torch.manual_seed(0)  # the seed of the workers; the buffer of samples is drawn without one, and off
    packages(folder / "src", "open_clip_train")
    stand_ins("torchvision", "torchvision.datasets", "open_clip", "open_clip.naflex_config")
    from open_clip_train import data

    for shard in range(3):
        members = [
            (f"{n}.{kind}", content)
            for n in range(7)
            for kind, content in (("jpg", picture(10 * shard + n)), ("txt", b"%03d_%d" % (shard, n)))
        ]
        write_tar(f"{shard:03}.tar", [*members, ("no-caption.jpg", picture(99)), ("6.txt", b"again")])
    Path("002.tar").write_bytes(Path("002.tar").read_bytes()[:7000])  # a damaged shard is skipped from there
    arguments = SimpleNamespace(
        train_data="{000..002}.tar",
        val_data="{000..002}.tar",
        train_num_samples=40,
        val_num_samples=0,
        dataset_resampled=True,
        train_data_upsampling_factors=None,
        seed=3,
        workers=1,
        world_size=1,
        rank=0,
        batch_size=4,
        distributed=False,
    )
    for resampled in (True, False):
        arguments.dataset_resampled = resampled
        info = data.get_wds_dataset(arguments, _pixels, is_train=True, tokenizer=_words, epoch=0)
        for epoch in range(2):
            info.set_epoch(epoch)
            for batch in info.dataloader:
                show(f"train {resampled} {epoch}", batch)
    for batch in data.get_wds_dataset(arguments, _pixels, is_train=False, tokenizer=_words).dataloader:
        show("val", batch)
