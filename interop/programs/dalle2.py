"""DALLE2-pytorch: images with embeddings from other files, by a pipeline that is derived from `DataPipeline`."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from run_program import packages, picture, show, write_tar


def _pixels(image: Any) -> Any:
    return torch.tensor(list(image.getdata()), dtype=torch.uint8)


def run(folder: Path) -> None:
    """Load with embeddings of files, with those of the shards, and drawn at random."""
    packages(folder, "dalle2_pytorch", "dalle2_pytorch.dataloaders")
    import webdataset as wds
    from dalle2_pytorch.dataloaders.decoder_loader import ImageEmbeddingDataset, create_image_embedding_dataloader

    Path("emb").mkdir()
    for shard in range(3):
        write_tar(
            f"set/{shard:05}.tar",
            [
                (f"{shard:05}{n:04}.{kind}", content)
                for n in range(6)
                for kind, content in (("jpg", picture(n)), ("txt", b"text %d" % n))
            ],
        )
        if shard != 1:  # a shard without embeddings is left out
            embeddings = np.arange(24, dtype=np.float32).reshape(6, 4) + shard
            embeddings[4] = 0
            np.save(f"emb/img_emb_{shard}.npy", embeddings)
    options = {"img_embedding_folder_url": "emb", "index_width": 4, "img_preproc": _pixels, "extra_keys": ["txt"]}
    dataset = ImageEmbeddingDataset(
        "set/{00000..00002}.tar", shuffle_shards=False, handler=wds.handlers.ignore_and_continue, **options
    )
    for sample in dataset:
        show("sample", sample)
    for sample in dataset.shuffle(3, rng=__import__("random").Random(1)).batched(2):
        show("batch", sample)
    loader = create_image_embedding_dataloader(
        "set/{00000..00002}.tar",
        1,
        2,
        img_embeddings_url="emb",
        index_width=4,
        shuffle_shards=False,
        img_preproc=_pixels,
        handler=wds.handlers.warn_and_continue,
    )
    for batch in loader:
        show("loader", batch)
    try:
        list(ImageEmbeddingDataset("set/00001.tar", shuffle_shards=False, img_preproc=_pixels, extra_keys=["img_emb"]))
    except AssertionError as error:
        show("missing", str(error))
