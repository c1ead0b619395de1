"""Executes a function's syntax tree for a recording: Python's meaning, with each read, write and call told to it.

What Python would do by itself (attributes of objects, names, branches, calls) is done here by rules; a statement or expression without
one ends the conversion, with its line. Values are Python's own, but for numbers that differ from call to call (Traced).
"""

import ast
import builtins
import contextlib
import operator
import types

from . import sources
from .control import Control, End, leaves
from .expressions import IN_PLACE, Expressions
from .frames import Interpreted, Rest
from .matching import Matching
from .recording import Recording, is_plain_class
from .regions import UNCLEAR
from .rows import rows_of
from .scalars import NotConvertible, Traced

_MOST_STEPS = 400_000
_DEEPEST = 60
# Within branches and loops of the graph, of which what follows a side that leaves is executed for each side.
_MOST_STEPS_IN_GRAPH = 10_000


class _Return(BaseException):
    def __init__(self, value):
        self.value = value


class _Break(BaseException):
    pass


class _Continue(BaseException):
    pass


class Interpreter(Expressions, Matching):
    def __init__(self, recording: Recording):
        from .calls import Calls

        self.recording = recording
        self.calls = Calls(self, recording)
        self.objects = self.calls.objects
        self.control = Control(recording)
        self._steps, self._depth, self._steps_in_graph = 0, 0, 0

    # ---- functions

    def run(self, node, frame, arguments, named, defaults, named_defaults):
        self.recording.make(frame)
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
                self.block(node.body, frame, Rest(False, []) if frame.yields is None else None)
            except _Return as result:
                return self.recording.make(iter(frame.yields)) if frame.yields is not None else result.value
            return self.recording.make(iter(frame.yields)) if frame.yields is not None else None
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
            if scope.names[name] is UNCLEAR:
                raise NotConvertible(f"what '{name}' is depends on a branch or a loop of the graph")
            return scope.names[name]
        cell = self._cell(name, frame)
        r = self.recording
        if cell is not None:
            try:
                now = cell.cell_contents
            except ValueError:
                raise NameError(f"cannot access free variable '{name}'") from None
            return r.read(r.root(cell, name), "cell", "", now, lambda: r.residual.fetch(r.residual.constant(cell), "part", "cell_contents"), name)
        world = r.root(frame.globals, "globals")
        if name not in world:
            if (id(world), "global", name) not in r.written:
                r.check(r.residual.constant(world), "lacks", name, "global", f"there is no global {name}")
            world = r.root(vars(builtins), "builtins")
        if name in world:
            return r.read(world, "global", name, world[name], lambda: r.residual.fetch(r.residual.constant(world), "key", name), name, of="global")
        r.check(r.residual.constant(world), "lacks", name, "global", f"there is no {name}")
        raise NameError(f"name '{name}' is not defined")

    def bind(self, name, value, frame):
        scope = self._scope(name, frame)
        if scope is not None:
            self.recording.note_name(scope.names, name, scope)
            scope.names[name] = value
            return
        r, cell = self.recording, self._cell(name, frame)
        if cell is not None and name not in frame.world:
            r.root(cell, name)
            self._note_outer(cell, "cell", "", name, frame)
            r.write(cell, "cell", "", lambda: setattr(cell, "cell_contents", value))
            return
        world = frame.globals
        r.root(world, "globals")
        self._note_outer(world, "global", name, name, frame)
        r.write(world, "global", name, lambda: world.__setitem__(name, value))

    def _note_outer(self, container, kind, key, name, frame):
        """A variable that outlives the call is about to be written."""
        self.recording.note_place(container, kind, key, lambda: self.look_up(name, frame), lambda value: self.bind(name, value, frame))

    # ---- statements

    def block(self, statements, frame, rest=None):
        """rest: what follows the block, where that is known."""
        for i, each in enumerate(statements):
            if isinstance(each, ast.If):
                self.recording.line = each.lineno
                self._located(each, lambda each=each, i=i: self._if(each, frame, rest and rest.before(statements[i + 1 :])))
            else:
                self.statement(each, frame)

    def statement(self, node, frame):
        self._steps += 1
        self._steps_in_graph += bool(self.recording.regions)
        if self._steps > _MOST_STEPS or self._steps_in_graph > _MOST_STEPS_IN_GRAPH:
            raise NotConvertible("the call takes too many steps")
        self.recording.line = node.lineno
        rule = getattr(self, "_do_" + type(node).__name__, None)
        if rule is None:
            self.recording.line = node.lineno
            raise NotConvertible(f"a statement of the kind {type(node).__name__} has no conversion")
        self._located(node, lambda: rule(node, frame))

    def _located(self, node, execute):
        try:
            execute()
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
        target, function = node.target, getattr(operator, IN_PLACE[type(node.op)])
        if isinstance(target, ast.Name):
            before = self.look_up(target.id, frame)
            self.bind(target.id, self.calls.in_place(function, before, self.value(node.value, frame)), frame)
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, frame)
            before = self.objects.attribute(owner, target.attr)
            self.objects.set_attribute(owner, target.attr, self.calls.in_place(function, before, self.value(node.value, frame)))
        elif isinstance(target, ast.Subscript):
            owner, key = self.value(target.value, frame), self.value(target.slice, frame)
            before = self.objects.item(owner, key, node)
            self.objects.set_item(owner, key, self.calls.in_place(function, before, self.value(node.value, frame)))

    # ---- branches

    def _if(self, node, frame, rest):
        if not leaves(node):
            test = self.test(node.test, frame, node)
            if isinstance(test, Traced):
                self.control.fork(test, [lambda: self.block(node.body, frame), lambda: self.block(node.orelse, frame)], node)
                return
        else:
            test = self.test(node.test, frame, node if rest else frame.loop or node)
            if isinstance(test, Traced):
                self._fork_to_end(test, node, frame, rest)
        self.block(node.body if test else node.orelse, frame, rest)

    def _fork_to_end(self, test, node, frame, rest):
        """Both sides go on to the end of the function or of the loop's body."""
        if rest is None:
            raise NotConvertible("a branch of the graph leaves a loop or a block that is none of the graph's")
        end = self.control.fork(test, [lambda side=side: self._to_end(rest.before(side), frame) for side in (node.body, node.orelse)], node)
        raise End(end) if rest.is_loop else _Return(end)

    def _to_end(self, rest, frame):
        """What the function returns, or whether the loop breaks off."""
        try:
            for i, statements in enumerate(rest.blocks):
                self.block(statements, frame, Rest(rest.is_loop, rest.blocks[i + 1 :]))
        except _Return as result:
            if rest.is_loop:
                raise NotConvertible("a loop of the graph returns from the function") from None
            return result.value
        except _Break:
            return True
        except _Continue:
            return False
        except End as end:
            return end.breaks
        return False if rest.is_loop else None

    # ---- loops

    def _do_While(self, node, frame):
        before, frame.loop = frame.loop, node
        try:
            self._while(node, frame)
        finally:
            frame.loop = before

    def _while(self, node, frame):
        first = self.test(node.test, frame, node) if self.recording.is_in_graph(node) else None
        if isinstance(first, Traced) or first and not self.recording.regions:
            self._while_in_graph(node, frame, first)
            return
        while self.test(node.test, frame, node, "trip count") if first is None else first:
            first = None
            self._steps += 1
            try:
                self.block(node.body, frame)
            except _Break:
                return
            except _Continue:
                pass
        self.block(node.orelse, frame)

    def _while_in_graph(self, node, frame, first):
        def iterate(turn):
            breaks = self._to_end(Rest(True, [node.body]), frame)
            if breaks is True:
                return False
            return self._goes_on(breaks, lambda: self.test(node.test, frame, node), node)

        self._check_no_else(node)
        self.control.loop(node, first, iterate)

    def _goes_on(self, breaks, test, node):
        if isinstance(breaks, Traced):
            return self.control.fork(breaks, [lambda: False, test], node)
        return test()

    def _check_no_else(self, node):
        if node.orelse:
            raise NotConvertible("a loop of the graph has an else")

    def _do_For(self, node, frame):
        before, frame.loop = frame.loop, node
        try:
            values = self.value(node.iter, frame)
            rows = rows_of(self.calls, values) if self.recording.is_in_graph(node) else None
            if rows is not None:
                self._for_in_graph(node, frame, *rows)
            else:
                self._for(node, frame, values)
        finally:
            frame.loop = before

    def _for(self, node, frame, values):
        for each in self.calls.iterate(values, node):
            self.assign(node.target, each, frame)
            try:
                self.block(node.body, frame)
            except _Break:
                return
            except _Continue:
                pass
        self.block(node.orelse, frame)

    def _for_in_graph(self, node, frame, count, at):
        """count: how many values there are; at: gives that of a turn."""

        def iterate(turn):
            self.assign(node.target, at(turn), frame)
            breaks = self._to_end(Rest(True, [node.body]), frame)
            return self.calls.pure(operator.not_, [breaks]) if isinstance(breaks, Traced) else not breaks

        self._check_no_else(node)
        self.control.loop(node, True, iterate, count)
        for each in ast.walk(node.target):
            if isinstance(each, ast.Name):
                self.bind(each.id, UNCLEAR, frame)

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
                    self.recording.note_name(scope.names, handler.name, scope)
                    scope.names.pop(handler.name, None)
            return
        raise error

    def _do_With(self, node, frame):
        self._with(node.items, node.body, frame)

    def _with(self, items, body, frame):
        if not items:
            self.block(body, frame)
            return
        manager, target = self.value(items[0].context_expr, frame), items[0].optional_vars

        def within(entered):
            if target is not None:
                self.assign(target, entered, frame)
            self._with(items[1:], body, frame)

        if isinstance(manager, contextlib._GeneratorContextManager):
            with manager as entered:
                within(entered)
            return
        enter, leave = (self._of_manager(manager, name) for name in ("__enter__", "__exit__"))
        entered = self.calls.call(enter, [], {})
        try:
            within(entered)
        except NotConvertible:
            raise
        except Exception as error:
            if not self.calls.truth(self.calls.call(leave, [type(error), error, error.__traceback__], {})):
                raise
        except BaseException:  # a way out of the block
            self.calls.call(leave, [None, None, None], {})
            raise
        else:
            self.calls.call(leave, [None, None, None], {})

    def _of_manager(self, manager, name):
        found = self.recording.special(type(manager), name)
        if not is_plain_class(type(manager)) or not isinstance(found, types.FunctionType):
            raise NotConvertible(f"`with` of a {type(manager).__name__} has no conversion")
        return types.MethodType(found, manager)

    def _do_Delete(self, node, frame):
        for target in node.targets:
            if isinstance(target, ast.Name) and (scope := self._scope(target.id, frame)) is not None and target.id in scope.names:
                self.recording.note_name(scope.names, target.id, scope)
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
