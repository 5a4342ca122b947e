"""Transforms of images at load time: plain frozen values, which the loader fuses with decoding where it can."""

from bushel.transforms.colour import ColorJitter, Grayscale
from bushel.transforms.spatial import (
    CenterCrop,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
)
from bushel.transforms.values import Compose, EachFrame, Lambda, Normalize, ToCHW

__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "EachFrame",
    "Grayscale",
    "Lambda",
    "Normalize",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "ToCHW",
]
