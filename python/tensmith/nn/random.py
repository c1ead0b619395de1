"""The stream that initial parameters and dropout are drawn from, where they are given none."""

import contextlib

from ..numpy.random import Generator

_generator = Generator(0)


def manual_seed(seed):
    """Begins the stream anew."""
    _generator.key, _generator.drawn = Generator(seed).state


def generator(given=None):
    return _generator if given is None else given


@contextlib.contextmanager
def kept():
    """What is drawn within is drawn again after it."""
    state = _generator.state
    try:
        yield
    finally:
        _generator.key, _generator.drawn = state
