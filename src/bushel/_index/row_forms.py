"""Places of the rows of arrays that have headers of their own, such as .npy files. Pure: no I/O.

The header of an array says where its rows are. Arrays of one field nearly always have headers of
one length and rows of one size, so that a few examples show which bytes to read of the others.
Their headers are read with the rows, and a wrong guess is noticed.
"""

from __future__ import annotations

from bisect import bisect_left, insort

from bushel.codecs.parts import RowForm

_MOST = 64  # examples: where the form depends on the size, those at its steps


class RowForms:
    """The known forms of the arrays of one field in one shard. Threads share it."""

    def __init__(self) -> None:
        self._known: list[tuple[int, RowForm | None]] = []

    def of(self, size: int) -> RowForm | None:
        """Return the form that an array of `size` bytes probably has: the known form of the nearest size.

        None if it has to be read whole.
        """
        forms = self._known
        at = bisect_left(forms, size, key=_size)
        near = sorted(forms[max(0, at - 1) : at + 1], key=lambda one: abs(one[0] - size))
        if near:
            return near[0][1]
        return None

    def needs(self, size: int) -> bool:
        """Return whether an array of `size` bytes should be looked at, as none like it is known."""
        forms = self._known
        at = bisect_left(forms, size, key=_size)
        if at < len(forms) and forms[at][0] == size:
            return False
        form = self.of(size)
        return len(forms) < _MOST and (form is None or form.count(size) is None)

    def add(self, size: int, form: RowForm | None) -> None:
        """Note the form of an array of `size` bytes; None for one whose rows cannot be read alone."""
        forms = [form_of_size for form_of_size in self._known if form_of_size[0] != size]
        if len(forms) < _MOST:
            insort(forms, (size, form), key=_size)
            self._known = forms  # others may be reading the list before it


def _size(form_of_size: tuple[int, RowForm | None]) -> int:
    return form_of_size[0]
