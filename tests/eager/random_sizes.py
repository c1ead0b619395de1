"""Random programs of tensors whose first size differs from call to call: what they give, write and raise, as they are and converted.

    tests/eager/random_sizes.py [FIRST [COUNT]]      # 200 programs unless given; evaluated, without kernels, where TENSMITH_EAGER_KERNELS=off
"""

import linecache
import os
import pathlib
import random
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, os.environ.get("TENSMITH_BUILD", str(ROOT / "build/dev")) + "/python")

import numpy  # noqa: E402

import tensmith as ts  # noqa: E402
import tensmith.numpy as tnp  # noqa: E402

# Of a: tensors of n rows of three; v: of n numbers; f: of three; c: small numbers of Python.
_EXPRESSIONS = {
    "a": ["{a} + {a}", "{a} * {c}", "tnp.tanh({a})", "{a} @ s.w", "{a} - tnp.mean({a}, axis=0)", "{a} * {v}[:, None]", "tnp.where({a} > 0, {a}, {a} * 0.5)", "tnp.flip({a}, axis=0)",
          "tnp.concat([{a}[1:], {a}[:1]])", "tnp.zeros(({a}.shape[0], 3), dtype=tnp.float32) + {a}", "tnp.cumulative_sum({a}, axis=0)", "{a} / len({a})", "{a} * {a}.size / 30",
          "tnp.reshape(tnp.reshape({a}, (-1,)), (len({a}), 3))", "tnp.take({a}, tnp.arange(len({a})), axis=0)", "{a} + {f}", "({a}.T * {v}).T", "{a} - tnp.roll({a}, 1, axis=0)",
          "tnp.concat([{a}, {a}])[:len({a})]", "tnp.concat([{a}, {a}])[1 : len({a}) + 1]", "{a} + tnp.full((3,), len({a}) % 2, dtype=tnp.float32)",
          "tnp.roll({a}, len({a}) % {k}, axis=0)"],
    "v": ["tnp.sum({a}, axis=1)", "{a}[:, {i}]", "{v} * {v}", "tnp.arange({a}.shape[0], dtype=tnp.float32)", "tnp.maximum({v}, {c})", "nn.functional.softmax({v}, 0)", "{a} @ {f}",
          "tnp.linspace(0.0, 1.0, len({v}), dtype=tnp.float32) + {v}", "tnp.ones({v}.shape, dtype=tnp.float32) * {c}", "tnp.astype(tnp.argmax({a}, axis=1), tnp.float32)"],
    "f": ["tnp.sum({a}, axis=0)", "{a}[-1] * 1.0", "{a}[{i}] * 1.0", "tnp.max({a}, axis=0)", "{v} @ {a}", "tnp.mean({a}[:{k}], axis=0)", "tnp.std({a}, axis=0)", "{f} * {c}", "tnp.sin({f})",
          "{f} + len({a})", "tnp.sum({a}[-{k}:], axis=0)", "{a}[{a}.shape[0] - 1] + 0.0", "tnp.sum({a}[::2], axis=0)", "{f} * float({f}[0])",
          "tnp.full((3,), min(len({a}), {k}), dtype=tnp.float32) + {f}", "tnp.sum({a}[{i}:-{k}], axis=0)", "tnp.sum({a}[-{k}:{k}], axis=0)", "tnp.sum({a}[{k}::-1], axis=0)",
          "tnp.mean(tnp.concat([{a}, tnp.zeros((-len({a}) % {k}, 3), dtype=tnp.float32)]), axis=0)", "tnp.sum({a}[: len({a}) // 2 + 1], axis=0)", "tnp.sum({a}[1:] - {a}[:-1], axis=0)"],
}  # fmt: skip
_STATEMENTS = ["s.count += len({a})", "{a}[0] = {f}", "{a}[:, {i}] = {v}", "{f} += 1", "s.kept = {f} * 1.0", "s.list.append(len({v}))", "s.w[...] = s.w * 0.9"]
_BLOCKS = ["if {a}.shape[0] > {k}:", "if len({v}) % 2:", "if tnp.sum({f}) > {c}:", "if float(tnp.mean({v})) > {c}:", "for row in {a}:", "for i in range(len({a})):", "for i in range({k}):",
           "if {a}.shape == (4, 3):", "with ts.record():"]  # fmt: skip


class State:
    pass


