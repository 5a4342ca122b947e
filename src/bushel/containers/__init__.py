"""The containers: five that are read and written, and any number that are read.

`get_container` finds one by name, `candidates` those that may own files, `container_for` the one
that the name of an output implies, and `register_container` adds one. A container is imported when
it is first needed.
"""

from bushel._runtime.public import names_of_stub

__getattr__, __dir__, __all__ = names_of_stub(__name__, __file__)
