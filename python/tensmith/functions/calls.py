"""What a recorded call calls: Python's functions are executed from their source, the library's tensor functions run as they are and are
recorded, built-in ones have rules; all else ends the conversion.
"""

import builtins
import enum
import functools
import operator
import types

from .. import _eager
from ..numpy import dtypes
from ..numpy.dtypes import Tensor
from . import data_classes, indexing, sources
from .builtin_functions import check_comparable, rules_of
from .frames import Frame, Interpreted, cells_of
from .objects import Objects
from .open_sizes import NotOpen
from .recording import dict_of, is_constant, is_member, is_plain_class, is_program, raw
from .recursion import Recursion, is_structure
from .scalars import PURE, NotConvertible, Range, Traced, is_number, plain

# Of the package, what is executed from its source as a program is; all else of it runs as it is.
_EXECUTED = ("tensmith.nn", "tensmith.optim", "tensmith.numpy.random")
# What runs as it is: it depends on its arguments alone, and changes tensors at most.
_RECORDED = ("tensmith.numpy", "tensmith.derivatives", "tensmith.recorded")
_DERIVATIVES = {"grad", "value_and_grad", "vjp", "jvp", "hvp", "linearize", "hessian"}
_OUTSIDE = {"write_safetensors", "read_safetensors", "finish", "set_naive", "begin_trace", "end_trace", "wait_for_all", "from_dlpack", "tape", "history",
            "recording", "load_bytes", "load_file", "kernel_statistics", "memory"}  # fmt: skip
_IN_PLACE = {getattr(operator, "i" + name): getattr(operator, name if hasattr(operator, name) else name + "_")
             for name in "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift".split()}  # fmt: skip
_MIRRORED = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_COMPARISONS = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
# Methods of lists and dicts that look at no element.
_STRUCTURAL = {"append", "extend", "insert", "pop", "items", "values", "keys", "get", "setdefault", "update", "clear", "copy", "reverse", "popitem"}
_READS = {"numpy", "_numpy", "tolist", "__array__", "_array", "__dlpack__", "wait", "is_ready", "__repr__", "_repr", "__str__", "_str", "__format__", "_format"}


