"""One call of a program, recorded: what it reads of the world by which path, what it writes, and what it does to tensors.

The call is a dry run. It works on the program's own objects, lists and dicts, but with copies of the tensors that it reads, which a tape
watches, and with Traced for numbers that are known to differ. At the end everything is put back as it was (`undo`), and the residual's code
does what the call did. An object is known by the path of its first read; one that the call has made has no path, and nothing needs to be known of it.

Invariant: whatever the call's course depends on is an assumption of the residual, or an input of its graph.
"""

import collections
import contextlib
import enum
import functools
import gc
import sys
import types

from .. import _eager
from ..numpy import dtypes
from ..numpy.creation import asarray
from ..numpy.dtypes import Tensor
from .numbers import Numbers
from .open_sizes import OpenSizes, shape_of
from .regions import Place, snapshot_of
from .residual import MISSING, Assumption, Residual
from .scalars import NotConvertible, Traced, is_number

# What a built-in type has under the names of special methods.
NATIVE = (types.WrapperDescriptorType, types.MethodDescriptorType)
CONSTANTS = (bool, int, float, complex, str, bytes, range, type(None), type(...), type(NotImplemented), dtypes.DType)
IDENTITIES = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type, types.MethodDescriptorType, types.WrapperDescriptorType,
               type(_eager.copy), property, staticmethod, classmethod)  # fmt: skip
_BUILT_IN = (list, dict, tuple, str, int, float, set, frozenset, bytes, type, types.ModuleType, BaseException)
# Special methods by which built-in functions, types and containers look at what they are given.
_OF_MEMBERS = tuple(f"__{name}__" for name in "hash eq ne lt le gt ge str repr format bool int float complex index trunc len iter contains".split())
_IMMUTABLE = 1 << 8  # of a class's flags: nothing of it can be set
_LONGEST = 4096
Input = collections.namedtuple("Input", "code tensor watched copy number what made")  # made: by the residual, so that nothing else has its memory


def is_program(x):
    """A compiled program of the library, or a converted function, none of which ever becomes another."""
    return type(x).__module__.startswith("tensmith.") and type(x).__name__ in ("Program", "_Update", "Function")


def is_constant(x):
    """Of a built-in immutable type, a member of an enumeration, or a tuple of these: known for good. What a member's class has of the program's runs where it is
    computed with, compared or hashed: `Recording.native` refuses that.
    """
    if type(x) is tuple:
        return all(map(is_constant, x))
    if type(x) is slice:
        return all(map(is_constant, (x.start, x.stop, x.step)))
    return type(x) in CONSTANTS or is_member(x)


def is_member(x):
    """Of an enumeration, whose members are what they were made as."""
    return isinstance(x, enum.Enum) and type(type(x)) is enum.EnumMeta


def order_of(cls):
    """The classes that a class has its attributes of, whatever its own class says."""
    return type.__dict__["__mro__"].__get__(cls)


def dict_of(cls):
    return type.__dict__["__dict__"].__get__(cls)


def raw(cls, name, after=None):
    """What a class has under a name, before descriptors see it; of those behind `after` in its order. MISSING: nothing."""
    order = order_of(cls)
    return next((dict_of(each)[name] for each in order[order.index(after) + 1 if after else 0 :] if name in dict_of(each)), MISSING)


def is_plain_class(cls):
    """Of the program: its objects are what their `__dict__` holds."""
    is_made_by_python = bool(cls.__flags__ & (1 << 9)) and cls.__dictoffset__ != 0
    if not is_made_by_python or cls.__getattribute__ is not object.__getattribute__ or issubclass(cls, _BUILT_IN):
        return False
    new = raw(cls, "__new__")  # a built-in one is of a class whose objects hold more, as random.Random
    return new is dict_of(object)["__new__"] or not isinstance(new, types.BuiltinFunctionType)


