"""What a recorded call computes with numbers that differ from call to call: in Python's code before the graph, in the graph, and behind it.

A number that was read from a tensor is both: code behind the graph, where Python uses it, and a tensor of the graph (ingraph.py), where tensors are
combined with it, or a branch or a loop of the graph depends on it.
"""

import operator

from .. import _eager
from ..numpy.creation import asarray
from ..numpy.dtypes import REAL_FLOATING, Tensor
from . import ingraph
from .open_sizes import NotOpen
from .residual import unguarded
from .scalars import TYPES_VARY, NotConvertible, Traced, plain


_OF_SIZES = {operator.add, operator.sub, operator.mul, operator.neg, operator.pos, operator.index}


class Numbers:
    """Of a Recording."""

    def pin(self, x, kind="constant", relaxes=None):
        """The number, which every call must have from now on."""
        if not isinstance(x, Traced):
            return x
        if x.stage == 0:
            if kind == "trip count" and x.code in self.codes_of_sizes:
                raise NotOpen("a loop is unrolled by a size", relaxes)
            if type(x.value) is bool or x.code in self.codes_of_sizes:
                self.opening.decided(x.value, self.is_size(x))
            self.check(x.code, "equal", x.value, kind, f"a number is {x.value!r}", relaxes)
            return x.value
        if self.regions:
            raise NotConvertible("what is read from a tensor decides here, within a branch or a loop of the graph")
        k = self.residual.constant(x.value)
        is_in_graph = x.tensor is not None and type(x.value) is bool
        if is_in_graph and kind not in unguarded:
            self.pinned.append((x.tensor, x.value))
        self.assume(f"type({x.code}) is type({k}) and {x.code} == {k}", kind, f"a number is {x.value!r}", relaxes, x.stage, is_in_graph)
        return x.value

    def pure(self, function, arguments):
        """A function of numbers, of which some are traced."""
        value = function(*map(plain, arguments))
        if max(x.stage for x in arguments if isinstance(x, Traced)) == 0:
            return self._computed_before(function, arguments, value)
        within = [tape for x in arguments if isinstance(x, Traced) for tape in x.within]
        tensor = ingraph.applied(self.in_graph, function, arguments) if all(self._is_in_graph(x) for x in arguments) else None
        if self.regions:
            if tensor is None:
                name = getattr(function, "__name__", function)
                raise NotConvertible(f"{name} of numbers that are read from tensors has no form in a branch or a loop of the graph")
            return Traced(value, None, 1, tensor, self.regions[-1], within)
        code = self._code_behind(function, arguments, value)
        if not ingraph.cannot_raise(function, arguments) or tensor is None:
            code = code()
        traced = Traced(value, code, 1, tensor, None, within)
        return traced if type(value) in (int, float) or type(value) is bool and tensor is not None else self.pin(traced, "branch")

    def _computed_before(self, function, arguments, value):
        name = self.residual.let(f"{self.residual.constant(function)}({', '.join(self._codes(arguments))})", 0)
        if any(isinstance(x, Traced) and x.code in self.codes_of_sizes for x in arguments):
            self.codes_of_sizes.add(name)
        if any(map(self.is_size, arguments)) and function in _OF_SIZES and all(self.is_size(x) or type(x) is int for x in arguments):
            self.size_codes.add(name)
        if type(value) not in (int, float):
            return self.pin(Traced(value, name, 0), "branch")
        if function in TYPES_VARY:
            self.assume(f"type({name}) is {type(value).__name__}", "type", f"a result is {type(value).__name__}")
        return Traced(value, name, 0)

    def size(self, x):
        """The number is an open size."""
        self.size_codes.add(x.code)
        self.codes_of_sizes.add(x.code)
        return x

    def is_size(self, x):
        """Whether it is an open size, or a sum, a difference or a product of some: the library is given it as it is (open_sizes.py)."""
        return isinstance(x, Traced) and x.stage == 0 and x.code in self.size_codes

    def _code_behind(self, function, arguments, value):
        def code():
            may_raise = not ingraph.cannot_raise(function, arguments)
            name = self.residual.let(f"{self.residual.constant(function)}({', '.join(self._codes(arguments))})", 1, may_raise=may_raise)
            if function in TYPES_VARY:
                self.assume(f"type({name}) is {type(value).__name__}", "type", f"a result is {type(value).__name__}", stage=1)
            return name

        return code

    def _codes(self, arguments):
        return [x.code if isinstance(x, Traced) else self.residual.constant(x) for x in arguments]

    # ---- in the graph

    def _is_in_graph(self, x):
        return not isinstance(x, Traced) or x.stage == 0 or x.tensor is not None

    def in_graph(self, x):
        """The tensor of a number, by its type."""
        if type(plain(x)) is int and abs(plain(x)) >= ingraph.LARGEST and (not isinstance(x, Traced) or x.stage == 0):
            raise NotConvertible("an integer of more than 62 bits is a number of the graph")
        if not isinstance(x, Traced):
            return asarray(x, dtype=ingraph.DTYPES[type(x)])
        if x.stage == 0:
            if self.is_of_case(x.code):
                return self.case.row(x.value, x.code)
            if x.tensor is None:
                dtype = ingraph.DTYPES[type(x.value)]
                if type(x.value) is int:
                    self.assume(f"-{ingraph.LARGEST} < {x.code} < {ingraph.LARGEST}", "constant", "an integer has at most 62 bits")
                x.tensor = self.made_of(x.code, dtype, x.value)
            return x.tensor
        if x.tensor is None or x.region is not None and x.region not in self.regions:
            raise NotConvertible("a number that was read from a tensor is computed with in a way that the graph does not know")
        return x.tensor

    def tensor_of(self, x):
        """Of a tensor or a number."""
        return x if isinstance(x, Tensor) else self.in_graph(x)

    def beside_tensors(self, x):
        """The tensor of a number that tensors are combined with. Numbers of Python are constant to derivatives, which their tensors in the graph are not."""
        if x.stage and type(x.value) is float and any(tape in x.within for tape in self.differentiating()):
            raise NotConvertible("a number that was read from a tensor is combined with tensors where derivatives are recorded")
        return self.in_graph(x)

    def differentiating(self):
        """The tapes that record for derivatives of the program's."""
        tapes = [*_eager.recording(), *(tape for region in self.regions for tape in region.outer)]
        own = [self.tape, *(region.tape for region in self.regions)]
        return [tape for tape in tapes if tape not in own]

    def number_of(self, tensor, value):
        """The number that a tensor of no dimensions holds; `value`: in the recorded call."""
        if self.regions:
            return Traced(value, None, 1, tensor, self.regions[-1], self.differentiating())
        return Traced(value, self._code_of_element(tensor, type(value)), 1, tensor, None, self.differentiating())

    def scalar_of(self, tensor, convert):
        """A number that the program reads from a tensor."""
        value = self.opening.read(convert(self.quietly(lambda: tensor.item())))
        is_large = type(value) is int and abs(value) >= ingraph.LARGEST
        number = ingraph.scalar(tensor, type(value)) if type(value) in ingraph.DTYPES and not is_large else None
        if self.regions:
            return Traced(value, None, 1, number, self.regions[-1], self.differentiating())
        return Traced(value, self._code_of_element(tensor, convert), 1, number, None, self.differentiating())

    def _code_of_element(self, tensor, convert):
        """Of the tensor as it is now."""
        number, is_whole = self.tape.read(tensor), not (tensor.dtype in REAL_FLOATING)
        may_raise = convert not in (float, bool) and not (convert is int and is_whole)  # there is no integer of infinity
        return lambda: self.residual.element(convert, self.output_of(number), may_raise)

