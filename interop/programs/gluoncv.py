"""GluonCV: datasets of boxes over record files and lists, and its iterator for evaluation."""

from pathlib import Path

import numpy as np
from run_program import packages, picture, show, stand_ins


def run(folder: Path) -> None:
    """Write records with boxes, and load them."""
    import mxnet as mx

    packages(
        folder,
        *[
            ".".join(parts)
            for parts in (
                ["gluoncv"],
                ["gluoncv", "data"],
                ["gluoncv", "data", "recordio"],
                ["gluoncv", "data", "lst"],
                ["gluoncv", "auto"],
                ["gluoncv", "auto", "estimators"],
                ["gluoncv", "auto", "estimators", "image_classification"],
            )
        ],
    )
    stand_ins("gluoncv.data.imagenet")
    from gluoncv.auto.estimators.image_classification import utils
    from gluoncv.data.lst.detection import LstDetection
    from gluoncv.data.recordio.detection import RecordFileDetection

    for kind in ("boxes", "classes"):
        writer = mx.recordio.MXIndexedRecordIO(f"{kind}.idx", f"{kind}.rec", "w")
        for number in range(6):
            boxes = [4.0, 5, 32, 24] + [1, 0.25, 0.25, 0.5, 0.75] * (1 + number % 3)
            label = boxes if kind == "boxes" else float(number)
            writer.write_idx(number, mx.recordio.pack(mx.recordio.IRHeader(0, label, number, 0), picture(number)))
        writer.close()
    Path("list.lst").write_text(
        "".join(f"{number}\t4\t5\t32\t24\t1\t0.25\t0.25\t0.5\t0.75\t{number:02}-wide.jpg\n" for number in range(6))
    )
    for dataset in (
        RecordFileDetection("boxes.rec"),
        RecordFileDetection("boxes.rec", coord_normalized=False),
        LstDetection("list.lst", root="pictures"),
    ):
        show("length", len(dataset))
        for number in range(len(dataset)):
            pixels, label = dataset[number]
            show("sample", [pixels, np.asarray(label)])
    train, evaluation, _ = utils.get_data_rec(
        "classes.rec", "classes.idx", "classes.rec", "classes.idx", 4, 2, 21, 0.875
    )  # the pictures have the size that it asks for
    show("train", sorted({int(label) for batch in train for label in batch.label[0].asnumpy()}))
    for batch in evaluation:
        show("evaluation", [np.round(batch.data[0].asnumpy(), 2) + 0.0, batch.label[0], batch.pad])
