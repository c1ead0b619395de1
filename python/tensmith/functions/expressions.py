"""The expressions of a syntax tree, and comprehensions: what interpreter.py executes statements with."""

import ast
import operator

from ..numpy.dtypes import Tensor
from .frames import Frame
from .scalars import NotConvertible, Traced, is_number

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow",
           ast.MatMult: "matmul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift"}  # fmt: skip
IN_PLACE = {kind: "i" + name.rstrip("_") for kind, name in _BINARY.items()}
_UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}
_COMPARED = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}


class Expressions:
    """Of an Interpreter."""

    def value(self, node, frame):
        rule = getattr(self, "_of_" + type(node).__name__, None)
        if rule is None:
            raise NotConvertible(f"an expression of the kind {type(node).__name__} has no conversion")
        return rule(node, frame)

    def _of_Constant(self, node, frame):
        return node.value

    def _of_Name(self, node, frame):
        return self.look_up(node.id, frame)

    def _of_Attribute(self, node, frame):
        return self.objects.attribute(self.value(node.value, frame), node.attr)

    def _of_Subscript(self, node, frame):
        return self.objects.item(self.value(node.value, frame), self.value(node.slice, frame), node)

    def _of_Slice(self, node, frame):
        bounds = [None if each is None else self.recording.pin(self.value(each, frame)) for each in (node.lower, node.upper, node.step)]
        return slice(*bounds)

    def _of_BinOp(self, node, frame):
        a, b = self.value(node.left, frame), self.value(node.right, frame)
        return self.calls.operate(getattr(operator, _BINARY[type(node.op)]), a, b)

    def _of_UnaryOp(self, node, frame):
        x = self.value(node.operand, frame)
        if isinstance(node.op, ast.Not):
            x = self.calls.traced_truth(x)
            return self.calls.pure(operator.not_, [x]) if isinstance(x, Traced) else not x
        return self.calls.operate(getattr(operator, _UNARY[type(node.op)]), x)

    def _of_BoolOp(self, node, frame):
        for each in node.values[:-1]:
            x = self.value(each, frame)
            if self.calls.truth(x) == isinstance(node.op, ast.Or):
                return x
        return self.value(node.values[-1], frame)

    def _of_Compare(self, node, frame):
        left = self.value(node.left, frame)
        for i, (op, right) in enumerate(zip(node.ops, node.comparators)):
            right = self.value(right, frame)
            result = self._compared(op, left, right)
            if i == len(node.ops) - 1 or not self.calls.truth(result):
                return result
            left = right

    def _compared(self, op, a, b):
        if isinstance(op, (ast.Is, ast.IsNot)):
            if is_number(a) and is_number(b) and (isinstance(a, Traced) or isinstance(b, Traced)):
                raise NotConvertible("numbers are compared by `is`")
            if a is not b and isinstance(a, tuple) and isinstance(b, tuple):  # of which the call has others than the program
                raise NotConvertible("tuples are compared by `is`")
            if a is not b and isinstance(a, Tensor) and isinstance(b, Tensor):
                self.recording.check_identity(a, b)
            return (a is b) == isinstance(op, ast.Is)
        if isinstance(op, (ast.In, ast.NotIn)):
            return self.objects.contains(b, a) == isinstance(op, ast.In)
        return self.calls.operate(getattr(operator, _COMPARED[type(op)]), a, b)

    def _of_IfExp(self, node, frame):
        test = self.test(node.test, frame, node)
        if isinstance(test, Traced):
            return self.control.fork(test, [lambda: self.value(node.body, frame), lambda: self.value(node.orelse, frame)], node)
        return self.value(node.body if test else node.orelse, frame)

    def test(self, node, frame, site, kind="branch"):
        """A condition: true or false, or a number of the graph where what it decides (`site`) is to be the graph's."""
        found = self._condition(node, frame, site)
        if isinstance(found, Traced) and not self.recording.is_in_graph(site):
            return self.recording.pin(found, kind, site)
        return found

    def _condition(self, node, frame, site):
        """The truth of an expression, of whose parts those that depend on tensors stay numbers of the graph."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            x = self._condition(node.operand, frame, site)
            return self.calls.pure(operator.not_, [x]) if isinstance(x, Traced) else not x
        if isinstance(node, ast.BoolOp):
            return self._connected(node.values, isinstance(node.op, ast.Or), frame, site)
        return self.calls.traced_truth(self.value(node, frame))

    def _connected(self, nodes, stops_at, frame, site):
        first = self.test(nodes[0], frame, site)
        if len(nodes) == 1:
            return first
        if not isinstance(first, Traced):
            return first if first == stops_at else self._connected(nodes[1:], stops_at, frame, site)
        sides = [lambda: stops_at, lambda: self._connected(nodes[1:], stops_at, frame, site)]
        return self.control.fork(first, sides if stops_at else sides[::-1], site)

    def _of_NamedExpr(self, node, frame):
        value = self.value(node.value, frame)
        while isinstance(frame, Frame) and frame.bound == frame.world and frame.parent:
            frame = frame.parent
        self.bind(node.target.id, value, frame)
        return value

    def _of_Lambda(self, node, frame):
        return self._function(node, frame)

    def _elements(self, nodes, frame):
        values = []
        for each in nodes:
            if isinstance(each, ast.Starred):
                values += self.calls.iterate(self.value(each.value, frame))
            else:
                values.append(self.value(each, frame))
        return values

    def _of_Tuple(self, node, frame):
        return tuple(self._elements(node.elts, frame))

    def _of_List(self, node, frame):
        return self.recording.make(self._elements(node.elts, frame))

    def _of_Set(self, node, frame):
        return {self._key(each) for each in self._elements(node.elts, frame)}

    def _key(self, x):
        return self.recording.hashed(self.recording.pin(x))

    def _of_Dict(self, node, frame):
        result = self.recording.make({})
        for key, value in zip(node.keys, node.values):
            if key is None:
                result.update(self._dict(self.value(value, frame)))
            else:
                result[self._key(self.value(key, frame))] = self.value(value, frame)
        return result

    def _dict(self, x):
        if not isinstance(x, dict):
            raise NotConvertible(f"`**` of a {type(x).__qualname__} has no conversion")
        return self.recording.touch(x)

    def _of_JoinedStr(self, node, frame):
        parts = []
        for each in node.values:
            parts.append(each.value if isinstance(each, ast.Constant) else self._formatted(each, frame))
        return "".join(parts)

    def _formatted(self, node, frame):
        x = self.value(node.value, frame)
        x = self.recording.pin(x)
        if type(x) not in (int, float, str, bool, type(None)) and not self.calls.is_told(x):
            raise NotConvertible(f"a {type(x).__name__} becomes text")
        convert = {115: str, 114: repr, 97: ascii}.get(node.conversion, lambda x: x)
        return format(convert(x), self.value(node.format_spec, frame) if node.format_spec else "")

    def _of_Call(self, node, frame):
        if isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            return self._super(frame)
        function = self.value(node.func, frame)
        arguments = self._elements(node.args, frame)
        named = {}
        for each in node.keywords:
            value = self.value(each.value, frame)
            if each.arg is None:
                named.update(self._dict(value))
            else:
                named[each.arg] = value
        line = self.recording.line = node.lineno
        try:
            return self.calls.call(function, arguments, named)
        finally:
            self.recording.line = line

    def _super(self, frame):
        while frame.parent is not None:
            frame = frame.parent
        if "__class__" not in frame.cells:
            raise NotConvertible("`super()` outside of a class")
        return super(frame.cells["__class__"].cell_contents, next(iter(frame.names.values())))

    # ---- comprehensions

    def _inner(self, node, frame):
        inner = self.recording.make(Frame(set(), frozenset(), frame, frame.globals, {}))
        for each in node.generators:
            inner.bound |= {part.id for part in ast.walk(each.target) if isinstance(part, ast.Name)}
        return inner

    def _comprehension(self, node, frame, take):
        inner = self._inner(node, frame)
        for _ in self._each(node.generators, self.calls.iterate(self.value(node.generators[0].iter, frame)), inner):
            take(inner)

    def _each(self, generators, values, inner):
        """Once for each combination of values that passes the tests, of which the names in `inner` have then."""
        for value in values:
            self._steps += 1
            self.assign(generators[0].target, value, inner)
            if not all(self.calls.truth(self.value(test, inner)) for test in generators[0].ifs):
                continue
            if rest := generators[1:]:
                yield from self._each(rest, self.calls.iterate(self.value(rest[0].iter, inner)), inner)
            else:
                yield

    def _of_ListComp(self, node, frame):
        result = self.recording.make([])
        self._comprehension(node, frame, lambda inner: result.append(self.value(node.elt, inner)))
        return result

    def _of_GeneratorExp(self, node, frame):
        inner = self._inner(node, frame)
        first = self.calls.iterate(self.value(node.generators[0].iter, frame))
        return self.recording.make(value for _ in self._each(node.generators, first, inner) for value in [self.value(node.elt, inner)])

    def _of_SetComp(self, node, frame):
        return {self._key(each) for each in self._of_ListComp(node, frame)}

    def _of_DictComp(self, node, frame):
        result = self.recording.make({})

        def take(inner):
            key = self._key(self.value(node.key, inner))
            result[key] = self.value(node.value, inner)

        self._comprehension(node, frame, take)
        return result

    def _of_Yield(self, node, frame):
        self.recording.refuse_in_regions("`yield` stands")
        while frame.yields is None:
            frame = frame.parent
        frame.yields.append(None if node.value is None else self.value(node.value, frame))

    def _of_YieldFrom(self, node, frame):
        self.recording.refuse_in_regions("`yield from` stands")
        frame.yields.extend(self.calls.iterate(self.value(node.value, frame)))
