"""What is left of a call once it is recorded: reads and checks, Python code of numbers, the graph, and effects.

    before = [fetch what the call reads, check assumptions of it, compute numbers]   -> a failed one ends it: nothing has happened
    graph                                                                            -> results in memory of their own; updates, of which those behind know
    after  = [read numbers of the results, check assumptions of them, compute]       -> the same
    effects = [write tensors, attributes, lists, and the like]                       -> none of which can fail

What the call reads of the program's world is a list of steps over registers, done in one call of C++ (python/EagerGuards.cpp), and so are nearly all
assumptions. They run no code of the program. Python's lines compute numbers, and check these; what is read by way of such a number is another
list behind it: a name's level says behind how many lists it is known.

Invariant: the code before the effects changes nothing that the program could see. So a failed assumption leaves no trace. Where nothing behind the graph may end the call but truths that
the graph gives, it writes tensors over itself, if these hold (effects.py).
Source: Jeong et al., JANUS, NSDI 2019: assertions, and state written back at the end.
"""

import re
import sys

from .. import _eager
from .scalars import NotConvertible

KINDS = ("branch", "trip count", "type", "shape", "constant", "attribute's type", "callee", "global", "class")
MISSING = object()  # what a class has where it has nothing

# What is read of an object, as Python's code of a recursion's scope says it.
_READS = {"dict": "{0}.__dict__", "key": "{0}[{1}]", "item": "{0}[{1}]", "part": "{0}.{1}"}

# Tests take kinds out, to show that each is needed.
unguarded = set()


class Assumption:
    """kind: of KINDS; what: in the program's words; `relaxes`: what may differ from call to call once it has failed (Recording.relaxed)."""

    __slots__ = ("kind", "line", "relaxes", "what")

    def __init__(self, kind, what, line, *relaxes):
        self.kind, self.what, self.line, self.relaxes = kind, what, line, {each for each in relaxes if each is not None}

    def __str__(self):
        return f"{self.kind}: {self.what}" + (f" (line {self.line})" if self.line else "")


class Scope:
    """A function of one object within the residual, of a recursion (recursion.py): its lines, the objects that the recursion goes on with, and the numbers
    that it reads, of integers and of floats.
    """

    def __init__(self, argument):
        self.argument, self.names = argument, {argument}
        self.lines, self.children, self.rows, self.known = [], [], ([], []), {}

    def text(self):
        """None where an assumption does not hold."""
        lines = [f"def of_{self.argument}({self.argument}):", *(" " + line for line in self.lines)]
        parts = (f"({''.join(each + ', ' for each in codes)})" for codes in (self.children, *self.rows))
        return "\n".join([*lines, f" return {', '.join(parts)}"])


class _Steps:
    """Reads and checks that are done in one call. names: registers of the values that are given, of constants, and of what is read."""

    def __init__(self):
        self.steps, self.numbers = [], []  # numbers: of the assumptions that the steps check; None of those that read
        self.given, self.constants, self.read = [], [], []

    def add(self, kind, number, code, other=0, with_=None):
        self.steps.append((kind, code, other, with_))
        self.numbers.append(number)

    def compiled(self, values, wanted):
        """values: constants by their names; wanted: the names that something behind it uses. Guards, the names that are given and those that come out."""
        read = dict.fromkeys(self.read)
        constants, given = {}, {}

        def note(code):
            if isinstance(code, str) and code not in read:
                (constants if code in values else given)[code] = None

        for kind, code, other, _ in self.steps:
            for each in [*code, *other] if isinstance(code, list) else [code, other]:
                note(each)
        registers = {name: i for i, name in enumerate([*given, *constants, *read])}
        steps = []
        for kind, code, other, with_ in self.steps:
            if isinstance(code, list):
                steps.append((kind, -1, 0, tuple([registers[each] for each in codes] for codes in (code, other))))
            else:
                steps.append((kind, registers[code], registers.get(other, other) if isinstance(other, str) else other, with_))
        out = [name for name in read if name in wanted]
        guards = _eager.Guards(len(given), tuple(values[name] for name in constants), steps, [registers[name] for name in out])
        return guards, list(given), out


