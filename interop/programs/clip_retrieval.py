"""clip-retrieval: its reader, with samples that lack a field or have a broken image."""

from pathlib import Path
from typing import Any

import torch
from run_program import packages, picture, show, write_tar


def _pixels(image: Any) -> Any:
    return torch.tensor(list(image.getdata()), dtype=torch.uint8)


def run(folder: Path) -> None:
    """Read batches, with and without a cache."""
    packages(folder, "clip_retrieval", "clip_retrieval.clip_inference")
    from clip_retrieval.clip_inference.reader import WebdatasetReader

    urls = [
        write_tar(
            f"{shard}.tar",
            [
                (f"{shard}{n}.{kind}", content)
                for n in range(5)
                for kind, content in (("jpg", picture(n) if n != 3 else b"broken"), ("txt", b"text"), ("json", b"{}"))
                if (n, kind) != (1, "txt")
            ],
        )
        for shard in range(2)
    ]
    for cache in (None, "cache"):
        if cache:
            Path(cache).mkdir()
        reader = WebdatasetReader(
            lambda shards: shards,
            _pixels,
            lambda texts: torch.ones(len(texts), 3),
            urls,
            3,
            0,
            enable_metadata=True,
            cache_path=cache,
        )
        for batch in reader:
            show(f"cache {cache}", batch)
        if cache:
            show("cached", sorted(path.name for path in Path(cache).rglob("*.tar")))
