"""Graphs of named operations, bound to memory once and run many times: MXNet's Symbol and Executor (Chen et al., 2015, section 2).

    from tensmith import symbol

    x, label = symbol.Variable("x"), symbol.Variable("label")
    hidden = symbol.relu(symbol.Linear(x, 128, name="hidden"))
    loss = symbol.cross_entropy(symbol.Linear(hidden, 10, name="logits"), label)
    executor = loss.bind(x=(64, 784), label=((64,), "int64"))

Every function of `tensmith.numpy` and `tensmith.nn.functional` is one of symbols here, by its name, and every module of `tensmith.nn` a layer with
parameters of its own, whose sizes binding infers. docs/symbols.md says how they are used.
"""

import itertools
import json
import operator

from .. import Error
from ..nn import random
from .executor import Executor
from .nodes import Node, Place, is_function, mapped, read, written

__all__ = ["Executor", "Group", "Symbol", "Variable", "load_json"]

_counts, _read_names = {}, set()


class Symbol:
    """Results of nodes. Operators and indices are those of tensors."""

    __array_ufunc__ = None  # of an array and a symbol, the operator is the symbol's

    def __init__(self, heads):
        self.heads = heads  # pairs of a node and the number of its result; None: all that it has

    # ---- what it is made of

    @property
    def name(self):
        return self.heads[0][0].name

    @property
    def nodes(self):
        """Each once, behind those that it uses."""
        order, seen = [], set()
        stack = [(node, False) for node, _ in reversed(self.heads)]
        while stack:
            node, is_done = stack.pop()
            if is_done:
                order.append(node)
            elif id(node) not in seen:
                seen.add(id(node))
                stack.append((node, True))
                stack += [(source, False) for source, _ in reversed(node.inputs)]
        return order

    @property
    def variables(self):
        return [node.name for node in self.nodes if node.family == "variable"]

    @property
    def arguments(self):
        """Names of variables and of layers' parameters, in the order of their use."""
        return _once(name for node in self.nodes for name in ([node.name] if node.family == "variable" else node.parameters))

    @property
    def states(self):
        """Names of what layers keep beside parameters, such as running means."""
        return _once(name for node in self.nodes for name in node.states)

    @property
    def outputs(self):
        names = self._names()
        return [names[id(node)] if not number else f"{names[id(node)]}.{number}" for node, number in self.heads]

    @property
    def internals(self):
        """Each node by its name, as a symbol that can be bound; of what is applied again "name:1", "name:2", ..."""
        names = self._names()
        return {names[id(node)]: Symbol([(node, None)]) for node in self.nodes}

    def _names(self):
        """Of each node, by its id: no two are alike."""
        names, own = {}, {node.name for node in self.nodes}
        taken = set()
        for node in self.nodes:
            name, number = node.name, 0
            while name in taken or (number and name in own):
                number += 1
                name = f"{node.name}:{number}"
            taken.add(name)
            names[id(node)] = name
        return names

    def output(self, number):
        """One of the results of an operation that has several, such as `symbol.unstack`."""
        if len(self.heads) != 1 or self.heads[0][1] is not None:
            raise ValueError(f"{self!r} is no operation with several results")
        return Symbol([(self.heads[0][0], operator.index(number))])

    # ---- what is done with it

    def bind(self, *, gradients=None, shared=None, **inputs):
        """An Executor. inputs: of each variable its shape, a pair of shape and element type (else float32), or a tensor to begin with.

        gradients: "write" or "add" for names of arguments; None: "write" for the parameters of layers.
        shared: an executor whose memory for intermediate results is used too, and whose arguments, gradients and states are, where names, shapes
        and types are the same. The two run one after another.
        """
        return Executor(self, inputs, gradients, shared)

    def infer_shape(self, **inputs):
        """Shapes of the arguments and of the states by their names, and a list of those of the outputs."""
        with random.kept():
            executor = self.bind(gradients={}, **inputs)
        shapes = [{name: x.shape for name, x in tensors.items()} for tensors in (executor.arguments, executor.states)]
        return *shapes, [shape for _, shape in executor.output_types]

    def __call__(self, **replacements):
        """The same, of symbols in the place of variables. Its layers are the same ones: with others of the same symbol in one graph, they have
        one set of parameters and states."""
        unknown = sorted(set(replacements) - set(self.variables))
        if unknown:
            raise ValueError(f"there is no variable '{unknown[0]}' to replace; there are {', '.join(self.variables)}")
        made = {}
        sources = lambda inputs: [(made[id(node)][0], made[id(node)][1] if number is None else number) for node, number in inputs]
        for node in self.nodes:
            if node.family == "variable" and node.name in replacements:
                made[id(node)] = _head(replacements[node.name])
            elif all(made[id(source)][0] is source for source, _ in node.inputs):
                made[id(node)] = node, None
            else:
                made[id(node)] = Node(node.family, node.function, node.name, sources(node.inputs), node.arguments, node.named), None
        return Symbol(sources(self.heads))

    def to_json(self):
        """As text, for `load_json`. An Error names a node with an argument that text can't say."""
        nodes = self.nodes
        numbers = {id(node): number for number, node in enumerate(nodes)}
        number_of = lambda node: numbers[id(node)]
        heads = [[number_of(node), which] for node, which in self.heads]
        return json.dumps({"symbol": 1, "nodes": [written(node, number_of) for node in nodes], "heads": heads}, indent=1)

    def __getitem__(self, key):
        return _called("operator", "getitem", (self, key), {})

    def __iter__(self):
        raise TypeError("how many rows a symbol has is not known before it is bound; symbol.unstack(x).output(i) is one of them")

    def __bool__(self):
        raise TypeError("a symbol is neither true nor false before it is bound and run; symbol.where chooses by elements")

    def __repr__(self):
        return f"<Symbol {', '.join(self.outputs)}>"

    __hash__ = object.__hash__


