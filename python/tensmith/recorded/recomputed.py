"""Derivatives through parts of a tape that are computed again (`ts.checkpoint`).

A part's results are inputs of the graph: what they were when the tape recorded. So the graph has no forward pass through the part but the one that its own derivative needs, which comes where the
derivative does. Derivatives go from part to part: of what is behind the last one by its results, of that part by its operands, and so on.
"""


class Part:
    """results and operands: values of the graph; compute: gives the results anew, from other values in the operands' places."""

    def __init__(self, results, operands, compute):
        self.results, self.operands, self._compute = results, operands, compute

    def again(self, g):
        """Other values in the operands' places, the results of these, and the parts within. A derivative that is differentiated has these parts, too: so they are parts of the graph
        from now on.
        """
        count, operands = len(g.parts), [identity(g, x) for x in self.operands]
        results = self._compute(operands)
        return operands, results, g.parts[count:]


def note(g, step, values, first):
    """What the step's results, the values from the first on, are made of. A part's results are made of nothing but themselves, and derivatives have told of what else they took."""
    found = frozenset()
    if step.name != "checkpoint":
        found = found.union(*(g.sources.get(values[number].number, ()) for number in step.operands if number >= 0))
    for x in values[first:]:
        own = {x.number} if step.name == "checkpoint" else g.sources.get(x.number, ())
        g.sources[x.number] = found.union(own)


def identity(g, x):
    """Another value than x, which derivatives may be by."""
    return g.op("reshape", [x], (x.dtype, x.shape))


def _sum(g, a, b):
    return b if a is None else g.op("add", [a, b])


def _gradients(g, of, by, change):
    """By each value the gradient; `change`: the cotangent, None for 1."""
    if not by:
        return []
    return [g.value(number) for number in g.builder.differentiate(False, [of.number], [x.number for x in by], [change and change.number])]


class _Gradients:
    """Sums of gradients, by the numbers of the values that they are by."""

    def __init__(self, g, wanted):
        self.g, self.wanted, self.sums = g, wanted, {}
        self.used = set()  # results of parts that the gradients are made of

    def add(self, of, change, parts):
        """What a value's cotangent is to the wanted values, and to results of the parts that it is made of: to others it is nothing, which is not passed on, since they may have
        derivatives that are infinite.
        """
        sources = self.g.sources.get(of.number, ())
        by = {x.number: x for x in [*self.wanted, *(x for part in parts for x in part.results if x.is_float and x.number in sources)]}
        self.used.update(sources)
        if of.number in by:
            self._note(of, change)
        elif of.number not in self.g.inputs:
            for x, gradient in zip(by.values(), _gradients(self.g, of, list(by.values()), change)):
                self._note(x, gradient)

    def _note(self, x, change):
        self.sums[x.number] = _sum(self.g, self.sums.get(x.number), change)

    def of(self, x):
        return self.sums.get(x.number)


def gradients(g, of, wanted, change, parts):
    """Of a value by those that are wanted, which are distinct; `change`: its cotangent, None for 1. parts: those that may lie between, in order."""
    if not parts:
        return _gradients(g, of, wanted, change)
    found = _Gradients(g, wanted)
    found.used.update(g.sources.get(change.number, ()) if change else ())
    found.add(of, change or g.scalar(1, of.dtype), parts)
    for place in reversed(range(len(parts))):
        changes = [found.of(x) for x in parts[place].results]
        if not any(changes):
            continue
        operands, results, within = parts[place].again(g)
        by = [x for x in operands if x.is_float]
        totals = [None] * len(by)
        for result, each in zip(results, changes):
            if each is not None:
                slopes = gradients(g, result, by, each, within)
                totals = [_sum(g, total, more) for total, more in zip(totals, slopes)]
                found.used.update(*(g.sources.get(x.number, ()) for x in [*slopes, *parts[place].operands]))
        for x, total in zip([x for x in parts[place].operands if x.is_float], totals):
            if total is not None:
                found.add(x, total, parts[:place])
    results = [found.of(x) or g.broadcast(g.scalar(0, x.dtype), x.shape) for x in wanted]
    g.sources.update((x.number, frozenset(found.used)) for x in results)
    return results


def tangents(g, of, by, changes, parts):
    """Of values along changes of others."""
    by, changes = list(by), list(changes)
    for part in parts:
        operands, results, within = part.again(g)
        floats = [i for i, x in enumerate(operands) if x.is_float]
        moved = _tangents(g, [part.operands[i] for i in floats], by, changes)
        pairs = [(x, result) for x, result in zip(part.results, results) if x.is_float]
        changes += tangents(g, [result for _, result in pairs], [operands[i] for i in floats], moved, within)
        by += [x for x, _ in pairs]
    return _tangents(g, of, by, changes)


def _tangents(g, of, by, changes):
    if not of:
        return []
    return [g.value(number) for number in g.builder.differentiate(True, [x.number for x in of], [x.number for x in by], [x.number for x in changes])]
