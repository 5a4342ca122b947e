"""Helper processes: fresh interpreters that work for this one, for the loader and for packing.

They are no forks, so neither locks nor threads nor open files of the parent get into them, and its main script is not
run again, so it needs no `if __name__ == "__main__"`. They end with the socket that they were started with, whichever
way the parent ends.
"""

from bushel.core.processes.channel import Channel
from bushel.core.processes.pickling import pickle_for_helper, portable
from bushel.core.processes.process import HelperDiedError, HelperProcess

__all__ = ["Channel", "HelperDiedError", "HelperProcess", "pickle_for_helper", "portable"]
