"""A compiled graph, called with PyTorch's tensors."""

import functools
import operator
import re

import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

from .. import Error, _tensmith
from . import sizes

NO_INDEX = torch.iinfo(torch.int64).min  # that a graph reads or writes at in the place of each negative index that counts from no end


def run(model, inputs, places=()):
    """The outputs as PyTorch's tensors, on memory of their own. Inputs are tensors, which are read where they lie.
    `places`: of the lines of the graph's text in the model, for errors."""
    try:
        return model._module.run(inputs, None, _EXCHANGE)
    except Error as error:
        error.args = (_told(str(error), places),)
        raise


def _told(text, places):
    """What a run says, with the model's lines for the graph's, and with what the indices were that a graph has marked."""
    if location := re.match(r"graph: loc\((.*?)\): ", text):
        spots = re.findall(r'"([^"]*)"(?::(\d+):\d+)?', location[1])
        named = [places[int(line) - 1] if line and int(line) <= len(places) else None if line else name for name, line in spots]
        if any(named):
            text = ", ".join(dict.fromkeys(filter(None, named))) + ": " + text[location.end() :]
    if f"holds {NO_INDEX}" in text:
        text = re.sub(r"\[-\d+, (\d+)\)", r"[0, \1)", text.replace(f"holds {NO_INDEX}", "holds a negative number"))
    return text


def readable(x):
    """A tensor of the host as DLPack gives it away; one that isn't dense is copied."""
    if not x.is_cpu:
        raise Error(f"an input is on the device {x.device}; compiled models take tensors of the host")
    if x.is_neg() or x.is_conj():
        x = x.detach().resolve_neg().resolve_conj()
    return to_dlpack(x if x.is_contiguous() else x.detach().contiguous())


_EXCHANGE = _tensmith.TensorExchange(torch.Tensor, readable, from_dlpack, torch.Tensor.is_neg, torch.Tensor.is_conj)


def carrier(name, size):
    """A tensor that tells a size to a module, which knows sizes by dimensions alone. Its memory is never touched."""
    try:
        return torch.empty(int(size), dtype=torch.uint8)
    except (RuntimeError, OverflowError, TypeError):
        raise Error(f"the number '{name}' is {size}, which can't be a size, and stands in the shape of a tensor; keep numbers "
                    "fixed by torch.compile(dynamic=False)") from None  # fmt: skip


def number(name, dtype, value):
    """A number as a tensor of that dtype."""
    try:
        return torch.tensor(value, dtype=dtype)
    except (RuntimeError, OverflowError, ValueError):
        raise Error(f"the number '{name}' is {value}, which lies beyond {dtype}; keep numbers fixed by torch.compile(dynamic=False)") from None


class Draws:
    """The tensors that are drawn before a call, in the graph's order."""

    def __init__(self, lowering):
        self._draws, self._bindings = lowering.draws, lowering.bindings
        self._is_open = any(draw.is_open for draw in self._draws)

    def __call__(self, inputs):
        values = self._bindings.values(inputs) if self._is_open else {}
        return [draw(self._bindings, values, inputs) for draw in self._draws]


def viewed(node):
    """The node that a view shows, through views of views; views of results of several, too."""
    while isinstance(node, torch.fx.Node) and node.op == "call_function":
        made = node.args[0] if node.target is operator.getitem else node
        if not getattr(made.target, "is_view", False):
            break
        node = made.args[0]
    return node


def _is_shown(view, whole):
    """Whether the view is what lies in the whole's memory: one that is conjugated or negated only as it is read isn't."""
    return whole.is_contiguous() and not whole.storage_offset() and view.is_conj() == whole.is_conj() and view.is_neg() == whole.is_neg()


def _is_part(view, whole):
    """Whether the view is what lies at other places of the whole's memory, of the same type."""
    return isinstance(view, torch.Tensor) and view.dtype == whole.dtype and view.is_conj() == whole.is_conj() and view.is_neg() == whole.is_neg()


