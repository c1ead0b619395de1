"""`@ts.function`: a Python function of tensors, converted under assumptions to a compiled graph and what is left of Python.

    @ts.function
    def step(x, y):
        optimiser.zero_grad()
        with ts.record():
            loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimiser.step()
        return loss

The first call runs as it is. A later one is recorded in a dry run (recording.py) that executes the source (interpreter.py), and becomes an
entry: assumptions, a graph, effects (residual.py). A call runs the first entry whose assumptions hold. Where none do, the call runs as it
is, and the next one that no entry takes is recorded: with numbers that have differed as inputs, and beside the entries that are there.
Entries are never thrown out, and there are at most `_MOST` of them, so that nothing is converted again and again.

Source: Jeong et al., "Speculative Symbolic Graph Execution of Imperative Deep Learning Programs", NSDI 2019.
"""

import collections
import functools
import threading
import types

from .. import _eager
from ..numpy.dtypes import current_device
from .effects import Effects
from .interpreter import Interpreter
from .open_sizes import NotOpen, OpenSizes, Pair
from .recording import Recording
from .scalars import NotConvertible

__all__ = ["Function", "function"]

_MOST = 16
_MOST_REFUSALS = 3
_MOST_REFUSED_SITES = 6  # one by one; a conversion takes a while
_local = threading.local()


class _Entry:
    """run: the residual's function; text: of its graph, None where there is none."""

    def __init__(self, run, text, assumptions):
        self.run, self.text, self.assumptions, self.runs = run, text, assumptions, 0


