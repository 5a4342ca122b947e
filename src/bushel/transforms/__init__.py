"""Image transforms: frozen values that work alone, and that the loader fuses with decoding where it can.

`Crop`, `Flip`, `ScaleTo` and `apply_steps` are for transforms of your own that should be fused too:
see `Spatial`.
"""

from bushel._runtime.public import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