def _copied(place, _, tensors, __):
    return tensors[place].detach().clone()


class Outputs:
    """What a graph gives: outputs of the module, views of other outputs and of inputs, inputs as they are or copied, and numbers that sizes decide.

    nodes: of the graph of PyTorch's, where what is a view of an input or of another output shall be one, and so share its memory as eager's does.
        AOTAutograd takes the places of an input's views from what the graph gives.
    tensors: the places of inputs, by their nodes.
    """

    def __init__(self, lowering, results, inputs, nodes=(), tensors=None):
        self._bindings = lowering.bindings
        self.has_sizes = False
        self._places, self._made = [], []  # of what the module gives and takes, or None; (position, what makes it, of what was given, inputs and sizes)
        numbers = {}
        first = {value.number: value for value in lowering.inputs[: len(lowering.inputs) - len(lowering.draws)]}  # nobody else has what is drawn
        given = {node: result for node, result in zip(nodes, results) if getattr(result, "number", None) not in inputs}
        views = []
        for position, (node, result) in enumerate(zip(nodes or [None] * len(results), results)):
            whole = viewed(node)
            self._places.append(None)
            if whole is not node and whole in given and _is_shown(node.meta["val"], whole.meta["val"]):
                views.append((position, self._view(nodes.index(whole), node.meta["val"], whole.meta["val"])))
            elif whole is not node and whole in (tensors or {}) and _is_part(node.meta["val"], whole.meta["val"]):
                self._made.append((position, self._part(tensors[whole], node.meta["val"], whole.meta["val"])))
            elif not hasattr(result, "number"):
                self._made.append((position, self._number(result)))
            else:
                if result.number not in inputs and result.number not in numbers:
                    numbers[result.number] = len(numbers)
                    lowering.builder.output(f"output{numbers[result.number]}", result.number)
                place = inputs[result.number] if result.number in inputs else len(inputs) + numbers[result.number]
                if first.setdefault(result.number, result) is result:
                    self._places[position] = place
                else:
                    self._made.append((position, functools.partial(_copied, place)))
        self._made += views  # of results
        self.count = len(numbers)

    def give(self, outputs, inputs):
        tensors = [*inputs, *outputs]
        given = [None if place is None else tensors[place] for place in self._places]
        if self._made:
            values = self._bindings.values(inputs) if self.has_sizes else {}
            for position, made in self._made:
                given[position] = made(given, tensors, values)
        return given

    def _view(self, place, view, whole):
        """Of another result, that is given before."""
        known = self._sizes(view.shape, view.stride(), [view.storage_offset()])

        def made(given, _, values):
            shape, strides, (offset,) = known(values)
            shown = given[place] if view.dtype == whole.dtype else given[place].view(view.dtype)
            return torch.as_strided(shown, shape, strides, offset)

        return made

    def _part(self, place, view, whole):
        """Of an input."""
        known = self._sizes(view.shape, view.stride(), [view.storage_offset(), whole.storage_offset()])

        def made(_, tensors, values):
            shape, strides, (offset, start) = known(values)
            return torch.as_strided(tensors[place], shape, strides, tensors[place].storage_offset() + offset - start)

        return made

    def _number(self, result):
        self.has_sizes |= isinstance(result, (torch.SymInt, torch.SymFloat))
        if isinstance(result, torch.SymInt):
            return lambda _, __, values: self._bindings.evaluate(sizes.expression(result), values)
        if isinstance(result, torch.SymFloat):
            return lambda _, __, values: self._bindings.evaluate_number(sizes.expression(result), values)
        return lambda *_: result

    def _sizes(self, *lists):
        """What gives lists of sizes for the values of a call."""
        if all(isinstance(size, int) for own in lists for size in own):
            return lambda _: lists
        self.has_sizes = True
        return lambda values: [[self._known(size, values) for size in own] for own in lists]

    def _known(self, size, values):
        return size if isinstance(size, int) else self._bindings.evaluate(sizes.expression(size), values)
