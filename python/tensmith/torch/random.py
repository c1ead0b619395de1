"""Random numbers, which PyTorch draws.

Eager's losses can only be followed by eager's numbers, so a compiled graph draws none: what an operator would draw is an input of the module, and is drawn
before each call from PyTorch's generator, in the graph's order: by the same operator, or by the one that it draws with, as dropout does its mask with
`bernoulli_`. By the mask the graph then takes the scaled input or 0, so that forward and backward are compiled as if it were data.

Where a checkpoint draws, the generator's state before that is an input too, drawn in the same order, and a result of the forward. The backward draws
by the same operator from that state, and leaves the generator as it was.
"""

import torch

from .. import Error
from . import sizes
from .elementwise import choose
from .lowering import Value, lower_drawing, lowers


class Draw:
    """An input that is drawn for each call, by a function of a tensor that lies in memory as eager's would: what is drawn for it depends on
    its strides."""

    def __init__(self, function, like):
        self._function, self._dtype = function, like.dtype
        self._sizes = tuple(like.shape), like.stride()
        self.is_open = not all(isinstance(size, int) for of in self._sizes for size in of)

    def __call__(self, bindings, values, inputs):
        """values: of the sizes of this call, where they are open. inputs: its tensors, without what is drawn."""

        def known(size):
            return size if isinstance(size, int) else bindings.evaluate(sizes.expression(size), values)

        shape, strides = [tuple(map(known, of)) for of in self._sizes] if self.is_open else self._sizes
        return self._function(torch.empty_strided(shape, strides, dtype=self._dtype))


class Again:
    """What an earlier draw gave, with the generator in the state that an input of the graph has. The generator goes on from where it was."""

    def __init__(self, draw, place):
        self._draw, self._place, self.is_open = draw, place, draw.is_open

    def __call__(self, bindings, values, inputs):
        before = torch.get_rng_state()
        torch.set_rng_state(inputs[self._place])
        try:
            return self._draw(bindings, values, inputs)
        finally:
            torch.set_rng_state(before)


def drawn(g, function, like, dtype=None):
    """A Value that `function(tensor)` draws before each call, of a tensor like that one, whose contents say nothing."""
    if g.depth:
        raise Error("random numbers can't be drawn within a branch or a loop")
    value = g.input(f"drawn.{len(g.draws)}", like.shape, dtype or like.dtype)
    g.draws.append(Draw(function, like))
    return value


def _first(g):
    """What PyTorch knows of the node's first operand."""
    return g.node.args[0].meta["val"]


@lowers("aten.bernoulli.p", "aten.rand_like.default", "aten.randn_like.default", "aten.randint_like.default", "aten.randint_like.low_dtype",
        "aten.uniform.default", "aten.normal_functional.default", "aten.exponential.default", "aten.geometric.default",
        "aten.log_normal.default", "aten.cauchy.default", "aten.random.default", "aten.random.from", "aten.random.to")  # fmt: skip
def _by_shape(g, x, *rest, **named):
    if any(isinstance(value, Value) for value in rest):
        raise Error("it draws by a tensor that the graph computes")
    named.pop("generator", None)
    target = g.node.target
    return drawn(g, lambda tensor: target(tensor, *rest, **named), _first(g), g.meta.dtype)


@lowers("aten.rand.default", "aten.randn.default", "aten.randint.default", "aten.randint.low", "aten.randperm.default",
        "aten.normal.float_float")  # fmt: skip
def _of_sizes(g, *arguments, **named):
    named = {name: value for name, value in named.items() if name != "generator"}
    numbers = [list(part) if isinstance(part, (list, tuple)) else part for part in arguments]
    target, like = g.node.target, g.meta
    if all(map(sizes.is_known, like.shape)):
        return drawn(g, lambda _: target(*numbers, **named), like)
    place = next(i for i, part in enumerate(numbers) if isinstance(part, list))
    return drawn(g, lambda tensor: target(*numbers[:place], list(tensor.shape), *numbers[place + 1 :], **named), like)


@lowers("aten.bernoulli.default")
def _bernoulli(g, probabilities, **_):
    """PyTorch takes a number in [0, 1) for each element, and compares it with the probability."""
    raise Error("it draws by probabilities that the graph computes; draw uniform numbers and compare those")


@lowers("aten.native_dropout.default")
def _native_dropout(g, x, p, train):
    if not train or p == 0:
        return [x, g.broadcast(g.scalar(True, torch.bool), x.shape)]
    # What eager draws, without the product that it makes of it.
    mask = drawn(g, lambda tensor: torch.empty_like(tensor, dtype=torch.bool).bernoulli_(1 - p), _first(g), torch.bool)
    scaled = g.binary("mul", x, g.scalar(1 / (1 - p) if p < 1 else 0, x.dtype))
    return [choose(g, mask, scaled, g.scalar(0, x.dtype)), mask]


@lowers("aten.dropout.default")
def _dropout(g, x, p, train):
    if not train or p == 0:
        return x
    return g.binary("mul", x, drawn(g, dropped(p), _first(g)))


def dropped(p):
    """What eager multiplies by where it drops with probability p."""
    return lambda tensor: torch.dropout(torch.ones_like(tensor), p, True)


@lowers("run_and_save_rng_state")
def _saving(g, _, *arguments, **named):
    """Where a checkpoint draws: the generator's state before, and what is drawn."""
    state, value = g.meta
    return [drawn(g, lambda _: torch.get_rng_state(), state), lower_drawing(g, arguments, named, value)]


@lowers("run_with_rng_state")
def _again(g, state, _, *arguments, **named):
    """Where what was drawn isn't kept for the backward."""
    before = len(g.draws)
    given = g.inputs[: len(g.inputs) - before]  # what is drawn isn't among a call's inputs
    place = next((i for i, value in enumerate(given) if value.number == state.number), None)
    if place is None:
        raise Error("it draws with a state of the generator that is no input of the graph; draw outside of the checkpoint")
    result = lower_drawing(g, arguments, named, g.meta)
    if len(g.draws) > before + 1:
        raise Error("its function draws several times, which a checkpoint's backward can't do again; draw outside of the checkpoint, or register "
                    "a function by tensmith.torch.lowers that draws once")  # fmt: skip
    g.draws[before:] = [Again(draw, place) for draw in g.draws[before:]]
    return result