class Recording(Numbers):
    def __init__(self, relaxed, refused=(), recursive=None, opening=None):
        self.relaxed = relaxed  # paths of numbers that differ from call to call, and branches, loops and functions (of the syntax tree) that do
        self.refused = refused  # of these what can't be the graph's
        self.recursive = dict(recursive or {})  # functions that call themselves on structures, and which argument these are
        self.opening = opening or OpenSizes(refused, {})
        self.size_codes, self.codes_of_sizes = set(), set()  # open sizes and sums and products of them; whatever is computed of them
        self.residual = Residual()
        self.tape = _eager.tape(True)
        self.line = None
        self._known = {}  # id of an object -> (object, code, what it is called)
        self._cells = {}  # (id of an object, kind, key) -> what was read there
        self.written = {}  # the same -> (object, kind, key)
        self._snapshots = {}  # id of a list, dict, object or cell -> how it is put back
        self._made_anew = {}  # id of a method or a partial -> (itself, code, what it is called, what the call has for it)
        self.admitted = {}  # id of a list or dict -> its elements as they were read
        self.tails = {}  # id of a list that was only appended to -> (list, length before)
        self.mutable = {}  # codes of objects that must stay distinct, in order, as keys
        self.inputs, self._by_tensor = [], {}
        self.graph_outputs, self._output_places = [], {}
        self.gradient_uses = {}  # id of a tensor's copy -> whether its gradient was first "read" or "written"
        self.first_gradients = {}
        self._scalars_read = {}
        self.regions, self.closed = [], []  # branches and loops of the graph that are recorded now; tapes of those that were
        self.converted = set()  # branches and loops that are the graph's
        self._dicts, self._kept = {}, {}  # of classes; of functions their parts
        self.case, self.recursing = None, None  # of a recursion (recursion.py); the function that calls itself now
        self.joined = []  # codes of lists of tensors whose elements were read at once, and the lists
        self.choices = {}  # id of a tensor -> a Choice (regions.py)
        # Truths of tensors that are assumptions: where they do not hold, loops of the graph that come later do not turn, and nothing is updated.
        self.pinned = []
        self.viewed = set()  # ids of those that there may be views of

    # ---- assumptions

    def assume(self, condition, kind, what, relaxes=None, stage=0, in_graph=False):
        self.residual.assume(condition, Assumption(kind, what, self.line, relaxes, self.recursing), stage, in_graph)

    def check(self, code, how, like, kind, what, relaxes=None):
        self.residual.check(code, how, like, Assumption(kind, what, self.line, relaxes, self.recursing))

    # ---- what classes have

    def lookup(self, cls, name, after=None):
        """What a class has under a name (raw); an assumption, unless nothing of it can be set. A value that is no descriptor may change: who uses it
        reads it.
        """
        order = order_of(cls)
        for each in order[order.index(after) + 1 if after else 0 :]:
            own = dict_of(each)
            is_fixed = bool(each.__flags__ & _IMMUTABLE)
            if name not in own:
                if not is_fixed:
                    self._assume_of(cls, self._dict(each), name)
                continue
            found = own[name]
            if not is_fixed:
                is_value = is_constant(found) or type(found) in (list, dict, Tensor)
                self._assume_of(cls, self._dict(each), name, *((type(found), True) if is_value else (found,)))
            elif cls is not each:
                self._assume_of(cls)
            if not type(found).__flags__ & _IMMUTABLE:  # which may become a descriptor, or cease to be one
                for special in ("__get__", "__set__", "__delete__"):
                    self.lookup(type(found), special)
            return found
        if not cls.__flags__ & _IMMUTABLE:
            self._assume_of(cls)
        return MISSING

    def special(self, cls, name):
        """A special method, which is looked up in an object's class alone: a function of the program, or what a built-in type has; None where there is none."""
        found = self.lookup(cls, name)
        if found is None or not (found is MISSING or isinstance(found, (types.FunctionType, *NATIVE)) or type(found).__name__.startswith("nb_")):
            raise NotConvertible(f"{cls.__qualname__}.{name} is a {type(found).__qualname__}")
        return None if found is MISSING else found

    def native(self, x, names=_OF_MEMBERS):
        """What something native computes with, compares or makes a text of: of a member of an enumeration, the special methods are none of the program's."""
        if isinstance(x, (tuple, list, set, frozenset)):
            for each in tuple.__iter__(x) if isinstance(x, tuple) else x:
                self.native(each, names)
        elif type(x) is slice:
            self.native((x.start, x.stop, x.step), names)
        elif is_member(x):
            for name in names:
                found = self.lookup(type(x), name)
                is_of_enumerations = isinstance(found, types.FunctionType) and found.__globals__ is vars(enum)
                if not (found is MISSING or is_of_enumerations or isinstance(found, NATIVE)):
                    raise NotConvertible(f"{type(x).__qualname__} has its own {name}")
        return x

    def hashed(self, x):
        """A key of a dict or a set: what is hashed and compared without code of the program."""
        if isinstance(x, Traced):
            raise NotConvertible("a number that differs from call to call is a key")
        if is_constant(x):
            return self.native(x, ("__hash__", "__eq__"))
        if isinstance(x, tuple) and type(x) is tuple:
            return tuple(map(self.hashed, x))
        own = dict_of(object)
        is_by_identity = isinstance(x, IDENTITIES) and (type(x) in IDENTITIES or type(x).__flags__ & _IMMUTABLE)
        if is_by_identity or all(self.lookup(type(x), name) is own[name] for name in ("__hash__", "__eq__")):
            return x
        raise NotConvertible(f"a {type(x).__qualname__} is a key")

    def owner_of(self, cls, name, after=None):
        """The dict of the class that has it, which must have it."""
        order = order_of(cls)
        return self._dict(next(each for each in order[order.index(after) + 1 if after else 0 :] if name in dict_of(each)))

    def _dict(self, cls):
        """The dict itself, of which a class shows a proxy."""
        if cls not in self._dicts:
            (self._dicts[cls],) = gc.get_referents(dict_of(cls))
        return self._dicts[cls]

    def _assume_of(self, cls, *entry):
        what = Assumption("class", f"{cls.__name__} has the methods and the like that it had", self.line, None, self.recursing)
        self.residual.check_class(cls, entry or None, what)

    def function(self, x):
        """A function's code and defaults are what they were."""
        parts = (x.__code__, x.__defaults__, x.__kwdefaults__)
        self.check(self.residual.constant(self.root(x, x.__name__)), "function", self._kept.setdefault(id(x), parts), "callee", f"{x.__name__} has the code and the defaults that it had")

    # ---- what is read

    def known(self, x):
        own = self.case.known.get(id(x)) if self.case else None
        found = own or self._known.get(id(x))
        return found if found and found[0] is x else None

    def is_outside(self, x):
        return self.known(x) is not None

    def own(self, code):
        """The dict of a name is one object's alone: what is written to that is read of no other one."""
        if not self.is_of_case(code):
            self.mutable[code] = None
        return code

    def know(self, x, code, what):
        known = self.case.known if self.is_of_case(code) else self._known
        known[id(x)] = (x, code, what)

    def is_of_case(self, code):
        """Whether an expression is about an object of a recursion."""
        scope = self.residual.scope_of(code)
        if scope is not None and (self.case is None or scope is not self.case.scope):
            raise NotConvertible("what is read of an object of a recursion is used outside of it")
        return scope is not None

    def is_of_case_now(self):
        """Whether the program works on an object of a recursion, which may be any."""
        return self.case is not None

    @contextlib.contextmanager
    def of_case(self, case):
        """The program works on an object of a recursion."""
        before, self.case = self.case, case
        try:
            yield
        finally:
            self.case = before

    def root(self, x, what):
        """An object that all calls share."""
        if not self.known(x):
            self.know(x, self.residual.constant(x), what)
        return x

    def read(self, container, kind, key, value, code, what, of="constant"):
        """What stands in a place of an object, as the call has it; `value`: what stands there now; code: gives the name of what is read there."""
        cell = (id(container), kind, key)
        if not self.is_outside(container) or cell in self.written:
            return value
        code = code()
        cells = self.case.cells if self.is_of_case(code) else self._cells
        if cell not in cells:
            cells[cell] = self.admit(code, value, what, of)
            if type(value) in (int, float) and cells is self._cells:
                self._scalars_read[cell] = what
        return cells[cell]

    def admit(self, code, value, what, of="constant"):
        """A value that `code` gives in any call, with the assumptions of what it is."""
        kind, r = type(value), self.residual
        of_type = "attribute's type" if of == "attribute" else "type"
        if isinstance(value, Tensor):
            return self._tensor(code, value, what, of_type)
        if kind in (int, float) and (what in self.relaxed or self.is_of_case(code)):
            self.check(code, "type", kind, of_type, f"{what} is {kind.__name__}")
            return Traced(value, code, 0)
        if is_constant(value) and kind is not tuple:
            how = "same" if is_member(value) else "equal"
            self.check(code, how, value, "global" if of == "global" else "constant", f"{what} is {value!r}", what if kind in (int, float) else None)
            return value
        if kind is types.BuiltinMethodType and not isinstance(value.__self__, (types.ModuleType, type, type(None))):
            return self._bound(code, value, what)
        if isinstance(value, IDENTITIES) or is_program(value):
            self.check(code, "same", value, "callee" if callable(value) else "global", f"{what} is {getattr(value, '__name__', value)}")
            self.know(value, r.constant(value), what)
            return value
        if kind in (types.MethodType, functools.partial) and id(value) in self._made_anew:
            _, other, other_what, result = self._made_anew[id(value)]
            self.check(code, "is", other, "constant", f"{what} is {other_what}")
            return result
        if kind is types.MethodType:
            self.check(code, "type", kind, "callee", f"{what} is a method")
            function, owner = (self.admit(r.fetch(code, "part", name), getattr(value, name), f"{what}.{name}") for name in ("__func__", "__self__"))
            return self._anew(code, value, what, types.MethodType(function, owner))
        if kind is functools.partial:
            self.check(code, "type", kind, "callee", f"{what} is a partial")
            function, arguments, named = (self.admit(r.fetch(code, "part", name), getattr(value, name), f"{what}.{name}") for name in ("func", "args", "keywords"))
            return self._anew(code, value, what, functools.partial(function, *arguments, **self.touch(named)))
        if isinstance(value, tuple):
            self.check(code, "type", kind, of_type, f"{what} is a tuple")
            self.check(code, "length", count := tuple.__len__(value), of_type, f"{what} is a tuple of {count}")
            if kind.__dictoffset__:
                self._has_no_own(code, value, what)
            parts = [self.admit(r.fetch(code, "item", i), each, f"{what}[{i}]", of) for i, each in enumerate(tuple.__iter__(value))]
            made = tuple.__new__(kind, parts)
            if parts:  # there is one empty tuple
                self.know(made, code, what)
            return made
        if kind not in (list, dict, types.CellType) and not is_plain_class(kind):
            raise NotConvertible(f"{what} is a {kind.__module__}.{kind.__qualname__}, of which it isn't known what it depends on")
        self.check(code, "type", kind, of_type, f"{what} is {kind.__name__}")
        if known := self.case.known.get(id(value)) if self.is_of_case(code) else self.known(value):
            self.check(code, "is", known[1], "constant", f"{what} is {known[2]}")
        else:
            if kind in (list, dict) and self.is_of_case(code):
                raise NotConvertible(f"{what} is a {kind.__name__} of an object of a recursion")
            self.know(value, code, what)
            if not self.is_of_case(code):
                self.mutable[code] = None
        return value

    def _anew(self, code, value, what, made):
        """A method or a partial, of what the call works with: at each place where it is read the same one."""
        self.know(made, code, what)
        if not self.is_of_case(code):
            self._made_anew[id(value)] = (value, code, what, made)
            self.mutable[code] = None
        return made

    def _has_no_own(self, code, value, what):
        """Of a tuple whose class gives its objects a dict: that there is nothing in it."""
        if not isinstance(raw(type(value), "__dict__"), types.GetSetDescriptorType) or object.__getattribute__(value, "__dict__"):
            raise NotConvertible(f"{what} has attributes of its own")
        self.check(self.residual.fetch(code, "dict"), "keys", (), "attribute's type", f"{what} has no attributes of its own")

    def _bound(self, code, value, what):
        """A method of a built-in type, with the object that it is of."""
        self.check(code, "type", types.BuiltinMethodType, "callee", f"{what} is a method of a built-in type")
        name = self.residual.fetch(code, "part", "__name__")
        self.check(name, "equal", value.__name__, "callee", f"{what} is {value.__qualname__}")
        owner = self.admit(self.residual.fetch(code, "part", "__self__"), value.__self__, f"{what}.__self__")
        if type(owner) not in (list, dict, str, bytes, tuple, int, float):
            raise NotConvertible(f"{what} is a method of a {type(owner).__qualname__}, of which it isn't known what it depends on")
        return getattr(owner, value.__name__)

    def _tensor(self, code, tensor, what, of_type):
        if found := self._by_tensor.get(id(tensor)):
            self.check(code, "is", found.code, "constant", f"{what} is {found.what}")
            return found.copy
        if tensor.dtype in dtypes.COMPLEX_FLOATING:
            raise NotConvertible(f"{what} is complex")
        like = _eager.broadcast_to(_eager.full([], 0, tensor.dtype), list(tensor.shape))
        self.check(code, "leaf" if tensor.requires_grad else "tensor", like, of_type, f"{what} is a tensor of {tensor.dtype}")
        given, axes = None, self.opening.axes(what, tensor.shape)
        self.opening.saw(what, tensor.shape, axes)
        if axes:
            given = shape_of(self, code, tensor, what, axes)
        else:
            self.check(code, "shape", like, "shape", f"{what} has the shape {tensor.shape}")
        self.mutable[code] = None
        entry = self.fed(code, tensor, what, given=given)
        self._by_tensor[id(tensor)] = entry
        if tensor.requires_grad and tensor.grad is not None:
            gradient = self.fed(f"{code}.grad", tensor.grad, what + ".grad")  # no name: it is read where it is used alone
            self.first_gradients[id(entry.copy)] = gradient
            entry.copy.grad = gradient.copy
        return entry.copy

    def fed(self, code, tensor, what, made=False, given=None):
        """An input of the graph: what `code` gives before each run. The program works on a copy of what the tape watches, which has the elements of `given`."""
        if self.is_of_case(code):
            raise NotConvertible(f"{what} is a tensor of an object of a recursion")
        with self._outside():
            watched = _eager.copy(tensor if given is None else given)
            if tensor.requires_grad:
                watched.requires_grad = True
            number = self.tape.watch(watched, True)
            copy = _eager.copy(watched)
            if tensor.requires_grad:
                copy.requires_grad = True
        entry = Input(code, tensor, watched, copy, number, what, made)
        self.inputs.append(entry)
        self.know(copy, code, what)
        return entry

    def made(self, code, tensor):
        """A tensor that is computed before the graph runs."""
        return self.fed(self.residual.let(code, letter="r"), tensor, "a tensor of numbers", True).copy

    def made_of(self, code, dtype, value):
        """The same of a number, or of a list of numbers: what `asarray` comes to for these."""
        return self.made(f"{self.residual.constant(_eager.from_list)}({code}, {self.residual.constant(dtype)})", asarray(value, dtype=dtype))

    @contextlib.contextmanager
    def _outside(self):
        """What is read of the world is there before the branches and loops of the graph, and it is nothing that the program records: its recordings are of the copy,
        as those of a call that runs as it is are of the tensor.
        """
        tapes = list(_eager.recording())
        for tape in reversed(tapes):
            tape.end()
        if tapes:
            self.tape.begin()
        try:
            yield
        finally:
            if tapes:
                self.tape.end()
            for tape in tapes:
                tape.begin()

    def is_active(self, x):
        return bool(self.regions) or self.tape.is_active(x) or x.requires_grad

    # ---- branches and loops of the graph

    def is_in_graph(self, site):
        """Whether a branch or a loop that depends on tensors is to be the graph's. Within one, all are."""
        wanted = bool(self.regions) or site in self.relaxed and site not in self.refused
        if wanted and not self.regions:
            self.converted.add(site)
        return wanted

    def sites_of(self, error):
        """The branches and loops that were to be the graph's, to no avail: the one that it was raised in, or all of them."""
        if site := getattr(error, "site", None):
            return {site}
        return self.converted

    def make(self, x):
        """An object that the program has made just now."""
        if self.regions:
            self.regions[-1].make(x)
        return x

    def note_name(self, names, name, frame):
        if self.regions:
            self.regions[-1].note_name(names, name, frame)

    def note_content(self, x):
        if self.regions:
            self.regions[-1].note_content(x)

    def note_place(self, container, kind, key, get, set_):
        """An attribute, a closure's variable or a global that is about to be written."""
        if not self.regions:
            return
        cell, was_written = (id(container), kind, key), (id(container), kind, key) in self.written

        def place():
            before = get()
            back = snapshot_of(container, kind)

            def undo():
                back()
                if not was_written:
                    self.written.pop(cell, None)

            return Place(lambda first=[before]: first.pop() if first else get(), set_, undo)

        self.regions[-1].note(cell, container, place)

    def note_elements(self, x, write):
        """Of a tensor that is about to be written."""
        for key in [key for key in self.choices if self._is_dead(key)]:
            del self.choices[key]
        for choice in self.choices.values():
            if any(x.shares_memory(each) for each in [choice.result, *choice.tensors]):
                refusal = NotConvertible("a tensor is written that a branch, a loop or an index of the graph has chosen")
                refusal.site = choice.site
                raise refusal
        if self.regions:
            self.regions[-1].note_elements(x, write)

    def _is_dead(self, key):
        """Whether the program has the choice's result no more: the table alone refers to it."""
        return key not in self.viewed and sys.getrefcount(self.choices[key].result) <= 2

    def choose(self, choice):
        self.choices[id(choice.result)] = choice
        return choice.result

    def view(self, x, result):
        """Of a tensor that was chosen, `result` may be a view."""
        parts = result if isinstance(result, (tuple, list)) else [result]
        if id(x) in self.choices and any(isinstance(each, Tensor) and each.shares_memory(x) for each in parts):
            self.viewed.add(id(x))
        return result

    def check_identity(self, *tensors):
        if any(id(x) in self.choices for x in tensors):
            raise NotConvertible("the identity of a tensor that a branch or a loop of the graph has chosen is asked for")

    def is_made_here(self, x):
        """Whether nobody can know it outside of the branch or the loop of the graph that is recorded now."""
        return not self.regions or id(x) in self.regions[-1].made

    def check_known(self, x):
        """A tensor that was computed in a region which is closed must not be used outside of it."""
        tapes = [self.tape, *(region.tape for region in self.regions)]
        if any(tape.is_bound(x) for tape in self.closed) and not any(tape.is_bound(x) for tape in tapes):
            raise NotConvertible("a tensor leaves a branch or a loop of the graph in a way that can't be followed")

    def refuse_in_regions(self, what):
        if self.regions:
            raise NotConvertible(f"{what} in a branch or a loop of the graph")

    # ---- lists and dicts: taken in as a whole, then worked on as they are

    def touch(self, x, relaxes=None):
        """A list or dict that the call has not made: its elements are read."""
        known = self.known(x)
        if known is None or id(x) in self.admitted or type(x) not in (list, dict):
            return x
        _, code, what = known
        if len(x) > _LONGEST:
            raise NotConvertible(f"{what} has {len(x)} elements")
        if type(x) is list:
            count = self.tails.pop(id(x), (x, len(x)))[1]
            self.check(code, "length", count, "trip count", f"{what} has {count} elements", relaxes)
            self._keep(x, x[:count])
            parts = [self.admit(self.residual.fetch(code, "item", i), x[i], f"{what}[{i}]") for i in range(count)]
            x[:count] = parts
            self.admitted[id(x)] = (x, list(parts))
        else:
            keys = list(x)
            if not all(map(is_constant, keys)):
                raise NotConvertible(f"{what} has keys that aren't numbers or texts")
            for key in keys:
                self.hashed(key)
            self.check(code, "keys", self._kept.setdefault(id(x), tuple(keys)), "trip count", f"{what} has the keys {keys}")
            self._keep(x, dict(x))
            for key in keys:
                x[key] = self.admit(self.residual.fetch(code, "key", key), x[key], f"{what}[{key!r}]")
            self.admitted[id(x)] = (x, dict(x))
        return x

    def append(self, x, values):
        """To a list whose elements and length may be anything."""
        if self.regions:
            self.note_content(self.touch(x))
        elif self.known(x) and id(x) not in self.admitted and id(x) not in self.tails:
            self.tails[id(x)] = (x, len(x))
            self._keep(x, list(x))
        x.extend(values)

    def kept(self, x):
        """What an object or a dict that is written had at the begin."""
        return self._snapshots[id(x)][1]

    def _keep(self, x, snapshot):
        self._snapshots.setdefault(id(x), (x, snapshot))

    # ---- what is written

    def write(self, container, kind, key, write):
        """`write()` changes a place of an object."""
        if self.is_outside(container):
            if self.is_of_case(self.known(container)[1]):
                raise NotConvertible("an object of a recursion is written")
            self.written.setdefault((id(container), kind, key), (container, kind, key))
            if kind == "cell":
                self._keep(container, container.cell_contents)
            elif kind == "global":
                self._keep(container, dict(container))
            else:
                if "__setattr__" in type(container).__dict__ or any(hasattr(c, "__slots__") for c in type(container).__mro__ if c is not object):
                    from ..nn.module import Module

                    if type(container).__setattr__ is not Module.__setattr__:
                        raise NotConvertible(f"{type(container).__name__} has its own way to set attributes")
                own = vars(container)
                self._keep(container, dict(own))
                for table in ("_parameters", "_buffers", "_modules"):
                    if type(own.get(table)) is dict:
                        self._keep(own[table], dict(own[table]))
        write()

    def gradient_used(self, tensor, how):
        self.gradient_uses.setdefault(id(tensor), how)

    def gradients_used(self):
        """By a call of `backward`, which adds to what is there."""
        for entry in self.inputs:
            if entry.copy.requires_grad:
                self.gradient_used(entry.copy, "read")

    # ---- the end

    def changed_numbers(self):
        """Paths of numbers that the call has changed: so they will differ in the next one."""
        changed = set()
        for cell, what in self._scalars_read.items():
            if cell in self.written:
                container, kind, key = self.written[cell]
                now = container.cell_contents if kind == "cell" else container.get(key) if kind == "global" else getattr(container, key, None)
                if now is not self._cells[cell] and is_number(now):
                    changed.add(what)
        for x, before in self.admitted.values():
            for key, value in before.items() if isinstance(x, dict) else enumerate(before):
                now = x.get(key) if isinstance(x, dict) else x[key] if key < len(x) else None
                if type(value) in (int, float) and is_number(now) and now is not value:
                    changed.add(f"{self.known(x)[2]}[{key!r}]")
        return changed

    def undo(self):
        for x, before in self._snapshots.values():
            if isinstance(x, list):
                x[:] = before
            elif isinstance(x, dict):
                if len(x) != len(before) or any(a is not b or x[a] is not before[b] for a, b in zip(x, before)):
                    x.clear()
                    x.update(before)
            elif isinstance(x, types.CellType):
                x.cell_contents = before
            else:
                own = vars(x)
                own.clear()
                own.update(before)

    def output(self, tensor):
        """The number of a value among the graph's outputs."""
        return self.output_of(self.tape.read(tensor))

    def output_of(self, number):
        if number not in self._output_places:
            self._output_places[number] = len(self.graph_outputs)
            self.graph_outputs.append(number)
        return self._output_places[number]

    def is_output(self, number):
        return number in self._output_places

    def quietly(self, do):
        """Elements of the recorded call, which nothing is to depend on without an assumption."""
        tapes = [tape for tape in _eager.recording()]
        for tape in reversed(tapes):
            tape.end()
        try:
            return do()
        finally:
            for tape in tapes:
                tape.begin()
