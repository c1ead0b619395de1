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

KINDS = ("branch", "trip count", "type", "shape", "constant", "attribute's type", "callee", "global")

# Tests take kinds out, to show that each is needed.
unguarded = set()


class Assumption:
    """kind: of KINDS; what: in the program's words; `relaxes`: the path of a number that may become any number of its type."""

    __slots__ = ("kind", "line", "relaxes", "what")

    def __init__(self, kind, what, line, relaxes=None):
        self.kind, self.what, self.line, self.relaxes = kind, what, line, relaxes

    def __str__(self):
        return f"{self.kind}: {self.what}" + (f" (line {self.line})" if self.line else "")


class Residual:
    def __init__(self):
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
        name = self.name(letter)
        self._line(f"{name} = {code}", stage)
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
        if number is not None:
            self._line(f"if not ({condition}): failed.append({number}); return failed", stage)

    def check(self, code, kind, like, assumption):
        """That what an expression of names gives is (like) what is given, by a kind of the guards."""
        number = self._number((code, kind, self.constant(like)), assumption)
        if number is not None:
            self._together.append((code, kind, like, number))
            self._unchecked.add(code)

    def _check(self):
        if not self._together:
            return
        codes, kinds, likes, numbers = zip(*self._together)
        self._together, self._unchecked = [], set()
        holds = self.constant(_eager.Guards(list(zip(kinds, likes))).failed)
        self.before.append(f"if (at := {holds}(({', '.join(codes)},))) >= 0: failed.append({self.constant(numbers)}[at]); return failed")

    def compiled(self, inputs, program, types, result):
        """The function of (arguments, named arguments, an empty list `failed`); gives `failed` where an assumption does not hold."""
        self._check()
        lines = ["def run(arguments, named, failed):", " try:"]
        lines += ["  " + line for line in self.before]
        if program is not None:
            lines.append(f"  inputs = [{', '.join(inputs)}]")
            lines.append(f"  outs = {self.constant(program.run)}(inputs, {self.constant(types)})")
        lines += ["  " + line for line in self.after] + ["  pass", " except Exception: return failed"]
        lines += [" " + line for line in self.effects] + [f" return {result}"]
        scope = dict(self.constants)
        exec(compile("\n".join(lines), "<converted call>", "exec"), scope)
        return scope["run"]
