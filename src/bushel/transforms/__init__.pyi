"""The names of `bushel.transforms` and their modules, which the package reads, too."""

from bushel.transforms.batches import CutMix as CutMix
from bushel.transforms.batches import MixUp as MixUp
from bushel.transforms.colour import ColorJitter as ColorJitter
from bushel.transforms.colour import GaussianBlur as GaussianBlur
from bushel.transforms.colour import Grayscale as Grayscale
from bushel.transforms.colour import RandomErasing as RandomErasing
from bushel.transforms.fused import RandomHorizontalFlip as RandomHorizontalFlip
from bushel.transforms.fused import RandomVerticalFlip as RandomVerticalFlip
from bushel.transforms.geometry import Crop as Crop
from bushel.transforms.geometry import Flip as Flip
from bushel.transforms.geometry import ScaleTo as ScaleTo
from bushel.transforms.geometry import apply_steps as apply_steps
from bushel.transforms.moves import Boxes as Boxes
from bushel.transforms.moves import Mask as Mask
from bushel.transforms.moves import Points as Points
from bushel.transforms.policies import MultiCrop as MultiCrop
from bushel.transforms.policies import RandAugment as RandAugment
from bushel.transforms.policies import RandomApply as RandomApply
from bushel.transforms.policies import RandomChoice as RandomChoice
from bushel.transforms.policies import TrivialAugmentWide as TrivialAugmentWide
from bushel.transforms.spatial import CenterCrop as CenterCrop
from bushel.transforms.spatial import RandomCrop as RandomCrop
from bushel.transforms.spatial import RandomResizedCrop as RandomResizedCrop
from bushel.transforms.spatial import Resize as Resize
from bushel.transforms.spatial import Spatial as Spatial
from bushel.transforms.values import Compose as Compose
from bushel.transforms.values import EachFrame as EachFrame
from bushel.transforms.values import Lambda as Lambda
from bushel.transforms.values import Normalize as Normalize
from bushel.transforms.values import ToCHW as ToCHW
from bushel.transforms.warp import Pad as Pad
from bushel.transforms.warp import RandomAffine as RandomAffine
from bushel.transforms.warp import RandomRotation as RandomRotation

__all__: list[str]
