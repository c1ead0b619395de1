"""A graph in parts, where some of its operators can't be compiled: PyTorch runs these, and what stands between them is compiled.

A node's part is the number of changes between both on the way to it that has the most. So parts never need one another, and there are no more
of them one after the other than such changes. Parts of an even number are compiled.
"""

import operator

import torch
from torch.fx.passes.split_module import split_module

from . import sizes
from .lowering import is_drawing, is_effect, is_number


def split(module, is_ours):
    """A module that calls its parts, and those to compile by name. `is_ours`: whether a node can be compiled; numbers stay where they are computed."""
    parts = _numbers(module.graph, is_ours)
    whole = split_module(module, None, lambda node: parts[node])
    ours = {f"submod_{part}": part for part in set(parts.values()) if part % 2 == 0}
    ours = {name: getattr(whole, name) for name in ours if hasattr(whole, name)}
    for call in list(whole.graph.nodes):
        if call.op == "call_module" and call.target in ours:
            _give_symbols(whole.graph, call, ours[call.target])
    _order(whole.graph)
    whole.graph.lint()
    whole.recompile()
    return whole, ours


def _numbers(graph, is_ours):
    parts, drawn = {}, 0
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        before = [parts[each] for each in node.all_input_nodes if each in parts]
        part = max(before, default=0)
        if node.target is operator.getitem and before:
            parts[node] = part
            continue
        is_drawn = is_drawing(node)
        if is_drawn:  # in the program's order, as each takes what the generator gives next
            part = max(part, drawn)
        if not (is_number(node) or is_effect(node)) or not is_ours(node):
            part += part % 2 == is_ours(node)
        parts[node] = part
        drawn = part if is_drawn else drawn
    for node in graph.nodes:
        if node.op == "get_attr":  # branches and bodies have one user
            parts[node] = min((parts[user] for user in node.users if user in parts), default=0)
    return parts


def _order(graph):
    """Parts by their numbers, since what draws random numbers needs those before it to have drawn."""
    numbers = {}
    for node in graph.nodes:
        numbers[node] = max((numbers[each] for each in node.all_input_nodes), default=-1)
        if node.op == "call_module":
            numbers[node] = int(node.target.removeprefix("submod_"))
    *rest, output = graph.nodes
    for node in sorted(rest, key=numbers.get):
        output.prepend(node)


def _give_symbols(graph, call, part):
    """Inputs for the sizes that the part's own don't tell."""
    placeholders = [node for node in part.graph.nodes if node.op == "placeholder"]
    for symbol in sorted(_symbols(part) - sizes.symbols_of_inputs(placeholders), key=str):
        given = _found(graph, symbol)
        if given is None:
            continue  # an error names it where it is needed
        with part.graph.inserting_after(placeholders[-1]) if placeholders else part.graph.inserting_before():
            placeholders.append(part.graph.placeholder(f"size_{symbol}"))
        placeholders[-1].meta["val"] = given.meta["val"]
        call.args = (*call.args, given)


def _symbols(part):
    numbers = [node.meta["val"] for node in part.graph.nodes if sizes.is_open(node.meta.get("val"))]
    return sizes.symbols_of_shapes(part).union(*(sizes.expression(number).free_symbols for number in numbers))


def _found(graph, symbol):
    """A node that is the symbol's number."""
    for node in graph.nodes:
        value = node.meta.get("val")
        if node.op != "placeholder":
            return None
        if sizes.is_open(value) and sizes.expression(value) == symbol:
            return node
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if sizes.is_open(size) and sizes.expression(size) == symbol:
                last = [each for each in graph.nodes if each.op == "placeholder"][-1]
                with graph.inserting_after(last):
                    number = graph.call_function(torch.ops.aten.sym_size.int, (node, dim))
                number.meta["val"] = size
                return number
    return None
