"""Branches and loops whose course depends on tensors' elements, as branches and loops of the graph.

A branch: both sides are executed, each in a region (regions.py), and what a place has afterwards is the one or the other by the condition.
A loop: its body is executed to find the places that it writes; then once more, with values in these that stand for those of any iteration. Loops
go while a condition holds, or as often as a range is long.

`if c: return a` and the like take what follows, to the end of the function or of the loop's body, into both sides.

Where both sides give tensors, of one type and shape, or numbers of one type, or tuples of these, the graph has one value for both. A name whose
values can't be told apart so has none afterwards; to read it ends the conversion. Identity is kept: where a side gives a tensor that was there before,
it can't be written in place any more, and code at the end says whether it is that one (Choice).

Source: Jeong et al., JANUS, NSDI 2019: dynamic control flow is converted where profiles show that it is not stable.
"""

import ast

from .. import _eager
from .. import numpy as tnp
from ..numpy.dtypes import Tensor
from ..recorded.operators import run, sources, tell
from ..recorded.texts import encoded
from . import ingraph
from .recording import CONSTANTS
from .regions import MISSING, UNCLEAR, Choice, Region
from .scalars import NotConvertible, Traced, is_number, plain

_MOST_PROBES = 6


class Unmergeable(Exception):
    pass


class End(BaseException):
    """Of a loop's body, in a branch: whether the loop breaks off."""

    def __init__(self, breaks):
        self.breaks = breaks


def leaves(node):
    """Whether a branch's sides may end more than themselves: by return, break or continue."""
    pending = [(each, False) for each in [*node.body, *node.orelse]]
    while pending:
        each, in_loop = pending.pop()
        if isinstance(each, ast.Return) or isinstance(each, (ast.Break, ast.Continue)) and not in_loop:
            return True
        if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)):
            continue
        is_loop = isinstance(each, (ast.For, ast.While))
        pending += [(child, in_loop or is_loop) for child in ast.iter_child_nodes(each) if isinstance(child, (ast.stmt, ast.ExceptHandler, ast.match_case))]
    return False


class Pairs(list):
    """What both sides give for each result of a branch. lists: ids of two new lists, one of each side -> what makes the one that they become."""

    def __init__(self):
        super().__init__()
        self.lists = {}

    def cut(self, count, lists):
        del self[count:]
        self.lists = lists


