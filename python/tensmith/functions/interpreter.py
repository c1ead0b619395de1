"""Executes a function's syntax tree for a recording: Python's meaning, with each read, write and call told to it.

What Python would do by itself (attributes of objects, names, branches, calls) is done here by rules; a statement or expression without
one ends the conversion, with its line. Values are Python's own, but for numbers that differ from call to call (Traced).
"""

import ast
import builtins
import contextlib
import operator
import types

from ..numpy.dtypes import Tensor
from . import sources
from .scalars import NotConvertible, Traced, is_number

_BINARY = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.Pow: "pow",
           ast.MatMult: "matmul", ast.BitAnd: "and_", ast.BitOr: "or_", ast.BitXor: "xor", ast.LShift: "lshift", ast.RShift: "rshift"}  # fmt: skip
_IN_PLACE = {kind: "i" + name.rstrip("_") for kind, name in _BINARY.items()}
_UNARY = {ast.USub: "neg", ast.UAdd: "pos", ast.Invert: "invert"}
_COMPARED = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
_MOST_STEPS = 400_000
_DEEPEST = 60


class _Return(BaseException):
    def __init__(self, value):
        self.value = value


class _Break(BaseException):
    pass


class _Continue(BaseException):
    pass


class Frame:
    """parent: the function that this one stands in, where that is executed here as well; cells: of one that Python has made."""

    def __init__(self, bound, world, parent, globals_, cells):
        self.bound, self.world, self.parent, self.globals, self.cells = bound, world, parent, globals_, cells
        self.names, self.yields = {}, None


class Interpreted:
    """A function that the recorded call has made, or one of Python's that a library is to call."""

    def __init__(self, interpreter, node, frame, defaults, named_defaults, function=None):
        self.interpreter, self.node, self.frame, self.defaults, self.named_defaults = interpreter, node, frame, defaults, named_defaults
        self.function = function

    def __call__(self, *arguments, **named):
        return self.interpreter.calls.call(self.function or self, list(arguments), named)