class Residual:
    def __init__(self):
        self.scopes = []
        self.after, self.effects = [], []
        self.reads_results = False  # Python's code reads what the graph gives
        self.holds = None  # the graph's output that tells all assumptions on results at once, where it updates tensors
        # Whether the code behind the graph may end the call: by an assumption that the graph does not know, or since it raises.
        self.may_end_behind = False
        self.assumptions, self.constants = [], {}
        self._names, self._count, self._assumed = {}, 0, set()
        self._steps, self._lines, self._levels = [], [], {}  # by levels; levels of names: of what a list reads, and of Python's lines behind it
        self._fetched, self._classes = {}, {}

    def name(self, letter):
        self._count += 1
        return f"{letter}{self._count}"

    def constant(self, value):
        """The name of an object in the code, which keeps it."""
        key = id(value)
        if key not in self._names:
            self._names[key] = self.name("k")
            self.constants[self._names[key]] = value
        return self._names[key]

    # ---- levels

    def _level(self, text, computed=True):
        """The first level at which all names of a text are known: of a line behind the list, or (not computed) of a step of the list."""
        level = 0
        for word in set(re.findall(r"\w+", text)):
            at, is_computed = self._levels.get(word, (0, False))
            level = max(level, at + (is_computed and not computed))
        return level

    def _at(self, level):
        while len(self._steps) <= level:
            self._steps.append(_Steps())
            self._lines.append([])
        return self._steps[level]

    def _line(self, line, stage, name=None, text=None):
        """text: whose names it uses, where the line itself is a function."""
        if stage:
            self.after.append(line)
            return
        level = self._level(text or line)
        self._at(level)
        self._lines[level].append(line)
        if name:
            self._levels[name] = level, True

    def let(self, code, stage=0, letter="t", may_raise=False):
        """The name of what an expression of Python gives."""
        if scope := self.scope_of(code):
            return self._let_within(scope, code, letter)
        name = self.name(letter)
        self.may_end_behind |= may_raise and stage > 0
        self._line(f"{name} = {code}", stage, name)
        return name

    def element(self, convert, output, may_raise):
        """The name of the number that the graph's output of that number holds."""
        self.reads_results = True
        return self.let(f"{self.constant(convert)}(outs[{output}].item())", 1, "p", may_raise)

    def fetch(self, code, how, key=None):
        """The name of what is read of an object of a name: its own `dict`, a dict's `key`, an `item` of a list or tuple, a `part` of an object of a
        built-in type, by its name. Nothing of the program's runs, whatever the object is: its type is an assumption.
        """
        if type(key) is str:
            key = sys.intern(key)  # one place has one name
        text = _READS[how].format(code, self.constant(key) if how == "key" else key)
        if scope := self.scope_of(code):
            return self._let_within(scope, text, "v")
        if text not in self._fetched:
            self._fetched[text] = name = self.name("v")
            level = self._level(code, False)
            steps = self._at(level)
            steps.add(how, None, code, key if how == "item" else 0, key if how in ("key", "part") else None)
            steps.read.append(name)
            self._levels[name] = level, False
        return self._fetched[text]

    # ---- functions within

    def _let_within(self, scope, code, letter):
        if code not in scope.known:  # the numbers that it reads are the same however often it is recorded
            scope.known[code] = self.name(letter)
            scope.lines.append(f"{scope.known[code]} = {code}")
            scope.names.add(scope.known[code])
        return scope.known[code]

    def scope_of(self, code):
        """The scope that an expression belongs to."""
        if not self.scopes:
            return None
        words = set(re.findall(r"\w+", code))
        found = [scope for scope in self.scopes if not scope.names.isdisjoint(words)]
        if len(found) > 1:
            raise NotConvertible("two objects of a structure are compared, or one is read on behalf of another")
        return found[0] if found else None

    def scope_function(self, scope):
        """For the call that is recorded."""
        values = dict(self.constants)
        exec(scope.text(), values)
        return values[f"of_{scope.argument}"]

    def walk(self, scopes, root, walker, most):
        """The name of what `walker` gives for the functions of the scopes, which may still grow, and a structure of `most` objects at most."""
        name, walker = self.name("t"), self.constant(walker)

        def lines():
            widths = tuple(max(1, *(len(codes) for codes in column)) for column in zip(*((each.children, *each.rows) for each in scopes)))
            texts = [line for each in scopes for line in each.text().split("\n")]
            return [*texts, f"{name} = {walker}(({''.join(f'of_{each.argument}, ' for each in scopes)}), {root}, {widths}, {most})"]

        self._line(lines, 0, name, root)
        return name

    # ---- assumptions

    def _number(self, key, assumption):
        """Of an assumption that is to be checked."""
        if key in self._assumed:
            return None
        self._assumed.add(key)
        self.assumptions.append(assumption)
        return None if assumption.kind in unguarded else len(self.assumptions) - 1

    def assume(self, condition, assumption, stage=0, in_graph=False):
        """in_graph: what the graph gives tells it, too (Effects). Where it updates tensors by that, its word counts: Python's could be rounded otherwise."""
        number = self._number((condition, stage), assumption)
        if in_graph:
            condition = f"held or {condition}"
        else:
            self.may_end_behind |= stage > 0
        if number is not None and (scope := self.scope_of(condition)):
            scope.lines.append(f"if not ({condition}): return None")
        elif number is not None:
            self._line(f"if not ({condition}): failed.append({number}); return failed", stage)

    def check(self, code, kind, like, assumption):
        """That what has a name is (like) what is given, by a kind of the guards."""
        if not code.isidentifier():
            code = self.let(code)
        number = self._number((code, kind, like if isinstance(like, (str, int)) else self.constant(like)), assumption)
        if number is None:
            return
        if scope := self.scope_of(code):
            scope.lines.append(self._check_within(code, kind, like))
            return
        level = max(self._level(code, False), self._level(like, False) if kind == "is" else 0)
        is_register = kind in ("is", "length")
        self._at(level).add(kind, number, code, like if is_register else 0, None if is_register else like)

    def _check_within(self, code, kind, like):
        if kind == "is":
            return f"if {code} is not {like}: return None"
        number, with_ = (like, None) if kind == "length" else (0, like)
        guards = _eager.Guards(1, (), [(kind, 0, number, with_)], [])
        return f"if {self.constant(guards.run)}(({code},)) != (): return None"

    def check_several(self, kind, codes, others, assumption):
        """That objects are `distinct`, or that the memory of tensors that are written is `apart` from each other's and from that of others."""
        codes, others = ([each if each.isidentifier() else self.let(each) for each in part] for part in (codes, others))
        number = self._number((kind, *codes, "", *others), assumption)
        if number is not None:
            self._at(self._level(" ".join([*codes, *others]), False)).add(kind, number, codes, others)

    def check_class(self, cls, entry, assumption):
        """That a class has what it has: `entry` of (dict, name), with what it is, or its type and True."""
        guard = self._classes.get(cls)
        if guard is None:
            number = self._number(("class", self.constant(cls)), assumption)
            guard = self._classes[cls] = {}
            if number is not None:
                self._at(0).add("class", number, self.constant(cls), 0, (cls, type(cls), type.__dict__["__mro__"].__get__(cls), guard.values()))
        if entry is not None:
            guard[(id(entry[0]), *entry[1:2])] = entry

    # ---- all together

    def parts(self):
        """All that it is, for a comparison with another."""
        lines = [[each if isinstance(each, str) else each() for each in level] for level in self._lines]
        return [lines, self.after, self.effects, [each.steps for each in self._steps], list(self.constants.items())]

    def compiled(self, inputs, program, types, result, may_fail=False):
        """The function of (arguments, named arguments, an empty list `failed`); gives `failed` where an assumption does not hold. inputs, types, result: code."""
        lines = ["def run(arguments, named, failed):", " try:"]
        behind = [] if program is None else self._graph(inputs, program, types, may_fail)
        behind.append(f"  held = {'False' if self.holds is None else f'outs[{self.holds}].item()'}")
        behind += ["  " + line for line in self.after] + (["  pass"] if self.holds is None else ["  if not held: return failed"])
        behind.append(" except Exception: return failed")
        behind += [" " + line for line in self.effects] + [f" return {result}"]
        own = [["  " + each for line in level for each in ([line] if isinstance(line, str) else line())] for level in self._lines]
        wanted = set(re.findall(r"\w+", "\n".join([*(line for level in own for line in level), *behind])))
        for steps in self._steps:
            wanted.update(each for _, code, other, _ in steps.steps for each in ([*code, *other] if isinstance(code, list) else [code, other]) if each not in steps.read)
        for steps, each in zip(self._steps, own):
            lines += ["  " + line for line in self._call(steps, wanted)] + each
        scope = dict(self.constants)
        exec(compile("\n".join([*lines, *behind]), "<converted call>", "exec"), scope)
        return scope["run"]

    def _call(self, steps, wanted):
        if not steps.steps:
            return []
        guards, given, out = steps.compiled(self.constants, wanted)
        numbers = self.constant([[] if each is None else [each] for each in steps.numbers])
        lines = [f"got = {self.constant(guards.run)}(({''.join(each + ', ' for each in given)}))", f"if type(got) is int: failed += {numbers}[got]; return failed"]
        return [*lines, f"{''.join(each + ', ' for each in out)} = got"] if out else lines

    def _graph(self, inputs, program, types, may_fail):
        return [f"  outs = {self.constant(program.run)}([{', '.join(inputs)}], {types}, {may_fail or self.reads_results})"]
