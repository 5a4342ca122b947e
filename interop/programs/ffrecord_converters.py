"""ffrecord_converters: the converter of any PyTorch dataset, its dataset, and a converter of its own."""

import random
import sys
import wave
from pathlib import Path

import numpy as np
from run_program import run_script, show, show_files, stand_ins

DATASET = """
from torch.utils.data import Dataset
class Squares(Dataset):
    def __len__(self): return 23
    def __getitem__(self, index): return {"x": index ** 2, "name": "é" * index}
    def get_meta(self): return {"kind": "squares"}
def get_datasets(folder): return [(Squares(), "train")]
def get_files_or_dirs(): return [("notes.txt", None)]
"""


def run(folder: Path) -> None:
    """Convert, read at random, and convert sounds."""
    sys.path.insert(0, str(folder / "general_converter"))
    import general_utils

    general_utils.get_data_dir = lambda: Path.cwd() / "out"
    Path("source").mkdir()
    Path("source/notes.txt").write_text("notes")
    Path("own.py").write_text(DATASET)
    for small in ("0", "7"):
        run_script(
            folder / "general_converter/general_converter.py", "own.py", "source", "squares", "--mini_num", small
        )
    show_files("out")
    from general_dataset import GeneralDataset

    for small in (False, True):
        dataset = GeneralDataset("squares", "train", lambda index, sample, meta: [index, sample, meta], miniset=small)
        show("samples", dataset[random.sample(range(len(dataset)), 5)])
        show("files", [path.name for path in dataset.list_files()])
    stand_ins("scipy", "scipy.io", "scipy.io.wavfile")
    from scipy.io import wavfile

    wavfile.read = lambda name: (22050, np.frombuffer(Path(name).read_bytes()[44:], np.int16))
    Path("speech/wavs").mkdir(parents=True)
    for number in range(20):
        with wave.open(f"speech/wavs/s{number}.wav", "wb") as sound:
            sound.setparams((1, 2, 22050, 0, "NONE", ""))
            sound.writeframes(np.arange(50 + number, dtype=np.int16).tobytes())
    Path("speech/metadata.csv").write_text("".join(f"s{number}|Text|text\n" for number in range(20)))
    run_script(folder / "dataset_converter/miniset/ljspeech.py", "speech", "speech-out")
    show_files("speech-out")
