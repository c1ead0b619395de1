"""From a graph of ATen's core operators to one of ours, node by node.

A function for each operator, in a table: `lowers("aten.relu.default")` registers it, for operators of other libraries too. It is
called with the lowering and the node's arguments, where tensors are `Value`s, and gives a Value, or a list where the operator has
several results. What it can't do it says by `tensmith.Error`; operators without a function are told all at once, before
anything is built.
"""

import contextlib
import hashlib
import operator
import re
import types

import sympy
import torch
from torch._guards import detect_fake_mode
from torch.utils import _pytree

from .. import Builder, ElementType, Error
from ..lowerings import Table
from . import sizes

TYPES = {
    torch.float32: "f32", torch.float64: "f64", torch.float16: "f16", torch.bfloat16: "bf16", torch.bool: "bool",
    torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.uint8: "u8", torch.uint16: "u16",
    torch.uint32: "u32", torch.uint64: "u64", torch.complex64: "c64", torch.complex128: "c128",
}  # fmt: skip

# By the names that a graph's nodes have: "aten.add.Tensor".
_TABLE = Table()
lowers = _TABLE.lowers


def supported():
    """The operators that there is a function for, sorted."""
    return sorted(_TABLE)


class Value:
    """A tensor of the graph that is built: its number there, what PyTorch knows of it (`shape`, with SymInts, and `dtype`)."""

    __slots__ = ("dtype", "number", "shape")

    def __init__(self, number, shape, dtype):
        self.number, self.shape, self.dtype = number, tuple(shape), dtype

    @property
    def rank(self):
        return len(self.shape)

    def axis(self, dim):
        """A dimension's number, counted from the front."""
        return dim + max(self.rank, 1) if dim < 0 else dim


