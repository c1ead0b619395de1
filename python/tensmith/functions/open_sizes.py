"""Conversions of calls whose tensors have other sizes from call to call: one for all of them.

What a call makes of a size can't be seen where the library's own functions ask for it. So a call with open sizes is recorded three times: as it is, which tells
the numbers that it reads from tensors and the truths that it goes by; and twice with other sizes in the place of the open ones, primes that stand nowhere
else, where these numbers and truths are those of the first time. Where both give the same graph and the same code, these are the call's for any sizes from 2 on:
whatever is a prime is the size that it stands for, in shapes, and in numbers and tensors that the library has made of sizes (`Pair.number`). A size of 0 or 1 is
never open, since broadcasting asks for it; so what is left of an open size where a tensor is cut has to be 2 at least, too (`Pair.bound`).

Invariant, of the library: its functions of tensors ask of a size no more than whether it is 0, 1 or another one. Nothing is known so of what the program
computes: the library is given sums, differences and products of sizes and whole numbers as they are; any other number of a size is an assumption, which has
to have the first recording's value in the other two as well.
"""

import fractions
import itertools
import re

from .. import _eager
from .. import numpy as tnp
from ..numpy.dtypes import REAL_FLOATING, SIGNED, UNSIGNED, Tensor
from ..recorded.texts import texts_within
from .residual import Assumption
from .scalars import NotConvertible, Traced

_COUNTED = SIGNED + UNSIGNED + REAL_FLOATING
_PLAIN = (bool, int, float, complex, str, bytes, range, slice, type(None))


class NotOpen(NotConvertible):
    """Sizes that can't be open; they stay assumptions. relaxes: a loop that has to be the graph's before they can."""

    def __init__(self, reason, relaxes=None):
        super().__init__(reason)
        self.relaxes = relaxes


class OpenSizes:
    """Of one recording. refused: as of a Recording, with ("shape", what) for tensors of which no size can be open; seen: the shapes that tensors had when
    calls were recorded, by what they are. first, number: of the first recording, and which of the other two this is (0 or 1); None and 0 of the first itself.

    A recording's course is what it has read from tensors, and the values that it went by, in their order; the others have to ask for the same in the same
    order, and are told the first one's. asked: what the library told of shapes, as open sizes by their number and all else as it is: the two are compared.
    """

    def __init__(self, refused, seen, first=None, number=0):
        self._refused, self._seen = refused, seen
        self._first, self._number = first, number
        self.places = set()  # what is to be refused where the sizes can't be open
        self.sizes, self._fixed = {}, set()  # size here -> Traced; sizes that are not open
        self.is_special = False
        self._standing = {} if first is None else dict(zip(first.sizes, first.primes(number)))
        self._course, self._at, self.asked = [], 0, []

    def again(self, number):
        """For another recording, with other sizes."""
        return OpenSizes(self._refused, self._seen, self, number)

    def primes(self, number):
        """Not smaller than the open sizes, so that whatever is a place in a tensor is one, and hardly larger; none of the other sizes."""
        taken = {size for shapes in self._seen.values() for shape in shapes for size in shape}
        from_ = max(11, *self.sizes)
        found = itertools.islice((n for n in itertools.count(from_) if n not in taken and all(n % k for k in range(2, int(n**0.5) + 1))), 2 * len(self.sizes))
        return list(found)[number * len(self.sizes) :]

    # ---- tensors that the call is given

    def axes(self, what, shape):
        if ("shape", what) in self._refused:
            return []
        shapes = [each for each in self._seen.get(what, []) if len(each) == len(shape)]
        return [axis for axis, size in enumerate(shape) if size > 1 and any(each[axis] != size for each in shapes)]

    def saw(self, what, shape, axes):
        """axes: those that are open."""
        self._fixed.update(size for axis, size in enumerate(shape) if axis not in axes)
        shapes = self._seen.setdefault(what, [])
        if shape not in shapes:
            shapes.append(shape)

    def is_of_one_size(self):
        """Whether each tensor had the same sizes in all calls that were recorded: a graph of these alone is quicker than one of any. They are assumptions, and
        what is made of numbers before the graph runs has sizes that the code says."""
        return not self.sizes and all(len(shapes) == 1 for shapes in self._seen.values())

    def is_usual(self):
        """Whether an open size is none of the others by chance, so that of a number it is known which it is, nor one that the program takes another way for."""
        return self._fixed.isdisjoint(self.sizes) and not self.is_special

    def given(self, tensor, axes):
        """With the sizes that stand for those of its axes."""
        for axis in axes:
            size = tensor.shape[axis]
            if (here := self.here(size)) != size:
                tensor = tnp.take(tensor, tnp.arange(here) % size, axis=axis)
        return tensor

    def here(self, size):
        if self._first is None:
            return size
        if size not in self._standing:
            raise NotOpen("another size is open when the call is recorded again")
        return self._standing[size]

    # ---- the course

    def read(self, value):
        """A number that is read from a tensor."""
        if self._first is None:
            self._course.append(value)
            return value
        return self._next(value, lambda known: type(known) is type(value))

    def decided(self, value, is_usual=False):
        """The call goes by a value that is known before the graph runs. is_usual: it is another one for each size."""
        if self._first is None:
            self._course.append(value)
        elif self._next(value, lambda known: type(known) is type(value)) != value:
            self._first.is_special |= not is_usual
            raise NotOpen("what the call does depends on a size")

    def _next(self, value, fits):
        known = self._first._course
        if self._at >= len(known) or not fits(known[self._at]):
            raise NotOpen("what the call does depends on a size")
        self._at += 1
        return known[self._at - 1]

    # ---- what the library tells of sizes

    def told(self, x):
        """A value of the library's, with the sizes in it as numbers that differ."""
        if not self.sizes:
            return x
        if type(x) in (tuple, list):
            self.asked.append(len(x))
            return type(x)(map(self.told, x))
        found = self.sizes.get(x) if type(x) is int else None
        if type(x) in _PLAIN:
            self.asked.append(list(self.sizes).index(x) if found else (x,))
        return found or x


