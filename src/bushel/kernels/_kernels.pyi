"""Documentation of the compiled kernels (C++17).

Array arguments must be C-contiguous and of exactly the documented dtype and shape; read-only arrays are accepted as
input. Anything else raises `TypeError`; arguments are never copied silently. Functions release the GIL while they work
on more than about 64 KiB. All of them may be called from several threads at once, and after a fork.

An extent is (file, offset, length). ``file`` is an index into the list ``files``, or one int if all rows are in the
same file; ``offset`` and ``length`` are in bytes. A length of -1 marks a missing field: nothing is read, and its file
and offset are ignored. Only those elements of ``files`` that rows refer to are used.

There is a stub for each subject, and this one for the compiled module, which has all of their names.
"""

from ._checksums import *
from ._files import *
from ._framing import *
from ._jpeg import *
from ._keys import *
from ._lines import *
from ._numbers import *
from ._order import *
from ._parquet import *
from ._png import *
from ._resize import *
from ._scans import *
from ._tfrecord import *
from ._video import *
from ._zip import *