class Lowering:
    """What the functions build with."""

    def __init__(self):
        self.builder = Builder()
        self.bindings = sizes.Bindings()
        self._constants = []
        self.inputs = []  # Values, one for each input of the module
        self.placed = set()  # nodes that must lie in memory where the example's did
        self.draws = []  # of the last of these, what draws them before each call: random.Draw
        self.depth = 0  # of regions around
        self.node = None  # that is being lowered
        self.location = ""

    # ---- values ----

    def input(self, name, shape, dtype):
        number = self.builder.input(name, self.type_of(shape, dtype))
        self.bindings.add(len(self.inputs), shape)
        self.inputs.append(Value(number, shape, dtype))
        return self.inputs[-1]

    def number_input(self, name, number, dtype):
        """A number that is no size, which a call gives: a SymFloat or SymInt, whose expression is known by it."""
        self.bindings.add_number(len(self.inputs), sizes.expression(number))
        return self.input(name, (), dtype)

    def constant(self, tensor, name=None):
        tensor = tensor.detach().contiguous()
        if tensor.numel() > 1:
            self._constants.append(tensor)
        return Value(self.builder.constant(tensor, name), tensor.shape, tensor.dtype)

    def digest(self):
        """Of what the constants hold."""
        total = hashlib.sha256()
        for tensor in self._constants:
            total.update(tensor.reshape(-1).view(torch.uint8).numpy())
        return total.digest()

    def scalar(self, number, dtype):
        if isinstance(number, (torch.SymInt, torch.SymFloat)):
            return self.tensor(number, dtype)
        return self.constant(torch.tensor(number, dtype=dtype))

    def ints(self, numbers):
        """A vector of i64 of sizes, which may be symbolic."""
        if all(sizes.is_known(number) for number in numbers):
            return self.constant(torch.tensor([sizes.number(number) for number in numbers], dtype=torch.int64))
        parts = [self.reshape(self.size(number), (1,)) for number in numbers]
        return self.op("concat", parts, (len(parts),), torch.int64, axis=0)

    def size(self, size):
        """A size as an i64 scalar."""
        return self._size(sympy.sympify(sizes.expression(size)))

    def _size(self, expr):
        if expr.is_Integer:
            return self.scalar(int(expr), torch.int64)
        if expr.is_Symbol:
            if (given := self.bindings.number(expr)) is not None:
                return self.inputs[given]
            place = self.bindings.place(expr)
            if place is None:
                raise Error(f"the size {expr} is no dimension of an input, and so isn't known")
            of = self.inputs[place[0]]
            return self.reshape(self.op("shape", [of], (1,), torch.int64, start=place[1], end=place[1] + 1), ())
        kind = type(expr).__name__
        if quotient := sizes.quotient_of(expr):
            return self._quotient(*quotient, kind == "FloorToInt")
        if kind == "FloorDiv":
            return self._quotient(*expr.args, True)
        names = {"Add": "add", "Mul": "mul", "CleanDiv": "div", "Mod": "mod", "PythonMod": "mod", "Max": "max", "Min": "min"}
        if kind == "Pow" and expr.exp.is_Integer and expr.exp > 0:
            parts = [self._size(expr.base)] * int(expr.exp)
            kind = "Mul"
        elif kind in names:
            parts = [self._size(part) for part in expr.args]
        else:
            raise Error(f"the size {expr} can't be computed in the graph")
        result = parts[0]
        for part in parts[1:]:
            result = self.op(names[kind], [result, part], (), torch.int64)
        return result

    def _quotient(self, dividend, divisor, is_floored):
        """Rounded down, or towards zero, as the graph's `div` is."""
        a, b = self._size(dividend), self._size(divisor)
        if is_floored and not (dividend.is_nonnegative and divisor.is_positive):
            a = self.binary("sub", a, self.binary("mod", a, b))  # whose remainder has the sign of b
        return self.binary("div", a, b)

    def _number(self, expr):
        """A number that sizes and numbers among the inputs decide, as an f64 scalar."""
        place = self.bindings.number(expr)
        if place is not None:
            return self.cast(self.inputs[place], torch.float64)
        if expr.is_number:
            return self.scalar(float(expr), torch.float64)
        if expr.is_integer:
            return self.cast(self._size(expr), torch.float64)
        kind = type(expr).__name__
        names = {"Add": "add", "Mul": "mul", "Pow": "pow", "FloatPow": "pow", "IntTrueDiv": "div", "FloatTrueDiv": "div", "Max": "max", "Min": "min"}
        if kind != "ToFloat" and kind not in names:
            raise Error(f"the number {expr} can't be computed in the graph")
        result, *rest = (self._number(part) for part in expr.args)
        for part in rest:
            result = self.op(names[kind], [result, part], (), torch.float64)
        return result

    @staticmethod
    def type_of(shape, dtype):
        if dtype not in TYPES:
            raise Error(f"tensors of {dtype} are not known")
        return TYPES[dtype], [sizes.text(size) for size in shape]

    # ---- operators ----

    def op(self, name, operands, shape=None, dtype=None, *, typed=False, **attributes):
        """An operator of one result, whose shape is the first operand's where none is said, and dtype likewise."""
        first = operands[0] if operands else None
        shape = first.shape if shape is None else shape
        dtype = first.dtype if dtype is None else dtype
        return self.ops(name, operands, [(shape, dtype)], typed=typed, **attributes)[0]

    def ops(self, name, operands, results, *, typed=False, **attributes):
        """One of several results, given as (shape, dtype) each."""
        numbers = self.builder.op(
            name,
            [operand and operand.number for operand in operands],
            attributes,
            self.type_of(*results[0]) if typed else None,
            self.location,
        )
        return [Value(number, shape, dtype) for number, (shape, dtype) in zip(numbers, results)]

    def cast(self, x, dtype):
        if x.dtype == dtype:
            return x
        return self.op("cast", [x], dtype=dtype, to=ElementType(TYPES[dtype]))

    def reshape(self, x, shape):
        return x if self.same(x.shape, shape) else self.op("reshape", [x], tuple(shape), typed=True)

    def broadcast(self, x, shape):
        return x if self.same(x.shape, shape) else self.op("broadcast", [x], tuple(shape), typed=True)

    def transpose(self, x, permutation):
        permutation = [x.axis(dim) for dim in permutation]
        if permutation == list(range(x.rank)):
            return x
        return self.op("transpose", [x], [x.shape[dim] for dim in permutation], permutation=permutation)

    def slice(self, x, axis, start, size, step=1):
        """From a start that is a number on."""
        starts, steps, shape = [0] * x.rank, [1] * x.rank, list(x.shape)
        starts[axis], steps[axis], shape[axis] = start, step, size
        return self.op("slice", [x], shape, typed=True, starts=starts, steps=steps)

    def reduce(self, name, x, dims, keepdim, dtype=None):
        axes = sorted({x.axis(dim) for dim in dims}) if dims and x.rank else list(range(x.rank))
        kept = [1 if dim in axes else size for dim, size in enumerate(x.shape)]
        shape = kept if keepdim else [size for dim, size in enumerate(x.shape) if dim not in axes]
        return self.op(name, [x], shape, dtype, axes=axes, keepdims=keepdim)

    def binary(self, name, a, b, dtype=None, **attributes):
        """Of Values of one dtype, broadcast."""
        return self.op(name, [a, b], sizes.broadcast(a.shape, b.shape), dtype or a.dtype, **attributes)

    def apply(self, name, *operands):
        """What formulas.py builds with: elementwise, of Values that are broadcast, and of one dtype but for conditions."""
        dtype = torch.bool if name in ("equal", "less", "greater") else operands[-1].dtype
        return self.op(name, operands, sizes.broadcast(*(operand.shape for operand in operands)), dtype)

    def count(self, x, dims):
        """The number of elements along dimensions, as a scalar of x's dtype."""
        product = 1
        for dim in dims:
            product = product * x.shape[dim]
        return self.scalar(sizes.number(product), x.dtype) if sizes.is_known(product) else self.cast(self.size(product), x.dtype)

    def tensor(self, x, dtype):
        """An argument that is a tensor or a number, as a Value of that dtype."""
        if isinstance(x, Value):
            return self.cast(x, dtype)
        if isinstance(x, torch.SymInt):
            return self.cast(self.size(x), dtype)
        if isinstance(x, torch.SymFloat):
            return self.cast(self._number(sympy.sympify(sizes.expression(x))), dtype)
        return self.scalar(x, dtype)

    @staticmethod
    def same(a, b):
        return len(a) == len(b) and all(sizes.expression(x) == sizes.expression(y) for x, y in zip(a, b))

    def places(self):
        """Of each line of the graph's text the place in the model, or None."""
        lines = self.builder.text(True).splitlines()
        return [match and match[1] for match in (re.search(r'loc\("([^"]*)"\)$', line) for line in lines)]

    # ---- of the node that is lowered ----

    @property
    def meta(self):
        """What PyTorch computes for the node: a tensor without contents, or a list of such."""
        return self.node.meta["val"]

    def is_used(self, index):
        """Whether anything takes that one of the node's results."""
        return any(user.target is operator.getitem and user.args[1] == index for user in self.node.users)

    @contextlib.contextmanager
    def at(self, node):
        before = self.node, self.location
        self.node, self.location = node, place_of(node)
        try:
            yield
        finally:
            self.node, self.location = before


