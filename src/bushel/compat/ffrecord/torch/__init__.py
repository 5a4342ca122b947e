"""FFRecord's own datasets and loader for PyTorch.

A dataset takes a list of indices and gives a list of samples, so that a batch is one read.
"""

from bushel.compat.ffrecord.torch.dataloader import DataLoader
from bushel.compat.ffrecord.torch.dataset import ConcatDataset, Dataset, ReaderRegistry, Subset

__all__ = ["ConcatDataset", "DataLoader", "Dataset", "ReaderRegistry", "Subset"]
