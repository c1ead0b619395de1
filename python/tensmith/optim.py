"""Optimisers of eager parameters, with PyTorch's names and defaults.

    optimiser = ts.optim.Adam(model.parameters(), lr=1e-3)
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()

A step is one compiled program over all parameters that have a gradient: the update is recorded in the first one, and its program is called in those
that follow. Rates and the number of the step are its inputs, so that a schedule compiles nothing.
"""

import math

from . import _eager
from . import numpy as tnp
from .numpy.creation import asarray
from .recorded import program_of

__all__ = ["LAMB", "SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "clip_grad_norm_"]


class _Update:
    """The program of one group's update, for parameters of certain shapes. `kept`: how many states each parameter has."""

    def __init__(self, *given):
        _eager.aside(lambda: self._record(*given))  # none of its operations is one of the step that is under way

    def _record(self, update, parameters, gradients, states, numbers):
        tape = _eager.tape(False)
        tape.share_numbers()  # those of the settings are the program's own, and the same for each parameter
        given = [_eager.full(list(x.shape), 1, x.dtype) for x in [*parameters, *gradients, *(x for each in states for x in each), *numbers]]
        for x in given:
            tape.watch(x, True)
        count, kept = len(parameters), len(states[0]) if states else 0
        results = []
        tape.begin()
        try:
            for i in range(count):
                own = given[2 * count + i * kept : 2 * count + (i + 1) * kept]
                results += update(given[i], given[count + i], own, *given[2 * count + count * kept :])
        finally:
            tape.end()
        text, inputs, types = tape.program([tape.read(x) for x in results])
        self._types = _eager.ResultTypes(types)
        # Of each input which of those that are given it is, or else the number itself.
        self._sources = [next((i for i, x in enumerate(given) if x.shares_memory(each)), each) for each in inputs]
        self._program = program_of(text)
        tape.release()

    def __call__(self, parameters, gradients, states, numbers):
        kept = len(states[0]) if states else 0
        given = [*parameters, *gradients, *(x for each in states for x in each), *numbers]
        results = self._program([given[i] if isinstance(i, int) else i for i in self._sources], self._types)
        written = [x for parameter, own in zip(parameters, states) for x in (parameter, *own[:kept])]
        _eager.assign_all(written, results, range(len(written)))


class Optimizer:
    """Parameters, or groups as dicts with "params" and settings of their own, which `param_groups` holds and may be changed."""

    takes_step = False

    def __init__(self, params, defaults):
        if isinstance(params, tnp.Tensor):
            raise TypeError("an optimiser is of a list of parameters, and not of one; give [parameter]")
        params = list(params)
        if not params:
            raise ValueError("an optimiser needs at least one parameter")
        groups = params if isinstance(params[0], dict) else [{"params": params}]
        self.param_groups = [{**defaults, **group, "params": list(group["params"])} for group in groups]
        for group in self.param_groups:
            _check(group)
            for parameter in group["params"]:
                if not parameter.requires_grad:
                    raise ValueError("an optimiser is of tensors with requires_grad")
        every = [id(parameter) for group in self.param_groups for parameter in group["params"]]
        if len(set(every)) < len(every):
            raise ValueError("a parameter is in the groups of an optimiser more than once")
        self.state = {}  # of each parameter, by its number over all groups
        self._updates = {}

    def zero_grad(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def begin(self, parameter, group):
        """The states of a parameter before its first step."""
        return []

    def update(self, parameter, gradient, states, lr, step, group):
        """What the parameter and its states become."""
        raise NotImplementedError

    def step(self):
        number = 0
        for place, group in enumerate(self.param_groups):
            chosen = []
            for parameter in group["params"]:
                if parameter.grad is not None:
                    chosen.append((number, parameter))
                number += 1
            if chosen:
                self._step(place, group, chosen)

    def _step(self, place, group, chosen):
        for number, parameter in chosen:
            if number not in self.state:
                self.state[number] = {"step": 0, "states": self.begin(parameter, group)}
            self.state[number]["step"] += 1
        by_step = []  # parameters that have had other numbers of steps are updated apart
        for number, parameter in chosen:
            step = self.state[number]["step"] if self.takes_step else 0
            some = next((some for other, some in by_step if other == step), None)
            if some is None:
                by_step.append((step, some := []))
            some.append((number, parameter))
        for step, some in by_step:
            parameters = [parameter for _, parameter in some]
            gradients = [parameter.grad for parameter in parameters]
            states = [self.state[number]["states"] for number, _ in some]
            numbers = [asarray(float(value), dtype=tnp.float64) for value in (group["lr"], step)]
            key = place, tuple(number for number, _ in some), tuple((k, v) for k, v in group.items() if k not in ("params", "lr"))
            if key not in self._updates:
                self._updates[key] = _Update(lambda *given, group=group: self._updated(given, group), parameters, gradients, states, numbers)
            self._updates[key](parameters, gradients, states, numbers)

    def _updated(self, given, group):
        parameter, gradient, states, lr, step = given
        lr, step = (_eager.cast(x, parameter.dtype) for x in (lr, step))
        gradient = _eager.cast(gradient, parameter.dtype)
        if group.get("maximize"):
            gradient = -gradient
        return [_eager.cast(x, like.dtype) for x, like in zip(self.update(parameter, gradient, states, lr, step, group), [parameter, *states])]

    def state_dict(self):
        """The states as tensors, and the settings of the groups, whose parameters are numbers."""
        numbers = iter(range(sum(len(group["params"]) for group in self.param_groups)))
        groups = [{**group, "params": [next(numbers) for _ in group["params"]]} for group in self.param_groups]
        return {"state": {number: {"step": each["step"], "states": list(each["states"])} for number, each in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state):
        groups = state["param_groups"]
        if [len(group["params"]) for group in groups] != [len(group["params"]) for group in self.param_groups]:
            raise ValueError("the state is of other groups of parameters")
        self.state = {number: {"step": each["step"], "states": [_eager.copy(x) for x in each["states"]]} for number, each in state["state"].items()}
        for own, given in zip(self.param_groups, groups):
            own.update({key: value for key, value in given.items() if key != "params"})
        self._updates = {}


def _check(group):
    """ValueError where a setting is none that the optimiser can have."""
    for name in ("lr", "lr_decay", "weight_decay", "eps", "momentum", "initial"):
        if not group.get(name, 0) >= 0:
            raise ValueError(f"{'initial_accumulator_value' if name == 'initial' else name} is a number from 0 on, and not {group[name]}")
    shares = {f"betas[{i}]": each for i, each in enumerate(group.get("betas", ()))} | ({"alpha": group["alpha"]} if "alpha" in group else {})
    for name, share in shares.items():
        if not 0 <= share < 1:
            raise ValueError(f"{name} is a number from 0 on and below 1, and not {share}")


def _decayed(gradient, parameter, group):
    """The penalty on the weights' squares, as a part of the gradient."""
    return gradient + parameter * group["weight_decay"] if group["weight_decay"] else gradient


class SGD(Optimizer):
    """With momentum as Sutskever and others have it, ICML 2013, without the rate within the velocity."""

    takes_step = True

    def __init__(self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, maximize=False):
        if nesterov and (momentum <= 0 or dampening):
            raise ValueError("Nesterov's momentum needs a momentum, and no dampening")
        super().__init__(params, {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay, "nesterov": nesterov,
                                  "maximize": maximize})  # fmt: skip

    def begin(self, parameter, group):
        return [tnp.zeros_like(parameter)] if group["momentum"] else []

    def update(self, parameter, gradient, states, lr, step, group):
        gradient = _decayed(gradient, parameter, group)
        if not states:
            return [parameter - lr * gradient]
        momentum = group["momentum"]
        # The first gradient is not dampened.
        velocity = states[0] * momentum + gradient * tnp.where(step > 1, asarray(1 - group["dampening"], dtype=gradient.dtype), tnp.ones_like(step))
        return [parameter - lr * (gradient + velocity * momentum if group["nesterov"] else velocity), velocity]


class Adam(Optimizer):
    """Kingma and Ba, ICLR 2015; `amsgrad`: Reddi and others, ICLR 2018."""

    takes_step = True
    is_decoupled = False

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, maximize=False):
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad, "maximize": maximize})

    def begin(self, parameter, group):
        return [tnp.zeros_like(parameter) for _ in range(3 if group["amsgrad"] else 2)]

    def update(self, parameter, gradient, states, lr, step, group):
        beta1, beta2 = group["betas"]
        if self.is_decoupled:
            parameter = parameter * (1 - lr * group["weight_decay"])
        else:
            gradient = _decayed(gradient, parameter, group)
        mean = states[0] * beta1 + gradient * (1 - beta1)
        square = states[1] * beta2 + gradient * gradient * (1 - beta2)
        largest = [tnp.maximum(states[2], square)] if group["amsgrad"] else []
        root = tnp.sqrt(largest[0] if largest else square) / tnp.sqrt(1 - _power(beta2, step)) + group["eps"]
        return [parameter - (lr / (1 - _power(beta1, step))) * mean / root, mean, square, *largest]


