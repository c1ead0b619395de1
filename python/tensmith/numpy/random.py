"""Random numbers with a state that is explicit: a Generator is a key and how many numbers were drawn from it.

    rng = tensmith.numpy.random.Generator(7)
    x = rng.normal((3, 4))
    rng.state                                # (7, 12): another Generator of this state goes on with the same numbers

Numbers are a function of the key and of their place in the stream (Philox, base/Philox.h), so that they are the same on any number
of threads. `split` gives generators whose streams do not meet.
"""

import contextlib
import threading

from .. import _eager
from . import creation, dtypes, elementwise

_listeners = []  # pairs of a thread and a function of a generator, what was drawn, and the result

_MIX = 0x9E3779B97F4A7C15


def _mixed(key, number):
    """splitmix64's finaliser of both."""
    x = (key + (number + 1) * _MIX) % 2**64
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


@contextlib.contextmanager
def told(listener):
    """Within, the listener is told of what this thread draws; of several the innermost is."""
    entry = threading.get_ident(), listener
    _listeners.append(entry)
    try:
        yield
    finally:
        _listeners.remove(entry)


def _tell(*draw):
    thread = threading.get_ident()
    own = [listener for of, listener in list(_listeners) if of == thread]
    if own:
        own[-1](*draw)


class Generator:
    def __init__(self, key=0, drawn=0):
        self.key, self.drawn = int(key) % 2**64, int(drawn)

    @property
    def state(self):
        return self.key, self.drawn

    def __repr__(self):
        return f"Generator(key={self.key}, drawn={self.drawn})"

    def split(self, count=2):
        """Generators of streams of their own; this one goes on elsewhere."""
        made = [Generator(_mixed(self.key, 2 * (self.drawn + i) + 1)) for i in range(count)]
        self.drawn += count
        return made

    def _draw(self, kind, shape, dtype):
        shape = creation._shape(shape)
        dtype = dtypes.as_dtype(dtype) or dtypes.float64
        count = 1
        for size in shape:
            count *= size
        result = _eager.random(kind, _mixed(self.key, 0), self.drawn, shape, dtype)
        self.drawn += count
        if _listeners:
            _tell(self, (kind, shape, dtype), result)
        return result

    def draw_again(self, kind, shape, dtype):
        """Other numbers of the kind that a listener was told of."""
        return self._draw(kind, shape, dtype)

    def uniform(self, shape=(), low=0.0, high=1.0, *, dtype=None):
        """In [low, high)."""
        return self._draw("uniform", shape, dtype) * (high - low) + low

    def normal(self, shape=(), mean=0.0, deviation=1.0, *, dtype=None):
        return self._draw("normal", shape, dtype) * deviation + mean

    def integers(self, low, high, shape=(), *, dtype=None):
        """In [low, high), each as likely as another to 2^-53."""
        if high <= low:
            raise ValueError("integers: there are none in an empty range")
        draws = self._draw("uniform", shape, dtypes.float64)
        return dtypes.astype(elementwise.floor(draws * (high - low)) + low, dtypes.as_dtype(dtype) or dtypes.int64)

    def bernoulli(self, p=0.5, shape=()):
        return self._draw("uniform", shape, dtypes.float64) < p

    def permutation(self, n):
        from . import reductions

        return reductions.argsort(self._draw("uniform", (n,), dtypes.float64))
