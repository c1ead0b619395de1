"""Random Python programs with state: nested control flow, mutation of attributes, lists and dicts, closures, exceptions, early return, loops
of changing length, random numbers. Run as they are and under ts.function they must do the same, call by call.

Tensors hold multiples of 1/4 between -8 and 8, so that no rounding differs and comparisons of both runs agree.
"""

import functools
import linecache
import random

import numpy

import tensmith as ts
import tensmith.numpy as tnp

_HEAD = '''
SCALE = 2
TABLE = {"a": 1, "b": 2.5}

def tame(t):
    return tnp.clip(tnp.floor(t * 4.0) / 4.0, -8.0, 8.0)

class Cell:
    bias = 1
    def __init__(self, value):
        self.value = value
    def push(self, t):
        self.value = tame(self.value + t)
        return self.value
    @property
    def twice(self):
        return tame(self.value * 2)

def fall(t, n):
    if n <= 0:
        return t
    return tame(fall(t, n - 1) + 0.5)

def make_counter():
    count = 0
    def counter(by=1):
        nonlocal count
        count += by
        return count
    return counter
'''


class Program:
    """The text of a function main(s, x, n, k), where s is an object with state, x a tensor, n a small integer and k a number."""

    def __init__(self, seed, of_tensors=0.0, aliases=False):
        """of_tensors: how often a condition or a trip count depends on tensors, where it might not; aliases: whether names and views of one tensor are written."""
        self.aliases = aliases
        self.draw = random.Random(seed)
        self.of_tensors = of_tensors
        self.fresh = 0
        self.lines = []
        self.tensors, self.numbers = ["x"], ["n", "k"]
        self.in_loop = 0
        self.block(1, 3, self.draw.randint(3, 8))
        self.emit(1, f"return {self.result()}")
        self.text = _HEAD + "\ndef main(s, x, n, k):\n    global SCALE\n" + "\n".join(self.lines) + "\n"

    def result(self):
        return self.draw.choice([self.tensor(), f"({self.tensor()}, {self.number()})", f"[{self.tensor()}, {{'n': {self.number()}}}]", self.number(), "s.history[-2:]"])

    def emit(self, depth, line):
        self.lines.append("    " * depth + line)

    def name(self):
        self.fresh += 1
        return f"v{self.fresh}"

    def tensor(self):
        t = self.draw.choice([*self.tensors, *self.tensors, "s.state", "s.cell.value"])
        u = self.draw.choice([*self.tensors, "s.state"])
        forms = [t, t, f"tame({t} + {u})", f"tame({t} * {u})", f"tame({t} * {self.number()})", f"tnp.maximum({t}, {self.number()})", f"(-{t})",
                 f"tame({t} - {u}[0])", f"tnp.where({t} > {u}, {t}, {u})", f"fall({t}, n)", f"tame({t}.sum() + {u})", "s.cell.twice",
                 f"tame(s.rng.uniform((3,)) + {t})", f"fall({t}, {self.draw.randint(0, 2)})", "TENSOR"]  # fmt: skip
        return self.draw.choice(forms)

    def number(self):
        a = self.draw.choice([*self.numbers, "s.count", "s.rate", "SCALE", "TABLE['b']", str(self.draw.randint(-2, 3)), "s.cell.bias"])
        b = self.draw.choice([*self.numbers, "s.count", "2", "3"])
        return self.draw.choice([a, a, f"({a} + {b})", f"({a} - {b})", f"min({a}, 3)", f"abs({a})", f"(({a}) % 3)", "len(s.items)", f"max({a}, {b})"])

    def test_of_tensors(self):
        t, bound = self.tensor(), self.draw.randint(-4, 4)
        one = self.draw.choice([f"({t}).sum() > {bound}", f"float(({t})[0]) < {bound}", f"({t}).max() >= ({self.tensor()}).min()", f"int(tnp.sum({t})) % 3 == {bound % 3}"])
        return self.draw.choice([one, one, f"not {one}", f"({one}) and {self.test()}", f"({one}) or s.flag", f"s.count < 4 and ({one})"])

    def test(self):
        if self.of_tensors and self.draw.random() < self.of_tensors:
            return self.test_of_tensors()
        kind = self.draw.randint(0, 6)
        if kind == 0:
            return f"({self.tensor()}).sum() > {self.draw.randint(-4, 4)}"
        if kind == 1:
            return f"s.count % {self.draw.randint(2, 3)} == 0"
        if kind == 2:
            return f"{self.number()} > {self.draw.randint(-1, 3)} and not s.flag"
        if kind == 3:
            return self.draw.choice(["s.flag", "n", "'extra' in s.table", "isinstance(k, int)", "hasattr(s, 'late')"])
        return f"{self.number()} {self.draw.choice(['<', '>=', '=='])} {self.number()}"

    def block(self, depth, deepest, count):
        for _ in range(count):
            self.statement(depth, deepest)

    def inner(self, depth, deepest):
        known = list(self.tensors), list(self.numbers)
        self.block(depth + 1, deepest - 1, self.draw.randint(1, 3))
        self.tensors, self.numbers = known

    def alias(self, depth):
        """Names, places and elements for one tensor, or views of it, and writes to one of them."""
        draw, name = self.draw, self.name()
        t, u = draw.choice([*self.tensors, "s.state"]), draw.choice([*self.tensors, "s.buffer"])
        self.emit(depth, draw.choice([f"{name} = {t}", f"{name} = {t}[:]", f"{name} = tame({t} * 1.0)", f"s.state = {name} = {t} * 1.0", f"{name} = s.items[0] if {self.test()} else {t}"]))
        if draw.random() < 0.6:
            t = draw.choice([name, t])
            self.emit(depth, draw.choice([f"{t} += 0.25", f"{t}[n % 3] = 1.5", f"{t}[0] += 0.5", f"{t}[...] = {t} * 0.5"]))
        if draw.random() < 0.3:
            self.emit(depth, f"s.history.append({name} is {u})")
        self.tensors.append(name)

    def statement_of_tensors(self, depth, deepest):
        draw, name = self.draw, self.name()
        kind = draw.randint(0, 4)
        if self.aliases and draw.random() < 0.5:
            return self.alias(depth)
        if kind == 0:
            self.emit(depth, f"{name} = {self.tensor()} if {self.test_of_tensors()} else {self.tensor()}")
            self.tensors.append(name)
        elif kind == 1:
            self.emit(depth, f"{name} = tame({self.tensor()} * 1.0)")
            self.emit(depth, f"while float(tnp.max(tnp.abs({name}))) > 0.5:")
            self.emit(depth + 1, f"{name} = tame({name} * 0.5)")
            self.tensors.append(name)
            self.inner(depth, 0)
        elif kind == 2:
            self.emit(depth, f"for {name} in range({draw.choice(['n', 'int(tnp.abs(x[0])) % 4', '4'])}):")
            self.in_loop += 1
            self.numbers.append(name)
            self.inner(depth, deepest)
            self.numbers.remove(name)
            self.in_loop -= 1
        elif kind == 3:
            self.emit(depth, f"{name} = {self.tensor()} * float(({self.tensor()}).sum())")
            self.emit(depth, f"s.state = tame({name})")
        else:
            self.emit(depth, f"for {name} in s.items:")
            self.tensors.append(name)
            self.in_loop += 1
            self.inner(depth, deepest)
            self.in_loop -= 1
            self.tensors.remove(name)

    def statement(self, depth, deepest):
        draw = self.draw
        if self.of_tensors and deepest > 0 and draw.random() < self.of_tensors / 2:
            return self.statement_of_tensors(depth, deepest)
        kind = draw.randint(0, 23 if deepest > 0 else 12)
        if kind <= 2:
            name = self.name()
            self.emit(depth, f"{name} = {self.tensor()}")
            self.tensors.append(name)
        elif kind == 3:
            name = self.name()
            self.emit(depth, f"{name} = {self.number()}")
            self.numbers.append(name)
        elif kind == 4:
            self.emit(depth, f"s.state = {self.tensor()}")
        elif kind == 5:
            self.emit(depth, draw.choice(["s.count += 1", "s.rate = s.rate * 0.5", "s.count = n", "s.flag = not s.flag", "SCALE = (SCALE + 1) % 4", "s.late = 1"]))
        elif kind == 6:
            few = "if len(s.items) < 9: " if self.in_loop else ""  # a loop over the list would not end
            self.emit(depth, draw.choice([f"s.history.append({self.number()})", f"{few}s.items.append({self.tensor()})", "s.items = s.items[-2:]",
                                          "s.history.insert(0, s.count)", "s.history += [n, 1]"]))  # fmt: skip
        elif kind == 7:
            self.emit(depth, draw.choice([f"s.table['extra'] = {self.number()}", "s.table.pop('extra', None)", f"s.table[n] = {self.tensor()}", "s.table['c'] = s.table.get('c', 0) + 1"]))
        elif kind == 8:
            self.emit(depth, draw.choice([f"s.cell.push({self.tensor()})", f"s.cell = Cell({self.tensor()})", "s.cell.bias = s.count", "s.history.append(s.counter())"]))
        elif kind == 9:
            self.emit(depth, draw.choice([f"s.buffer[0] = {self.tensor()}[1]", f"s.buffer[...] = {self.tensor()}", "s.buffer += 0.25", "s.buffer[1:] = 0.5"]))
            self.tensors.append("s.buffer")
        elif kind == 10:
            name = self.name()
            self.emit(depth, f"{name} = float(({self.tensor()}).sum())")
            self.emit(depth, f"s.history.append({name} * 2)")
        elif kind == 11:
            name = self.name()
            self.emit(depth, f"{name} = [each * 2 for each in s.history if isinstance(each, int)][:3]")
            self.emit(depth, f"s.history.append(sum({name}))")
        elif kind == 12:
            self.emit(depth, f"if {self.test()}:")
            self.emit(depth + 1, draw.choice([f"return {self.tensor()}", "raise ValueError('ended')", "return None", "s.count = 0"] + ["break"] * self.in_loop))
        elif kind <= 16:
            self.emit(depth, f"if {self.test()}:")
            self.inner(depth, deepest)
            if draw.random() < 0.6:
                self.emit(depth, "else:")
                self.inner(depth, deepest)
        elif kind <= 18:
            name = self.name()
            self.emit(depth, draw.choice([f"for {name} in range({draw.choice(['n', '2', 's.count % 3'])}):", f"for {name} in [1, k, 2]:", f"for {name}, _ in enumerate(s.items[:2]):"]))
            self.in_loop += 1
            self.numbers.append(name)
            self.inner(depth, deepest)
            self.numbers.remove(name)
            self.in_loop -= 1
        elif kind == 19:
            name = self.name()
            self.emit(depth, f"{name} = 0")
            self.emit(depth, f"while {name} < n and ({self.test()}):")
            self.emit(depth + 1, f"{name} += 1")
            self.in_loop += 1
            self.inner(depth, deepest)
            self.in_loop -= 1
        elif kind == 20:
            self.emit(depth, "try:")
            self.emit(depth + 1, draw.choice([f"s.rate = 1 / ({self.number()})", f"s.state = s.items[{self.number()}]" if draw.random() < 0.5 else "s.table['none']", f"s.state = {self.tensor()}[s.count]"]))
            self.emit(depth, f"except {draw.choice(['(ZeroDivisionError, KeyError, IndexError, TypeError)', 'Exception'])}:")
            self.inner(depth, deepest)
            if draw.random() < 0.4:
                self.emit(depth, "finally:")
                self.emit(depth + 1, "s.count += 1")
        elif kind == 21:
            name = self.name()
            self.emit(depth, f"def {name}(t, by={self.number()}):")
            self.emit(depth + 1, f"s.count += {draw.choice(['1', 'n'])}")
            self.emit(depth + 1, f"return tame(t * by + {self.draw.choice(self.tensors)})")
            self.emit(depth, f"s.state = {name}({self.tensor()})")
        elif kind == 22:
            name = self.name()
            self.emit(depth, f"{name} = ts.grad(lambda t: tnp.sum(t * {self.tensor()}))({self.tensor()} * 1.0)")
            self.emit(depth, f"s.state = tame({name})")
        else:
            self.emit(depth, f"s.pair = ({self.tensor()}, {self.number()})")

    def module(self, name):
        """The program's names, with its source where Python looks for it."""
        names = {"ts": ts, "tnp": tnp, "TENSOR": tensor(99), "__name__": "random_program"}
        linecache.cache[name] = (len(self.text), None, self.text.splitlines(True), name)
        exec(compile(self.text, name, "exec"), names)
        return names


