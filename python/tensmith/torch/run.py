"""A compiled graph, called with PyTorch's tensors."""

import operator
import re

import torch
from torch.utils.dlpack import from_dlpack, to_dlpack

from .. import Error, _tensmith
from . import sizes

NO_INDEX = torch.iinfo(torch.int64).min  # that a graph reads or writes at in the place of each negative index that counts from no end


def run(model, inputs, places=()):
    """The outputs as PyTorch's tensors, on memory of their own. Inputs are tensors, which are read where they lie, or what `Held` gives for one.
    `places`: of the lines of the graph's text in the model, for errors."""
    given = [readable(x) if isinstance(x, torch.Tensor) else x for x in inputs]
    try:
        return [from_dlpack(result) for result in model._module.run(given, None, dlpack=True)]
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


class Held:
    """Inputs that are the same tensors at each call, as parameters are: converted once for each memory they lie in."""

    def __init__(self):
        self._known = {}

    def __call__(self, index, x):
        place, value = self._known.get(index, (None, None))
        if place != x.data_ptr() or not place:  # what is held keeps its memory, so that no other tensor has its place
            value = _tensmith.convert(readable(x))
            self._known[index] = (x.data_ptr() if x.is_contiguous() else None), value
        return value


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

    def __call__(self, inputs):
        if not self._draws:
            return []
        values = self._bindings.values(inputs)
        return [draw(self._bindings, values) for draw in self._draws]


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


class Outputs:
    """What a graph gives: outputs of the module, views of other outputs and of inputs, inputs as they are or copied, and numbers that sizes decide.

    nodes: of the graph of PyTorch's, where what is a view of an input or of another output shall be one, and so share its memory as eager's does.
        AOTAutograd takes the places of an input's views from what the graph gives.
    tensors: the places of inputs, by their nodes.
    """

    def __init__(self, lowering, results, inputs, nodes=(), tensors=None):
        self._entries = []
        self._bindings = lowering.bindings
        self.has_sizes = False
        numbers, first = {}, {value.number: value for value in lowering.inputs}
        given = {node: result for node, result in zip(nodes, results) if getattr(result, "number", None) not in inputs}
        for node, result in zip(nodes or [None] * len(results), results):
            whole = viewed(node)
            if whole is not node and whole in given and _is_shown(node.meta["val"], whole.meta["val"]):
                meta = node.meta["val"]
                self.has_sizes |= any(isinstance(size, torch.SymInt) for size in (*meta.shape, *meta.stride(), meta.storage_offset()))
                self._entries.append(("view", (nodes.index(whole), meta.dtype, meta.shape, meta.stride(), meta.storage_offset())))
                continue
            if whole is not node and whole in (tensors or {}) and _is_part(node.meta["val"], whole.meta["val"]):
                meta, start = node.meta["val"], whole.meta["val"].storage_offset()
                self.has_sizes |= any(isinstance(size, torch.SymInt) for size in (*meta.shape, *meta.stride(), meta.storage_offset(), start))
                self._entries.append(("part", (tensors[whole], meta.shape, meta.stride(), meta.storage_offset(), start)))
                continue
            if not hasattr(result, "number"):
                self._entries.append((None, result))
                self.has_sizes |= isinstance(result, (torch.SymInt, torch.SymFloat))
                continue
            if result.number not in inputs and result.number not in numbers:
                numbers[result.number] = len(numbers)
                lowering.builder.output(f"output{numbers[result.number]}", result.number)
            kind, places = ("input", inputs) if result.number in inputs else ("output", numbers)
            is_copy = first.setdefault(result.number, result) is not result
            self._entries.append((f"copied {kind}" if is_copy else kind, places[result.number]))
        self.count = len(numbers)

    def give(self, outputs, inputs):
        values = self._bindings.values(inputs) if self.has_sizes else {}
        given, views = [], []
        for kind, what in self._entries:
            if kind == "view":
                views.append((len(given), what))
                given.append(None)
            elif kind == "part":
                place, *numbers = what
                shape, strides, (offset, start) = ([self._known(size, values) for size in part] for part in (*numbers[:2], numbers[2:]))
                given.append(torch.as_strided(inputs[place], shape, strides, inputs[place].storage_offset() + offset - start))
            elif kind is not None:
                tensor = (outputs if kind.endswith("output") else inputs)[what]
                given.append(tensor.detach().clone() if kind.startswith("copied") else tensor)
            elif isinstance(what, torch.SymInt):
                given.append(self._bindings.evaluate(sizes.expression(what), values))
            elif isinstance(what, torch.SymFloat):
                given.append(self._bindings.evaluate_number(sizes.expression(what), values))
            else:
                given.append(what)
        for place, (whole, dtype, shape, strides, offset) in views:
            shape, strides, (offset,) = ([self._known(size, values) for size in part] for part in (shape, strides, [offset]))
            given[place] = torch.as_strided(given[whole].view(dtype), shape, strides, offset)
        return given

    def _known(self, size, values):
        return size if isinstance(size, int) else self._bindings.evaluate(sizes.expression(size), values)