def place_of(node):
    """ "model.py:12 linear": the line of the model, and the node."""
    trace = node.meta.get("stack_trace") or ""
    lines = re.findall(r'File "(?:[^"]*[/\\])?([^"]*)", line (\d+)', trace)
    place = "{}:{} ".format(*lines[-1]) if lines else ""
    return place + node.name


def name_of(target):
    return str(target)


_DRAWS = {"run_and_save_rng_state": 0, "run_with_rng_state": 1}  # of a checkpoint: the place of the operator that draws among the node's arguments


def _place_of_drawing(node):
    return _DRAWS.get(name_of(node.target)) if node.op == "call_function" else None


def operator_of(node):
    """What the node is computed by: of a checkpoint's draw, the operator that draws."""
    place = _place_of_drawing(node)
    return node.target if place is None else node.args[place]


def complete(graph):
    """Of the draws of checkpoints PyTorch knows nothing, since it makes these nodes last: they get what it knows of others."""
    values = _pytree.tree_leaves([node.meta.get("val") for node in graph.nodes])
    for node in graph.nodes:
        place = _place_of_drawing(node)
        if place is None or "val" in node.meta:
            continue
        arguments, named = torch.fx.node.map_arg((node.args[place + 1 :], dict(node.kwargs)), lambda given: given.meta["val"])
        with detect_fake_mode(values):
            value = node.args[place](*arguments, **named)
        node.meta["val"] = value if place else (torch.get_rng_state(), value)
        for user in node.users:
            if user.target is operator.getitem and "stack_trace" in user.meta:
                node.meta["stack_trace"] = user.meta["stack_trace"]


def is_number(node):
    """Whether the node's value is a size or another number, which PyTorch keeps the expression of."""
    return isinstance(node.meta.get("val"), (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool))


class Unsupported(Error):
    """Operators can't be compiled. refused: the nodes of the graph that was lowered, and why each."""

    def __init__(self, refused):
        super().__init__("\n".join(dict.fromkeys(refused.values())))
        self.refused = refused


def missing(graph, module=None):
    """The operators that have no function, by the graph's nodes that need them: (name, place), of branches and bodies too."""
    found = {}
    for node in graph.nodes:
        parts = [getattr(module, str(each.target), None) for each in node.all_input_nodes if each.op == "get_attr"]
        inner = [missing(part.graph, part) for part in parts if isinstance(part, torch.fx.GraphModule)]
        names = [pair for pairs in inner for own in pairs.values() for pair in own]
        if not _is_lowered(node):
            names.append((name_of(operator_of(node)), place_of(node)))
        if names and node.op == "call_function":
            found[node] = names
    return found