@functools.cache
def _drawn(seed):
    return numpy.random.RandomState(seed).randint(-16, 17, 3) / 4.0


def tensor(seed):
    return tnp.asarray(_drawn(seed).copy())


_TENSOR = type(tensor(0))


class State:
    pass


def state(names):
    s = State()
    s.state, s.buffer, s.cell = tensor(1), tensor(2), names["Cell"](tensor(3))
    s.count, s.rate, s.flag = 0, 1.5, False
    s.history, s.items, s.table = [1, 2.5], [tensor(4), tensor(5)], {"a": 1}
    s.rng, s.counter = tnp.random.Generator(5), names["make_counter"]()
    return s


def described(x, seen=None):
    """A value as texts and numbers that can be compared; objects that are met again by when they were met, tensors with those that they share memory with."""
    seen = {} if seen is None else seen
    if isinstance(x, (int, float, str, bool, type(None))):
        return [type(x).__name__, repr(x)]
    if id(x) in seen:
        return ["again", seen[id(x)]]
    seen[id(x)] = len(seen)
    if isinstance(x, _TENSOR):
        tensors = seen.setdefault("tensors", [])
        shared = [number for number, other in tensors if x.shares_memory(other)]
        tensors.append((seen[id(x)], x))
        return ["tensor", str(x.dtype), x.tolist(), "shares", shared]
    if isinstance(x, (list, tuple)):
        return [type(x).__name__, [described(each, seen) for each in x]]
    if isinstance(x, dict):
        return ["dict", [(key, described(value, seen)) for key, value in x.items()]]
    if callable(x) and not hasattr(x, "drawn"):
        return ["function", [described(cell.cell_contents, seen) for cell in x.__closure__ or ()]]
    return [type(x).__name__, [(key, described(value, seen)) for key, value in vars(x).items()]]


