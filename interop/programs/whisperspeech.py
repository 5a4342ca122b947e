"""WhisperSpeech: datasets that are merged with derived ones, chunks of sounds, and writers of compressed shards."""

import io
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from run_program import packages, show, show_members, stand_ins, write_tar


def _npy(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, np.asarray(array, np.float32))
    return out.getvalue()


def _sound(path: str, backend: Any = None) -> Any:
    return torch.from_numpy(np.frombuffer(Path(path).read_bytes(), np.int16).astype(np.float32))[None], 100


def run(folder: Path) -> None:
    """Merge, chunk, and split."""
    packages(folder, "whisperspeech")
    stand_ins("torchaudio", "torio", "torio.io", "torio.io._streaming_media_decoder", load=_sound)
    stand_ins("fastprogress", progress_bar=lambda samples, **_: samples)
    stand_ins("fastcore", "fastcore.script", call_parse=lambda function: function)
    sys.modules["fastcore.script"] = SimpleNamespace(call_parse=lambda function: function)  # type: ignore[assignment]
    from whisperspeech import split_out_val_datasets, utils, vad_merge

    times = [[[0, 1.5], [2, 2.5]], [], [[0, 4]]]
    sounds = [np.random.default_rng(n).integers(-99, 99, 500, dtype=np.int16).tobytes() for n in range(3)]
    write_tar("audio/a.tar", [(f"s{n}.flac", sounds[n]) for n in range(3)])
    write_tar(
        "vad/a.tar.gz",
        [
            (f"s{n}.{kind}.npy", _npy(content))
            for n in range(3)
            for kind, content in (
                ("vad", np.reshape(times[n], (-1, 2))),
                ("powers", [n - 9.0] * len(times[n])),
                ("gain_shift", [n]),
            )
        ],
    )
    write_tar(
        "spk_emb/a.tar.gz",
        [(f"s{n}_{m:03}.spk_emb.npy", _npy([n + 1, m, 2])) for n in (0, 2) for m in range(len(times[n]))],
    )
    for sample in utils.vad_dataset(["audio/a.tar"]):
        show("vad", {name: sample[name] for name in sample if name != "src_sample"})
    vad_merge.prepare_mvad("vad/a.tar.gz", "mvad/a.tar.gz")
    show_members("mvad/a.tar.gz")
    for sample in vad_merge.chunked_audio_dataset(["audio/a.tar"], "eq"):
        show("chunks", {name: sample[name] for name in sample if name != "src_sample"})
    for shard in range(11):  # with fewer, 16 workers share them, and 1.0.2 refuses workers without a shard
        write_tar(f"audio/b{shard:02}.tar", [(f"other{shard}.flac", sounds[0])])
    Path("splits").mkdir()
    Path("splits/val").write_text("s0_000\ns2_000\n")
    split_out_val_datasets.split_dataset("audio", "splits/val")
    show_members("splits/audio/val.tar")