def told(names):
    """A line for each operator with its places."""
    places = {}
    for name, place in names:
        places.setdefault(name, []).append(place)
    return "\n".join(f"  {name}: {', '.join(at[:4])}{' and more' if len(at) > 4 else ''}" for name, at in places.items())


def check_supported(graph, module=None):
    """Tells every operator that has no function, with its places; those of branches and bodies too."""
    names = [pair for own in missing(graph, module).values() for pair in own]
    if names:
        raise Error("the model has operators that can't be compiled; register functions by tensmith.torch.lowers:\n" + told(names))


def _is_lowered(node):
    name = name_of(operator_of(node))
    if node.op != "call_function" or node.target is operator.getitem or name in _TABLE or is_effect(node):
        return True
    return is_number(node) and name != "aten._local_scalar_dense.default"  # sizes are computed when they are asked for


def is_effect(node):
    """Checks of sizes, whose results nothing takes."""
    return not node.users and any(word in name_of(node.target) for word in ("_assert", "sym_constrain", "check"))


def _attribute(lowering, module, node):
    held = module
    for name in str(node.target).split("."):
        held = getattr(held, name, None)
    if isinstance(held, torch.Tensor):
        return lowering.constant(held)
    if isinstance(held, torch.fx.GraphModule):
        return held
    raise Error(f"the graph has '{node.target}', of a kind that can't be compiled")


def _own(target, result):
    """What an operator gives is another Value than its operands, even if nothing had to be computed; views are what they show."""
    if getattr(target, "is_view", False):
        return result
    if isinstance(result, (list, tuple)):
        return [_own(target, part) for part in result]
    return Value(result.number, result.shape, result.dtype) if isinstance(result, Value) else result


def _given(lowering, node):
    """A node's results as inputs, of a graph that will be thrown away."""
    metas = node.meta["val"]
    given = [lowering.input(f"{node.name}.{i}", meta.shape, meta.dtype) if isinstance(meta, torch.Tensor) else meta
             for i, meta in enumerate([metas] if isinstance(metas, torch.Tensor) else metas)]  # fmt: skip
    return given[0] if isinstance(metas, torch.Tensor) else given


def lower(graph, lowering, values, module=None, lost=()):
    """All operators of an FX graph. `values`: of its placeholders, by node; gives what the output node has. `module` has what the
    graph names: tensors, and the graphs of branches and bodies. `lost`: why, of placeholders that can't be inputs. Every operator that is
    refused is told at once."""
    if not lowering.depth:
        check_supported(graph, module)
    for node in graph.nodes:
        if node.op == "get_attr" and node not in values:
            values[node] = _attribute(lowering, module, node)

    def known(node):
        return values[node] if node in values else node.meta["val"]

    refused, lost = {}, dict(lost)
    for node in graph.nodes:
        if node.op == "output":
            if refused:
                raise Unsupported(refused)
            if why := next((lost[each] for each in node.all_input_nodes if each in lost), None):
                raise Error(why)
            return torch.fx.node.map_arg(node.args[0], known)
        if node.op != "call_function" or is_number(node) or is_effect(node):
            continue
        with lowering.at(node):
            try:
                if why := next((lost[each] for each in node.all_input_nodes if each in lost), None):
                    raise Error(why)
                arguments = torch.fx.node.map_arg(node.args, known)
                named = torch.fx.node.map_arg(node.kwargs, known)
                values[node] = _lowered(lowering, node, arguments, named)
            except Error as error:
                refused[node] = f"{lowering.location}: {name_of(operator_of(node))}: {error}"
                if lowering.depth:
                    raise Unsupported(refused) from None
                try:
                    values[node] = _given(lowering, node)  # so that the operators behind it are looked at, too
                except Error as error_of_result:
                    lost[node] = str(error_of_result)
    raise Error("the graph has no output")


def _lowered(lowering, node, arguments, named):
    if node.target is operator.getitem:
        return arguments[0][arguments[1]]
    return _own(node.target, _TABLE[name_of(node.target)](lowering, *arguments, **named))


def lower_drawing(lowering, values, named, value):
    """The operator that draws in a checkpoint, as if it were a node of its own. value: what PyTorch knows of what it gives."""
    node = lowering.node
    target, *arguments = node.args[_DRAWS[name_of(node.target)] :]
    meta = node.meta | {"val": value}
    with lowering.at(types.SimpleNamespace(target=target, args=arguments, kwargs=named, meta=meta, users={}, name=node.name)):
        return _lowered(lowering, lowering.node, values, named)


def is_drawing(node):
    """Whether the operator takes what PyTorch's generator gives next, and leaves it behind that."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ()) or name_of(node.target) == "run_and_save_rng_state"