def _power(base, step):
    return tnp.exp(step * math.log(base)) if base > 0 else step * 0


class AdamW(Adam):
    """Loshchilov and Hutter, ICLR 2019: the weights decay apart from the gradient."""

    is_decoupled = True

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=1e-2, amsgrad=False, maximize=False):
        super().__init__(params, lr, betas, eps, weight_decay, amsgrad, maximize)


class Adagrad(Optimizer):
    """Duchi, Hazan and Singer, JMLR 2011."""

    takes_step = True

    def __init__(self, params, lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10, maximize=False):
        super().__init__(params, {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "initial": initial_accumulator_value, "eps": eps,
                                  "maximize": maximize})  # fmt: skip

    def begin(self, parameter, group):
        return [tnp.full_like(parameter, group["initial"])]

    def update(self, parameter, gradient, states, lr, step, group):
        gradient = _decayed(gradient, parameter, group)
        square = states[0] + gradient * gradient
        rate = lr / ((step - 1) * group["lr_decay"] + 1)
        return [parameter - rate * gradient / (tnp.sqrt(square) + group["eps"]), square]


class RMSprop(Optimizer):
    """Tieleman and Hinton, 2012; `centered`: Graves, 2013."""

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False, maximize=False):
        super().__init__(params, {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum, "centered": centered,
                                  "maximize": maximize})  # fmt: skip

    def begin(self, parameter, group):
        return [tnp.zeros_like(parameter) for _ in range(1 + bool(group["centered"]) + bool(group["momentum"]))]

    def update(self, parameter, gradient, states, lr, step, group):
        gradient, alpha = _decayed(gradient, parameter, group), group["alpha"]
        square = states[0] * alpha + gradient * gradient * (1 - alpha)
        after, variance = [square], square
        if group["centered"]:
            mean = states[1] * alpha + gradient * (1 - alpha)
            after.append(mean)
            variance = square - mean * mean
        change = gradient / (tnp.sqrt(variance) + group["eps"])
        if group["momentum"]:
            change = states[-1] * group["momentum"] + change
            after.append(change)
        return [parameter - lr * change, *after]


