"""The end of a recorded call: its result and all that it has changed, as code over the residual's names and the graph's outputs."""

import contextlib
import types

from .. import _eager
from ..numpy.dtypes import Tensor
from ..numpy.dtypes import bool as truth_type
from ..recorded import program_of
from .objects import TABLES
from .recording import CONSTANTS, IDENTITIES, is_member, is_plain_class
from .regions import MISSING, UNCLEAR
from .residual import Assumption
from .scalars import NotConvertible, Traced


class Effects:
    def __init__(self, recording):
        self.recording, self.residual = recording, recording.residual
        self._made = {}  # id of an object that the call has made -> (object, code)
        self._results = []
        self._updates = []  # (value of the tape, entry): the run may write the entry's tensor over

    # ---- values at the end

    def code_of(self, x):
        """The code that gives a value of the call's end."""
        if isinstance(x, Traced):
            return x.code
        if x is UNCLEAR:
            raise NotConvertible("what outlives the call depends on a branch or a loop of the graph")
        if id(x) in self.recording.choices:
            return self._choice(self.recording.choices[id(x)])
        if known := self.recording.known(x):
            self.recording.is_of_case(known[1])
            return known[1]
        if isinstance(x, Tensor):
            return self._tensor(x)
        if isinstance(x, CONSTANTS) or isinstance(x, IDENTITIES) or is_member(x):
            return self.residual.constant(x)
        if id(x) in self._made:
            if self._made[id(x)][1] is None:
                raise NotConvertible("an object that the call has made is part of itself")
            return self._made[id(x)][1]
        self._made[id(x)] = (x, None)
        code = self.residual.let(self._construction(x), 1, "n")
        self._made[id(x)] = (x, code)
        return code

    def _construction(self, x):
        kind = self.residual.constant(type(x))
        if type(x) is list:
            return "[" + ", ".join(map(self.code_of, x)) + "]"
        if isinstance(x, tuple):
            parts = "".join(self.code_of(each) + ", " for each in tuple.__iter__(x))
            return f"({parts})" if type(x) is tuple else f"{self.residual.constant(tuple.__new__)}({kind}, ({parts}))"
        if type(x) is dict:
            return "{" + ", ".join(f"{self.code_of(key)}: {self.code_of(value)}" for key, value in x.items()) + "}"
        if type(x) is types.MethodType:
            return f"{kind}({self.code_of(x.__func__)}, {self.code_of(x.__self__)})"
        if type(x) in (set, frozenset) and all(isinstance(each, CONSTANTS) for each in x):
            return f"{kind}({self.residual.constant(tuple(x))})"
        if is_plain_class(type(x)):
            parts = ", ".join(f"{name!r}: {self.code_of(value)}" for name, value in vars(x).items())
            return f"{self.residual.constant(_instance)}({kind}, {{{parts}}})"
        raise NotConvertible(f"a {type(x).__qualname__} that the call has made outlives it")

    def _choice(self, choice):
        """A tensor of the graph, or one that was there before it was chosen."""
        if id(choice.result) not in self._made:
            code, others = self._tensor(choice.result), [choice.first, choice.second]
            if choice.condition is not None:
                ways = [code if each is None else self.code_of(each) for each in others]
                code = self.residual.let(f"{ways[0]} if {choice.condition.code} else {ways[1]}", 1, "n")
            self._made[id(choice.result)] = (choice.result, code)
        return self._made[id(choice.result)][1]

    def _tensor(self, x):
        recording = self.recording
        recording.check_known(x)
        if x.requires_grad:
            raise NotConvertible("a tensor that asks for gradients is made in the call")
        history = _eager.history(x)
        if history is not None and history is not recording.tape and history.leaves():
            raise NotConvertible("what was recorded in the call is differentiated after it")
        for entry in recording.inputs:
            if x.shares_memory(entry.copy):
                raise NotConvertible(f"a view of {entry.what} outlives the call")
        for other, code in self._results:
            if x is other:
                return code
            if x.shares_memory(other):
                raise NotConvertible("two tensors that outlive the call share memory")
        if recording.tape.is_active(x):
            code = f"outs[{recording.output(x)}]"
            is_copied = any(code == other for _, other in self._results)  # another tensor of the same value
        else:
            code, is_copied = self.residual.constant(recording.quietly(lambda: _eager.copy(x))), True
        if is_copied:
            code = f"{self.residual.constant(_eager.copy)}({code})"
        code = self.residual.let(code, 1, "n", may_raise=is_copied)
        self._results.append((x, code))
        return code

    def _check_chosen(self):
        """What outlives the call, and may be a view of another tensor or that itself, is told from all that there is beside."""
        for x, _ in self._results:
            for choice in self.recording.choices.values():
                if not x.shares_memory(choice.result) or x is choice.result and choice.condition is not None:
                    continue
                found = self._origins(choice)
                others = [each.copy for each in self.recording.inputs] + [each for each, _ in self._results if each is not x]
                if found is None or any(each.shares_memory(other) for each in found for other in others):
                    refusal = NotConvertible("a tensor outlives the call that may be one that was there, or a view of it")
                    refusal.site = choice.site
                    raise refusal

    def _origins(self, choice):
        """The tensors that it may be; None where they are unknown."""
        if isinstance(choice.first, list):
            return None
        pending, found = list(choice.tensors), []
        while pending:
            x = pending.pop()
            if any(x is each for each in found):
                continue
            found.append(x)
            for other in self.recording.choices.values():
                if other is not choice and x.shares_memory(other.result):
                    if isinstance(other.first, list):
                        return None
                    pending += other.tensors
        return found

    # ---- what was changed

    def collect(self):
        recording = self.recording
        written = [entry for entry in recording.inputs if recording.tape.unrenewed(recording.tape.read(entry.copy)) != entry.number]
        self._check_apart(written)
        for entry in recording.inputs:
            if entry.copy.requires_grad:
                self._gradient(entry)
        for container, kind, key in recording.written.values():
            self._place(container, kind, key)
        self._order()
        for x, elements in recording.admitted.values():
            self._elements(x, elements)
        for x, count in recording.tails.values():
            self._do(f"{self.code_of(x)}.extend([{', '.join(map(self.code_of, x[count:]))}])")
        self._write(written)

    def _do(self, code):
        self.residual.effects.append(code)

    def _check_apart(self, written):
        """What is written shares memory with nothing else that the call reads, so that the order of writes does not matter."""
        unread = {id(self.recording.first_gradients[id(entry.copy)]) for entry in self.recording.inputs if self._has_unread_gradient(entry)}
        others = [entry for entry in self.recording.inputs if entry not in written and id(entry) not in unread and not entry.made]
        if not written:
            return
        tensors = [tuple(entry.tensor for entry in entries) for entries in (written, others)]
        codes = [[entry.code for entry in entries] for entries in (written, others)]
        for code, values in self.recording.joined:
            tensors[1] += tuple(values)
            codes[1].append(code)
        if not _eager.apart(*tensors):
            raise NotConvertible("a tensor is written that may not be, or whose memory is another one's, too")
        what = "tensors that are written may be, and share no memory"
        self.residual.check_several("apart", *codes, Assumption("constant", what, self.recording.line, None))

    def _write(self, written):
        """First of all that is done: it alone may find no memory, for a tensor that is not updated."""
        if not written:
            return
        recording = self.recording
        values = [recording.tape.read(entry.copy) for entry in written]
        if not recording.residual.may_end_behind:
            self._updates = [(value, entry) for entry, value in zip(written, values) if values.count(value) == 1 and not recording.is_output(value)]
        outputs = list(map(recording.output_of, values))
        codes = ", ".join(entry.code for entry in written)
        self.residual.effects.insert(0, f"{self.residual.constant(_eager.assign_all)}([{codes}], outs, {self.residual.constant(outputs)})")

    def _truth(self):
        """The value of the tape that says whether all assumptions hold which are told from results; None where there is none."""
        tape, truth = self.recording.tape, None
        for number, expected in dict.fromkeys((tape.read(tensor), value) for tensor, value in self.recording.pinned):
            if not expected:
                number = tape.add("logical_not", {}, [number], [(truth_type, ())])
            truth = number if truth is None else tape.add("and", {}, [truth, number], [(truth_type, ())])
        return truth

    def _has_unread_gradient(self, entry):
        recording = self.recording
        return id(entry.copy) in recording.first_gradients and recording.gradient_uses.get(id(entry.copy)) != "read"

    def _gradient(self, entry):
        recording = self.recording
        first, last = recording.first_gradients.get(id(entry.copy)), entry.copy.grad
        use = recording.gradient_uses.get(id(entry.copy))
        changed = last is not None if first is None else last is None or not last.shares_memory(first.copy)
        if use == "read":
            if first is None:
                recording.assume(f"{entry.code}.grad is None", "attribute's type", f"{entry.what}.grad is None")
            else:
                shape = self.residual.constant(first.copy.shape)
                recording.assume(f"{entry.code}.grad is not None and {entry.code}.grad.shape == {shape}", "attribute's type", f"{entry.what}.grad is a tensor")
        if use and (changed or use == "written"):
            if last is None:
                self._do(f"{entry.code}.grad = None")
            elif changed:
                self._do(f"{entry.code}.grad = {self.code_of(last)}")

    def _order(self):
        """Attributes that come behind others than before, since they were removed and set again, are moved behind them once all are written."""
        from ..nn.module import Module

        written = {}  # id of an object -> itself, and the names that are written
        for container, kind, key in self.recording.written.values():
            if kind == "attr" and not isinstance(container, Module):
                written.setdefault(id(container), (container, []))[1].append(key)
        for container, names in written.values():
            before, now = self.recording.kept(container), list(vars(container))
            come = [name for name in before if name in now] + [name for name in names if name not in before and name in now]
            same = next((i for i, (a, b) in enumerate(zip(come, now)) if a != b), len(now))
            for name in now[same:]:
                table = self.residual.fetch(self.code_of(container), "dict")
                self._do(f"{table}[{name!r}] = {table}.pop({name!r})")

    def _place(self, container, kind, key):
        from ..nn.module import Module

        owner = self.code_of(container)
        if kind == "cell":
            self._do(f"{owner}.cell_contents = {self.code_of(container.cell_contents)}")
            return
        if kind == "global":
            now, place, remove = container.get(key, MISSING), f"{owner}[{key!r}]", f"{owner}.pop({key!r}, None)"
        else:
            # Its own: what its class has under the name is no matter of the object's.
            tables = [vars(container), *(vars(container)[table] for table in TABLES if isinstance(container, Module))]
            now = next((table[key] for table in tables if key in table), MISSING)
            place, remove = f"{owner}.{key}", f"{self.residual.constant(_removed)}({owner}, {key!r})"
        if kind == "attr" and isinstance(container, Module) and isinstance(now, CONSTANTS):
            # As `Module.__setattr__` does it, which takes longer, and each step may say of all its modules that they are trained.
            table, value = self.residual.fetch(owner, "dict"), self.code_of(now)
            self._do(f"if {key!r} in {table}: {table}[{key!r}] = {value}")
            self._do(f"else: {place} = {value}")
            return
        self._do(remove if now is MISSING else f"{place} = {self.code_of(now)}")

    def _elements(self, x, before):
        owner = self.code_of(x)
        if type(x) is list:
            if len(x) != len(before) or any(a is not b for a, b in zip(x, before)):
                self._do(f"{owner}[:] = [{', '.join(map(self.code_of, x))}]")
            return
        same_order = len(x) >= len(before) and all(a is b for a, b in zip(x, before))
        if not same_order:
            self._do(f"{owner}.clear()")
        for key, value in x.items():
            if not same_order or key not in before or before[key] is not value:
                self._do(f"{owner}[{self.code_of(key)}] = {self.code_of(value)}")

    # ---- all together

    def ended(self, result):
        """The recorded call as a whole."""
        recording, residual = self.recording, self.residual
        result = self.code_of(result)
        self.collect()
        self._check_chosen()
        if len(recording.mutable) > 1:
            residual.check_several("distinct", list(recording.mutable), [], Assumption("constant", "what the call reads are distinct objects", recording.line, None))
        if not recording.graph_outputs:
            return Ended(residual, result, [])
        truth = self._truth() if self._updates else None
        holds = residual.holds = None if truth is None else recording.output_of(truth)
        text, arrays, kinds = recording.tape.program(recording.graph_outputs, recording.opening.is_of_one_size())
        inputs, shapes = [], [array.shape for array in arrays]
        for array in arrays:
            entry = next((entry for entry in recording.inputs if entry.watched.shares_memory(array)), None)
            inputs.append(entry.code if entry else array)
        return Ended(residual, result, inputs, text + self._states(text, arrays, holds), kinds, shapes)

    def _states(self, text, arrays, holds):
        """Lines of the graph's text: which output is what an input of fixed sizes becomes, and which one says whether it becomes that. So what Python
        decides behind the graph is decided in it, too: where an assumption does not hold, a tensor keeps what it had.
        """
        types = [line.split()[2:] for line in text.splitlines() if line.startswith("input ")]
        lines = []
        for value, entry in self._updates:
            number = next((i for i, array in enumerate(arrays) if entry.watched.shares_memory(array)), None)
            if number is not None and all(size.isdigit() for size in types[number]):
                lines.append(f"state {self.recording.output_of(value)} {number}{'' if holds is None else f' {holds}'}\n")
        return "".join(lines)


class Ended:
    """result: code; text: of the graph, None where there is none; inputs: of the graph, codes or tensors that are the same in any call; types: of its outputs,
    or code that gives them; shapes: of the inputs when the call was recorded.
    """

    def __init__(self, residual, result, inputs, text=None, types=None, shapes=()):
        self.residual, self.result, self.inputs, self.text, self.types, self.shapes = residual, result, inputs, text, types, shapes

    def compiled(self):
        """The residual's function."""
        if self.text is None:
            return self.residual.compiled([], None, None, self.result)
        inputs = [each if isinstance(each, str) else self.residual.constant(each) for each in self.inputs]
        types = self.types if isinstance(self.types, str) else self.residual.constant(_eager.ResultTypes(self.types))
        may_fail = any(step in self.text for step in ("while|", "branch|", "gather"))
        return self.residual.compiled(inputs, program_of(self.text), types, self.result, may_fail)


def _instance(kind, attributes):
    made = object.__new__(kind)
    made.__dict__.update(attributes)
    return made


def _removed(x, name):
    with contextlib.suppress(AttributeError):  # it has none of its own
        delattr(x, name)