class Pair:
    """Two recordings of one course, at other sizes: what they have in common. first: OpenSizes of the first recording; ended: of each of the two, as
    effects.Ended.
    """

    def __init__(self, first, recordings, ended):
        self._first, self.recordings, self.ended = first, recordings, ended
        a, b = (each.opening.sizes for each in recordings)
        self._sizes = [(one, other, traced.code) for (one, traced), other in zip(a.items(), b)]

    def common(self):
        """The first, with its inputs and the types of its outputs as code of the sizes."""
        one, other = self.ended
        if [each.opening.asked for each in self.recordings][0] != self.recordings[1].opening.asked:
            raise NotOpen("a size that is computed of an open one is asked for")
        if one.text != other.text or (one.result, len(one.inputs)) != (other.result, len(other.inputs)):
            raise NotOpen("the graph depends on a size")
        if not _is_same(one.residual.parts(), other.residual.parts()):
            raise NotOpen("what is left for Python depends on a size")
        self.bound()
        one.inputs = [self._input(x, y) for x, y in zip(one.inputs, other.inputs)]
        if one.text is not None:
            one.types = "[" + ", ".join(self._type(x, y) for x, y in zip(one.types, other.types)) + "]"
        return one

    def bound(self):
        """Assumes that what is cut of open sizes is 2 at least: broadcasting and sums ask for 0 and 1."""
        one, other = self.ended
        first = list(self._first.sizes)
        known = {}  # by the graph's names of sizes: their code, and what they are in the first recording
        lines = [line.split()[2:] for line in (one.text or "").splitlines() if line.startswith("input ")]
        for names, *shapes in zip(lines, one.shapes, other.shapes):
            for name, x, y in zip(names, *shapes):
                codes = [(code, first[i]) for i, (*pair, code) in enumerate(self._sizes) if pair == [x, y]]
                known[name] = codes[0] if codes else (str(x), x)
        if any(map(_cut_sizes, texts_within(one.text or ""))):
            raise NotOpen("a tensor of an open size is cut within a branch or a loop of the graph")
        for each in _cut_sizes(one.text or ""):
            if not set(names := re.findall(r"s\d+", each)) <= set(known):
                raise NotOpen("a part of a tensor has a size that isn't known")
            code, value = (re.sub(r"s\d+", lambda found, i=i: str(known[found[0]][i]), each) for i in range(2))
            if eval(value) < 2:
                self._first.is_special = True
                raise NotOpen("what is cut of a tensor has less than 2 rows")
            one.residual.assume(f"{code} > 1", Assumption("shape", "what is cut of a tensor has 2 rows at least", None))

    def _input(self, x, y):
        if isinstance(x, str) or isinstance(y, str):
            if x != y:
                raise NotOpen("the graph's inputs depend on a size")
            return x
        if _is_same(x, y):
            return x
        return self.ended[0].residual.let(self._made(x, y), letter="r")

    def _made(self, x, y):
        """A tensor that the library has made of sizes."""
        constant = self.ended[0].residual.constant
        if x.dtype == y.dtype and x.ndim == 1 and all(map(_is_counted, (x, y))):
            return f"{constant(tnp.arange)}({self._shape(x.shape, y.shape)[0]}, dtype={constant(x.dtype)})"
        if x.dtype != y.dtype or not all(bool(tnp.all(each == tnp.reshape(each, (-1,))[0])) for each in (x, y)):
            raise NotOpen("a tensor that the call has made depends on a size")
        number = self.number(*(tnp.reshape(each, (-1,))[0].item() for each in (x, y)))
        return f"{constant(_eager.full)}([{', '.join(self._shape(x.shape, y.shape))}], {number}, {constant(x.dtype)})"

    def number(self, x, y):
        """The code of a number: a constant; a size, or one and a constant; a whole multiple of a size or of a product of sizes."""
        if x == y:
            return self.ended[0].residual.constant(x)
        for one, other, code in self._sizes:
            if x - one == y - other:
                if x < one:
                    self.ended[0].residual.assume(f"{code} > {one - x!r}", Assumption("shape", f"a size is greater than {one - x!r}", None))
                return code if x == one else f"({code} + {x - one!r})"
        for count in range(1, 4):
            for sizes in itertools.combinations_with_replacement(self._sizes, count):
                a, b = (fractions.Fraction(value) for value in (x, y))
                for one, other, _ in sizes:
                    a, b = a / one, b / other
                if a == b and a.denominator == 1:
                    return f"({' * '.join([str(a.numerator), *(code for *_, code in sizes)])})"
        raise NotOpen("a number is computed of a size in a way that isn't known")

    def _shape(self, x, y):
        if len(x) != len(y):
            raise NotOpen("the shape of a tensor depends on a size")
        found = {(one, other): code for one, other, code in self._sizes}
        codes = [str(one) if one == other else found.get((one, other)) for one, other in zip(x, y)]
        if None in codes:
            raise NotOpen("the shape of a tensor is computed of an open size")
        return codes

    def _type(self, x, y):
        (kind, one), (_, other) = x, y
        return f"({self.ended[0].residual.constant(kind)}, [{', '.join(self._shape(one, other))}])"


