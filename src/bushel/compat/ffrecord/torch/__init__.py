"""FFRecord's datasets and loader for PyTorch: a list of indices is a batch, and one read."""

from bushel.compat.ffrecord.torch.dataloader import DataLoader
from bushel.compat.ffrecord.torch.dataset import ConcatDataset, Dataset, ReaderRegistry, Subset

__all__ = ["ConcatDataset", "DataLoader", "Dataset", "ReaderRegistry", "Subset"]
