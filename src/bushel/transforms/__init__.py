"""Image transforms: frozen values that work alone, and that the loader fuses with decoding where it can.

`Crop`, `Flip`, `ScaleTo` and `apply_steps` are for transforms of your own that should be fused too: see `Spatial`.
"""

from typing import TYPE_CHECKING

from bushel._runtime.public import lazy_names

if TYPE_CHECKING:
    from bushel.transforms.batches import CutMix, MixUp
    from bushel.transforms.choices import MultiCrop, RandomApply, RandomChoice
    from bushel.transforms.colour import ColorJitter, Grayscale
    from bushel.transforms.flips import RandomHorizontalFlip, RandomVerticalFlip
    from bushel.transforms.pixels import GaussianBlur, RandomErasing
    from bushel.transforms.policies import AugMix, RandAugment, TrivialAugmentWide
    from bushel.transforms.spatial import (
        CenterCrop,
        Crop,
        Flip,
        RandomCrop,
        RandomResizedCrop,
        Resize,
        ScaleTo,
        Spatial,
        apply_steps,
    )
    from bushel.transforms.together import Boxes, Mask, Points
    from bushel.transforms.values import Compose, EachFrame, Lambda, Normalize, ToCHW
    from bushel.transforms.warp import Pad, RandomAffine, RandomRotation

__all__ = [
    "AugMix",
    "Boxes",
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "Crop",
    "CutMix",
    "EachFrame",
    "Flip",
    "GaussianBlur",
    "Grayscale",
    "Lambda",
    "Mask",
    "MixUp",
    "MultiCrop",
    "Normalize",
    "Pad",
    "Points",
    "RandAugment",
    "RandomAffine",
    "RandomApply",
    "RandomChoice",
    "RandomCrop",
    "RandomErasing",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomRotation",
    "RandomVerticalFlip",
    "Resize",
    "ScaleTo",
    "Spatial",
    "ToCHW",
    "TrivialAugmentWide",
    "apply_steps",
]

_MODULES = {
    "transforms.batches": ("CutMix", "MixUp"),
    "transforms.choices": ("MultiCrop", "RandomApply", "RandomChoice"),
    "transforms.colour": ("ColorJitter", "Grayscale"),
    "transforms.flips": ("RandomHorizontalFlip", "RandomVerticalFlip"),
    "transforms.pixels": ("GaussianBlur", "RandomErasing"),
    "transforms.policies": ("AugMix", "RandAugment", "TrivialAugmentWide"),
    "transforms.spatial": (
        "CenterCrop",
        "Crop",
        "Flip",
        "RandomCrop",
        "RandomResizedCrop",
        "Resize",
        "ScaleTo",
        "Spatial",
        "apply_steps",
    ),
    "transforms.together": ("Boxes", "Mask", "Points"),
    "transforms.values": ("Compose", "EachFrame", "Lambda", "Normalize", "ToCHW"),
    "transforms.warp": ("Pad", "RandomAffine", "RandomRotation"),
}

__getattr__ = lazy_names(__name__, {name: module for module, names in _MODULES.items() for name in names})