def outcome(function, names, s, arguments):
    try:
        result = function(s, *arguments)
    except Exception as error:
        result = [type(error).__name__, str(error)]
    return described([result, s, names["SCALE"], names["TABLE"], names["TENSOR"]])


def calls(seed):
    """Arguments of the calls: most alike, some not."""
    draw = random.Random(seed)
    for i in range(8):
        usual = draw.random() < 0.7
        yield tensor(i), 2 if usual else draw.randint(0, 3), 1 if usual else draw.choice([2, 0.5, 3])


def compare(seed, convert=ts.function, of_tensors=0.0, aliases=False, rounds=1):
    """Runs a program as it is and converted, its calls `rounds` times; gives the function, or raises where they differ."""
    program = Program(seed, of_tensors, aliases)
    imperative, speculative = program.module(f"<program {seed}>"), program.module(f"<program {seed}>")
    function = convert(speculative["main"])
    ours, theirs = state(speculative), state(imperative)
    both = (pair for _ in range(rounds) for pair in zip(calls(seed), calls(seed)))
    for number, (arguments, others) in enumerate(both):
        expected = outcome(imperative["main"], imperative, theirs, others)
        found = outcome(function, speculative, ours, arguments)
        if expected != found:
            raise AssertionError(f"program {seed}, call {number}: {found}\n instead of {expected}\n{program.text[len(_HEAD):]}\n{function.explain()}")
    return function
