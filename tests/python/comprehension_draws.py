"""Random comprehensions, and an evaluator of them that shares nothing with the compiler's: ranges by trying all values.

    PYTHONPATH=build/dev/python .venv/bin/python tests/python/comprehension_draws.py --count 1000 [--first SEED]

A draw is a sum, extreme or assignment of products and sums of accesses whose indices are affine, with some ranges left to inference. The
evaluator finds an index's range in rounds by trying every value of it between -40 and 80 against every value of those that have one, which
is the definition, and not how it is computed.
"""

import argparse
import itertools
import random

import numpy as np

import tensmith as ts

REDUCTIONS = {"+=!": (0.0, lambda a, b: a + b), "max=!": (-np.inf, max), "min=!": (np.inf, min), "*=!": (1.0, lambda a, b: a * b)}
TRIED = range(-40, 80)


class Access:
    def __init__(self, tensor, indices):
        self.tensor, self.indices = tensor, indices  # each (coefficients by name, constant)

    def text(self):
        return f"{self.tensor}({', '.join(affine_text(*index) for index in self.indices)})"


def affine_text(coefficients, constant):
    parts = [name if factor == 1 else f"{factor} * {name}" for name, factor in coefficients.items()]
    return " + ".join(parts + ([str(constant)] if constant or not parts else [])).replace("+ -", "- ")


class Draw:
    """Tensors with their shapes, accesses, clauses, and the statement's text."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        pick = self.random.choice
        names = ["i", "j", "k"][: self.random.randint(1, 3)]
        self.target = names[: self.random.randint(1, len(names))]
        self.reduced = names[len(self.target) :]
        self.sign = pick(list(REDUCTIONS)) if self.reduced else "="
        self.shapes, self.accesses = {}, []
        for name in names:  # each index stands alone somewhere, or has a clause
            self.add([({name: 1}, 0)])
        for _ in range(self.random.randint(0, 2)):
            self.add([self.index(names) for _ in range(self.random.randint(1, 2))])
        self.clauses = {}
        for name in names:
            if self.random.random() < 0.3:
                low = self.random.randint(0, 2)
                self.clauses[name] = (low, low + self.random.randint(1, 4))
        self.joins = [pick(["+", "*", "-"]) for _ in self.accesses[1:]]

    def index(self, names):
        used = self.random.sample(names, self.random.randint(1, min(2, len(names))))
        return {name: self.random.choice([1, 1, 1, 2, -1]) for name in used}, self.random.randint(0, 3)

    def add(self, indices):
        tensor = f"T{len(self.shapes)}"
        self.shapes[tensor] = [self.random.randint(3, 9) for _ in indices]
        self.accesses.append(Access(tensor, indices))

    def text(self):
        inputs = ", ".join(f"double({', '.join(f'{t}n{d}' for d in range(len(s)))}) {t}" for t, s in self.shapes.items())
        value = self.accesses[0].text()
        for sign, access in zip(self.joins, self.accesses[1:]):
            value = f"({value} {sign} {access.text()})"
        where = ", ".join(f"{name} in {low}:{high}" for name, (low, high) in self.clauses.items())
        body = f"C({', '.join(self.target)}) {self.sign} {value}" + (f" where {where}" if where else "")
        return f"def f({inputs}) -> (C) {{ {body} }}"

    # ---- the evaluator

    def inside(self, access, dim, point):
        coefficients, constant = access.indices[dim]
        return 0 <= constant + sum(f * point[n] for n, f in coefficients.items()) < self.shapes[access.tensor][dim]

    def ranges(self):
        """(low, high) of each index; None where one can't be told, or is empty."""
        found = dict(self.clauses)
        while set(found) != {*self.target, *self.reduced}:
            new = {}
            for access in self.accesses:
                for dim, (coefficients, _) in enumerate(access.indices):
                    open_ = [name for name in coefficients if name not in found]
                    if len(open_) != 1:
                        continue
                    others = [[(n, v) for v in range(*found[n])] for n in coefficients if n != open_[0]]
                    good = {v for v in TRIED
                            if all(self.inside(access, dim, {**dict(rest), open_[0]: v}) for rest in itertools.product(*others))}  # fmt: skip
                    new[open_[0]] = new[open_[0]] & good if open_[0] in new else good
            if not new:
                return None
            for name, values in new.items():
                if not values:
                    return None
                assert sorted(values) == list(range(min(values), max(values) + 1))
                found[name] = (min(values), max(values) + 1)
        return found

    def evaluate(self, tensors):
        """The result, or the word for why there is none."""
        ranges = self.ranges()
        if ranges is None:
            return "empty"
        start, combine = REDUCTIONS.get(self.sign, (0.0, None))
        shape = [ranges[name][1] - ranges[name][0] for name in self.target]
        result = np.full(shape, start)
        names = self.target + self.reduced
        for values in itertools.product(*(range(*ranges[name]) for name in names)):
            point = dict(zip(names, values))
            value = None
            for sign, access in zip(["", *self.joins], self.accesses):
                if not all(self.inside(access, dim, point) for dim in range(len(access.indices))):
                    return "outside"
                element = tensors[access.tensor][tuple(c + sum(f * point[n] for n, f in co.items()) for co, c in access.indices)]
                value = element if value is None else {"+": value + element, "-": value - element, "*": value * element}[sign]
            place = tuple(point[name] - ranges[name][0] for name in self.target)
            result[place] = combine(result[place], value) if combine else value
        return result


def compare(seed):
    draw = Draw(seed)
    tensors = {name: np.random.default_rng(seed).uniform(-2, 2, shape) for name, shape in draw.shapes.items()}
    expected, text = draw.evaluate(tensors), draw.text()
    try:
        found = np.asarray(ts.comprehension(text).f(**tensors))
    except ts.Error as error:
        assert isinstance(expected, str), f"{text}\nrefused: {error}\nexpected {expected}"
        return "refused"
    if isinstance(expected, str) and expected == "empty":  # where a range ends where it begins there is a result, of no elements or of sums of none
        return "empty"
    assert not isinstance(expected, str), f"{text}\ngave {found} where an access is {expected}"
    assert found.shape == expected.shape, f"{text}\n{found.shape}, not {expected.shape}"
    assert np.allclose(found, expected, rtol=1e-9, atol=1e-12), f"{text}\n{found}\n{expected}"
    return "equal"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    options = parser.parse_args()
    outcomes = [compare(seed) for seed in range(options.first, options.first + options.count)]
    print({outcome: outcomes.count(outcome) for outcome in set(outcomes)})
