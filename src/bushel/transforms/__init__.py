"""Image transforms: frozen values that work alone, and that the loader fuses with decoding where it can.

`Crop`, `Flip`, `ScaleTo` and `apply_steps` are for transforms of your own that should be fused too: see `Spatial`.
"""

from bushel.transforms.colour import ColorJitter, Grayscale
from bushel.transforms.spatial import (
    CenterCrop,
    Crop,
    Flip,
    RandomCrop,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomVerticalFlip,
    Resize,
    ScaleTo,
    Spatial,
    apply_steps,
)
from bushel.transforms.together import Boxes, Mask, Points
from bushel.transforms.values import Compose, EachFrame, Lambda, Normalize, ToCHW

__all__ = [
    "Boxes",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "Crop",
    "EachFrame",
    "Flip",
    "Grayscale",
    "Lambda",
    "Mask",
    "Normalize",
    "Points",
    "RandomCrop",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "ScaleTo",
    "Spatial",
    "ToCHW",
    "apply_steps",
]