class Function:
    """Called as the function that it is of, with the same results and effects."""

    def __init__(self, wrapped, warm_up=1):
        functools.update_wrapper(self, wrapped)
        self.__tensmith_function__ = wrapped
        self._warm_up = warm_up
        self._entries, self._relaxed, self._reasons = [], set(), []
        self._refused, self._recursive = set(), {}  # branches, loops and functions that can't be the graph's, sizes that can't be open; functions that call themselves
        self._shapes = {}  # of tensors, by what they are: shapes that were seen
        self._refusals, self._raised, self._fell_back = 0, 0, False
        self._counts = dict.fromkeys(("calls", "converted", "conversions", "compilations", "failed_guards", "imperative"), 0)
        self._lock = threading.Lock()

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *arguments, **named):
        counts = self._counts
        counts["calls"] += 1
        if counts["calls"] <= self._warm_up or _eager.recording() or _eager.coexecuting() or getattr(_local, "converting", False) or current_device() != "cpu":
            return self._imperative(arguments, named)
        wanted = []
        for entry in self._entries:
            failed = []
            result = entry.run(arguments, named, failed)
            if result is not failed:
                return self._ran(entry, result)
            wanted.append((entry, failed))
        if wanted and self._note(wanted):
            return self._imperative(arguments, named)
        entry = self._converted(arguments, named)
        if entry is not None:
            failed = []
            result = entry.run(arguments, named, failed)
            if result is not failed:
                return self._ran(entry, result)
            counts["failed_guards"] += 1
        return self._imperative(arguments, named)

    def _ran(self, entry, result):
        entry.runs += 1
        self._counts["converted"] += 1
        if self._entries[0] is not entry:  # the next call is likely to be of the same kind
            with self._lock:
                self._entries = [entry, *(each for each in self._entries if each is not entry)]
        return result

    def _imperative(self, arguments, named):
        self._counts["imperative"] += 1
        return self.__tensmith_function__(*arguments, **named)

    # ---- conversions

    def _note(self, wanted):
        """Learns from assumptions that failed. True: this call falls back, and the next one is converted."""
        self._counts["failed_guards"] += 1
        for entry, failed in wanted:
            for number in failed:
                self._relaxed |= entry.assumptions[number].relaxes
        is_first, self._fell_back = not self._fell_back, True
        return is_first

    def _converted(self, arguments, named):
        if self._refusals >= _MOST_REFUSALS or self._raised >= _MOST or len(self._entries) >= _MOST:
            return None
        with self._lock:
            _local.converting = True
            try:
                entry = self._record(arguments, named)
            except NotConvertible as refusal:
                refusal.__traceback__ = refusal.__context__ = refusal.__cause__ = None  # which keep what the call was of
                self._refusals += 1
                self._reasons.append(refusal)
                return None
            except Exception as error:  # the program's own: it is raised where the call runs as it is
                self._reasons.append(NotConvertible(f"the call raises {type(error).__name__}: {error}"))
                self._raised += 1
                return None
            finally:
                _local.converting = False
        self._fell_back = False
        self._counts["conversions"] += 1
        if entry.text is not None and entry.text not in {each.text for each in self._entries}:
            self._counts["compilations"] += 1
        self._entries = [entry, *self._entries]
        return entry

    def _record(self, arguments, named):
        closed, refusals = {}, []
        while True:
            recording = self._recording(OpenSizes(self._refused.union(*closed), self._shapes))
            try:
                ended = self._ended(recording, arguments, named)
                if ended and recording.opening.sizes:
                    again = [self._recording(recording.opening.again(number)) for number in range(2)]
                    ended = Pair(recording.opening, again, [self._ended(each, arguments, named) for each in again]).common()
            except (NotConvertible, Exception) as error:
                if not self._learns(error, recording, closed, refusals):
                    raise
                continue
            if ended:
                self._close(closed)
                return _Entry(ended.compiled(), ended.text, ended.residual.assumptions)

    def _learns(self, error, recording, closed, refusals):
        """Whether a recording that has failed is worth another. Notes what is to be otherwise in it: loops become the graph's, branches and loops assumptions
        (`refusals`, of this call, and for good), sizes assumptions (`closed`, of this call: tensors' places to what was open and the error).
        """
        loop = getattr(error, "relaxes", None)
        if loop is not None and loop not in self._relaxed | self._refused:
            self._relaxed.add(loop)
            return True
        if not isinstance(error, NotOpen) and (sites := recording.sites_of(error)):
            self._reasons.append(_unconverted(error, "not the graph's", min(site.lineno for site in sites)))
            self._refused |= sites
            refusals.append(sites)
            if len(refusals) >= _MOST_REFUSED_SITES:
                self._refused |= recording.converted
            return True
        closed |= {frozenset(recording.opening.places): (recording.opening, error)} if recording.opening.places else {}
        return bool(recording.opening.places)

    def _close(self, closed):
        """A call has a conversion where these sizes are assumptions, which they will be in others, unless this one's are unusual."""
        for places, (opening, error) in closed.items():
            if opening.is_usual():
                self._reasons.append(_unconverted(error, "sizes are not open"))
                self._refused |= places

    def _recording(self, opening):
        return Recording(self._relaxed, self._refused, self._recursive, opening)

    def _ended(self, recording, arguments, named):
        """What a recorded call is; None where it is to be recorded again, with more that differs from call to call."""
        interpreter = Interpreter(recording)
        recording.tape.begin()
        try:
            result = interpreter.calls.call(self.__tensmith_function__, *self._admitted(recording, arguments, named))
            changed = recording.changed_numbers() - self._relaxed
            if changed or recording.recursive != self._recursive:
                self._relaxed |= changed
                self._recursive = recording.recursive
                return None
            return Effects(recording).ended(result)
        finally:
            recording.tape.end()
            recording.undo()
            recording.tape.release()

    def _admitted(self, recording, arguments, named):
        names = self.__tensmith_function__.__code__.co_varnames
        residual = recording.residual
        recording.check("arguments", "length", len(arguments), "type", f"{len(arguments)} arguments")
        recording.check("named", "keys", tuple(named), "type", f"arguments of the names {list(named)}")
        given = []
        for i, x in enumerate(arguments):
            what = names[i] if i < self.__tensmith_function__.__code__.co_argcount else f"argument {i}"
            given.append(recording.admit(residual.fetch("arguments", "item", i), x, what))
        return given, {key: recording.admit(residual.fetch("named", "key", key), x, key) for key, x in named.items()}

    # ---- what is told

    def statistics(self):
        """How often it was called, ran converted and imperatively, was converted, compiled, and had assumptions that failed."""
        return dict(self._counts)

    def explain(self):
        """What is converted under which assumptions, and what is not, with line and reason."""
        lines = [f"{self.__name__}: " + ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self._counts.items())]
        for i, entry in enumerate(self._entries):
            lines.append(f"entry {i}: {entry.runs} runs, {'a graph' if entry.text else 'no graph'}")
            lines += [f"  {each}" for each in entry.assumptions]
        reasons = collections.Counter(f"line {each.line}: {each.reason}" if each.line else each.reason for each in self._reasons)
        lines += [reason if count == 1 else f"{reason} ({count} times)" for reason, count in reasons.items()]
        if len(self._entries) >= _MOST:
            lines.append(f"there are {_MOST} entries, which is the most; calls that none of them takes run imperatively")
        return "\n".join(lines)

    def _repr_html_(self):
        from ..display import graph_of, told

        return told(self.explain(), [(f"the graph of entry {i}", graph_of(entry.text)) for i, entry in enumerate(self._entries) if entry.text])


def _unconverted(error, what, line=None):
    """Why branches and loops are not the graph's, or sizes not open."""
    why = error.reason if isinstance(error, NotConvertible) else f"{type(error).__name__}: {error}"
    reason = NotConvertible(f"{what}, but an assumption: {why}")
    reason.line = line or getattr(error, "line", None)
    return reason


def function(wrapped=None, *, warm_up=1):
    """A decorator. warm_up: how many calls run as they are before one is converted."""
    if wrapped is None:
        return lambda wrapped: Function(wrapped, warm_up)
    if not isinstance(wrapped, types.FunctionType):
        raise TypeError(f"ts.function is of a Python function, not of a {type(wrapped).__name__}")
    return Function(wrapped, warm_up)
