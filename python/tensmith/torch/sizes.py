"""Sizes between PyTorch's symbols, which are SymPy's expressions, and the texts that dimensions are given as.

What is known of a size at run time is known of a tensor's dimension: a symbol is read where an input has it alone.
"""

import sympy
import torch
from torch.utils import _pytree
from torch.utils._sympy.functions import FloorToInt, TruncToInt

from .. import Error

_EXACT = 1 << 20  # terms of fractions up to here leave sizes 33 of a float's 53 bits


def expression(size):
    """A number, or SymPy's expression of a SymInt."""
    return size if isinstance(size, int) else size.node.expr


def text(size):
    """As a dimension of a type: "3", "batch", "2*s0+1", "(s0/2)". Quotients of dimensions are rounded down."""
    expr = sympy.sympify(expression(size))
    if expr.is_Integer:
        return _text(expr)
    bounds = size.node.shape_env.bound_sympy
    return _text(expr.replace(lambda part: isinstance(part, TruncToInt) and bounds(part.args[0]).lower >= 0, lambda part: FloorToInt(*part.args)))


def _text(expr):
    if expr.is_Integer:
        return str(int(expr)) if expr >= 0 else f"(0-{-int(expr)})"
    if expr.is_Symbol:
        return expr.name
    if expr.is_Add:
        return "(" + "+".join(_text(part) for part in expr.args) + ")"
    if expr.is_Mul:
        return "*".join(_text(part) for part in expr.args)
    if expr.is_Pow and expr.exp.is_Integer and expr.exp > 0:
        return "*".join([_text(expr.base)] * int(expr.exp))
    kind = type(expr).__name__
    a, b = expr.args if len(expr.args) == 2 else (None, None)
    if kind in ("FloorDiv", "CleanDiv", "IntTrueDiv"):
        return f"({_atom(a)}/{_atom(b)})"
    if kind in ("Mod", "PythonMod"):
        return f"({_atom(a)}%{_atom(b)})"
    if kind == "FloorToInt" and (quotient := quotient_of(expr)):
        return _text(quotient[0]) if quotient[1] == 1 else f"({_atom(quotient[0])}/{quotient[1]})"
    if kind == "Max" and 1 in (a, b):  # the graph's max is of sizes that broadcast
        return f"max({_text(a)}, {_text(b)})"
    raise Error(f"the size {expr} has no form in the graph; sizes are sums, products, quotients and remainders")


def quotient_of(expr):
    """A dividend and a divisor for a size that a number is multiplied by and that is then cut off or rounded down, as pictures are scaled: where
    the number is a fraction of powers of two, for which floats are exact. None for others."""
    if not isinstance(expr, (TruncToInt, FloorToInt)):
        return None
    factor, size = expr.args[0].as_coeff_Mul()
    if type(size).__name__ != "ToFloat" or not factor > 0:
        return None
    above, below = float(factor).as_integer_ratio()
    return (above * size.args[0], sympy.Integer(below)) if max(above, below) <= _EXACT else None


def _atom(expr):
    inner = _text(expr)
    return inner if expr.is_Symbol or (expr.is_Integer and expr >= 0) else f"({inner})"


def is_known(size):
    """Whether it is a number, or an expression that has become one."""
    return isinstance(size, int) or expression(size).is_Integer


def number(size):
    return int(expression(size))


def broadcast(*shapes):
    """The shape that all broadcast to. Sizes are never compared by PyTorch, which would fix them by a guard; that they agree it has
    seen to before."""
    rank = max(map(len, shapes), default=0)
    result = []
    for dim in range(rank):
        here = [shape[len(shape) - rank + dim] for shape in shapes if len(shape) - rank + dim >= 0]
        wide = [size for size in here if not (is_known(size) and number(size) == 1)]
        result.append(next((size for size in wide if is_known(size)), wide[0] if wide else 1))
    return tuple(result)


def is_open(value):
    """Whether it is a number that PyTorch keeps an expression of."""
    return isinstance(value, (torch.SymInt, torch.SymFloat))


def symbols_of_inputs(placeholders):
    """Those that are inputs or a dimension of one."""
    values = [node.meta["val"] for node in placeholders]
    all_sizes = [size for value in values for size in (value.shape if isinstance(value, torch.Tensor) else [value]) if is_open(size)]
    return {expression(size) for size in all_sizes if expression(size).is_Symbol}


def symbols_of_shapes(module):
    """Those that any tensor's size depends on, in a module's graph and in the branches and bodies that it names."""
    values = _pytree.tree_leaves([node.meta.get("val") for node in module.graph.nodes])
    open_sizes = [size for value in values if isinstance(value, torch.Tensor) for size in value.shape if isinstance(size, torch.SymInt)]
    inner = [part for part in module.children() if isinstance(part, torch.fx.GraphModule)]
    return set().union(*(expression(size).free_symbols for size in open_sizes), *map(symbols_of_shapes, inner))


class Bindings:
    """Where each symbol is read: (input, dimension), which inputs are numbers that are no sizes, and the values of a call's."""

    def __init__(self):
        self._places, self._numbers = {}, {}

    def add(self, input_, shape):
        for dim, size in enumerate(shape):
            if isinstance(size, torch.SymInt) and expression(size).is_Symbol:
                self._places.setdefault(expression(size), (input_, dim))

    def add_number(self, input_, expr):
        self._numbers[expr] = input_

    def number(self, expr):
        """The input that is this number, if one is."""
        return self._numbers.get(expr)

    def place(self, symbol):
        return self._places.get(symbol)

    def values(self, inputs):
        values = {symbol: sympy.Integer(inputs[i].shape[dim]) for symbol, (i, dim) in self._places.items()}
        return values | {expr: sympy.sympify(inputs[i].item()) for expr, i in self._numbers.items()}

    def evaluate(self, expr, values):
        return int(sympy.sympify(expr).xreplace(values))

    def evaluate_number(self, expr, values):
        return float(sympy.sympify(expr).xreplace(values))