class Interpreter:
    def __init__(self, recording):
        from .calls import Calls

        self.recording = recording
        self.calls = Calls(self, recording)
        self.objects = self.calls.objects
        self._steps, self._depth = 0, 0

    # ---- functions

    def run(self, node, frame, arguments, named, defaults, named_defaults):
        self._bind(node, frame, arguments, named, defaults, named_defaults)
        if self._depth >= _DEEPEST:
            raise NotConvertible("calls are nested too deep")
        self._depth += 1
        line = self.recording.line
        try:
            if isinstance(node, ast.Lambda):
                return self.value(node.body, frame)
            if sources.is_generator(node):
                frame.yields = []
            try:
                self.block(node.body, frame)
            except _Return as result:
                return iter(frame.yields) if frame.yields is not None else result.value
            return iter(frame.yields) if frame.yields is not None else None
        finally:
            self._depth -= 1
            self.recording.line = line

    def _bind(self, node, frame, arguments, named, defaults, named_defaults):
        spec, name = node.args, getattr(node, "name", "<lambda>")
        places = [each.arg for each in [*spec.posonlyargs, *spec.args]]
        given = dict(zip(places, arguments))
        rest = arguments[len(places) :]
        if rest and not spec.vararg:
            raise TypeError(f"{name}() takes {len(places)} positional arguments but {len(arguments)} were given")
        extra = {}
        only_places = {each.arg for each in spec.posonlyargs}
        for key, value in named.items():
            if key in only_places or key not in [*places, *(each.arg for each in spec.kwonlyargs)]:
                if not spec.kwarg:
                    raise TypeError(f"{name}() got an unexpected keyword argument '{key}'")
                extra[key] = value
            elif key in given:
                raise TypeError(f"{name}() got multiple values for argument '{key}'")
            else:
                given[key] = value
        for key, value in zip(places[len(places) - len(defaults) :], defaults):
            given.setdefault(key, value)
        for key, value in named_defaults.items():
            given.setdefault(key, value)
        missing = [key for key in [*places, *(each.arg for each in spec.kwonlyargs)] if key not in given]
        if missing:
            raise TypeError(f"{name}() missing required arguments: {', '.join(missing)}")
        if spec.vararg:
            given[spec.vararg.arg] = tuple(rest)
        if spec.kwarg:
            given[spec.kwarg.arg] = extra
        frame.names.update(given)

    # ---- names

    def _scope(self, name, frame):
        """The frame that binds a name; None where no function that is executed here does."""
        if name in frame.world:
            return None
        while frame is not None:
            if name in frame.bound:
                return frame
            frame = frame.parent
        return None

    def _cell(self, name, frame):
        if name in frame.world:
            return None
        while frame is not None:
            if name in frame.cells:
                return frame.cells[name]
            frame = frame.parent
        return None

    def look_up(self, name, frame):
        scope = self._scope(name, frame)
        if scope is not None:
            if name not in scope.names:
                raise UnboundLocalError(f"cannot access local variable '{name}' where it is not associated with a value")
            return scope.names[name]
        cell = self._cell(name, frame)
        r = self.recording
        if cell is not None:
            try:
                now = cell.cell_contents
            except ValueError:
                raise NameError(f"cannot access free variable '{name}'") from None
            return r.read(r.root(cell, name), "cell", "", now, f"{r.residual.constant(cell)}.cell_contents", name)
        world = frame.globals
        if name in world:
            r.root(world, "globals")
            return r.read(world, "global", name, world[name], f"{r.residual.constant(world)}[{name!r}]", name, of="global")
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise NameError(f"name '{name}' is not defined")

    def bind(self, name, value, frame):
        scope = self._scope(name, frame)
        if scope is not None:
            scope.names[name] = value
            return
        r, cell = self.recording, self._cell(name, frame)
        if cell is not None and name not in frame.world:
            r.root(cell, name)
            r.write(cell, "cell", "", lambda: setattr(cell, "cell_contents", value))
            return
        world = frame.globals
        r.root(world, "globals")
        r.write(world, "global", name, lambda: world.__setitem__(name, value))

    # ---- statements

    def block(self, statements, frame):
        for each in statements:
            self.statement(each, frame)

    def statement(self, node, frame):
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise NotConvertible("the call takes too many steps")
        self.recording.line = node.lineno
        rule = getattr(self, "_do_" + type(node).__name__, None)
        if rule is None:
            self.recording.line = node.lineno
            raise NotConvertible(f"a statement of the kind {type(node).__name__} has no conversion")
        try:
            rule(node, frame)
        except NotConvertible as refusal:
            refusal.line = refusal.line or node.lineno
            raise

    def _do_Expr(self, node, frame):
        self.value(node.value, frame)

    def _do_Pass(self, node, frame):
        pass

    _do_Global = _do_Nonlocal = _do_Pass

    def _do_Return(self, node, frame):
        raise _Return(None if node.value is None else self.value(node.value, frame))

    def _do_Break(self, node, frame):
        raise _Break

    def _do_Continue(self, node, frame):
        raise _Continue

    def _do_Assign(self, node, frame):
        value = self.value(node.value, frame)
        for target in node.targets:
            self.assign(target, value, frame)

    def _do_AnnAssign(self, node, frame):
        if node.value is not None:
            self.assign(node.target, self.value(node.value, frame), frame)

    def _do_AugAssign(self, node, frame):
        target, function = node.target, getattr(operator, _IN_PLACE[type(node.op)])
        if isinstance(target, ast.Name):
            before = self.look_up(target.id, frame)
            self.bind(target.id, self.calls.in_place(function, before, self.value(node.value, frame)), frame)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, frame)
            before = self.objects.attribute(owner, target.attr)
            self.objects.set_attribute(owner, target.attr, self.calls.in_place(function, before, self.value(node.value, frame)))
        elif isinstance(target, ast.Subscript):
            owner, key = self.value(target.value, frame), self.value(target.slice, frame)
            before = self.objects.item(owner, key)
            self.objects.set_item(owner, key, self.calls.in_place(function, before, self.value(node.value, frame)))

    def _do_If(self, node, frame):
        self.block(node.body if self.calls.truth(self.value(node.test, frame)) else node.orelse, frame)

    def _do_While(self, node, frame):
        while self.calls.truth(self.value(node.test, frame), "trip count"):
            self._steps += 1
            try:
                self.block(node.body, frame)
            except _Break:
                return
            except _Continue:
                pass
        self.block(node.orelse, frame)

    def _do_For(self, node, frame):
        for each in self.calls.iterate(self.value(node.iter, frame)):
            self.assign(node.target, each, frame)
            try:
                self.block(node.body, frame)
            except _Break:
                return
            except _Continue:
                pass
        self.block(node.orelse, frame)

    def _do_FunctionDef(self, node, frame):
        if node.decorator_list:
            raise NotConvertible(f"'{node.name}' is made by a decorator")
        self.bind(node.name, self._function(node, frame), frame)

    def _function(self, node, frame):
        if sources.is_generator(node):
            raise NotConvertible("generators have no conversion")
        defaults = [self.value(each, frame) for each in node.args.defaults]
        named = {each.arg: self.value(value, frame) for each, value in zip(node.args.kwonlyargs, node.args.kw_defaults) if value is not None}
        return Interpreted(self, node, frame, defaults, named)

    def _do_Assert(self, node, frame):
        if not self.calls.truth(self.value(node.test, frame)):
            raise AssertionError(*([self.value(node.msg, frame)] if node.msg else []))

    def _do_Raise(self, node, frame):
        if node.exc is None or node.cause is not None:
            raise NotConvertible("an exception is raised again, or from another")
        raised = self.value(node.exc, frame)
        if not (isinstance(raised, Exception) or isinstance(raised, type) and issubclass(raised, Exception)):
            raise NotConvertible("what is raised is no Exception")
        raise raised

    def _do_Try(self, node, frame):
        try:
            try:
                self.block(node.body, frame)
            except Exception as error:
                self._handle(node, error, frame)
            else:
                self.block(node.orelse, frame)
        except NotConvertible:
            raise
        except BaseException:
            self.block(node.finalbody, frame)
            raise
        else:
            self.block(node.finalbody, frame)

    def _handle(self, node, error, frame):
        for handler in node.handlers:
            kinds = self.value(handler.type, frame) if handler.type else BaseException
            if not isinstance(error, kinds):
                continue
            if handler.name:
                self.bind(handler.name, error, frame)
            try:
                self.block(handler.body, frame)
            finally:
                if handler.name and (scope := self._scope(handler.name, frame)):
                    scope.names.pop(handler.name, None)
            return
        raise error

    def _do_With(self, node, frame):
        with contextlib.ExitStack() as stack:
            for item in node.items:
                manager = self.value(item.context_expr, frame)
                if not isinstance(manager, contextlib._GeneratorContextManager):
                    raise NotConvertible(f"`with` of a {type(manager).__name__} has no conversion")
                entered = stack.enter_context(manager)
                if item.optional_vars is not None:
                    self.assign(item.optional_vars, entered, frame)
            self.block(node.body, frame)

    def _do_Delete(self, node, frame):
        for target in node.targets:
            if isinstance(target, ast.Name) and (scope := self._scope(target.id, frame)) is not None and target.id in scope.names:
                del scope.names[target.id]
            elif isinstance(target, ast.Subscript):
                self.objects.delete_item(self.value(target.value, frame), self.value(target.slice, frame))
            elif isinstance(target, ast.Attribute):
                self.objects.delete_attribute(self.value(target.value, frame), target.attr)
            else:
                raise NotConvertible("`del` of this has no conversion")

    # ---- targets

    def assign(self, target, value, frame):
        if isinstance(target, ast.Name):
            self.bind(target.id, value, frame)
        elif isinstance(target, ast.Attribute):
            self.objects.set_attribute(self.value(target.value, frame), target.attr, value)
        elif isinstance(target, ast.Subscript):
            self.objects.set_item(self.value(target.value, frame), self.value(target.slice, frame), value)
        elif isinstance(target, (ast.Tuple, ast.List)):
            self._unpack(target.elts, list(self.calls.iterate(value)), frame)
        else:
            raise NotConvertible(f"assignment to {type(target).__name__} has no conversion")

    def _unpack(self, targets, values, frame):
        starred = next((i for i, each in enumerate(targets) if isinstance(each, ast.Starred)), None)
        if starred is None:
            if len(values) != len(targets):
                raise ValueError(f"not enough values to unpack (expected {len(targets)}, got {len(values)})" if len(values) < len(targets)
                                 else f"too many values to unpack (expected {len(targets)})")  # fmt: skip
            pairs = zip(targets, values)
        else:
            behind = len(targets) - starred - 1
            if len(values) < len(targets) - 1:
                raise ValueError(f"not enough values to unpack (expected at least {len(targets) - 1}, got {len(values)})")
            middle = values[starred : len(values) - behind]
            pairs = zip([*targets[:starred], targets[starred].value, *targets[starred + 1 :]], [*values[:starred], middle, *values[len(values) - behind :]])
        for target, value in pairs:
            self.assign(target, value, frame)

    # ---- expressions

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
        return self.objects.item(self.value(node.value, frame), self.value(node.slice, frame))

    def _of_Slice(self, node, frame):
        bounds = [None if each is None else self.recording.pin(self.value(each, frame)) for each in (node.lower, node.upper, node.step)]
        return slice(*bounds)

    def _of_BinOp(self, node, frame):
        a, b = self.value(node.left, frame), self.value(node.right, frame)
        return self.calls.operate(getattr(operator, _BINARY[type(node.op)]), a, b)

    def _of_UnaryOp(self, node, frame):
        x = self.value(node.operand, frame)
        if isinstance(node.op, ast.Not):
            return not self.calls.truth(x)
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
            return (a is b) == isinstance(op, ast.Is)
        if isinstance(op, (ast.In, ast.NotIn)):
            return self.objects.contains(b, a) == isinstance(op, ast.In)
        return self.calls.operate(getattr(operator, _COMPARED[type(op)]), a, b)

    def _of_IfExp(self, node, frame):
        return self.value(node.body if self.calls.truth(self.value(node.test, frame)) else node.orelse, frame)

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
        return self._elements(node.elts, frame)

    def _of_Set(self, node, frame):
        return {self.recording.pin(each) for each in self._elements(node.elts, frame)}

    def _of_Dict(self, node, frame):
        result = {}
        for key, value in zip(node.keys, node.values):
            if key is None:
                result.update(self.recording.touch(self.value(value, frame)))
            else:
                result[self.recording.pin(self.value(key, frame))] = self.value(value, frame)
        return result

    def _of_JoinedStr(self, node, frame):
        parts = []
        for each in node.values:
            parts.append(each.value if isinstance(each, ast.Constant) else self._formatted(each, frame))
        return "".join(parts)

    def _formatted(self, node, frame):
        x = self.value(node.value, frame)
        x = self.recording.pin(x)
        if not isinstance(x, (int, float, str, bool, type(None))):
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
                named.update(self.recording.touch(value))
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

    def _comprehension(self, node, frame, take):
        inner = Frame(set(), frozenset(), frame, frame.globals, {})
        for each in node.generators:
            inner.bound |= {part.id for part in ast.walk(each.target) if isinstance(part, ast.Name)}
        self._generators(node.generators, 0, frame, inner, take)

    def _generators(self, generators, i, outer, inner, take):
        if i == len(generators):
            return take(inner)
        each = generators[i]
        for value in self.calls.iterate(self.value(each.iter, outer if i == 0 else inner)):
            self._steps += 1
            self.assign(each.target, value, inner)
            if all(self.calls.truth(self.value(test, inner)) for test in each.ifs):
                self._generators(generators, i + 1, outer, inner, take)

    def _of_ListComp(self, node, frame):
        result = []
        self._comprehension(node, frame, lambda inner: result.append(self.value(node.elt, inner)))
        return result

    def _of_GeneratorExp(self, node, frame):
        return iter(self._of_ListComp(node, frame))

    def _of_SetComp(self, node, frame):
        return {self.recording.pin(each) for each in self._of_ListComp(node, frame)}

    def _of_DictComp(self, node, frame):
        result = {}

        def take(inner):
            key = self.recording.pin(self.value(node.key, inner))
            result[key] = self.value(node.value, inner)

        self._comprehension(node, frame, take)
        return result

    def _of_Yield(self, node, frame):
        while frame.yields is None:
            frame = frame.parent
        frame.yields.append(None if node.value is None else self.value(node.value, frame))

    def _of_YieldFrom(self, node, frame):
        frame.yields.extend(self.calls.iterate(self.value(node.value, frame)))


def cells_of(function):
    return dict(zip(function.__code__.co_freevars, function.__closure__ or ()))


def is_python_function(x):
    return isinstance(x, types.FunctionType)


def is_tensor(x):
    return isinstance(x, Tensor)
