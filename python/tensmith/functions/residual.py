"""What is left of a call once it is recorded: Python code that checks the assumptions, runs the graph and does the effects.

    before = [fetch what the call reads, check assumptions of it, compute numbers]   -> a failed one ends it: nothing has happened
    graph                                                                            -> results in memory of their own
    after  = [read numbers of the results, check assumptions of them, compute]       -> the same
    effects = [write tensors, attributes, lists, and the like]                       -> none of which can fail

Invariant: the code before the effects changes nothing that the program could see. So a failed assumption leaves no trace.
Source: Jeong et al., JANUS, NSDI 2019: assertions, and state written back at the end.
"""

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
        (self.after if stage else self.before).append(f"{name} = {code}")
        return name

    def assume(self, condition, assumption, stage=0):
        if (condition, stage) in self._assumed:
            return
        self._assumed.add((condition, stage))
        number = len(self.assumptions)
        self.assumptions.append(assumption)
        if assumption.kind not in unguarded:
            (self.after if stage else self.before).append(f"if not ({condition}): failed.append({number}); return failed")

    def compiled(self, inputs, program, types, result):
        """The function of (arguments, named arguments, an empty list `failed`); gives `failed` where an assumption does not hold."""
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