class LAMB(Adam):
    """You and others, ICLR 2020: Adam's change, as long as the parameter is."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=1e-2):
        super().__init__(params, lr, betas, eps, weight_decay)

    def update(self, parameter, gradient, states, lr, step, group):
        beta1, beta2 = group["betas"]
        mean = states[0] * beta1 + gradient * (1 - beta1)
        square = states[1] * beta2 + gradient * gradient * (1 - beta2)
        root = tnp.sqrt(square / (1 - _power(beta2, step))) + group["eps"]
        change = mean / (1 - _power(beta1, step)) / root + parameter * group["weight_decay"]
        size, length = (tnp.sqrt(tnp.sum(x * x)) for x in (parameter, change))
        known = (size > 0) & (length > 0)
        ratio = tnp.where(known, size / tnp.where(known, length, tnp.ones_like(length)), tnp.ones_like(length))
        return [parameter - lr * ratio * change, mean, square]


def clip_grad_norm_(parameters, max_norm):
    """Shortens all gradients together to the length `max_norm` where they are longer; gives the length before."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    if not gradients:
        return _eager.full([], 0, tnp.float32)
    total = tnp.sqrt(sum((tnp.sum(each * each) for each in gradients[1:]), tnp.sum(gradients[0] * gradients[0])))
    share = tnp.minimum(max_norm / (total + 1e-6), 1)
    for gradient in gradients:
        gradient *= share
    return total
