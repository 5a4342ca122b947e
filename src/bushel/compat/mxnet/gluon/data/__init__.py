"""`mxnet.gluon.data`: datasets of anything with a length and positions, and their loader."""

from bushel.compat.mxnet.gluon.data import vision
from bushel.compat.mxnet.gluon.data.datasets import ArrayDataset, Dataset, RecordFileDataset, SimpleDataset
from bushel.compat.mxnet.gluon.data.loader import (
    BatchSampler,
    DataLoader,
    FilterSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
)

__all__ = [
    "ArrayDataset",
    "BatchSampler",
    "DataLoader",
    "Dataset",
    "FilterSampler",
    "RandomSampler",
    "RecordFileDataset",
]
__all__ += ["Sampler", "SequentialSampler", "SimpleDataset", "vision"]