class Calls:
    def __init__(self, interpreter, recording):
        self.interpreter, self.recording = interpreter, recording
        self.objects = Objects(interpreter, recording)
        self.builtins = rules_of(self)
        self.running, self.recursions = {}, {}  # of functions: what each was called with that runs now; which are being converted

    # ---- values

    def truth(self, x, kind="branch"):
        x = self.traced_truth(x, kind)
        return self.recording.pin(x, kind) if isinstance(x, Traced) else x

    def holds(self, x):
        """Of what makes the graph fail where it does not hold: asked for before, but in a branch or a loop of the graph."""
        return True if self.recording.regions else self.truth(x)

    def traced_truth(self, x, kind="branch"):
        """A truth, or where it depends on tensors a number of the graph."""
        r = self.recording
        if isinstance(x, Tensor):
            return r.scalar_of(x, bool) if r.is_active(x) else r.quietly(lambda: bool(x))
        if isinstance(x, Traced):
            if x.stage:
                return x if type(x.value) is bool else r.pure(bool, [x])
            return r.pin(Traced(bool(x.value), r.residual.let(f"bool({x.code})", x.stage), x.stage), kind)
        for name in ("__bool__", "__len__"):
            found = r.special(type(x), name)
            if isinstance(found, types.FunctionType) and not self._is_of_library(type(x)):
                return self._own_truth(self.call(types.MethodType(found, x), [], {}), name)
            if found is not None:
                break
        return bool(r.touch(x) if isinstance(x, (list, dict)) else x)

    def _own_truth(self, told, name):
        """What an object's own method tells of its truth."""
        if name == "__len__":
            return self.traced_truth(self.length(told))
        if type(plain(told)) is not bool:
            raise NotConvertible(f"{name} gives a {type(plain(told)).__qualname__}")
        return self.traced_truth(told)

    def length(self, told):
        """What an object's own `__len__` tells."""
        if type(plain(told)) is not int:
            raise NotConvertible(f"__len__ gives a {type(plain(told)).__qualname__}")
        if not self.truth(self.operate(operator.ge, told, 0)):
            raise ValueError("__len__() should return >= 0")
        return told

    def iterate(self, x, relaxes=None):
        if isinstance(x, (list, dict)):
            return iter(self.recording.touch(x, relaxes))
        if isinstance(x, Range):
            return iter(range(*(self.recording.pin(each, "trip count", relaxes) for each in x.bounds)))
        if isinstance(x, Traced):
            raise TypeError("a number is not iterable")
        if isinstance(x, Tensor) and x.ndim and x.shape[0] in self.recording.opening.sizes:
            raise NotOpen("a loop over rows is unrolled by a size", relaxes)
        found = self.recording.special(type(x), "__iter__")
        if isinstance(found, types.FunctionType) and not self._is_of_library(type(x)):
            return self.iterate(self.call(types.MethodType(found, x), [], {}))
        if isinstance(x, type) and type(x) is not enum.EnumMeta or found is None and is_plain_class(type(x)):
            raise NotConvertible(f"what a {type(x).__qualname__} goes over has no conversion")
        if hasattr(x, "__next__") and not self.recording.is_made_here(x):
            raise NotConvertible("an iterator that was there before goes on in a branch or a loop of the graph")
        return iter(x)

    @staticmethod
    def _is_of_library(cls):
        return cls.__module__.startswith("tensmith.") and not cls.__module__.startswith(_EXECUTED) or cls.__module__ in ("builtins", "enum", "itertools")

    def listed(self, x):
        """Of an iterator its values."""
        return list(self.iterate(x)) if hasattr(x, "__next__") else x

    def plain(self, x, has_sizes=False):
        """A value that something native looks into: numbers become assumptions, but for sizes where what makes of them is compared (open_sizes.py)."""
        r = self.recording
        if isinstance(x, Traced):
            return x.value if has_sizes and r.is_size(x) else r.pin(x)
        if isinstance(x, Range):
            return range(*map(r.pin, x.bounds))
        if type(x) in (list, dict):
            r.touch(x)
        if type(x) is list:
            parts = [self.plain(each, has_sizes) for each in x]
            return x if all(a is b for a, b in zip(parts, x)) else parts
        if type(x) is tuple:
            return tuple(self.plain(each, has_sizes) for each in x)
        if type(x) is dict:
            parts = {key: self.plain(value, has_sizes) for key, value in x.items()}
            return x if all(parts[key] is value for key, value in x.items()) else parts
        if isinstance(x, (types.FunctionType, types.MethodType)):
            return self.function_for_library(x)
        return x

    def function_for_library(self, function):
        """A function that the library calls: executed here, too."""
        return _Called(self, function) if self._is_executed(function) else function

    def beside(self, x, tensor):
        """A number that is combined with a tensor: an input where it differs from call to call."""
        if not isinstance(x, Traced):
            return x
        dtype = dtypes.result_type(tensor, x.value)
        r = self.recording
        if x.stage or r.is_of_case(x.code):
            return _eager.cast(r.beside_tensors(x), dtype)
        return r.made_of(x.code, dtype, x.value)

    def operate(self, function, *operands):
        for x in operands:
            if is_member(x):
                self._check_operators(x, function)
        tensor = next((x for x in operands if isinstance(x, Tensor)), None)
        if tensor is not None:
            return self.native(function, [self.beside(x, tensor) for x in operands], {})
        if any(isinstance(x, Traced) for x in operands):
            if function in PURE and all(is_number(x) for x in operands):
                return self.pure(function, operands)
        if function in (operator.eq, operator.ne) and all(type(x) is tuple for x in operands) and any(isinstance(x, Traced) for each in operands for x in each):
            a, b = operands
            return (len(a) == len(b) and all(self.truth(self.operate(operator.eq, *pair)) for pair in zip(a, b))) == (function is operator.eq)
        if any(isinstance(x, (types.MethodType, functools.partial)) for x in operands):
            raise NotConvertible(f"{function.__name__} of methods has no conversion")
        if function in (operator.eq, operator.ne) and all(isinstance(x, types.FunctionType) for x in operands):
            return (operands[0] is operands[1]) == (function is operator.eq)
        operands = [self.plain(x) for x in operands]
        if any(is_plain_class(type(x)) for x in operands):
            own = dict_of(object)
            if function in (operator.eq, operator.ne) and all(self.recording.lookup(type(x), name) is own[name] for x in operands for name in ("__eq__", "__ne__")
                                                               if is_plain_class(type(x))):  # fmt: skip
                return function(*operands)
            raise NotConvertible(f"{function.__name__} of a {type(operands[0]).__qualname__} has no conversion")
        if any(isinstance(x, (list, dict, tuple)) for x in operands) and function in _COMPARISONS or function is operator.mod and isinstance(operands[0], (str, bytes)):
            check_comparable(operands)
        for x in operands:  # a class of the program that is derived from a built-in one
            if not type(x).__flags__ & (1 << 8) and not is_member(x) and not self._is_of_library(type(x)):
                self._check_operators(x, function)
        return function(*operands)

    def _check_operators(self, x, function, *more):
        """That what a built-in type's operator does is not the program's."""
        name = function.__name__.strip("_")
        for each in dict.fromkeys((f"__{name}__", f"__{_MIRRORED.get(name, 'r' + name)}__", *more)):
            found = self.recording.special(type(x), each)
            if isinstance(found, types.FunctionType) and not (is_member(x) and found.__globals__ is vars(enum)):
                raise NotConvertible(f"{name} of a {type(x).__qualname__} has no conversion")

    def pure(self, function, operands):
        try:
            return self.recording.pure(function, operands)
        except Exception:
            for x in operands:  # of these numbers it is known that they fail
                self.recording.pin(x)
            raise

    def in_place(self, function, x, y):
        if isinstance(x, Tensor):
            y = self.beside(y, x)
            self.note_elements(x)
            self.native(function, [x, y], {})
            return x
        if type(x) is list and function is operator.iadd:
            self.recording.append(x, list(self.iterate(y)))
            return x
        if isinstance(x, (dict, set)):
            raise NotConvertible(f"a {type(x).__name__} is changed by an operator")
        if not type(x).__flags__ & (1 << 8) and not self._is_of_library(type(x)):
            self._check_operators(x, _IN_PLACE[function], f"__{function.__name__}__")
        return self.operate(_IN_PLACE[function], x, y)

    def note_elements(self, x):
        """Of a tensor that the program is about to write."""

        def write(value):
            self.note_elements(x)
            x[...] = value

        self.recording.note_elements(x, write)

    # ---- calls

    def _is_executed(self, function):
        if isinstance(function, (Interpreted, _Called)):
            return False
        module = getattr(function, "__module__", None) or ""
        return not module.startswith("tensmith.") and module != "tensmith" or module.startswith(_EXECUTED)

    def call(self, function, arguments, named):
        if type(function).__module__ == "tensmith.functions" and type(function).__name__ == "Function":
            function = function.__tensmith_function__
        if isinstance(function, _Called):
            function = function.function
        if isinstance(function, Interpreted):
            frame = function.frame
            bound, world = sources.names_of(function.node)
            inner = Frame(set(bound), world, frame, frame.globals, {})
            return self.interpreter.run(function.node, inner, arguments, named, function.defaults, function.named_defaults)
        if isinstance(function, functools.partial):
            return self.call(function.func, [*function.args, *arguments], {**function.keywords, **named})
        if isinstance(function, types.MethodType):
            return self.call(function.__func__, [function.__self__, *arguments], named)
        if isinstance(function, types.FunctionType):
            return self._python(function, arguments, named)
        if isinstance(function, type):
            return self._class(function, arguments, named)
        if type(function).__module__ == "tensmith._eager" or type(function).__name__.startswith("nb_"):
            return self._library(function, arguments, named)
        if isinstance(function, (types.BuiltinFunctionType, types.MethodDescriptorType, types.MethodWrapperType, types.WrapperDescriptorType)):
            return self._builtin(function, arguments, named)
        if is_plain_class(type(function)):
            if is_program(function):
                self.recording.refuse_in_regions("a program of the library runs")
                return self.native(function, arguments, named)
            method = self.recording.special(type(function), "__call__")
            if isinstance(method, types.FunctionType):
                return self.call(types.MethodType(method, function), arguments, named)
        raise NotConvertible(f"a call of a {type(function).__qualname__} has no conversion")

    def _python(self, function, arguments, named):
        r = self.recording
        if not self._is_executed(function):
            return self._library(function, arguments, named)
        node = self._node_of(function, arguments)
        if isinstance(node, sources.ast.AsyncFunctionDef) or (sources.is_generator(node) and not function.__module__.startswith("tensmith.")):
            raise NotConvertible(f"{function.__name__} is a generator")
        if function.__builtins__ is not vars(builtins):
            raise NotConvertible(f"{function.__name__} has built-in functions of its own")
        r.function(function)
        defaults = self._defaults(function, "__defaults__") or ()
        named_defaults = r.touch(self._defaults(function, "__kwdefaults__") or {})
        bound, world = sources.names_of(node)

        def run(arguments):
            frame = Frame(set(bound), world, None, function.__globals__, cells_of(function))
            return self.interpreter.run(node, frame, arguments, named, defaults or (), named_defaults)

        return self._recursive(node, run, arguments, named)

    @staticmethod
    def _node_of(function, arguments):
        if function.__name__ == "__init__" and arguments and (node := data_classes.init_of(function, arguments[0])):
            return node
        return sources.node_of(function.__code__)

    def _recursive(self, node, run, arguments, named):
        """Functions that call themselves: unrolled, or a loop of the graph where they have differed from call to call."""
        r = self.recording
        if (recursion := self.recursions.get(node)) and not named:
            return recursion.call(arguments)
        outer, place = self.running.get(node), r.recursive.get(node)
        if named or not any(is_structure(each, r) for each in arguments):
            return run(arguments)
        if not outer and place is not None and node in r.relaxed and node not in r.refused and is_structure(arguments[place], r):
            return self._recursion(node, run, arguments, place)
        if outer and len(outer) == len(arguments):
            differ = [i for i, (x, y) in enumerate(zip(outer, arguments)) if x is not y and is_structure(x, r)]
            if len(differ) == 1:
                r.recursive.setdefault(node, differ[0])
        before, self.running[node] = r.recursing, arguments
        if node in r.recursive and r.case is None:
            r.recursing = node
        try:
            return run(arguments)
        finally:
            self.running[node] = outer
            r.recursing = before

    def _recursion(self, node, run, arguments, place):
        self.recording.converted.add(node)
        recursion = self.recursions[node] = Recursion(self, node, run, arguments, place)
        try:
            recursion.find(arguments[place])
            return recursion.loop(arguments[place])
        finally:
            del self.recursions[node]

    def _defaults(self, function, name):
        """Which are what they were (Recording.function), but may hold what can change."""
        r, defaults = self.recording, getattr(function, name)
        if defaults is None or is_constant(defaults):
            return defaults
        return r.read(function, "attr", name, defaults, lambda: r.residual.constant(defaults), f"{function.__name__}.{name}")

    def _class(self, cls, arguments, named):
        if rule := self.builtins.get(cls):
            return rule(*arguments, **named)
        if isinstance(cls, type) and issubclass(cls, Exception) and cls.__module__ == "builtins":
            return cls(*[self.plain(x) for x in arguments])
        if cls in (set, frozenset):
            return cls(*[map(self.recording.hashed, map(self.recording.pin, self.iterate(x))) for x in arguments])
        if cls is str and len(arguments) == 1 and self.is_told(arguments[0]):
            return str(arguments[0])
        if cls in (str, bytes, complex, slice):
            return cls(*map(self._constant, arguments), **{key: self._constant(x) for key, x in named.items()})
        lookup, own = self.recording.lookup, dict_of(object)
        if not is_plain_class(cls) or lookup(cls, "__new__") is not own["__new__"] or type(cls) is not type:
            if issubclass(cls, tuple) and hasattr(cls, "_fields") and type(cls) is type and self._has_own_way(cls):
                return cls(*arguments, **named)
            raise NotConvertible(f"objects of {cls.__qualname__} are made in a way that has no conversion")
        if cls.__module__.startswith("tensmith.optim"):
            raise NotConvertible("an optimiser's program is made; it is there in the next call")
        self.recording.root(cls, cls.__name__)
        made = self.recording.make(object.__new__(cls))
        if (init := lookup(cls, "__init__")) is not own["__init__"]:
            if not isinstance(init, types.FunctionType):
                raise NotConvertible(f"objects of {cls.__qualname__} are made in a way that has no conversion")
            self.call(types.MethodType(init, made), arguments, named)
        elif arguments or named:
            raise TypeError(f"{cls.__name__}() takes no arguments")
        return made

    @staticmethod
    def is_told(x):
        """Whether it is an exception of Python's own kinds, whose text is that of constants."""
        return isinstance(x, Exception) and type(x).__module__ == "builtins" and all(map(is_constant, x.args))

    def _has_own_way(self, cls):
        """Of a named tuple, whether it is made as namedtuple has written it."""
        lookup = self.recording.lookup
        made = next(each for each in reversed(cls.__mro__) if "_fields" in dict_of(each))
        return lookup(cls, "__new__") is dict_of(made)["__new__"] and lookup(cls, "__init__") is raw(tuple, "__init__")

    def _constant(self, x):
        """A value that a built-in function looks into, of which nothing is the program's."""
        x = self.plain(self.listed(x))
        if not (is_constant(x) or type(x) in (list, tuple, set, frozenset) and all(map(is_constant, x))):
            raise NotConvertible(f"a {type(x).__qualname__} is given to a built-in function")
        return self.recording.native(x)

    # ---- the library

    def _library(self, function, arguments, named):
        r = self.recording
        name = getattr(function, "__name__", "")
        owner = arguments[0] if arguments else getattr(function, "__self__", None)
        if name == "item" and isinstance(owner, Tensor) or name in ("__bool__", "__float__", "__int__"):
            return self._number(owner, {"__bool__": bool, "__float__": float, "__int__": int}.get(name, lambda x: x))
        if name in _READS and isinstance(owner, Tensor):
            raise NotConvertible(f"elements of a tensor are read by {name}")
        if function is _eager.random:
            return self._random(arguments)
        module = getattr(function, "__module__", None) or type(function).__module__
        is_derivative = module == "tensmith" and name in _DERIVATIVES
        if not (module.startswith(_RECORDED) or is_derivative or (module == "tensmith._eager" or type(function).__name__.startswith("nb_")) and name not in _OUTSIDE):
            raise NotConvertible(f"{module}.{name} has no conversion")
        if name == "take_along_axis" and len(arguments) == 2 and (r.is_active(arguments[0]) or r.is_active(arguments[1])):
            return indexing.take_along_axis(self, *arguments, **named)
        if name in ("asarray", "array") and arguments and _has_traced(arguments[0]):
            dtype = dtypes.as_dtype(named.get("dtype")) or _eager.from_list([plain(x) for x in arguments[0]], None).dtype
            codes = "".join(f"{x.code if isinstance(x, Traced) else r.residual.constant(x)}, " for x in arguments[0])
            return r.made_of(f"[{codes}]", dtype, [plain(x) for x in arguments[0]])
        if name in ("asarray", "array") and arguments and isinstance(arguments[0], Traced):
            dtype = dtypes.as_dtype(named.get("dtype")) or dtypes.result_type(arguments[0].value)
            if arguments[0].stage or r.is_of_case(arguments[0].code):
                return _eager.copy(_eager.cast(r.beside_tensors(arguments[0]), dtype))
            return r.made_of(arguments[0].code, dtype, arguments[0].value)
        if getattr(function, "__module__", "") == "tensmith.derivatives":
            if name in ("begin_part", "end_part"):
                return None
            if name == "checkpoint" and len(arguments) == 1 and not named:
                return arguments[0]
            if name == "backward":
                r.refuse_in_regions("`backward` is called")
                r.gradients_used()
            function = self._with_executed(function)
        elif any(isinstance(x, Traced) for x in arguments) and getattr(function, "__module__", "") == "tensmith.numpy.elementwise":
            tensor = next((x for x in arguments if isinstance(x, Tensor)), None)
            if tensor is not None:
                arguments = [self.beside(x, tensor) for x in arguments]
        return self.native(function, arguments, named)

    def _number(self, tensor, convert):
        r = self.recording
        if not r.is_active(tensor):
            return r.quietly(lambda: convert(tensor.item()))
        value = r.quietly(lambda: tensor.item())
        kind = type(convert(value))
        read = r.scalar_of(tensor, kind)
        return r.pin(read, "branch") if kind is bool else read

    def _random(self, arguments):
        """Numbers are drawn before the graph runs, from where the stream then is."""
        r = self.recording
        kind, key, drawn, shape, dtype = arguments
        codes = [each.code if isinstance(each, Traced) else r.residual.constant(each) for each in (key, drawn)]
        if any(isinstance(each, Traced) and each.stage for each in (key, drawn)):
            raise NotConvertible("a random stream's state was read from a tensor")
        sizes = ", ".join(each.code if r.is_size(each) else r.residual.constant(r.pin(each)) for each in shape)
        value = _eager.random(kind, plain(key), plain(drawn), self.plain(list(shape), has_sizes=True), dtype)
        return r.made(f"{r.residual.constant(_eager.random)}({kind!r}, {', '.join(codes)}, [{sizes}], {r.residual.constant(dtype)})", value)

    def _with_executed(self, function):
        """A function of derivatives has functions of the program within; they are executed here."""
        if not isinstance(function, types.FunctionType) or not function.__closure__:
            return function
        cells = []
        for cell in function.__closure__:
            x = cell.cell_contents
            if isinstance(x, (types.FunctionType, types.MethodType)) or is_plain_class(type(x)) and callable(x):
                x = self._with_executed(x) if getattr(x, "__module__", "") == "tensmith.derivatives" else _Called(self, x)
            cells.append(types.CellType(x))
        made = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells))
        made.__kwdefaults__, made.__module__ = function.__kwdefaults__, function.__module__
        return made

    def native(self, function, arguments, named):
        """Runs as it is. What it is given must say all that it does."""
        arguments = [self._given(x) for x in arguments]
        named = {key: self._given(x) for key, x in named.items()}
        try:
            result = function(*arguments, **named)
        except (TypeError, RuntimeError) as error:  # of what can't be recorded, too
            raise NotConvertible(str(error)) from None
        for x in arguments:
            self.recording.view(x, result)
        return self.recording.opening.told(result)

    def _given(self, x):
        if isinstance(x, Tensor):
            self.recording.check_known(x)
            return x
        x = self.recording.native(self.plain(self.listed(x), has_sizes=True))
        if isinstance(x, (Interpreted, _Called, Tensor, list, tuple, dict, set)) or not is_plain_class(type(x)):
            return x
        if callable(x) and type(x).__module__.startswith(("tensmith.numpy", "tensmith.recorded")):
            return x
        if callable(x):
            return _Called(self, x)
        raise NotConvertible(f"a {type(x).__qualname__} is given to a function of the library")

    # ---- built-in functions

    def _builtin(self, function, arguments, named):
        if rule := self.builtins.get(function):
            return rule(*arguments, **named)
        owner, r = getattr(function, "__self__", None), self.recording
        if function in PURE and not named and all(is_number(x) for x in arguments):
            return self.pure(function, arguments) if any(isinstance(x, Traced) for x in arguments) else function(*arguments)
        if type(owner) in (list, dict):
            return self._method(owner, function.__name__, arguments, named)
        if isinstance(owner, (str, bytes, tuple, int, float, range, set, frozenset)):
            if isinstance(owner, set):
                r.refuse_in_regions("a set is changed")
                arguments = [self.recording.hashed(self.plain(x)) if not isinstance(x, (list, dict, set, frozenset)) and not hasattr(x, "__next__") else
                             set(map(self.recording.hashed, self.plain(self.listed(x)))) for x in arguments]  # fmt: skip
                return function(*arguments)
            return function(*map(self._constant, arguments), **{key: self._constant(x) for key, x in named.items()})
        if isinstance(owner, type) and function is dict.fromkeys:
            keys, *values = arguments
            return function(map(self.recording.hashed, self.plain(self.listed(keys))), *values)
        raise NotConvertible(f"a call of {getattr(function, '__qualname__', function)} has no conversion")

    def pairs(self, x):
        """What `dict` takes: a dict, or keys with values."""
        if isinstance(x, dict):
            return self.recording.touch(x)
        if not type(x).__flags__ & (1 << 8) and self.builtins[hasattr](x, "keys"):
            raise NotConvertible(f"a dict of a {type(x).__qualname__} has no conversion")
        found = {}
        for each in self.iterate(x):
            key, value = self.iterate(each)
            found[self.recording.hashed(self.recording.pin(key))] = value
        return found

    def _method(self, owner, name, arguments, named):
        r = self.recording
        if type(owner) is list and name == "append":
            r.append(owner, arguments)
            return None
        if type(owner) is list and name == "extend":
            r.append(owner, list(self.iterate(arguments[0])))
            return None
        r.touch(owner)
        if name not in ("items", "values", "keys", "get", "copy", "index", "count"):
            r.note_content(owner)
        if name in ("get", "setdefault", "pop", "insert") and arguments:
            arguments = [r.hashed(r.pin(arguments[0])) if type(owner) is dict else r.pin(arguments[0]), *arguments[1:]]
        if name == "update":
            arguments = [self.pairs(x) for x in arguments]
        if name not in _STRUCTURAL:
            if not all(is_constant(plain(x)) for x in owner) or named:
                raise NotConvertible(f"{type(owner).__name__}.{name} of objects has no conversion")
            values = [r.native(self.plain(x)) for x in owner]
            if type(owner) is list:
                owner[:] = values
            arguments = [self._constant(x) for x in arguments]
        return getattr(owner, name)(*arguments, **named)


class _Called:
    """A function of the program's, as the library calls it."""

    def __init__(self, calls, function):
        self.calls, self.function = calls, function

    def __call__(self, *arguments, **named):
        return self.calls.call(self.function, list(arguments), named)


def _has_traced(x):
    """Of a list of numbers that are known before the graph runs, and of which some differ from call to call."""
    return isinstance(x, (list, tuple)) and all(map(is_number, x)) and any(isinstance(each, Traced) for each in x) and not any(
        isinstance(each, Traced) and each.stage for each in x)  # fmt: skip
