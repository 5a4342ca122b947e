"""`granular.sources` of 0.24."""

from bushel.compat.granular.sources import (
    Epochs,
    Interleave,
    Mix,
    Sample,
    Source,
    Transform,
    Truncate,
    convert,
)

__all__ = ["Epochs", "Interleave", "Mix", "Sample", "Source", "Transform", "Truncate", "convert"]