def _operators():
    for name in "add sub mul truediv floordiv mod pow matmul and_ or_ xor lshift rshift".split():
        def forward(self, other, name=name):  # fmt: skip
            return _called("operator", name, (self, other), {})

        def backward(self, other, name=name):
            return _called("operator", name, (other, self), {})

        plain = name.rstrip("_")
        setattr(Symbol, f"__{plain}__", forward)
        setattr(Symbol, f"__r{plain}__", backward)
    for name in "lt le eq ne gt ge".split():
        setattr(Symbol, f"__{name}__", lambda self, other, name=name: _called("operator", name, (self, other), {}))
    for name in "neg pos abs invert".split():
        setattr(Symbol, f"__{name}__", lambda self, name=name: _called("operator", name, (self,), {}))


_operators()


def _once(names):
    return list(dict.fromkeys(names))


def _head(symbol):
    """The one result that a symbol is as an operand."""
    if len(symbol.heads) != 1:
        raise ValueError(f"{symbol!r} is a group, and an operand is one result")
    return symbol.heads[0]


def _new_name(function):
    """One that no symbol of this process has, those of texts that were read among them."""
    base = function.strip("_").lower()
    counter = _counts.setdefault(base, itertools.count())
    return next(name for name in (f"{base}{number}" for number in counter) if name not in _read_names)


def _called(family, function, arguments, named, name=None):
    inputs = []

    def place(leaf):
        if not isinstance(leaf, Symbol):
            return leaf
        inputs.append(_head(leaf))
        return Place(len(inputs) - 1)

    arguments, named = mapped(tuple(arguments), place), mapped(named, place)
    if not inputs:
        raise TypeError(f"{function} has no symbol among its arguments; tensors have it as tensmith.{'nn' if family == 'layer' else family}.{function}")
    return Symbol([(Node(family, function, name or _new_name(function), inputs, arguments, named), None)])


def _layer(function, arguments, named, name):
    """Its inputs are the symbols that the arguments begin with; the others are its class's."""
    count = next((i for i, each in enumerate(arguments) if not isinstance(each, Symbol)), len(arguments))
    inputs, others = [_head(each) for each in arguments[:count]], arguments[count:]
    is_symbol = [isinstance(each, Symbol) for each in (*others, *named.values())]
    if not inputs or any(is_symbol):
        raise TypeError(f"{function} takes symbols first, and then what its class takes")
    node = Node("layer", function, name or _new_name(function), inputs, others, named)
    node.parameters  # noqa: B018, arguments that its class refuses are refused here
    return Symbol([(node, None)])


def Variable(name):  # noqa: N802, a class in MXNet
    """What binding gives a shape, or a tensor."""
    if not isinstance(name, str) or not name:
        raise TypeError("a variable has a name")
    return Symbol([(Node("variable", "", name), None)])


def Group(symbols):  # noqa: N802
    """Results of several symbols, as one."""
    heads = [head for symbol in symbols for head in symbol.heads]
    if not heads:
        raise ValueError("a group of no symbols has no results")
    return Symbol(heads)


def load_json(text):
    """The symbol that `to_json` wrote. An Error says what is wrong with other text."""
    number, nodes = -1, []
    try:
        content = json.loads(text)
        if content["symbol"] != 1:
            raise ValueError(f"version {content['symbol']!r} is none that is known here")
        for number, row in enumerate(content["nodes"]):  # noqa: B007
            if any(not 0 <= source < number for source, _ in row["inputs"]):
                raise ValueError("it uses a node that does not come before it")
            nodes.append(read(row, nodes))
            _read_names.add(nodes[-1].name)
        number = -1
        heads = [(nodes[node], which) for node, which in content["heads"] if node >= 0]
        if not heads:
            raise ValueError("it has no results")
        return Symbol(heads)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        where = f"node {number}: " if number >= 0 else ""
        raise Error(f"this is no symbol's text: {where}{type(error).__name__}: {error}") from None


def __getattr__(name):
    """A function of symbols, by the name of one of tensors."""
    family = next((family for family in ("layer", "functional", "numpy") if is_function(family, name)), None)
    if family is None:
        raise AttributeError(f"neither tensmith.numpy nor tensmith.nn has '{name}'")

    def call(*arguments, name=None, **named):
        return _layer(call.__name__, arguments, named, name) if family == "layer" else _called(family, call.__name__, arguments, named, name)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = f"As tensmith.{'numpy' if family == 'numpy' else 'nn' if family == 'layer' else 'nn.functional'}.{name}, of symbols."
    return call