class Program:
    """names: of each kind what there is."""

    def __init__(self, seed):
        self.draw, self.seed = random.Random(seed), seed
        self.names = {"a": ["x", "y"], "v": ["z"], "f": ["g"]}
        self.lines = ["def main(s, x, y, z):", "    g = s.g * 1.0", "    y = y + 0.0"]
        for _ in range(self.draw.randint(3, 8)):
            self.statement("    ", 0)
        self.lines.append("    return " + ", ".join(self.draw.choice(self.names[kind]) + " * 1.0" for kind in "avf") + f", {self.filled('len({a})')}")
        self.text = "\n".join(self.lines) + "\n"

    def filled(self, text):
        draw = self.draw
        while "{" in text:
            at = text.index("{")
            kind = text[at + 1]
            word = draw.choice(self.names[kind]) if kind in self.names else str({"c": draw.choice([0.5, -0.25, 1.5]), "i": draw.randrange(3), "k": draw.randint(1, 6)}[kind])
            text = text[:at] + word + text[at + 3 :]
        return text

    def statement(self, indent, depth):
        draw, kind = self.draw, self.draw.random()
        if kind < 0.25 and depth < 2:
            block = draw.choice(_BLOCKS)
            self.lines.append(indent + self.filled(block))
            if block.startswith("for"):
                name, row = draw.choice(self.names["f"]), "row" if "row" in block else "1.0"
                self.lines.append(f"{indent}    {name} = tnp.tanh({name} * 0.5 + {row})")
            else:
                kept = {kind: list(names) for kind, names in self.names.items()}
                self.assignment(indent + "    ", False)
                self.names = kept
            return
        if kind < 0.4:
            self.lines.append(indent + self.filled(draw.choice(_STATEMENTS)))
        else:
            self.assignment(indent, True)

    def assignment(self, indent, may_be_new):
        kind = self.draw.choice("avf")
        value = self.filled(self.draw.choice(_EXPRESSIONS[kind]))
        name = f"{kind}{len(self.names[kind])}" if may_be_new and self.draw.random() < 0.6 else self.draw.choice(self.names[kind])
        self.lines.append(f"{indent}{name} = {value}")
        if name not in self.names[kind]:
            self.names[kind].append(name)

    def function(self):
        name = f"<sizes {self.seed}>"
        linecache.cache[name] = (len(self.text), None, self.text.splitlines(True), name)
        world = {"tnp": tnp, "ts": ts, "nn": ts.nn}
        exec(compile(self.text, name, "exec"), world)
        return world["main"]


def tensor(draw, *shape):
    return tnp.asarray(draw.randn(*shape).astype("float32"))


def state(seed):
    draw, s = numpy.random.RandomState(seed), State()
    s.w, s.g, s.kept, s.count, s.list = tensor(draw, 3, 3), tensor(draw, 3), None, 0, []
    return s


def told(x):
    if isinstance(x, (tuple, list)):
        return [told(each) for each in x]
    return x.numpy().tolist() if hasattr(x, "numpy") else x


def outcome(function, s, arguments):
    try:
        result = told(function(s, *arguments))
    except (IndexError, ValueError) as error:
        result = f"{type(error).__name__}: {error}"
    return [result, told(arguments), told([s.w, s.g, s.kept, s.list]), s.count]


def are_close(a, b):
    if isinstance(a, list):
        return isinstance(b, list) and len(a) == len(b) and all(map(are_close, a, b))
    return bool(numpy.isclose(a, b, 1e-3, 1e-3, equal_nan=True)) if isinstance(a, float) and isinstance(b, float) else type(a) is type(b) and a == b


def compare(seed, calls=14):
    """The converted function. AssertionError where a call differs from the program's."""
    program = Program(seed)
    main = program.function()
    function, ours, theirs = ts.function(main), state(seed), state(seed)
    draw = random.Random(seed)
    for number in range(calls):
        n = draw.choice([1, 2, 3, 4, 5, 6, 7, 9, 12])
        given = [[tensor(d, n, 3), tensor(d, n, 3), tensor(d, n)] for d in (numpy.random.RandomState(seed + number) for _ in range(2))]
        found, expected = outcome(function, ours, given[0]), outcome(main, theirs, given[1])
        if not are_close(found, expected):
            raise AssertionError(f"program {seed}, call {number} of {n} rows: {found}, not {expected}\n{program.text}\n{function.explain()[-3000:]}")
    return function


def main():
    first, count = int((sys.argv + ["0"])[1]) if len(sys.argv) > 1 else 0, int(sys.argv[2]) if len(sys.argv) > 2 else 200
    differ, counts = [], {}
    for seed in range(first, first + count):
        try:
            function = compare(seed)
        except AssertionError as error:
            differ.append(seed)
            print(error, flush=True)
            continue
        for key, value in function.statistics().items():
            counts[key] = counts.get(key, 0) + value
        counts["open"] = counts.get("open", 0) + any("any size" in str(each) for entry in function._entries for each in entry.assumptions)
    print(f"{count} programs, {len(differ)} differ: {differ}; {counts}")
    sys.exit(bool(differ))


if __name__ == "__main__":
    main()
