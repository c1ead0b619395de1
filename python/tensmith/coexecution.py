"""`@ts.coexecute`: a step of Python runs as it is, and its tensor operations as a compiled graph of the steps before, at the same time.

    @ts.coexecute
    def step(x, y):
        optimiser.zero_grad()
        with ts.record():
            loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimiser.step()
        if float(loss) > limit:
            print("large", loss)
        return loss

A step that goes a way that was not seen before is recorded, and runs eagerly; see eager/Coexecution.h for what the others do.
Source: Kim et al., "Terra: Imperative-Symbolic Co-Execution of Imperative Deep Learning Programs", NeurIPS 2021.
"""

import functools
import inspect
import threading
import types

from . import _eager
from .recorded import program_of

__all__ = ["Coexecuted", "coexecute"]


class Coexecuted:
    """Called as the function that it is of, with the same results and effects."""

    def __init__(self, wrapped, warm_up=1):
        functools.update_wrapper(self, wrapped)
        self.__wrapped__ = wrapped
        self._warm_up, self._calls, self._eager, self._refusal = warm_up, 0, 0, ""
        self._steps, self._under_way = _eager.Coexecution(), threading.Lock()

    def __get__(self, instance, owner=None):
        return self if instance is None else types.MethodType(self, instance)

    def __call__(self, *arguments, **named):
        self._calls += 1
        if self._calls <= self._warm_up or self._refusal or _eager.coexecuting() or _eager.recording() or not self._under_way.acquire(blocking=False):
            self._eager += 1
            return self.__wrapped__(*arguments, **named)
        try:
            self._steps.begin()
            return self.__wrapped__(*arguments, **named)
        finally:
            try:
                self._steps.end()
                self._compile()
            finally:
                self._under_way.release()

    def _compile(self):
        self._refusal = self._steps.refusal
        for segment in self._steps.uncompiled():
            try:
                segment.give(program_of(segment.text).compiled)
            except Exception as error:
                self._refusal = f"its graph can't be compiled: {error}"
                return

    def statistics(self):
        """How often it was called, ran as it is, was recorded and co-executed, and that by blocks; how many steps fell back; how many ways, and blocks of ways, are known."""
        return {"calls": self._calls, "eager": self._eager, **self._steps.statistics(), "paths": len(self._steps.paths()), "blocks": self._steps.blocks}

    def explain(self):
        """The known ways with their graphs, and where steps have left them."""
        lines = [f"{self.__name__}: " + ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in self.statistics().items())]
        for number, (runs, segments) in enumerate(self._steps.paths()):
            lines.append(f"way {number}: {runs} runs")
            lines += [f"  a graph of {inputs} inputs and {outputs} outputs" + (f", for what {place} reads" if place else "") for inputs, outputs, place in segments if outputs]
        lines += [f"left at {each}" for each in self._steps.departures()]
        if self._refusal:
            lines.append(f"runs as it is, since {self._refusal}")
        return "\n".join(lines)


def coexecute(wrapped=None, *, warm_up=1):
    """A decorator. warm_up: how many calls run as they are before one is recorded."""
    if not isinstance(warm_up, int) or isinstance(warm_up, bool):
        raise TypeError(f"ts.coexecute: warm_up is a number of calls, not a {type(warm_up).__name__}")
    if warm_up < 0:
        raise ValueError(f"ts.coexecute: warm_up is a number of calls, 0 or more, not {warm_up}")
    if wrapped is None:
        return lambda wrapped: coexecute(_checked(wrapped), warm_up=warm_up)
    return Coexecuted(_checked(wrapped), warm_up)


def _checked(wrapped):
    if not isinstance(wrapped, types.FunctionType):
        raise TypeError(f"ts.coexecute is of a Python function, not of a {type(wrapped).__name__}")
    if inspect.isgeneratorfunction(wrapped) or inspect.iscoroutinefunction(wrapped) or inspect.isasyncgenfunction(wrapped):
        raise TypeError(f"ts.coexecute: {wrapped.__name__} is a generator or a coroutine, whose call runs nothing yet; convert the function that does a whole step")
    return wrapped