class Control:
    def __init__(self, recording):
        self.recording = recording

    # ---- values of two sides

    def _paired(self, x, y, regions, pairs):
        """Collects the tensors and numbers in which both differ; gives what makes a value of the graph's results."""
        if x is y:
            return lambda results: x
        if MISSING in (x, y) or UNCLEAR in (x, y):
            raise Unmergeable
        if isinstance(x, Tensor) and isinstance(y, Tensor):
            if x.shape != y.shape or x.dtype != y.dtype:
                raise Unmergeable
            return self._slot(x, y, pairs, regions)
        if is_number(x) and is_number(y):
            if type(plain(x)) is not type(plain(y)):
                raise Unmergeable
            if not isinstance(x, Traced) and not isinstance(y, Traced) and repr(x) == repr(y):
                return lambda results: x
            return self._slot(x, y, pairs)
        if self._are_new_lists(x, y, regions):
            return self._list(x, y, regions, pairs)
        if isinstance(x, tuple) and type(x) is type(y) and tuple.__len__(x) == tuple.__len__(y):
            parts = [self._paired(a, b, regions, pairs) for a, b in zip(tuple.__iter__(x), tuple.__iter__(y))]
            return lambda results: tuple.__new__(type(x), [part(results) for part in parts])
        if type(x) in CONSTANTS and type(x) is type(y) and x == y:
            return lambda results: x
        raise Unmergeable

    def _slot(self, x, y, pairs, regions=()):
        """The same two tensors are one result. Where one side alone has one tensor in two places, the second has none."""
        place = next((i for i, (a, b) in enumerate(pairs) if a is x and b is y), None)
        if place is None:
            for side, region in enumerate(regions):
                each = (x, y)[side]
                if region.is_made_within(each) and any(isinstance(pair[side], Tensor) and each.shares_memory(pair[side]) for pair in pairs):
                    raise Unmergeable
            place = len(pairs)
            pairs.append((x, y))
        return lambda results: results[place]

    def _list(self, x, y, regions, pairs):
        key = (id(x), id(y))
        if key not in pairs.lists:
            if any(id(x) == first or id(y) == second for first, second in pairs.lists):
                raise Unmergeable
            made = []
            pairs.lists[key] = lambda results: made[0]
            parts = [self._paired(a, b, regions, pairs) for a, b in zip(x, y)]

            def list_of(results):
                if not made:
                    made.append(self._new([]))
                    made[0].extend(part(results) for part in parts)
                return made[0]

            pairs.lists[key] = list_of
        return pairs.lists[key]

    def _are_new_lists(self, x, y, regions):
        return type(x) is list and type(y) is list and len(x) == len(y) and all(id(each) in region.made for each, region in zip((x, y), regions))

    def _new(self, x):
        self.recording.make(x)
        return x

    # ---- branches

    def fork(self, condition, sides, site):
        """What the side gives that the condition (a number of the graph) takes; each is a function of nothing. Their writes are one write."""
        regions, given = [], []
        for side, taken in zip(sides, (True, False)):
            region = Region(self.recording, site, bool(condition.value) == taken)
            with region:
                given.append(side())
            regions.append(region)
        keys = list(dict.fromkeys([*regions[0].places, *regions[1].places]))
        pairs, merged = Pairs(), []
        try:
            result = self._paired(*given, regions, pairs)
        except Unmergeable:
            raise NotConvertible("the sides of a branch of the graph give values of different kinds") from None
        for key in sorted(keys, key=lambda key: self._either(regions, key).is_name):  # names may have no value
            merged.append((self._either(regions, key), self._merged_place(regions, key, pairs)))
        results = self._branch(condition, regions, pairs) if pairs else []
        for place, value in merged:
            place.set(value(results))
        return result(results)

    def _either(self, regions, key):
        return regions[0].places.get(key) or regions[1].places[key]

    def _merged_place(self, regions, key, pairs):
        here, before, lists = self._either(regions, key), len(pairs), dict(pairs.lists)
        ends = [region.places[key].after if key in region.places else here.before for region in regions]
        try:
            return self._contents(*ends, regions, pairs) if here.is_content else self._paired(*ends, regions, pairs)
        except Unmergeable:
            pairs.cut(before, lists)
            if here.is_name:
                return lambda results: UNCLEAR
            raise NotConvertible("the sides of a branch of the graph leave values of different kinds") from None

    def _contents(self, x, y, regions, pairs):
        """Of a list or dict that both have."""
        if isinstance(x, list):
            if len(x) != len(y):
                raise Unmergeable
            parts = [self._paired(a, b, regions, pairs) for a, b in zip(x, y)]
            return lambda results: [part(results) for part in parts]
        if list(x) != list(y):
            raise Unmergeable
        parts = {key: self._paired(x[key], y[key], regions, pairs) for key in x}
        return lambda results: {key: part(results) for key, part in parts.items()}

    def _branch(self, condition, regions, pairs):
        r = self.recording
        texts, operands, places = [], [r.in_graph(condition)], []
        for side, region in enumerate(regions):
            with region.resumed():
                numbers = [region.tape.read(r.tensor_of(pair[side])) for pair in pairs]
            text, inputs, _ = region.tape.program(numbers)
            _check_is_plain(text)
            texts.append(text)
            places.append([len(operands) - 1 + i for i in range(len(inputs))])
            operands += inputs
        attributes = {"then": encoded(texts[0]), "otherwise": encoded(texts[1]), "then_sources": places[0], "otherwise_sources": places[1]}
        taken = [pair[0 if condition.value else 1] for pair in pairs]
        tensors = r.quietly(lambda: [_eager.copy(x) if isinstance(x, Tensor) else tnp.asarray(plain(x), dtype=ingraph.DTYPES[type(plain(x))]) for x in taken])
        tell("branch", attributes, operands, tensors)
        results = []
        for pair, value, tensor in zip(pairs, taken, tensors):
            results.append(tensor if isinstance(value, Tensor) else r.number_of(tensor, plain(value)))
            if isinstance(value, Tensor):
                first, second = (None if region.is_made_within(x) else x for x, region in zip(pair, regions))
                if first is not None or second is not None:
                    r.choose(Choice(tensor, condition, first, second))
        return results

    # ---- loops

    def loop(self, site, first, iterate, trips=None):
        """Iterations while they give True, `trips` of them at most (a number or None), none where `first` (a number or True) does not hold.

        `iterate(turn)` does one and gives whether to go on; `turn`: its number.
        """
        carried = {}
        for _ in range(_MOST_PROBES):
            turn = Region(self.recording, site, bool(plain(first)) and (trips is None or plain(trips) > 0))
            with turn:
                placeholders = self._placeholders(turn, carried)
                goes_on = iterate(placeholders[0])
            new = {key: place for key, place in turn.places.items() if key not in carried and self._is_changed(place)}
            if not new and not (new := self._aliases(turn, carried)):
                break
            carried |= {key: self._carried(place) if place else (turn.places[key], None, []) for key, place in new.items()}
        else:
            raise NotConvertible("what a loop carries is not found out")
        self._run_loop(turn, carried, placeholders, first, goes_on, trips)

    def _aliases(self, region, carried):
        """Names that an iteration gives the tensor, or a view of it, that another place has, too: they have no value afterwards."""
        seen, found = [], {}
        for key, (place, form, _) in sorted(carried.items(), key=lambda item: item[1][0].is_name):
            if form is None:
                continue
            try:
                tensors = [x for x in self._paired_forms(form, region.places[key].after) if isinstance(x, Tensor) and region.is_made_within(x)]
            except Unmergeable:
                continue  # which ends the conversion
            if any(x.shares_memory(each) for i, x in enumerate(tensors) for each in (*seen, *tensors[:i])):
                if not place.is_name:
                    raise NotConvertible("an iteration of a loop of the graph leaves one tensor in two places")
                found[key] = None
            else:
                seen += tensors
        return found

    def _is_changed(self, place):
        before, after = place.before, place.after
        if place.is_content:
            if isinstance(after, dict):
                if list(before) != list(after):
                    return True
                before, after = list(before.values()), list(after.values())
            return len(before) != len(after) or any(a is not b for a, b in zip(before, after))
        return after is not before

    def _carried(self, place):
        """The place, with the tensors and numbers of the value that it has before the loop; None where it is a name that each iteration sets."""
        values = []
        try:
            form = self._form(place.before, values, is_content=place.is_content)
            self._paired_forms(form, place.after)
        except Unmergeable:
            if not place.is_name:
                raise NotConvertible("a loop of the graph changes the kind of what it carries, or the length of a list") from None
            return place, None, []
        return place, form, values

    def _form(self, x, values, is_content=False):
        """A function that rebuilds x of other tensors and numbers."""
        if isinstance(x, Tensor) or is_number(x):
            values.append(x)
            return ("leaf", x)
        if isinstance(x, tuple) or is_content and isinstance(x, list):
            return ("parts", type(x), [self._form(each, values) for each in x])
        if is_content and isinstance(x, dict):
            return ("dict", list(x), [self._form(each, values) for each in x.values()])
        if x is MISSING or x is UNCLEAR:
            raise Unmergeable
        return ("same", x)

    def _paired_forms(self, form, x):
        """The tensors and numbers of x, where it is of the form."""
        if form[0] == "leaf":
            like = form[1]
            if isinstance(like, Tensor):
                fits = isinstance(x, Tensor) and x.shape == like.shape and x.dtype == like.dtype
            else:
                fits = is_number(x) and type(plain(x)) is type(plain(like))
            if not fits:
                raise Unmergeable
            return [x]
        if form[0] == "same":
            if x is not form[1]:
                raise Unmergeable
            return []
        kind = list if form[0] == "parts" and form[1] is list else dict if form[0] == "dict" else form[1]
        if type(x) is not kind or len(x) != len(form[2]) or form[0] == "dict" and list(x) != form[1]:
            raise Unmergeable
        parts = x.values() if form[0] == "dict" else x
        return [leaf for part, each in zip(form[2], parts) for leaf in self._paired_forms(part, each)]

    def _rebuilt(self, form, values):
        if form[0] == "leaf":
            return next(values)
        if form[0] == "same":
            return form[1]
        parts = [self._rebuilt(each, values) for each in form[2]]
        if form[0] == "dict":
            return dict(zip(form[1], parts))
        return form[1](*parts) if hasattr(form[1], "_fields") else form[1](parts)

    def _placeholders(self, region, carried):
        """The turn's number, and tensors for all that is carried, which are written to their places."""
        r = self.recording
        turn = r.quietly(lambda: tnp.asarray(0, dtype=tnp.int64))
        region.tape.watch(turn, True)
        tensors = []
        for place, form, values in carried.values():
            if form is None:
                place.set(UNCLEAR)
                continue
            given = []
            for x in values:
                tensor = r.quietly(lambda x=x: _eager.copy(x) if isinstance(x, Tensor) else tnp.asarray(plain(x), dtype=ingraph.DTYPES[type(plain(x))]))
                region.tape.watch(tensor, True)
                tensors.append(tensor)
                if isinstance(x, Tensor):
                    r.choose(Choice(tensor, None, x))
                given.append(tensor if isinstance(x, Tensor) else Traced(plain(x), None, 1, tensor, region, r.differentiating()))
            place.set(self._rebuilt(form, iter(given)))
        return Traced(0, None, 1, turn, region), tensors

    def _run_loop(self, region, carried, placeholders, first, goes_on, trips):
        r = self.recording
        turn, tensors = placeholders
        befores, afters = [], []
        for key, (place, form, values) in carried.items():
            if form is None:
                continue
            try:
                found = self._paired_forms(form, region.places[key].after)
            except Unmergeable:
                raise NotConvertible("a loop of the graph changes the kind of what it carries") from None
            befores += values
            afters += found
        stops = isinstance(goes_on, Traced)
        if not stops and not goes_on:
            raise NotConvertible("a loop of the graph ends after one iteration")
        if not stops and trips is None:
            raise NotConvertible("a loop has no end")
        with region.resumed():
            ends = [r.tensor_of(goes_on), *map(r.tensor_of, afters)]
            numbers = [region.tape.read(x) for x in ends]
        text, inputs, _ = region.tape.program(numbers)
        _check_is_plain(text)
        places, others = sources(inputs, [turn.tensor, *tensors])
        attributes = {"body": encoded(text), "carried": len(befores), "stops": int(stops), "sources": places}
        operands = [self._where_assumed(r.tensor_of(first)), None if trips is None else r.tensor_of(trips), *map(r.tensor_of, befores), *others]
        results = self._results(attributes, operands, [(x.dtype, list(x.shape)) for x in ends[1:]]) if befores else []
        self._loop_ends(region, carried, befores, afters, results, first, trips)

    def _where_assumed(self, first):
        for tensor, value in [] if self.recording.regions else self.recording.pinned:
            first = tnp.logical_and(first, tensor if value else tnp.logical_not(tensor))
        return first

    def _results(self, attributes, operands, types):
        """Where the recorded call does not come, a loop might have no end."""
        r = self.recording
        if all(region.is_real for region in r.regions):
            return run("while", attributes, operands, types)
        results = r.quietly(lambda: [_eager.copy(x) for x in operands[2 : 2 + len(types)]])
        tell("while", attributes, operands, results)
        return results

    def _loop_ends(self, region, carried, befores, afters, results, first, trips):
        r = self.recording
        ends = []
        for before, after, result in zip(befores, afters, results):
            if not isinstance(before, Tensor):
                ends.append(r.number_of(result, r.quietly(lambda result=result: result.item())))
                continue
            ends.append(result)
            if not region.is_made_within(after):
                r.choose(Choice(result, None, before, after))
            elif first is not True:
                r.choose(Choice(result, first, None, before))
            elif isinstance(trips, Traced):
                some = Traced(plain(trips) > 0, lambda: f"({trips.code} > 0)", 1)
                r.choose(Choice(result, some, None, before))
        ends = iter(ends)
        for place, form, _ in carried.values():
            place.set(UNCLEAR if form is None else self._rebuilt(form, ends))


def _check_is_plain(text):
    if any(line.startswith("derivative|") for line in text.splitlines()):
        raise NotConvertible("derivatives are taken in a branch or a loop of the graph")
