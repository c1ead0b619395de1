"""Calls of named functions with tensors that are not there yet: what symbols are made of.

A node is a call and nothing else, so that it means what the function means. Where tensors stand among its arguments there are Places.
"""

import inspect
import operator

import numpy

from .. import Error, nn
from .. import numpy as tnp
from ..recorded.nested import flattened
from ..nn import functional, random
from ..numpy import dtypes

# What the first argument of a layer is called where it is a size of the layer's input, and the axis that it is of.
_SIZES = {"in_features": -1, "input_size": -1, "in_channels": 1, "num_features": 1}
_FAMILIES = {"operator": operator, "numpy": tnp, "functional": functional, "layer": nn}


class Place:
    """Where the tensor of one of a node's inputs goes."""

    def __init__(self, number):
        self.number = number


class Node:
    """family: "variable", "operator", "numpy", "functional" or "layer"; function: its name there.

    inputs: pairs of a node and the number of its result; None where it has one. arguments, named: of the call, with Places; of a layer, those of its
    class, whose instance is called with all inputs.
    """

    def __init__(self, family, function, name, inputs=(), arguments=(), named=None):
        self.family, self.function, self.name = family, function, name
        self.inputs, self.arguments, self.named = list(inputs), tuple(arguments), dict(named or {})
        self._names = None

    def results(self, tensors, is_training, layer=None):
        """The call's, in a list; of a layer by its module. A function that asks whether it trains, and was not told, is told now."""
        if layer is not None:
            return flattened(layer(*tensors), [])
        filled = lambda tree: mapped(tree, lambda leaf: tensors[leaf.number] if isinstance(leaf, Place) else leaf)
        function, named = getattr(_FAMILIES[self.family], self.function), filled(self.named)
        if self.family == "functional" and "training" not in named:
            names = list(inspect.signature(function).parameters)
            if "training" in names[len(self.arguments) :]:
                named["training"] = is_training
        return flattened(function(*filled(self.arguments), **named), [])

    def module(self, shape):
        """A new module, for a first input of this shape."""
        kind = getattr(nn, self.function)
        first = next(iter(inspect.signature(kind).parameters))
        if first not in _SIZES or first in self.named:
            return kind(*self.arguments, **self.named)
        axis = _SIZES[first]
        if not -len(shape) <= axis < len(shape):
            raise ValueError(f"a {self.function} takes tensors of at least {axis + 1} dimensions, not one of shape {shape}")
        return kind(shape[axis], *self.arguments, **self.named)

    def is_same_call(self, other):
        """Whether the two differ in their inputs alone, so that they may be one layer."""
        if self.family == "variable" or (self.family, self.function) != (other.family, other.function):
            return False
        is_copy = self.arguments is other.arguments and self.named.keys() == other.named.keys()
        if is_copy and all(value is other.named[name] for name, value in self.named.items()):
            return True  # of a symbol that was applied
        try:
            return all(written(self, lambda _: 0)[key] == written(other, lambda _: 0)[key] for key in ("arguments", "named"))
        except Error:
            return False

    @property
    def parameters(self):
        return self._tensor_names()[0]

    @property
    def states(self):
        return self._tensor_names()[1]

    def _tensor_names(self):
        """Of a layer: what its parameters and its buffers are called. Sizes don't matter for these: that of the input is the least that is allowed."""
        if self._names is None:
            with random.kept():
                module = self.module((self.named.get("groups", 1),) * 4) if self.family == "layer" else nn.Module()
            self._names = [f"{self.name}.{name}" for name, _ in module.named_parameters()], [f"{self.name}.{name}" for name, _ in module.named_buffers()]
        return self._names


def mapped(tree, change):
    """The tree of lists, tuples, dicts and slices with its leaves changed."""
    if isinstance(tree, (list, tuple)):
        return type(tree)(mapped(each, change) for each in tree)
    if isinstance(tree, dict):
        return {key: mapped(each, change) for key, each in tree.items()}
    if isinstance(tree, slice):
        return slice(*(mapped(each, change) for each in (tree.start, tree.stop, tree.step)))
    return change(tree)


# ---- as JSON: numbers, strings, None and lists as they are; anything else as a dict of one kind


def written(node, number_of):
    """A row of the text. number_of: a function from nodes to their rows."""

    def value(tree):
        if isinstance(tree, numpy.generic):
            tree = tree.item()
        if tree is None or isinstance(tree, (bool, int, float, str)):
            return tree
        if isinstance(tree, list):
            return [value(each) for each in tree]
        if isinstance(tree, tuple):
            return {"tuple": [value(each) for each in tree]}
        if isinstance(tree, dict):
            return {"dict": {key: value(each) for key, each in tree.items()}}
        if isinstance(tree, slice):
            return {"slice": [value(each) for each in (tree.start, tree.stop, tree.step)]}
        if isinstance(tree, Place):
            return {"input": tree.number}
        if tree is ...:
            return {"ellipsis": True}
        if isinstance(tree, dtypes.DType):
            return {"dtype": str(tree)}
        raise Error(f"'{node.name}' has an argument that no text can say, of type {type(tree).__name__}; make a tensor a Variable")

    return {"family": node.family, "function": node.function, "name": node.name, "inputs": [[number_of(source), which] for source, which in node.inputs],
            "arguments": value(list(node.arguments)), "named": value(node.named)["dict"]}  # fmt: skip


_READ = {"tuple": tuple, "dict": dict, "slice": lambda parts: slice(*parts), "input": Place, "ellipsis": lambda _: ..., "dtype": dtypes.as_dtype}


def read(row, nodes):
    """The node of a row, whose inputs are among `nodes`. What is wrong with the row is a KeyError, TypeError, ValueError or IndexError."""

    def value(tree):
        if isinstance(tree, list):
            return [value(each) for each in tree]
        if not isinstance(tree, dict):
            return tree
        ((kind, content),) = tree.items()
        return _READ[kind]({key: value(each) for key, each in content.items()} if kind == "dict" else value(content))

    family, function = row["family"], row["function"]
    if family != "variable" and not is_function(family, function):
        raise ValueError(f"there is no function '{function}' in '{family}'")
    inputs = [(nodes[number], which) for number, which in row["inputs"]]
    return Node(family, function, str(row["name"]), inputs, value(row["arguments"]), {name: value(each) for name, each in row["named"].items()})


def is_function(family, name):
    """Whether symbols can be made by it."""
    module = _FAMILIES.get(family)
    if module is None or not isinstance(name, str) or name.startswith("_"):
        return False
    found = getattr(module, name, None)
    if family == "layer":
        return isinstance(found, type) and issubclass(found, nn.Module) and found is not nn.Module
    return callable(found) and not isinstance(found, type)
