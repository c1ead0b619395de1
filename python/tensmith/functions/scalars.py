"""Numbers of Python that differ from call to call, while a call is recorded.

A Traced has the number that the recorded call has, and the code that gives it in any call. It is no number itself: whatever would take it as
one without the recording's knowledge fails, and so can't make a constant of it. `stage`: 0: known before the graph has run; 1: read from
what the graph gives. Of stage 1 it may also have the tensor of no dimensions that holds it in the graph (ingraph.py): there it is computed
with further, beside Python's own computation, and of the two what is used remains. Within a branch or a loop of the graph it has that alone.
"""

import builtins
import math
import operator


class NotConvertible(BaseException):
    """What the program does here has no conversion. Not an Exception, which the program's own handlers could take."""

    def __init__(self, reason):
        super().__init__(reason)
        self.reason, self.line = reason, None


class Traced:
    """code: a name of the residual's, or a function that gives one once it is needed, or None; region: where its tensor was computed; within: the tapes that
    recorded for derivatives there.
    """

    __slots__ = ("_code", "region", "stage", "tensor", "value", "within")

    def __init__(self, value, code, stage, tensor=None, region=None, within=()):
        self.value, self._code, self.stage, self.tensor, self.region, self.within = value, code, stage, tensor, region, within

    @property
    def code(self):
        if self._code is None:
            raise NotConvertible("a number that is computed in a branch or a loop of the graph is used by Python")
        if callable(self._code):
            self._code = self._code()
        return self._code


# Functions of numbers alone, whose result is a number or a truth.
PURE = {
    *(getattr(math, name) for name in dir(math) if builtins.callable(getattr(math, name)) and name not in ("fsum", "prod", "dist", "hypot", "sumprod", "modf", "frexp")),
    *(getattr(operator, name) for name in "add sub mul truediv floordiv mod pow lt le eq ne gt ge neg pos invert not_ and_ or_ xor lshift rshift".split()),
    builtins.abs, builtins.round, builtins.int, builtins.float, builtins.bool, builtins.min, builtins.max,
}  # fmt: skip

# Their results' types depend on the values.
TYPES_VARY = {operator.pow, builtins.min, builtins.max}


def is_number(x):
    return type(x) in (int, float, bool) or isinstance(x, Traced)


def plain(x):
    return x.value if isinstance(x, Traced) else x


class Range:
    """range() of numbers that differ from call to call."""

    def __init__(self, bounds):
        self.bounds = bounds