def _cut_sizes(text):
    """Sizes in a graph's text that are others less a number."""
    return sorted(set(re.findall(r"[^\s|,]*\)-\d+[^\s|,]*", text)))


def _is_counted(x):
    """0, 1, 2 and so on."""
    return x.dtype in _COUNTED and _is_same(x, tnp.arange(x.shape[0], dtype=x.dtype))


def _is_same(x, y):
    """Of code, and of what it names: numbers, texts and tensors that are equal; nothing is asked of other objects, which have no sizes."""
    if type(x) is not type(y):
        return False
    if isinstance(x, (tuple, list)):
        return len(x) == len(y) and all(map(_is_same, x, y))
    if isinstance(x, Tensor):
        return x.dtype == y.dtype and x.shape == y.shape and bool(tnp.all(x == y))
    return repr(x) == repr(y) if isinstance(x, _PLAIN) else True


def index_within(recording, x, key):
    """A tensor of open sizes has what an index takes of it: so its slices' ends are where the index says."""
    if not recording.opening.sizes:
        return
    keys = key if isinstance(key, tuple) else (key,)
    for i, axis in axes_of_index(x, keys):
        each = keys[i]
        if isinstance(each, slice):
            start, stop = (bound if type(bound) is int else None for bound in (each.start, each.stop))
            needed = max(abs(start or 0), abs(stop or 0))
            if (start or 0) < 0 <= (-1 if stop is None else stop) and isinstance(recording.opening.told(x.shape[axis]), Traced):
                raise NotOpen("a slice ends where its size says")
        else:
            needed = 0 if type(each) is not int else -each if each < 0 else each + 1
        if needed > 2:
            _has(recording, x.shape[axis], needed)


def axes_of_index(x, keys):
    """Pairs of a key's place and the axis that it is of."""
    axis = 0
    for i, each in enumerate(keys):
        if each is Ellipsis:
            axis = x.ndim - sum(other is not None for other in keys[i + 1 :])
        elif each is not None and axis < x.ndim:
            yield i, axis
            axis += 1


def _has(recording, size, needed):
    found = recording.opening.told(size)
    if isinstance(found, Traced):
        if size < needed:
            recording.opening.is_special = True
            raise NotOpen("a tensor is shorter than what is cut of it")
        recording.assume(f"{found.code} >= {needed}", "shape", f"a size is {needed} at least")


def shape_of(recording, code, tensor, what, axes):
    """Assumes a tensor's shape but for the sizes of some axes, which are numbers that differ; gives the tensor that is recorded."""
    opening, residual = recording.opening, recording.residual
    opening.places.add(("shape", what))
    if tensor.requires_grad:
        raise NotOpen(f"{what} asks for gradients, and has no open sizes")
    shape = residual.fetch(code, "part", "shape")
    recording.check(shape, "length", tensor.ndim, "shape", f"{what} has {tensor.ndim} dimensions")
    for axis, size in enumerate(tensor.shape):
        number = residual.fetch(shape, "item", axis)
        if axis not in axes:
            recording.check(number, "equal", size, "shape", f"{what} has the size {size} in dimension {axis}")
            continue
        here = opening.here(size)
        if known := opening.sizes.get(here):
            recording.assume(f"{number} == {known.code}", "shape", f"the size of {what} in dimension {axis} is that of another tensor")
        else:
            recording.assume(f"{number} > 1", "shape", f"{what} has any size from 2 on in dimension {axis}")
            opening.sizes[here] = recording.size(Traced(here, number, 0))
    return recording.quietly(lambda: opening.given(tensor, axes))
