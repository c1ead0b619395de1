"""What is left of a call once it is recorded: Python code that checks the assumptions, runs the graph and does the effects.

    before = [fetch what the call reads, check assumptions of it, compute numbers]   -> a failed one ends it: nothing has happened
    graph                                                                            -> results in memory of their own
    after  = [read numbers of the results, check assumptions of them, compute]       -> the same
    effects = [write tensors, attributes, lists, and the like]                       -> none of which can fail

Most assumptions compare a value that nothing else depends on with an object: these are checked together, in one call (python/EagerGuards.cpp),
before anything uses such a value.

Invariant: the code before the effects changes nothing that the program could see. So a failed assumption leaves no trace.
Source: Jeong et al., JANUS, NSDI 2019: assertions, and state written back at the end.
"""

import re

from .. import _eager
from .scalars import NotConvertible

KINDS = ("branch", "trip count", "type", "shape", "constant", "attribute's type", "callee", "global")

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


class Residual:
    def __init__(self):
        self.scopes = []
        self.before, self.after, self.effects = [], [], []
        self.assumptions, self.constants = [], {}
        self._names, self._count, self._assumed = {}, 0, set()
        self._together, self._unchecked = [], set()  # checks that are to come, and the values that they are of

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

    def let(self, code, stage=0, letter="t"):
        if scope := self.scope_of(code):
            if code not in scope.known:  # the numbers that it reads are the same however often it is recorded
                scope.known[code] = self.name(letter)
                scope.lines.append(f"{scope.known[code]} = {code}")
                scope.names.add(scope.known[code])
            return scope.known[code]
        name = self.name(letter)
        self._line(f"{name} = {code}", stage)
        return name

    # ---- functions within

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
        self._check()
        name, walker = self.name("t"), self.constant(walker)

        def lines():
            widths = tuple(max(1, *(len(codes) for codes in column)) for column in zip(*((each.children, *each.rows) for each in scopes)))
            texts = [line for each in scopes for line in each.text().split("\n")]
            return [*texts, f"{name} = {walker}(({''.join(f'of_{each.argument}, ' for each in scopes)}), {root}, {widths}, {most})"]

        self.before.append(lines)
        return name

    def _line(self, line, stage):
        if stage:
            self.after.append(line)
            return
        if self._unchecked and not self._unchecked.isdisjoint(re.findall(r"\w+", line)):
            self._check()
        self.before.append(line)

    def _number(self, key, assumption):
        """Of an assumption that is to be checked."""
        if key in self._assumed:
            return None
        self._assumed.add(key)
        self.assumptions.append(assumption)
        return None if assumption.kind in unguarded else len(self.assumptions) - 1

    def assume(self, condition, assumption, stage=0):
        number = self._number((condition, stage), assumption)
        if number is not None and (scope := self.scope_of(condition)):
            scope.lines.append(f"if not ({condition}): return None")
        elif number is not None:
            self._line(f"if not ({condition}): failed.append({number}); return failed", stage)

    def check(self, code, kind, like, assumption):
        """That what an expression of names gives is (like) what is given, by a kind of the guards."""
        number = self._number((code, kind, self.constant(like)), assumption)
        if number is not None and (scope := self.scope_of(code)):
            scope.lines.append(f"if {self.constant(_eager.Guards([(kind, like)]).failed)}(({code},)) >= 0: return None")
        elif number is not None:
            self._together.append((code, kind, like, number))
            self._unchecked.add(code)

    def _check(self):
        if not self._together:
            return
        codes, kinds, likes, numbers = zip(*self._together)
        self._together, self._unchecked = [], set()
        holds = self.constant(_eager.Guards(list(zip(kinds, likes))).failed)
        self.before.append(f"if (at := {holds}(({', '.join(codes)},))) >= 0: failed.append({self.constant(numbers)}[at]); return failed")

    def compiled(self, inputs, program, types, result, may_fail=False):
        """The function of (arguments, named arguments, an empty list `failed`); gives `failed` where an assumption does not hold."""
        self._check()
        lines = ["def run(arguments, named, failed):", " try:"]
        for line in self.before:
            lines += ["  " + each for each in ([line] if isinstance(line, str) else line())]
        if program is not None:
            lines.append(f"  inputs = [{', '.join(inputs)}]")
            lines.append(f"  outs = {self.constant(program.run)}(inputs, {self.constant(types)})")
            if may_fail:  # which is known once it has run
                lines.append("  outs[0].wait()")
        lines += ["  " + line for line in self.after] + ["  pass", " except Exception: return failed"]
        lines += [" " + line for line in self.effects] + [f" return {result}"]
        scope = dict(self.constants)
        exec(compile("\n".join(lines), "<converted call>", "exec"), scope)
        return scope["run"]
