"""FFRecord's datasets and loader for PyTorch: a list of indices is a batch, and one read."""

from .dataloader import DataLoader
from .dataset import ConcatDataset, Dataset, ReaderRegistry, Subset

__all__ = ["ConcatDataset", "DataLoader", "Dataset", "ReaderRegistry", "Subset"]
