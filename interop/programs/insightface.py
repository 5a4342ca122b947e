"""insightface: its writers and converters of record files, and its iterator."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
from run_program import packages, picture, run_script, show, show_files, stand_ins


def run(folder: Path) -> None:
    """Write faces of identities, shuffle the records, write images of them, and iterate."""
    Path("images").mkdir()
    stand_ins("sklearn")
    stand_ins("cv2", imwrite=lambda path, pixels: np.save(str(path) + ".npy", pixels))
    arcface = folder / "recognition/arcface_mxnet"
    sys.path[:0] = [str(arcface), str(arcface / "common")]
    packages(folder / "python-package", "insightface", "insightface.data")
    import image_iter
    import rec_builder
    from insightface.data import rec_builder as package_builder

    builder = rec_builder.RecBuilder("faces", image_size=(24, 24))
    for label in range(4):
        builder.add(label, [picture(3 * label + number, "square") for number in range(3)])
    builder.close()
    builder.writer.close()
    sequence = rec_builder.SeqRecBuilder("sequence")
    other = package_builder.RecBuilder("other")
    for label in range(3):
        sequence.add(label, picture(label), is_image=False)
        other.add([picture(label), picture(label + 1)])
    other.add_image(picture(9), [5, 0.25, 7])
    for written in (sequence, other):
        written.close()
        written.writer.close()
    run_script(arcface / "common/rec2image.py", "--include", "faces", "--output", "images")
    run_script(arcface / "common/rec2shufrec.py", "--input", "faces", "--output", "shuffled")
    for name in ("faces", "sequence", "other", "images"):
        show_files(name)
    show("shuffled", Path("shuffled/train.rec").read_bytes())
    options: dict[str, Any] = {"batch_size": 4, "data_shape": (3, 20, 20), "path_imgrec": "faces/train.rec"}
    for more in (
        {"shuffle": True, "rand_mirror": True},
        {"shuffle": True, "mean": [127.5] * 3, "images_filter": 2},
        {"shuffle": True, "cutoff": 6},
        {"shuffle": True, "color_jittering": 1},
    ):
        iterator = image_iter.FaceImageIter(**options, **more)
        for batch in iterator:
            pixels = batch.data[0].asnumpy()
            if "color_jittering" in more:  # float32 in another order of additions
                pixels = pixels.mean(axis=(2, 3))
            show(f"{sorted(more)}", [np.round(pixels, 2) + 0.0, batch.label[0], batch.pad])
